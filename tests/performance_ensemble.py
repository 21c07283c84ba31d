#!/usr/bin/env python3
"""Measures ensembles of Zoarium against Apache ZooKeeper 3.9.5, for docs/lab.

    cargo build --profile dist && cargo test -p tests --test foreign java   # brings the jars
    python3 tests/performance_ensemble.py [--seconds 5] [--rounds 3] [--trials 5] [--znodes 1000000]

Both ensembles run on this machine at the same time, on loopback, three servers each with the same
zoo.cfg, and are loaded in turns. Only the ratios mean anything on another machine.
"""
import argparse
import os
import re
import socket
import statistics
import struct
import subprocess
import sys
import tempfile
import threading
import time

from performance import JARS, TARGET, ZOARIUM, bench, free_port, row, say, served_read

TICK_CLOCK = os.sysconf("SC_CLK_TCK")


class Member:
    def __init__(self, kind, home, sid, heap):
        self.kind, self.home, self.sid, self.heap = kind, home, sid, heap
        self.port, self.process = free_port(), None
        os.makedirs(os.path.join(home, "data"))
        with open(os.path.join(home, "data", "myid"), "w") as f:
            f.write(str(sid))

    def configure(self, lines):
        with open(os.path.join(self.home, "zoo.cfg"), "w") as f:
            f.write("tickTime=2000\ninitLimit=10\nsyncLimit=5\ndataDir=%s/data\nclientPort=%d\n"
                    "clientPortAddress=127.0.0.1\nmaxClientCnxns=0\nadmin.enableServer=false\n"
                    "4lw.commands.whitelist=*\n" % (self.home, self.port))
            f.write("\n".join(lines) + "\n")
        with open(os.path.join(self.home, "logback.xml"), "w") as f:
            f.write('<configuration><appender name="C" class="ch.qos.logback.core.ConsoleAppender">'
                    "<encoder><pattern>%d %-5level %msg%n</pattern></encoder></appender>"
                    '<root level="INFO"><appender-ref ref="C"/></root></configuration>')

    def start(self):
        cfg = os.path.join(self.home, "zoo.cfg")
        command = [ZOARIUM, "server", cfg] if self.kind == "Zoarium" else [
            "java", "-Xmx" + self.heap,
            "-Dlogback.configurationFile=" + os.path.join(self.home, "logback.xml"),
            "-cp", JARS, "org.apache.zookeeper.server.quorum.QuorumPeerMain", cfg]
        log = open(os.path.join(self.home, "log"), "ab")
        self.process = subprocess.Popen(command, stdout=log, stderr=log, stdin=subprocess.DEVNULL)

    def kill(self):
        self.process.kill()
        self.process.wait()

    def stop(self):
        self.process.terminate()
        self.process.wait()

    def cpu(self):
        with open("/proc/%d/stat" % self.process.pid) as f:
            fields = f.read().rsplit(") ", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / TICK_CLOCK

    def word(self, word):
        try:
            with socket.create_connection(("127.0.0.1", self.port), 1) as s:
                s.sendall(word.encode())
                s.settimeout(5)
                return b"".join(iter(lambda: s.recv(1 << 16), b"")).decode()
        except OSError:
            return ""

    def mode(self):
        found = re.search(r"Mode: (\w+)", self.word("srvr"))
        return found.group(1) if found else None

    def zxid(self):
        found = re.search(r"Zxid: 0x([0-9a-f]+)", self.word("srvr"))
        return int(found.group(1), 16) if found else -1


class Ensemble:
    def __init__(self, kind, home, voters=3, observers=0, heap="2g", settings=()):
        self.kind = kind
        self.members = [Member(kind, os.path.join(home, str(sid)), sid, heap)
                        for sid in range(1, voters + observers + 1)]
        lines = ["server.%d=127.0.0.1:%d:%d:%s" % (
            m.sid, free_port(), free_port(), "participant" if m.sid <= voters else "observer")
            for m in self.members]
        for m in self.members:
            m.configure(lines + list(settings) + (["peerType=observer"] if m.sid > voters else []))
            m.start()
        self.voters = self.members[:voters]
        self.wait()

    def wait(self):
        began = time.monotonic()
        while not all(m.mode() and served_read(m.port) for m in self.members):
            if time.monotonic() - began > 300:
                sys.exit("no ensemble, see %s" % self.members[0].home)
            time.sleep(0.05)

    def leader(self):
        while True:
            for m in self.members:
                if m.process.poll() is None and m.mode() == "leader":
                    return m
            time.sleep(0.01)

    def addresses(self, members=None):
        return ",".join("127.0.0.1:%d" % m.port for m in members or self.voters)

    def cpu(self):
        """CPU seconds of the voters, and of all servers."""
        return tuple(sum(m.cpu() for m in some) for some in (self.voters, self.members))

    def stop(self):
        for m in self.members:
            m.process.kill()
        for m in self.members:
            m.process.wait()


def loaded(ensemble, op, sessions, pipeline, seconds):
    """One round: ops a second, p99 in us, CPU seconds of the voters and of all servers per million
    operations."""
    before = ensemble.cpu()
    z = bench(op, "--server", ensemble.addresses(), "--sessions", str(sessions), "--pipeline",
              str(pipeline), "--duration", "%ss" % seconds, "--warmup", "0s")["servers"][0]
    ops = z["ops_per_second"] * seconds
    voters, servers = ((now - then) / ops * 1e6 for then, now in zip(before, ensemble.cpu()))
    return z["ops_per_second"], z["latency_us"]["p99"], voters, servers


def in_turns(first, second, op, sessions, pipeline, a):
    """The medians of both, rounds alternating."""
    rounds = [(loaded(first, op, sessions, pipeline, a.seconds),
               loaded(second, op, sessions, pipeline, a.seconds)) for _ in range(a.rounds)]
    return [[statistics.median(r[side][i] for r in rounds) for i in range(4)] for side in (0, 1)]


def throughput(ours, theirs, a):
    print("\n### Three servers: throughput, latency, CPU\n")
    row("load, spread over the three", "Zoarium ops/s", "Apache ops/s", "ratio",
        "p99 Zoarium / Apache", "CPU s per million ops (all three), Zoarium / Apache")
    row(*["---"] * 6)
    for op in ("set", "get"):
        say("warming the JVMs:", op)
        bench(op, "--server", theirs.addresses(), "--sessions", "64", "--duration", "10s")
    for op, sessions, pipeline in (("set", 16, 16), ("set", 128, 16), ("create", 16, 16),
                                   ("get", 16, 16), ("get", 128, 16), ("set", 1, 1)):
        say("%s %d x %d" % (op, sessions, pipeline))
        z, j = in_turns(ours, theirs, op, sessions, pipeline, a)
        row("%s %d x %d" % (op, sessions, pipeline), "%.0f" % z[0], "%.0f" % j[0],
            "%.1f" % (z[0] / j[0]),
            "%.2f ms / %.2f ms = %.2f" % (z[1] / 1e3, j[1] / 1e3, z[1] / j[1]),
            "%.1f / %.1f = %.2f" % (z[3], j[3], z[3] / j[3]))
        sys.stdout.flush()


def place(ensemble, voters, observers):
    """Gives the servers of an ensemble these processors, all their threads."""
    for m in ensemble.members:
        cpus = voters if m in ensemble.voters else observers
        for task in os.listdir("/proc/%d/task" % m.process.pid):
            os.sched_setaffinity(int(task), cpus)


def observers(ours, home, a):
    print("\n### Two observers more\n")
    row("load, on the voters", "3 servers", "3 + 2 observers", "ratio",
        "CPU s per million ops of the voters, without / with observers", "of the observers")
    row(*["---"] * 6)
    wider = Ensemble("Zoarium", home, observers=2)
    cpus = sorted(os.sched_getaffinity(0))
    half = len(cpus) // 2
    places = [("processors of their own", set(cpus[:half]), set(cpus[half:])),
              ("the same processors", set(cpus), set(cpus))]
    try:
        for what, rest, own in places if half else places[1:]:
            for ensemble in (ours, wider):
                place(ensemble, rest, own)
            # What it starts, the generator, goes with the voters.
            os.sched_setaffinity(0, rest)
            for sessions, pipeline in ((16, 1), (16, 16), (128, 16)):
                load = "set %d x %d, observers on %s" % (sessions, pipeline, what)
                say(load)
                three, five = in_turns(ours, wider, "set", sessions, pipeline, a)
                row(load, "%.0f ops/s" % three[0],
                    "%.0f ops/s" % five[0], "%.2f" % (five[0] / three[0]),
                    "%.1f / %.1f" % (three[2], five[2]), "%.1f" % (five[3] - five[2]))
                sys.stdout.flush()
    finally:
        os.sched_setaffinity(0, cpus)
        wider.stop()


class Writer(threading.Thread):
    """Writes one znode over and over, through whichever server answers; keeps its session."""

    def __init__(self, ensemble):
        super().__init__(daemon=True)
        self.ports = [m.port for m in ensemble.voters]
        self.session, self.password, self.at = 0, bytes(16), 0
        self.acknowledged, self.ends = [], False

    def connect(self):
        self.at += 1
        s = socket.create_connection(("127.0.0.1", self.ports[self.at % len(self.ports)]), 1)
        s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        s.settimeout(8)
        s.sendall(struct.pack(">iiqiqi16sb", 45, 0, 0, 20000, self.session, 16, self.password, 0))
        reply = self.frame(s)
        _, timeout, session, _ = struct.unpack(">iiqi", reply[:20])
        if timeout <= 0:
            self.session, self.password = 0, bytes(16)
            raise OSError("session over")
        self.session, self.password = session, reply[20:36]
        return s

    @staticmethod
    def frame(s):
        def exactly(n):
            got = b""
            while len(got) < n:
                part = s.recv(n - len(got))
                if not part:
                    raise OSError("closed")
                got += part
            return got
        return exactly(struct.unpack(">i", exactly(4))[0])

    def run(self):
        while not self.ends:
            try:
                with self.connect() as s:
                    xid = 0
                    while not self.ends:
                        xid += 1
                        body = struct.pack(">iii4si8si", xid, 5, 4, b"/gap", 8, bytes(8), -1)
                        s.sendall(struct.pack(">i", len(body)) + body)
                        reply = self.frame(s)
                        if struct.unpack(">i", reply[12:16])[0] == 0:
                            self.acknowledged.append(time.monotonic())
            except OSError:
                time.sleep(0.005)

    def longest_gap(self, since):
        times = [t for t in self.acknowledged if t >= since]
        return max((b - a for a, b in zip(times, times[1:])), default=float("inf"))


def make_gap_znode(ensemble):
    writer = Writer(ensemble)
    with writer.connect() as s:
        body = struct.pack(">iii4si", 1, 1, 4, b"/gap", 0) + struct.pack(
            ">iii5si6si", 1, 31, 5, b"world", 6, b"anyone", 0)
        body = body[:-4] + struct.pack(">i", 0)
        s.sendall(struct.pack(">i", len(body)) + body)
        Writer.frame(s)


def gap(ensemble):
    """Seconds without an acknowledged write after the leader is killed; it is back afterwards."""
    writers = [Writer(ensemble) for _ in range(3)]
    for w in writers:
        w.start()
    while not all(w.acknowledged for w in writers):
        time.sleep(0.05)
    leader = ensemble.leader()
    began = time.monotonic()
    leader.kill()
    # A writer that has lost nothing says nothing: all must have written after the election.
    ensemble.leader()
    again = time.monotonic()
    while not all(w.acknowledged[-1] > again + 1 for w in writers):
        time.sleep(0.05)
    for w in writers:
        w.ends = True
    for w in writers:
        w.join()
    merged = sorted(t for w in writers for t in w.acknowledged if t >= began - 1)
    leader.start()
    ensemble.wait()
    return max(b - a for a, b in zip(merged, merged[1:]))


def gaps(ours, theirs, a):
    print("\n### The leader is killed (SIGKILL), default ticks, %d trials in turns\n" % a.trials)
    row("", "Zoarium", "Apache", "ratio")
    row(*["---"] * 4)
    for ensemble in (ours, theirs):
        make_gap_znode(ensemble)
    measured = [(gap(ours), gap(theirs)) for _ in range(a.trials)]
    for name, pick in (("longest time without an acknowledged write, median",
                        statistics.median), ("the longest of all trials", max)):
        z, j = (pick([m[side] for m in measured]) for side in (0, 1))
        row(name, "%.2f s" % z, "%.2f s" % j, "%.2f" % (z / j))


def large(home, a):
    print("\n### %d znodes of 100 bytes\n" % a.znodes)
    row("", "figure")
    row(*["---"] * 2)
    ensemble = Ensemble("Zoarium", home)
    try:
        say("filling")
        subprocess.run([ZOARIUM, "bench", "fill", "--server", ensemble.addresses(), "--znodes",
                        str(a.znodes)], check=True, stdout=subprocess.DEVNULL)
        make_gap_znode(ensemble)
        times = [gap(ensemble) for _ in range(3)]
        row("leader killed, time without an acknowledged write, longest of 3",
            "%.2f s" % max(times))
        took = [int(t) for m in ensemble.members for t in re.findall(
            r"took_ms=(\d+)", open(os.path.join(m.home, "log")).read())[1:]]
        row("of that the election, longest", "%d ms" % max(took, default=0))
        behind = next(m for m in ensemble.members if m.mode() == "follower")
        behind.stop()
        rest = [m for m in ensemble.members if m is not behind]
        say("100,000 transactions without one follower")
        bench("set", "--server", ensemble.addresses(rest), "--ops", "100000", "--warmup", "0s")
        began, target = time.monotonic(), ensemble.leader().zxid()
        behind.start()
        while behind.mode() != "follower" or behind.zxid() < target:
            time.sleep(0.02)
        took = time.monotonic() - began
        log = re.sub(r"\x1b\[[0-9;]*m", "", open(os.path.join(behind.home, "log")).read())
        needed = re.findall(r"needs_snapshot=(\w+)", log)[-1]
        row("a follower that missed 100,000 transactions: start to caught up, by %s" % (
            "DIFF" if needed == "false" else "a snapshot"), "%.2f s" % took)
    finally:
        ensemble.stop()


def main():
    p = argparse.ArgumentParser(description=__doc__)
    p.add_argument("--seconds", type=float, default=5)
    p.add_argument("--rounds", type=int, default=3)
    p.add_argument("--trials", type=int, default=5)
    p.add_argument("--znodes", type=int, default=1_000_000)
    p.add_argument("--only", choices=["throughput", "observers", "gaps", "large"])
    a = p.parse_args()
    with tempfile.TemporaryDirectory(dir=TARGET) as home:
        place = lambda name: os.path.join(home, name)
        if a.only != "large":
            ours = Ensemble("Zoarium", place("zoarium"))
            try:
                if a.only != "observers":
                    theirs = Ensemble("Apache", place("apache"))
                    try:
                        if a.only in (None, "throughput"):
                            throughput(ours, theirs, a)
                        if a.only in (None, "gaps"):
                            gaps(ours, theirs, a)
                    finally:
                        theirs.stop()
                if a.only in (None, "observers"):
                    observers(ours, place("wider"), a)
            finally:
                ours.stop()
        if a.only in (None, "large"):
            large(place("large"), a)


if __name__ == "__main__":
    main()
