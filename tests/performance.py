#!/usr/bin/env python3
"""Measures Zoarium against Apache ZooKeeper 3.9.5 and prints tables as in docs/lab.

    cargo build --profile dist && cargo test -p tests --test foreign java   # brings the jars
    python3 tests/performance.py [--seconds 5] [--rounds 3] [--znodes 1000000]

Both servers run on this machine at the same time, on loopback, with the same zoo.cfg; `zoarium
bench --versus` loads them in turns. Throughput and p99 are the medians of the rounds, which one
disturbed round cannot move, and a load during which the machine's host took much of its
processors' time for others is measured again. Only the ratios mean anything on another machine.
"""
import argparse
import json
import os
import random
import re
import socket
import statistics
import struct
import subprocess
import sys
import tempfile
import time

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
TARGET = os.environ.get("CARGO_TARGET_DIR", os.path.join(ROOT, "target"))
ZOARIUM = os.path.join(TARGET, "dist", "zoarium")
JARS = os.path.join(TARGET, "foreign", "apache", "*")
# Share of the processors' time above which a measurement says more of the host than of the servers.
STOLEN_MAX = 0.04
# Ports that servers here have.
GIVEN = set()
LOADS = [(op, sessions, pipeline) for op in ("get", "exists", "set", "create")
         for sessions, pipeline in ((16, 16), (128, 16))] + [("get", 1, 1), ("set", 1, 1)]


def say(*words):
    print(*words, file=sys.stderr, flush=True)


def prepare():
    """Builds what is measured and has the jars brought, unless they are there."""
    for name, command in ((ZOARIUM, "cargo build --profile dist"),
                          (os.path.dirname(JARS), "cargo test -p tests --test foreign java")):
        if not os.path.exists(name):
            say(command)
            subprocess.run(command.split(), cwd=ROOT, check=True, stdout=sys.stderr)


def free_port():
    """Each once, and below those that Linux gives to connections: a member whose election port is taken
    meanwhile serves, and ends after three attempts."""
    while True:
        port = random.randrange(10000, 32000)
        try:
            with socket.socket() as s:
                s.bind(("127.0.0.1", port))
        except OSError:
            continue
        if port not in GIVEN:
            GIVEN.add(port)
            return port


def served_read(port):
    """Whether a session opens and getData of / is answered."""
    try:
        with socket.create_connection(("127.0.0.1", port), 1) as s:
            s.settimeout(5)
            s.sendall(struct.pack(">iiqiqi16sb", 45, 0, 0, 10000, 0, 16, bytes(16), 0))
            if len(s.recv(41)) < 20:
                return False
            s.sendall(struct.pack(">iiii1sb", 14, 1, 4, 1, b"/", 0))
            return len(s.recv(200)) >= 20
    except OSError:
        return False


class Server:
    def __init__(self, name, home, settings="", properties=()):
        self.name, self.home, self.port, self.process = name, home, free_port(), None
        self.address, self.properties = "127.0.0.1:%d" % self.port, list(properties)
        os.makedirs(os.path.join(home, "data"))
        with open(os.path.join(home, "zoo.cfg"), "w") as f:
            f.write("tickTime=2000\ndataDir=%s/data\nclientPort=%d\nclientPortAddress=127.0.0.1\n"
                    "maxClientCnxns=0\nadmin.enableServer=false\n%s" % (home, self.port, settings))

    def logging(self):
        """Without a file of its own logback writes every DEBUG line: nobody runs it like that."""
        name = os.path.join(self.home, "logback.xml")
        with open(name, "w") as f:
            f.write('<configuration><appender name="C" class="ch.qos.logback.core.ConsoleAppender">'
                    "<encoder><pattern>%d %-5level %msg%n</pattern></encoder></appender>"
                    '<root level="INFO"><appender-ref ref="C"/></root></configuration>')
        return name

    def start(self):
        """Starts it; returns the seconds until it served a read."""
        cfg = os.path.join(self.home, "zoo.cfg")
        command = [ZOARIUM, "server", cfg] if self.name == "Zoarium" else [
            "java", "-Xmx4g", "-Dlogback.configurationFile=" + self.logging(),
            *self.properties, "-cp", JARS,
            "org.apache.zookeeper.server.quorum.QuorumPeerMain", cfg]
        log = open(os.path.join(self.home, "log"), "ab")
        began, self.started = time.monotonic(), time.time()
        self.process = subprocess.Popen(command, stdout=log, stderr=log, stdin=subprocess.DEVNULL)
        while not served_read(self.port):
            if self.process.poll() is not None or time.monotonic() - began > 300:
                sys.exit("%s does not serve, see %s/log" % (self.name, self.home))
            time.sleep(0.005)
        return time.monotonic() - began

    def wait_for_snapshot(self):
        """Waits for the snapshot of the start, which may be written while clients are served."""
        began, directory = time.monotonic(), os.path.join(self.home, "data", "version-2")
        while True:
            names = os.listdir(directory)
            newest = max((name for name in names if name.startswith("snapshot.")),
                         key=lambda name: int(name.split(".")[1], 16))
            is_complete = not any(name.startswith("unfinished.snapshot.") for name in names)
            if is_complete and os.stat(os.path.join(directory, newest)).st_mtime >= self.started:
                return
            if time.monotonic() - began > 300:
                sys.exit("%s writes no snapshot, see %s/log" % (self.name, self.home))
            time.sleep(0.05)

    def stop(self):
        self.process.terminate()
        self.process.wait()

    def resident(self):
        with open("/proc/%d/status" % self.process.pid) as f:
            return int(re.search(r"VmRSS:\s+(\d+)", f.read()).group(1)) * 1024


