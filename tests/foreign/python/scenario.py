"""The common scenario with kazoo; see tests/src/scenario.rs for what is said to whom."""
import logging
import os
import queue
import sys
import threading

from kazoo.client import KazooClient, KazooState
from kazoo.exceptions import (
    BadArgumentsError,
    BadVersionError,
    NoAuthError,
    NodeExistsError,
    NoNodeError,
    NotEmptyError,
)
from kazoo.protocol.states import EventType
from kazoo.security import make_acl, make_digest_acl

BASE = "/kazoo"
# How long anything may take that is expected to happen, in seconds.
PATIENCE = 30


class Failed(Exception):
    pass


def say(*words):
    print(*words, flush=True)


def ask(*request):
    say("ask", *request)
    answer = sys.stdin.readline().strip()
    if answer != "done":
        raise Failed("answer %r to %r" % (answer, request))


def expect(what, got, wanted):
    if got != wanted:
        raise Failed("%s: %r instead of %r" % (what, got, wanted))


def expect_error(kind, call, *args, **kwargs):
    try:
        result = call(*args, **kwargs)
    except kind:
        return
    raise Failed("%s gave %r instead of %s" % (call.__name__, result, kind.__name__))


def secured():
    """How to speak TLS and to log in, if the test wants it."""
    options = {}
    files = os.environ.get("ZOARIUM_TEST_TLS")
    if files is not None:
        options["use_ssl"] = True
        options["ca"] = os.path.join(files, "authority.pem")
        options["check_hostname"] = True
        key = os.environ.get("ZOARIUM_TEST_KEY")
        if key is not None:
            options["certfile"] = options["keyfile"] = os.path.join(files, key + ".pem")
    login = os.environ.get("ZOARIUM_TEST_LOGIN")
    if login is not None:
        user, password = login.split(":")
        options["sasl_options"] = {
            "mechanism": "DIGEST-MD5",
            "username": user,
            "password": password,
        }
    return options


def connect(address, timeout):
    client = KazooClient(hosts=address, timeout=timeout, **secured())
    client.start(timeout=PATIENCE)
    return client


def leave(client):
    client.stop()
    client.close()


class Watch:
    """A watch function that keeps its events."""

    def __init__(self):
        self.events = queue.Queue()

    def __call__(self, event):
        self.events.put((event.type, event.path))

    def expect(self, kind, path):
        try:
            event = self.events.get(timeout=PATIENCE)
        except queue.Empty:
            raise Failed("no event %s of %s" % (kind, path)) from None
        expect("event", event, (kind, path))

    def expect_none(self, client):
        """No event is on its way: whatever was due has come before this answer."""
        client.sync(BASE)
        expect("pending events", self.events.qsize(), 0)


def create_read(zk):
    path = BASE + "/node"
    expect("created path", zk.create(path, b"first"), path)
    data, stat = zk.get(path)
    expect("data", data, b"first")
    expect("version", stat.version, 0)
    expect("dataLength", stat.dataLength, 5)
    expect("ephemeralOwner", stat.ephemeralOwner, 0)
    expect("czxid is mzxid", stat.czxid, stat.mzxid)
    expect("exists", zk.exists(path), stat)
    expect("exists of nothing", zk.exists(BASE + "/nothing"), None)
    expect_error(NoNodeError, zk.get, BASE + "/nothing")
    expect_error(NoNodeError, zk.create, BASE + "/nothing/below", b"")
    expect_error(NodeExistsError, zk.create, path, b"")
    made, stat = zk.create(BASE + "/stat", b"x", include_data=True)
    expect("path of create2", made, BASE + "/stat")
    expect("stat of create2", stat, zk.exists(BASE + "/stat"))
    zk.create(BASE + "/empty", b"")
    expect("empty data", zk.get(BASE + "/empty")[0], b"")
    large = bytes(range(256)) * 3000
    zk.create(BASE + "/large", large)
    expect("large data", zk.get(BASE + "/large")[0], large)
    name = BASE + "/\u00e4\u4e2d"
    zk.create(name, b"")
    expect("name beyond ASCII", zk.exists(name).version, 0)
    # Java keeps such a character as two surrogates, which its path rules refuse.
    expect_error(BadArgumentsError, zk.create, BASE + "/\U0001f40d", b"")


