"""Uses kazoo's queues, parties, leases and set partitioner together with others.

Usage: others.py ADDRESS DIRECTORY ITEMS. Whoever takes an item or a part of the set makes a note, which must
not be there. It ends when the znode "end" is made in the directory.
"""

import datetime
import sys
import time

from kazoo.client import KazooClient

PATIENCE = 60
PAUSE = 0.02
HOUR = datetime.timedelta(hours=1)


def until(what, holds):
    end = time.monotonic() + PATIENCE
    while not holds():
        assert time.monotonic() < end, what
        time.sleep(PAUSE)


def main():
    address, directory, items = sys.argv[1], sys.argv[2], int(sys.argv[3])
    client = KazooClient(hosts=address, timeout=10)
    client.start(timeout=PATIENCE)
    parties = [
        client.Party(directory + "/party", "kazoo"),
        client.ShallowParty(directory + "/shallow", "kazoo"),
    ]
    for party in parties:
        party.join()
        until("both members", lambda: sorted(party) == ["kazoo", "ours"])

    until("their lease", lambda: client.exists(directory + "/leased"))
    assert not client.NonBlockingLease(directory + "/theirs", HOUR, "kazoo")
    assert client.NonBlockingLease(directory + "/kazoos", HOUR, "kazoo")
    client.create(directory + "/leased-by-kazoo")

    partitioner = client.SetPartitioner(
        directory + "/set", set=("a", "b", "c"), identifier="kazoo", time_boundary=0.5
    )

    def has_share():
        assert not partitioner.failed
        if partitioner.release:
            partitioner.release_set()
        return partitioner.acquired and list(partitioner) == ["a", "c"]

    until("its share", has_share)
    for item in partitioner:
        client.create(directory + "/seen-set/" + item)

    queue = client.Queue(directory + "/queue")
    locking = client.LockingQueue(directory + "/locking")
    for number in range(items):
        item = b"kazoo-%d" % number
        queue.put(item)
        locking.put(item)
    while not client.exists(directory + "/end"):
        item = queue.get()
        if item is not None:
            client.create(directory + "/seen-queue/" + item.decode())
        item = locking.get(PAUSE)
        if item is not None:
            client.create(directory + "/seen-locking/" + item.decode())
            assert locking.consume()
    partitioner.finish()
    client.stop()
    print("done")


main()
