"""Takes kazoo's Lock and WriteLock again and again, in contention with others.

Usage: contend.py ADDRESS DIRECTORY ROUNDS. Whoever holds a lock makes a witness, which must not be
there, and adds one to a number by reading and writing it.
"""

import sys

from kazoo.client import KazooClient

PATIENCE = 60


def inside(client, directory):
    client.create(directory + "/witness", ephemeral=True)
    data, stat = client.get(directory + "/number")
    client.set(directory + "/number", str(int(data) + 1).encode(), stat.version)
    client.delete(directory + "/witness")


def main():
    address, directory, rounds = sys.argv[1], sys.argv[2], int(sys.argv[3])
    client = KazooClient(hosts=address, timeout=10)
    client.start(timeout=PATIENCE)
    locks = [client.Lock(directory + "/lock", "kazoo"), client.WriteLock(directory + "/rw", "kazoo")]
    for _ in range(rounds):
        for lock in locks:
            assert lock.acquire(timeout=PATIENCE)
            inside(client, directory if lock is locks[0] else directory + "/second")
            lock.release()
    client.stop()
    print("done")


main()