def bench(*words):
    out = subprocess.run([ZOARIUM, "bench", *words, "--json"], stdout=subprocess.PIPE, check=True)
    return json.loads(out.stdout)


def versus(ours, theirs, op, sessions, pipeline, seconds, warmup, rounds):
    return bench(op, "--server", ours.address, "--versus", theirs.address,
                 "--pid", str(ours.process.pid), "--versus-pid", str(theirs.process.pid),
                 "--sessions", str(sessions), "--pipeline", str(pipeline),
                 "--duration", "%ss" % seconds, "--warmup", "%ss" % warmup,
                 "--rounds", str(rounds))


def row(*cells):
    print("| " + " | ".join(str(c) for c in cells) + " |")


def stolen():
    """Clock ticks that this machine's host gave to others, and all of them."""
    with open("/proc/stat") as f:
        ticks = [int(n) for n in f.readline().split()[1:9]]
    return ticks[7], sum(ticks)


def undisturbed(measure, tries):
    """The least disturbed of so many measurements, and the share of time that it lost."""
    best = None
    for _ in range(tries):
        before = stolen()
        measured = measure()
        taken, ticks = (now - then for then, now in zip(before, stolen()))
        if best is None or taken / ticks < best[1]:
            best = measured, taken / ticks
        if best[1] < STOLEN_MAX:
            break
        say("%.0f %% of the time stolen" % (100 * taken / ticks))
    return best


def throughput(ours, theirs, a):
    print("\n### Throughput, latency, CPU\n")
    row("load", "Zoarium ops/s", "Apache ops/s", "ratio", "p99 Zoarium / Apache",
        "CPU s per million ops, Zoarium / Apache", "stolen")
    row(*["---"] * 7)
    for op, sessions, pipeline in a.load or LOADS:
        say("%s %d x %d" % (op, sessions, pipeline))
        r, lost = undisturbed(lambda: versus(ours, theirs, op, sessions, pipeline, a.seconds, 2,
                                             a.rounds), a.tries)
        z, j = r["servers"]
        ops, p99 = ([statistics.median(figure(round) for round in side["rounds"]) for side in (z, j)]
                    for figure in (lambda round: round["ops_per_second"],
                                   lambda round: round["latency_us"]["p99"] / 1e3))
        row("%s %d x %d" % (op, sessions, pipeline), "%.0f" % ops[0], "%.0f" % ops[1],
            "%.1f" % (ops[0] / ops[1]),
            "%.2f ms / %.2f ms = %.2f" % (p99[0], p99[1], p99[0] / p99[1]),
            "%.2f / %.1f = %.2f" % (z["cpu_seconds_per_million_ops"],
                                    j["cpu_seconds_per_million_ops"],
                                    r["ratios"]["cpu_per_op"]),
            "%.0f %%" % (100 * lost))
        sys.stdout.flush()


