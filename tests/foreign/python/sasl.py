"""Logs in by DIGEST-MD5 and tells how that went: address, user, password, znode."""

import logging
import sys

from kazoo.client import KazooClient
from kazoo.exceptions import AuthFailedError, KazooException
from kazoo.security import make_acl

address, user, password, path = sys.argv[1:]


class Heard(logging.Handler):
    """Whether kazoo has said that its login failed."""

    auth_failed = False

    def emit(self, record):
        self.auth_failed = self.auth_failed or "AUTH_FAILED" in record.getMessage()


heard = Heard()
logging.getLogger("kazoo").addHandler(heard)
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
    # Whoever asks while it closes for that reason is told that it is closed.
    print("login AuthFailed" if heard.auth_failed else "failed " + type(error).__name__)
client.stop()
