"""Reads an export of the change history by its .proto file; prints each change as a line of JSON.

Usage: read_export.py DEFINITION EXPORT
"""

import base64
import importlib
import json
import pathlib
import sys
import tempfile

from google.protobuf.proto import parse_length_prefixed
from grpc_tools import protoc


def load(definition):
    """The module that protoc makes of the definition."""
    directory = pathlib.Path(definition).resolve().parent
    name = pathlib.Path(definition).name
    out = tempfile.mkdtemp()
    if protoc.main(["protoc", f"-I{directory}", f"--python_out={out}", name]) != 0:
        sys.exit("protoc refuses the definition")
    sys.path.insert(0, out)
    return importlib.import_module(pathlib.Path(name).stem + "_pb2")


def content(message, field):
    """Size and bytes of a content; None if it is not set."""
    if not message.HasField(field):
        return None
    found = getattr(message, field)
    if found.is_omitted:
        return {"size": found.size, "omitted": True}
    return {"size": found.size, "base64": base64.b64encode(found.inline).decode()}


def acl(history, message):
    """The entries of an ACL."""
    if not message.HasField("acl"):
        return None
    found = history.AclList()
    found.ParseFromString(message.acl.inline)
    return [{"perms": e.perms, "scheme": e.scheme, "id": e.id} for e in found.entries]


def version(message, field):
    """The version of a znode, if it was there."""
    return getattr(message, field).version if message.HasField(field) else None


def main():
    history = load(sys.argv[1])
    with open(sys.argv[2], "rb") as export:
        while (found := parse_length_prefixed(history.ExportedChange, export)) is not None:
            change = found.change
            line = {
                "format": found.format,
                "zxid": hex(change.zxid),
                "index": change.index,
                "time_ms": change.time_ms,
                "session": hex(change.session & (2**64 - 1)),
                "cxid": change.cxid,
                "client": change.client,
                "identities": list(change.identities),
                "operation": history.Operation.Name(change.operation),
                "path": change.path,
                "kind": history.Kind.Name(change.kind),
                "version": change.version,
                "aversion": change.aversion,
                "data": content(change, "data"),
                "acl": acl(history, change),
                "before": version(found, "before"),
                "after": version(found, "after"),
            }
            print(json.dumps(line))


main()