def ceilings(ours, a):
    print("\n### Physical limits\n")
    row("limit", "figure", "share of it that Zoarium reaches")
    row("---", "---", "---")
    echo = subprocess.Popen([ZOARIUM, "bench", "echo"], stdout=subprocess.PIPE, text=True)
    address = re.search(r"127\.0\.0\.1:\d+", echo.stdout.readline()).group(0)
    try:
        for sessions in (16, 128):
            r = bench("get", "--server", ours.address, "--versus", address, "--sessions",
                      str(sessions), "--pipeline", "16", "--duration", "%ss" % a.seconds,
                      "--rounds", str(a.rounds))
            z, e = r["servers"]
            row("framed echo server, get %d x 16" % sessions, "%.0f ops/s" % e["ops_per_second"],
                "%.2f" % (z["ops_per_second"] / e["ops_per_second"]))
    finally:
        echo.terminate()
        echo.wait()
    for sessions in (16, 128):
        group = sessions * 16
        f = bench("fsync", "--dir", ours.home, "--bytes", "250", "--group", str(min(group, 1000)),
                  "--duration", "%ss" % a.seconds)
        s = bench("set", "--server", ours.address, "--sessions", str(sessions), "--pipeline", "16",
                  "--duration", "%ss" % a.seconds)["servers"][0]["ops_per_second"]
        limit = f.get("records_per_second") or f["ops_per_second"]
        row("grouped fdatasync, %d records of 250 bytes" % min(group, 1000),
            "%.0f records/s" % limit, "%.2f (set %d x 16)" % (s / limit, sessions))


def memory(home, a):
    print("\n### Memory and restart, %d znodes of 100 bytes\n" % a.znodes)
    row("", "Zoarium", "Apache", "ratio")
    row(*["---"] * 4)
    servers, figures = [], []
    for name in ("Zoarium", "Apache"):
        say("fill", name)
        server = Server(name, os.path.join(home, "fill-" + name))
        server.start()
        empty = server.resident()
        subprocess.run([ZOARIUM, "bench", "fill", "--server", server.address, "--znodes",
                        str(a.znodes)], check=True, stdout=subprocess.DEVNULL)
        filled = server.resident()
        server.stop()
        servers.append(server)
        figures.append({"filled": filled, "znode": (filled - empty) / a.znodes, "restarts": []})
    for turn in range(a.restarts):
        for server, figure in zip(servers, figures):
            say("restart", turn + 1, server.name)
            figure["restarts"].append(server.start())
            server.wait_for_snapshot()
            figure.setdefault("again", server.resident())
            server.stop()
    for figure in figures:
        figure["first"] = figure["restarts"][0]
        figure["restart"] = statistics.median(figure["restarts"])
    z, j = figures

    def compared(what, key, form, unit=1):
        row(what, form % (z[key] / unit), form % (j[key] / unit), "%.2f" % (z[key] / j[key]))

    compared("resident after filling", "filled", "%.0f MiB", 2**20)
    compared("bytes a znode (growth)", "znode", "%.0f")
    compared("resident after a restart", "again", "%.0f MiB", 2**20)
    compared("restart to the first served read, median of %d" % a.restarts, "restart", "%.2f s")
    compared("the first of them, with a log to replay", "first", "%.2f s")


def load(text):
    op, sessions, pipeline = text.split(":")
    return op, int(sessions), int(pipeline)


def main():
    p = argparse.ArgumentParser(description=__doc__)
    p.add_argument("--seconds", type=float, default=5)
    p.add_argument("--rounds", type=int, default=3)
    p.add_argument("--tries", type=int, default=3, help="for a load that is disturbed")
    p.add_argument("--znodes", type=int, default=1_000_000)
    p.add_argument("--load", type=load, action="append", metavar="OP:SESSIONS:PIPELINE",
                   help="only this one, or several: what the host has disturbed")
    p.add_argument("--restarts", type=int, default=5)
    p.add_argument("--only", choices=["throughput", "ceilings", "memory"])
    a = p.parse_args()
    with tempfile.TemporaryDirectory(dir=TARGET) as home:
        if a.only != "memory":
            ours = Server("Zoarium", os.path.join(home, "zoarium"))
            theirs = Server("Apache", os.path.join(home, "apache"))
            ours.start()
            theirs.start()
            try:
                if a.only != "ceilings":
                    for op in ("get", "exists", "set", "create"):
                        say("warming the JVM:", op)
                        bench(op, "--server", theirs.address, "--duration", "6s")
                    throughput(ours, theirs, a)
                if a.only != "throughput":
                    theirs.stop()
                    ceilings(ours, a)
            finally:
                ours.stop()
                if theirs.process.poll() is None:
                    theirs.stop()
        if a.only in (None, "memory"):
            memory(home, a)


if __name__ == "__main__":
    main()
