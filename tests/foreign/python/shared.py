"""Shares recipes of kazoo with another program, one after the other.

Usage: shared.py ADDRESS DIRECTORY ROUNDS. Marks in the directory "marks" tell the other program how far this one
is, and this one how far the other is.
"""

import datetime
import sys
import threading
import time

from kazoo.client import KazooClient

PATIENCE = 60
PAUSE = 0.01
HOUR = datetime.timedelta(hours=1)
LEASES = 2


class Shared:
    def __init__(self, address, directory, rounds):
        self.directory, self.rounds = directory, rounds
        self.client = KazooClient(hosts=address, timeout=10)
        self.client.start(timeout=PATIENCE)

    def path(self, name):
        return self.directory + "/" + name

    def mark(self, name):
        self.client.create(self.path("marks/" + name))

    def await_mark(self, name):
        until("the mark " + name, lambda: self.client.exists(self.path("marks/" + name)))

    def counter(self):
        counter = self.client.Counter(self.path("count"), support_curator=True)
        for _ in range(self.rounds):
            counter += 1
        until("all increments", lambda: counter.value == 2 * self.rounds)

    def barriers(self):
        first = self.client.Barrier(self.path("first"))
        first.create()
        self.mark("first")
        self.await_mark("waits")
        first.remove()
        second = self.client.Barrier(self.path("second"))
        self.await_mark("second")
        self.mark("waits-too")
        assert second.wait(PATIENCE)

    def semaphore(self):
        semaphore = self.client.Semaphore(self.path("semaphore"), "kazoo", LEASES)
        for _ in range(self.rounds):
            assert semaphore.acquire(timeout=PATIENCE)
            self.client.create(self.path("inside/kazoo"), ephemeral=True)
            assert len(self.client.get_children(self.path("inside"))) <= LEASES
            self.client.delete(self.path("inside/kazoo"))
            semaphore.release()

    def leases(self):
        self.await_mark("leased")
        assert self.client.MultiNonBlockingLease(LEASES, self.path("leases"), HOUR, "kazoo")
        assert not self.client.MultiNonBlockingLease(LEASES, self.path("leases"), HOUR, "third")
        self.mark("leased-too")

    def watches(self):
        data, children = [], []
        self.client.DataWatch(self.path("cached"), lambda value, _stat: data.append(value))
        self.client.ChildrenWatch(self.path("cached"), lambda names: children.append(sorted(names)))
        self.client.create(self.path("cached/kazoo"), b"k")
        until("the data", lambda: data[-1] == b"ours")
        until("both children", lambda: children[-1] == ["kazoo", "ours"])

    def election(self):
        """Leads until the other candidate waits."""
        led = threading.Event()

        def lead():
            self.mark("leads")
            self.await_mark("candidate")
            led.set()

        self.client.Election(self.path("election"), "kazoo").run(lead)
        assert led.is_set()


def until(what, holds):
    end = time.monotonic() + PATIENCE
    while not holds():
        assert time.monotonic() < end, what
        time.sleep(PAUSE)


def main():
    shared = Shared(sys.argv[1], sys.argv[2], int(sys.argv[3]))
    shared.counter()
    shared.barriers()
    shared.semaphore()
    shared.leases()
    shared.watches()
    shared.election()
    shared.client.stop()
    print("done")


main()
