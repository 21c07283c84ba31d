"""Reads and writes registers with kazoo, for the runs under faults of jepsen.

Usage: registers.py ADDRESSES TIMEOUT_MS. It prints `ready` when it has a session. Each line of its
input is a call, and each line of its output a reply:

    create PATH DATA            ok 0 DATA
    read PATH OWN               ok VERSION DATA     it first writes to the znode OWN
    write PATH DATA VERSION     ok VERSION DATA     VERSION -1 fits every version
                                refused CODE        it was certainly not executed
                                unknown REASON
"""

import sys

from kazoo.client import KazooClient
from kazoo.exceptions import BadVersionError, NodeExistsError, NoNodeError

CONNECT_S = 30
REFUSALS = ((BadVersionError, -103), (NodeExistsError, -110), (NoNodeError, -101))


def answer(client, words):
    call, path = words[0], words[1]
    if call == "create":
        client.create(path, words[2].encode())
        return 0, words[2]
    if call == "read":
        client.set(words[2], b"")
        data, stat = client.get(path)
        return stat.version, data.decode()
    stat = client.set(path, words[2].encode(), int(words[3]))
    return stat.version, words[2]


def main():
    client = KazooClient(hosts=sys.argv[1], timeout=int(sys.argv[2]) / 1000)
    client.start(timeout=CONNECT_S)
    print("ready", flush=True)
    for line in sys.stdin:
        try:
            print("ok %d %s" % answer(client, line.split()), flush=True)
        except tuple(kind for kind, _ in REFUSALS) as error:
            print("refused", next(code for kind, code in REFUSALS if isinstance(error, kind)), flush=True)
        except Exception as error:
            print("unknown", type(error).__name__, flush=True)
    client.stop()


main()
