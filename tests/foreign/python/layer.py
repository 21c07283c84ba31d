"""Logs in with a Kerberos ticket, but wants security layers (RFC 4752, 3.1): port, layers as a number.

No client can be told to choose a layer that the server does not offer, so this one speaks for itself.
"""

import base64
import socket
import struct
import sys

import kerberos

port, layers = int(sys.argv[1]), int(sys.argv[2])
SASL = 102


def frame(stream):
    length = struct.unpack(">i", exactly(stream, 4))[0]
    return exactly(stream, length)


def exactly(stream, count):
    data = b""
    while len(data) < count:
        more = stream.recv(count - len(data))
        if not more:
            raise EOFError("the server has closed the connection")
        data += more
    return data


def ask(stream, token):
    """The error, and the server's token."""
    body = struct.pack(">iii", 1, SASL, len(token)) + token
    stream.sendall(struct.pack(">i", len(body)) + body)
    answer = frame(stream)
    error = struct.unpack(">i", answer[12:16])[0]
    return error, answer[20:]


with socket.create_connection(("localhost", port), 30) as stream:
    stream.settimeout(30)
    stream.sendall(struct.pack(">iiqiqi16sb", 45, 0, 0, 10000, 0, 16, bytes(16), 0))
    frame(stream)
    _, context = kerberos.authGSSClientInit("zookeeper@localhost")
    kerberos.authGSSClientStep(context, "")
    error, proof = ask(stream, base64.b64decode(kerberos.authGSSClientResponse(context)))
    assert error == 0, error
    kerberos.authGSSClientStep(context, base64.b64encode(proof).decode())
    error, offer = ask(stream, b"")
    assert error == 0, error
    kerberos.authGSSClientUnwrap(context, base64.b64encode(offer).decode())
    offer = base64.b64decode(kerberos.authGSSClientResponse(context))
    print("offered", offer[0])
    choice = base64.b64encode(bytes([layers, 0, 16, 0])).decode()
    kerberos.authGSSClientWrap(context, choice)
    error, _ = ask(stream, base64.b64decode(kerberos.authGSSClientResponse(context)))
    print("login", error)
