"""How quickly a lock and a leadership change hands with kazoo's Lock and Election.

Usage: hand_over.py ADDRESS. A line on standard input asks for a measurement and a line on standard
output answers, as of crates/recipes/examples/hand_over.rs.
"""

import sys
import threading
import time

from kazoo.client import KazooClient

TIMEOUT_S = 30
REST_S = 0.02


def connect(address):
    client = KazooClient(hosts=address, timeout=TIMEOUT_S)
    client.start()
    return client


def close(client):
    client.stop()
    client.close()


def lock(address, path, seconds, sessions):
    """Each session takes the lock and lets go at once, again and again."""
    clients = [connect(address) for _ in range(sessions)]
    taken, ends, began = [0] * sessions, [0.0] * sessions, time.monotonic()

    def take_turns(number):
        mutex = clients[number].Lock(path)
        while time.monotonic() - began < seconds:
            mutex.acquire()
            mutex.release()
            taken[number] += 1
        ends[number] = time.monotonic() - began
        close(clients[number])

    threads = [threading.Thread(target=take_turns, args=(number,)) for number in range(sessions)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return "%d %f" % (sum(taken), max(ends))


class Candidate:
    """One who stands in an election in a thread of its own, and leads until it is told to let go."""

    def __init__(self, client, path):
        self.leads, self.ends, self.since, self.until = threading.Event(), threading.Event(), 0.0, 0.0
        self.thread = threading.Thread(target=client.Election(path).run, args=(self.lead,))
        self.thread.start()

    def lead(self):
        self.since = time.monotonic()
        self.leads.set()
        self.ends.wait()
        self.until = time.monotonic()


def election(address, path, rounds):
    """Two candidates; whoever leads lets go, and stands again when the other one leads."""
    clients, times = [connect(address), connect(address)], []
    leader = Candidate(clients[0], path)
    leader.leads.wait()
    for number in range(1, rounds + 1):
        following = Candidate(clients[number % 2], path)
        time.sleep(REST_S)
        leader.ends.set()
        following.leads.wait()
        leader.thread.join()
        times.append(str(round((following.since - leader.until) * 1e6)))
        leader = following
    leader.ends.set()
    leader.thread.join()
    for client in clients:
        close(client)
    return " ".join(times)


def main():
    address = sys.argv[1]
    for line in sys.stdin:
        words = line.split()
        if words[0] == "lock":
            answer = lock(address, words[1], float(words[2]), int(words[3]))
        else:
            answer = election(address, words[1], int(words[2]))
        print(answer, flush=True)


main()
