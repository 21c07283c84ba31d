"""Pytest plugin: kazoo's own tests and test harness use `zoarium test-server` instead of servers in Java."""
import json
import subprocess
import sys
import threading
import types

# kazoo.testing imports them for the certificates of its own servers.
for name in ("OpenSSL", "jks"):
    sys.modules.setdefault(name, types.ModuleType(name))

from kazoo.testing import harness

MEMBERS = 3


class Server:
    """A member, with the methods that kazoo's tests call."""

    def __init__(self, cluster, number):
        self.cluster, self.number, self.running = cluster, number, False

    @property
    def address(self):
        return self.cluster.started["members"][self.number - 1]

    def run(self):
        self.cluster.command("restart %d" % self.number)
        self.running = True

    def stop(self):
        self.cluster.command("kill %d" % self.number)
        self.running = False


class Cluster:
    def __init__(self):
        self.servers = [Server(self, number) for number in range(1, MEMBERS + 1)]
        self.process, self.lock = None, threading.Lock()

    def __iter__(self):
        return iter(self.servers)

    def __getitem__(self, index):
        return self.servers[index]

    def start(self):
        self.process = subprocess.Popen(["zoarium", "test-server", "--members", str(MEMBERS)],
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.started = json.loads(self.process.stdout.readline())
        self.note(running=True)

    def command(self, line):
        with self.lock:
            print(line, file=self.process.stdin, flush=True)
            answer = json.loads(self.process.stdout.readline())
        assert answer["ok"], answer

    def terminate(self):
        if self.process:
            self.process.stdin.close()
            assert self.process.wait() == 0
            self.process = None
            self.note(running=False)

    def note(self, running):
        for server in self.servers:
            server.running = running

    def get_logs(self):
        return []


CLUSTER = Cluster()
harness.get_global_cluster = lambda: CLUSTER