def versions(zk):
    path = BASE + "/node"
    stat = zk.set(path, b"second", version=0)
    expect("version", stat.version, 1)
    expect("later mzxid", stat.mzxid > stat.czxid, True)
    expect_error(BadVersionError, zk.set, path, b"third", version=0)
    expect("data", zk.get(path)[0], b"second")
    expect("any version", zk.set(path, b"third").version, 2)
    expect_error(BadVersionError, zk.delete, path, version=1)
    zk.delete(path, version=2)
    expect("deleted", zk.exists(path), None)
    expect_error(NoNodeError, zk.delete, path)


def children(zk):
    path = BASE + "/parent"
    zk.create(path, b"")
    for name in ("b", "a", "c"):
        zk.create(path + "/" + name, b"")
    names, stat = zk.get_children(path, include_data=True)
    expect("children", sorted(names), ["a", "b", "c"])
    expect("numChildren", stat.numChildren, 3)
    expect("cversion", stat.cversion, 3)
    expect_error(NotEmptyError, zk.delete, path)
    zk.delete(path + "/b")
    expect("children left", sorted(zk.get_children(path)), ["a", "c"])
    expect("no children", zk.get_children(path + "/a"), [])


def sequence(zk):
    path = BASE + "/queue"
    zk.create(path, b"")
    for number in range(3):
        made = zk.create(path + "/item-", b"", sequence=True)
        expect("sequence node", made, "%s/item-%010d" % (path, number))
    zk.delete(path + "/item-0000000002")
    made = zk.create(path + "/", b"", sequence=True, ephemeral=True)
    expect("number not used again", made, path + "/0000000003")
    zk.delete(made)


def ephemeral_closed(zk, address):
    path = BASE + "/ephemeral"
    other = connect(address, 5)
    other.create(path, b"", ephemeral=True)
    watch = Watch()
    stat = zk.exists(path, watch=watch)
    expect("ephemeralOwner", stat.ephemeralOwner, other.client_id[0])
    leave(other)
    watch.expect(EventType.DELETED, path)
    expect("node of a closed session", zk.exists(path), None)


def ephemeral_expired(zk):
    path = BASE + "/held"
    ask("hold", path)
    watch = Watch()
    stat = zk.exists(path, watch=watch)
    expect("held by another session", stat.ephemeralOwner not in (0, zk.client_id[0]), True)
    ask("kill-holder")
    watch.expect(EventType.DELETED, path)
    expect("node of an expired session", zk.exists(path), None)


def watches(zk):
    path = BASE + "/watched"
    watch = Watch()
    expect("not there yet", zk.exists(path, watch=watch), None)
    zk.create(path, b"0")
    watch.expect(EventType.CREATED, path)
    zk.set(path, b"1")
    watch.expect_none(zk)
    for value in (b"2", b"3"):
        zk.get(path, watch=watch)
        zk.set(path, value)
        watch.expect(EventType.CHANGED, path)
    zk.get_children(path, watch=watch)
    zk.create(path + "/child", b"")
    watch.expect(EventType.CHILD, path)
    zk.create(path + "/second", b"")
    watch.expect_none(zk)
    zk.get_children(path, watch=watch)
    zk.delete(path + "/child")
    watch.expect(EventType.CHILD, path)
    zk.delete(path + "/second")
    zk.get(path, watch=watch)
    zk.delete(path)
    watch.expect(EventType.DELETED, path)


