#!/usr/bin/env python3
"""Measures what the change history costs and gives: the table of docs/HISTORY.md.

    python3 tests/performance_history.py [--seconds 5] [--rounds 3] [--fill 20] [--changes 10000000]

It builds the server if it is not there. Two servers, one with the history on, are loaded in turns;
then that one's history is read as a feed, removed, and made again from snapshot and log. The index
alone is measured by `cargo bench -p zoarium-history --bench measure`.
"""
import argparse
import http.client
import json
import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

from performance import (ROOT, TARGET, ZOARIUM, Server, bench, free_port, row, say, undisturbed,
                         versus)

# Throughput on / off at least, p99 on / off at most.
RATIO_MIN, P99_MAX, MEMORY_MAX_MIB = 0.85, 1.3, 64
REBUILD_MIN, FEED_MIN = 300_000, 200_000
# Who reads the feed: `cargo bench` has the rate for those who are asked for permission.
WHO, DIGEST = "digest super:secret", "super:lK75jTNcA+U9vtVEw5vB51mj/w4="


class Recorded(Server):
    """A server with an admin port, and with a history if that is said."""

    def __init__(self, home, has_history):
        super().__init__("Zoarium", home)
        self.admin, self.history = free_port(), os.path.join(home, "history")
        path = os.path.join(home, "zoo.cfg")
        with open(path) as f:
            text = f.read().replace("admin.enableServer=false", (
                "admin.enableServer=true\nadmin.serverAddress=127.0.0.1\nadmin.serverPort=%d"
                % self.admin))
        with open(path, "w") as f:
            f.write(text)
            # What is replayed at a start is all that was written.
            f.write("snapCount=100000000\nDigestAuthenticationProvider.superDigest=%s\n" % DIGEST)
            if has_history:
                f.write("history.enabled=true\nhistory.dir=%s\nhistory.minFreeMegabytes=0\n"
                        % self.history)

    def ask(self, target):
        connection = http.client.HTTPConnection("127.0.0.1", self.admin, timeout=60)
        connection.request("GET", "/commands/" + target, headers={"Authorization": WHO})
        return connection.getresponse()

    def head(self):
        """The last transaction recorded, 0 while the history is not open."""
        try:
            answer = self.ask("history/changes?path=/&limit=1")
            found = json.loads(answer.read())
        except (OSError, ValueError):
            return 0
        return int(found["extent"]["head"], 16) if answer.status == 200 else 0

    def wait_for(self, zxid):
        """Seconds until everything up to there is recorded."""
        began = time.monotonic()
        while self.head() < zxid:
            if time.monotonic() - began > 600:
                sys.exit("the history does not catch up, see %s/log" % self.home)
            time.sleep(0.02)
        return time.monotonic() - began

    def settled_head(self):
        """The head once it moves no more."""
        head = -1
        while head != (now := self.head()):
            head = now
            time.sleep(1)
        return head


def goal(holds):
    return "met" if holds else "missed"


def costs(off, on, a):
    print("\n### With the history on\n")
    row("load", "off ops/s", "on ops/s", "on / off", "goal", "p99 off / on", "goal", "stolen")
    row(*["---"] * 8)
    for op in ("set", "create"):
        say(op)
        r, lost = undisturbed(
            lambda: versus(on, off, op, 16, 16, a.seconds, 2, a.rounds), a.tries)
        with_it, without = ([statistics.median(figure(round) for round in side["rounds"])
                             for figure in (lambda round: round["ops_per_second"],
                                            lambda round: round["latency_us"]["p99"] / 1e3)]
                            for side in r["servers"])
        ratio, p99 = with_it[0] / without[0], with_it[1] / without[1]
        row("%s 16 x 16" % op, "%.0f" % without[0], "%.0f" % with_it[0], "%.2f" % ratio,
            "%g, %s" % (RATIO_MIN, goal(ratio >= RATIO_MIN)),
            "%.2f ms / %.2f ms = %.2f" % (without[1], with_it[1], p99),
            "%g, %s" % (P99_MAX, goal(p99 <= P99_MAX)), "%.0f %%" % (100 * lost))
        sys.stdout.flush()
    on.settled_head()
    more = (on.resident() - off.resident()) / 2**20
    print("\nMemory beyond off: %.1f MiB (at most %d, %s)"
          % (more, MEMORY_MAX_MIB, goal(more <= MEMORY_MAX_MIB)))


