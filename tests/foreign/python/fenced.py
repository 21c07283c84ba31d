"""Takes kazoo's Lock and Election again and again and writes records while it holds them.

Usage: fenced.py ADDRESSES TIMEOUT_S RECORDS. A record is written in one transaction with a check of
the own contender's znode, so that the servers refuse it once that is gone. The path of that znode is
public in kazoo: `lock.path` is the directory and `lock.node` the name, and an Election has its Lock
as `election.lock`. It ends when there is a znode /stop.
"""

import sys
import threading
import traceback

from kazoo.client import KazooClient

PATIENCE = 120
# Without an end, and with pauses that leave time before the session is over.
AGAIN = {"max_tries": -1, "max_delay": 0.5}


def record(client, queue, own):
    transaction = client.transaction()
    transaction.check(own, -1)
    transaction.create("/records/%s/kazoo/r-" % queue, own.encode(), sequence=True)
    return not any(isinstance(result, Exception) for result in transaction.commit())


def hold(client, queue, lock, count):
    own = lock.path + "/" + lock.node
    for _ in range(count):
        # Again after a lost connection: a holder that was paused believes to hold, and only the check
        # stops it.
        if not client.retry(record, client, queue, own):
            print(own, "is gone", flush=True)
            return


def lock_turn(client, count):
    lock = client.Lock("/queues/lock", "kazoo")
    with lock:
        hold(client, "lock", lock, count)


def election_turn(client, count):
    election = client.Election("/queues/election", "kazoo")
    election.run(hold, client, "election", election.lock, count)


def take_turns(addresses, timeout, count, turn):
    client = KazooClient(hosts=addresses, timeout=timeout, connection_retry=AGAIN, command_retry=AGAIN)
    client.start(timeout=PATIENCE)
    while client.retry(client.exists, "/stop") is None:
        try:
            turn(client, count)
        except Exception:
            # A session that is over, or a connection that is lost: with the next one it goes on.
            traceback.print_exc()
    client.stop()
    client.close()


def main():
    addresses, timeout, count = sys.argv[1], float(sys.argv[2]), int(sys.argv[3])
    turns = [lock_turn, election_turn]
    threads = [threading.Thread(target=take_turns, args=(addresses, timeout, count, turn)) for turn in turns]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    print("done")


main()