def multi(zk):
    path = BASE + "/multi"
    change = zk.transaction()
    change.create(path, b"")
    change.create(path + "/a", b"1")
    change.check(path, version=0)
    change.set_data(path + "/a", b"2", version=0)
    change.create(path + "/seq-", b"", sequence=True)
    change.delete(path + "/a", version=1)
    results = change.commit()
    expect("made", results[:2], [path, path + "/a"])
    expect("checked", results[2], True)
    expect("set", results[3].version, 1)
    # The first node made below the parent, a, took number 0.
    expect("sequence", results[4], path + "/seq-0000000001")
    expect("deleted", results[5], True)
    expect("children", zk.get_children(path), ["seq-0000000001"])

    change = zk.transaction()
    change.create(path + "/b", b"")
    change.set_data(path, b"no", version=7)
    change.create(path + "/c", b"")
    kinds = [type(result).__name__ for result in change.commit()]
    expect("failed", kinds, ["RolledBackError", "BadVersionError", "RuntimeInconsistency"])
    expect("nothing of it happened", zk.get_children(path), ["seq-0000000001"])
    expect("data", zk.get(path)[0], b"")


def acl(zk, address):
    path = BASE + "/secret"
    owner = connect(address, 10)
    owner.add_auth("digest", "bob:secret")
    entry = make_digest_acl("bob", "secret", all=True)
    owner.create(path, b"treasure", acl=[entry])
    acls, stat = owner.get_acls(path)
    expect("acl", acls, [entry])
    expect("aversion", stat.aversion, 0)
    expect("owner reads", owner.get(path)[0], b"treasure")
    for call, args in (
        (zk.get, (path,)),
        (zk.set, (path, b"mine")),
        (zk.get_children, (path,)),
        (zk.create, (path + "/child", b"")),
        (zk.set_acls, (path, [entry])),
    ):
        expect_error(NoAuthError, call, *args)
    zk.add_auth("digest", "eve:guess")
    expect_error(NoAuthError, zk.get, path)
    read_only = make_digest_acl("eve", "guess", read=True)
    expect("aversion", owner.set_acls(path, [entry, read_only], version=0).aversion, 1)
    expect("allowed now", zk.get(path)[0], b"treasure")
    expect_error(NoAuthError, zk.set, path, b"mine")
    owner.delete(path)
    leave(owner)


def recipes(zk, address):
    other = connect(address, 10)
    lock, rival = zk.Lock(BASE + "/lock", "one"), other.Lock(BASE + "/lock", "two")
    expect("lock", lock.acquire(timeout=PATIENCE), True)
    expect("contenders", rival.contenders(), ["one"])
    expect("rival", rival.acquire(blocking=False), False)
    got = threading.Event()
    waiter = threading.Thread(target=lambda: rival.acquire(timeout=PATIENCE) and got.set())
    waiter.start()
    lock.release()
    expect("rival gets the lock", got.wait(PATIENCE), True)
    waiter.join()
    rival.release()

    counter = zk.Counter(BASE + "/counter")
    second = other.Counter(BASE + "/counter")
    for _ in range(5):
        counter += 1
        second += 2
    expect("counter", counter.value, 15)

    seen = queue.Queue()
    zk.create(BASE + "/data", b"one")
    zk.DataWatch(BASE + "/data", lambda data, stat: seen.put(data))
    for value in (b"one", b"two", b"three"):
        if value != b"one":
            other.set(BASE + "/data", value)
        expect("DataWatch", seen.get(timeout=PATIENCE), value)

    led = threading.Event()
    election = other.Election(BASE + "/election", "two")
    runner = threading.Thread(target=lambda: election.run(led.set))
    runner.start()
    expect("elected", led.wait(PATIENCE), True)
    runner.join()

    jobs = zk.Queue(BASE + "/jobs")
    for job in (b"1", b"2", b"3"):
        jobs.put(job)
    taken = [other.Queue(BASE + "/jobs").get() for _ in range(3)]
    expect("queue", taken, [b"1", b"2", b"3"])
    leave(other)


def restart(zk, how):
    """A restart of the server keeps the session."""
    states = queue.Queue()
    zk.add_listener(states.put)
    session = zk.client_id
    ask(how)
    while True:
        state = states.get(timeout=PATIENCE)
        if state == KazooState.LOST:
            raise Failed("the session was lost")
        if state == KazooState.CONNECTED:
            break
    zk.remove_listener(states.put)
    expect("session", zk.client_id, session)
    zk.retry(zk.sync, "/")