def feed(on):
    """Reads everything there is as one reader does, and as `zoarium watch` does. Gives its length."""
    say("feed")
    head, changes, progress = on.settled_head(), 0, 0
    began = time.monotonic()
    lines = on.ask("history/feed?path=/&from=0x1")
    if lines.status != 200:
        sys.exit("no feed: %s" % lines.read())
    rest = b""
    while progress < head:
        some = lines.read1(1 << 20)
        if not some:
            sys.exit("the feed broke off")
        whole, newline, rest = (rest + some).rpartition(b"\n")
        if not newline:
            continue
        # Lines of progress come in between; a change says where it is.
        changes += whole.count(b"\n") + 1 - whole.count(b'"progress":')
        last = json.loads(whole.rpartition(b"\n")[2])
        if "end" in last:
            sys.exit("the feed ended: %s" % last["end"])
        progress = int(last.get("zxid") or last["progress"].split(".")[0], 16)
    rate = changes / (time.monotonic() - began)
    lines.close()
    row("feed to one reader", "%.0f changes/s, %d of them" % (rate, changes),
        "%d, %s" % (FEED_MIN, goal(rate >= FEED_MIN)))
    began = time.monotonic()
    watch = [ZOARIUM, "watch", "/", "--from", "0x1", "--limit", str(changes), "--output", "json",
             "--server", "127.0.0.1:%d" % on.admin]
    subprocess.run(watch, stdout=subprocess.DEVNULL, check=True,
                   env=dict(os.environ, ZOARIUM_AUTH=WHO))
    row("the same by `zoarium watch`", "%.0f changes/s" % (changes / (time.monotonic() - began)), "")
    return changes


def rebuild(on, changes):
    say("rebuild")
    head = on.settled_head()
    # Without a snapshot of its end, so that the next start replays the log.
    on.process.kill()
    on.process.wait()
    shutil.rmtree(on.history)
    on.start()
    seconds = on.wait_for(head)
    rate = changes / seconds
    with open(os.path.join(on.home, "log")) as f:
        replayed = re.findall(r"data recovered .*replayed=(\d+).*elapsed_ms=(\d+)", f.read())[-1]
    txns, ms = map(int, replayed)
    row("made again from the files", "%.0f changes/s" % rate,
        "%d, %s" % (REBUILD_MIN, goal(rate >= REBUILD_MIN)))
    row("the same log, replayed at the start", "%.0f changes/s" % (changes / ms * 1e3),
        "%d transactions" % txns)


def sizes(on, changes):
    size = sum(os.path.getsize(os.path.join(where, name))
               for where, _, names in os.walk(on.history) for name in names)
    row("on disk", "%.0f bytes a change" % (size / changes), "")


def main():
    p = argparse.ArgumentParser(description=__doc__)
    p.add_argument("--seconds", type=float, default=5)
    p.add_argument("--rounds", type=int, default=3)
    p.add_argument("--tries", type=int, default=3, help="for a load that is disturbed")
    p.add_argument("--fill", type=float, default=20, help="seconds of multis that are read again")
    p.add_argument("--changes", type=int, default=10_000_000, help="of the index alone; 0 for none")
    a = p.parse_args()
    print("Load of the machine before: %s" % " ".join("%.1f" % part for part in os.getloadavg()))
    if not os.path.exists(ZOARIUM):
        subprocess.run(["cargo", "build", "--profile", "dist"], cwd=ROOT, check=True, stdout=sys.stderr)
    with tempfile.TemporaryDirectory(dir=TARGET) as home:
        off, on = (Recorded(os.path.join(home, name), name == "on") for name in ("off", "on"))
        off.start()
        on.start()
        try:
            costs(off, on, a)
            off.stop()
            print("\n### Reading all of it, and making it again\n")
            row("what", "figure", "goal")
            row("---", "---", "---")
            bench("multi", "--server", on.address, "--size", "100", "--sessions", "16",
                  "--pipeline", "4", "--duration", "%ss" % a.fill, "--warmup", "0s")
            changes = feed(on)
            sizes(on, changes)
            rebuild(on, changes)
        finally:
            for server in (off, on):
                if server.process.poll() is None:
                    server.stop()
    if a.changes:
        print("\n### The index alone, %d changes\n" % a.changes, flush=True)
        subprocess.run(["cargo", "bench", "-q", "-p", "zoarium-history", "--bench", "measure", "--",
                        str(a.changes)], cwd=ROOT, check=True)


if __name__ == "__main__":
    main()
