"""Logs in by DIGEST-MD5 and tells how that went: address, user, password, znode."""

import sys

from kazoo.client import KazooClient
from kazoo.exceptions import AuthFailedError, KazooException
from kazoo.security import make_acl

address, user, password, path = sys.argv[1:]
client = KazooClient(
    hosts=address,
    timeout=30,
    sasl_options={"mechanism": "DIGEST-MD5", "username": user, "password": password},
)
try:
    # start() takes a connection whose login fails right away for one that never came.
    client.start_async().wait(30)
    client.exists("/")
    print("login SaslAuthenticated")
    client.create(path, b"", acl=[make_acl("sasl", user, all=True)])
    print("create ok")
    client.get(path)
    print("read ok")
except AuthFailedError:
    print("login AuthFailed")
except KazooException as error:
    print("failed", type(error).__name__)
client.stop()