def reconnect(zk, how):
    """It keeps its ephemeral node and all data, too."""
    path, kept = BASE + "/" + how + "-ephemeral", BASE + "/" + how + "-kept"
    zk.create(path, b"mine", ephemeral=True)
    _, written = zk.create(kept, b"kept", include_data=True)
    restart(zk, how)
    data, stat = zk.get(path)
    expect("data of the ephemeral node", data, b"mine")
    expect("its owner", stat.ephemeralOwner, zk.client_id[0])
    expect("data and stat kept", zk.get(kept), (b"kept", written))
    expect("writes go on", zk.set(kept, b"more", version=0).mzxid > written.mzxid, True)


def close(zk, address):
    other = connect(address, 10)
    path = BASE + "/restart-ephemeral"
    watch = Watch()
    expect("owner", other.exists(path, watch=watch).ephemeralOwner, zk.client_id[0])
    leave(zk)
    watch.expect(EventType.DELETED, path)
    other.delete(BASE, recursive=True)
    expect("cleaned", other.exists(BASE), None)
    leave(other)


def protected(address, entry):
    """What only one identity may touch is its own again after a restart of the server."""
    say("step connect")
    zk = connect(address, 10)
    zk.create(BASE, b"")
    say("step protected")
    scheme, name = entry.split(":", 1)
    if scheme == "digest":
        zk.add_auth("digest", "bob:secret")
    acl = [make_acl(scheme, name, all=True)]
    path = BASE + "/protected"
    zk.create(path, b"treasure", acl=acl)
    expect("acl", zk.get_acls(path)[0], acl)
    expect("owner reads", zk.get(path)[0], b"treasure")
    ask("stranger", path)
    say("step restart")
    mine = BASE + "/mine"
    zk.create(mine, b"", acl=acl, ephemeral=True)
    restart(zk, "restart")
    expect("its owner", zk.get(mine)[1].ephemeralOwner, zk.client_id[0])
    expect("owner still reads", zk.get(path)[0], b"treasure")
    zk.set(path, b"more", version=0)
    ask("stranger", path)
    say("step close")
    for name in (mine, path, BASE):
        zk.delete(name)
    leave(zk)
    say("passed")


def scenario(address):
    say("step connect")
    zk = connect(address, 10)
    zk.create(BASE, b"")
    steps = (
        ("create-read", create_read, (zk,)),
        ("versions", versions, (zk,)),
        ("children", children, (zk,)),
        ("sequence", sequence, (zk,)),
        ("ephemeral-closed", ephemeral_closed, (zk, address)),
        ("ephemeral-expired", ephemeral_expired, (zk,)),
        ("watches", watches, (zk,)),
        ("multi", multi, (zk,)),
        ("acl", acl, (zk, address)),
        ("recipes", recipes, (zk, address)),
        ("restart", reconnect, (zk, "restart")),
        ("crash", reconnect, (zk, "crash")),
        ("close", close, (zk, address)),
    )
    for name, step, args in steps:
        say("step", name)
        step(*args)
    say("passed")


def hold(address, path):
    zk = connect(address, 2)
    zk.create(path, b"", ephemeral=True)
    say("holding")
    threading.Event().wait()


def main():
    logging.basicConfig(level=logging.INFO, stream=sys.stderr)
    try:
        if sys.argv[2:3] == ["hold"]:
            hold(sys.argv[1], sys.argv[3])
        elif sys.argv[2:3] == ["protected"]:
            protected(sys.argv[1], sys.argv[3])
        else:
            scenario(sys.argv[1])
    except Exception as error:
        logging.exception("scenario")
        say("failed", type(error).__name__, *str(error).splitlines()[:1])
        sys.stdout.flush()
        # Threads of open clients must not keep the process.
        os._exit(1)


if __name__ == "__main__":
    main()
