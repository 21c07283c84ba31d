"""Enters and leaves kazoo's double barriers together with others.

Usage: meet.py ADDRESS DIRECTORY MEMBERS ROUNDS. A mark before entering, and one before leaving: whoever
is inside finds all marks of the first kind, whoever has left all of the second.
"""

import sys

from kazoo.client import KazooClient

PATIENCE = 60


def main():
    address, directory, members, rounds = *sys.argv[1:3], int(sys.argv[3]), int(sys.argv[4])
    client = KazooClient(hosts=address, timeout=10)
    client.start(timeout=PATIENCE)

    def mark(step):
        client.create(step + "/kazoo")

    def all_marked(step):
        client.sync(step)
        found = client.get_children(step)
        assert len(found) == members, (step, found)

    for number in range(rounds):
        top = "%s/%d" % (directory, number)
        barrier = client.DoubleBarrier(top + "/barrier", members)
        mark(top + "/come")
        barrier.enter()
        assert barrier.participating
        all_marked(top + "/come")
        mark(top + "/go")
        barrier.leave()
        all_marked(top + "/go")
    client.stop()
    print("done")


main()
