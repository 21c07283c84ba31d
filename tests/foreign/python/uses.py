"""How often one session can use each of kazoo's recipes.

Usage: uses.py ADDRESS. A line on standard input asks for a measurement and a line on standard output answers, as
of crates/recipes/examples/uses.rs.
"""

import datetime
import sys
import threading
import time

from kazoo.client import KazooClient
from kazoo.exceptions import KazooException, NodeExistsError

TIMEOUT_S = 30
HOUR = datetime.timedelta(hours=1)
CACHED = 500
QUIET_S = 0.05


def lock(client, path, of):
    made = getattr(client, of)(path)

    def use():
        made.acquire()
        made.release()

    return use


def semaphore(client, path):
    made = client.Semaphore(path, max_leases=2)

    def use():
        made.acquire()
        made.release()

    return use


def barrier(client, path):
    made = client.Barrier(path)

    def use():
        made.create()
        made.remove()

    return use


def double_barrier(client, path):
    def use():
        made = client.DoubleBarrier(path, 1)
        made.enter()
        made.leave()

    return use


def counter(client, path):
    made = client.Counter(path, support_curator=True)

    def use():
        nonlocal made
        made += 1

    return use


def queue(client, path):
    made = client.Queue(path)

    def use():
        made.put(b"item")
        assert made.get() == b"item"

    return use


def locking_queue(client, path):
    """A consumer waits for each item."""
    made, consumed = client.LockingQueue(path), threading.Semaphore(0)

    def consume():
        consumer = client.LockingQueue(path)
        try:
            while True:
                if consumer.get(1) is not None:
                    consumer.consume()
                    consumed.release()
        except KazooException:
            pass  # The measurement is over.

    threading.Thread(target=consume, daemon=True).start()

    def use():
        made.put(b"item")
        consumed.acquire()

    return use


def party(client, path, of):
    def use():
        made = getattr(client, of)(path, "one")
        made.join()
        assert list(made) == ["one"]
        made.leave()

    return use


def partitioner(client, path):
    def use():
        made = client.SetPartitioner(path, set=("a", "b"), identifier="one", time_boundary=QUIET_S)
        made.wait_for_acquire(TIMEOUT_S)
        assert made.acquired
        made.finish()

    return use


def fill(client, path):
    client.ensure_path(path)
    for number in range(CACHED):
        try:
            client.create("%s/%d" % (path, number), b"data")
        except NodeExistsError:
            pass  # An earlier measurement has made it.


def watch(client, path, of):
    """The next watch begins when this one knows the znode. It ends by returning False."""
    fill(client, path)

    def use():
        known = threading.Event()

        def changed(*_):
            known.set()
            return False

        getattr(client, of)(path, changed)
        known.wait()

    return use


USES = {
    "mutex": lambda client, path: lock(client, path, "Lock"),
    "write-lock": lambda client, path: lock(client, path, "WriteLock"),
    "read-lock": lambda client, path: lock(client, path, "ReadLock"),
    "semaphore": semaphore,
    "barrier": barrier,
    "double-barrier": double_barrier,
    "count": counter,
    "kazoo-queue": queue,
    "locking-queue": locking_queue,
    "party": lambda client, path: party(client, path, "Party"),
    "shallow-party": lambda client, path: party(client, path, "ShallowParty"),
    "lease": lambda client, path: lambda: client.NonBlockingLease(path, HOUR, "one"),
    "leases": lambda client, path: lambda: client.MultiNonBlockingLease(2, path, HOUR, "one"),
    "set": partitioner,
    "node-cache": lambda client, path: watch(client, path, "DataWatch"),
    "children-watch": lambda client, path: watch(client, path, "ChildrenWatch"),
}


def main():
    for line in sys.stdin:
        name, path, seconds = line.split()
        client = KazooClient(hosts=sys.argv[1], timeout=TIMEOUT_S)
        client.start()
        use, began, count = USES[name](client, path), time.monotonic(), 0
        while time.monotonic() - began < float(seconds):
            use()
            count += 1
        print("%d %f" % (count, time.monotonic() - began), flush=True)
        client.stop()
        client.close()


main()
