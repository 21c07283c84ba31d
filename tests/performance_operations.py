#!/usr/bin/env python3
"""Measures what operating a server costs it: the list "Operations and features" of docs/PERFORMANCE.md.

    python3 tests/performance_operations.py [--seconds 2] [--rounds 7] [--znodes 1000000]

It builds the server if it is not there. Scrapes of the exporter at full load, one command of the shell, an export of the
whole tree, and a backup under load. What disturbs is switched on and off in turns, and medians of the rounds are compared.
"""
import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request

from performance import ROOT, TARGET, ZOARIUM, Server, bench, free_port, row, say

SCRAPE_MAX_MS, SCRAPE_P99_MAX = 5, 1.02
SHELL_MAX_MS, EXPORT_MAX_S, BACKUP_P99_MAX = 20, 15, 1.2
# Prometheus asks every 15 or 30 seconds.
SCRAPE_EVERY_S = 1
WHO, DIGEST = "digest super:secret", "super:lK75jTNcA+U9vtVEw5vB51mj/w4="


class Operated(Server):
    """A server with an admin port and an exporter."""

    def __init__(self, home):
        self.admin, self.exporter = free_port(), free_port()
        super().__init__("Zoarium", home, (
            "metricsProvider.className=org.apache.zookeeper.metrics.prometheus."
            "PrometheusMetricsProvider\nmetricsProvider.httpHost=127.0.0.1\n"
            "metricsProvider.httpPort=%d\nadmin.serverAddress=127.0.0.1\nadmin.serverPort=%d\n"
            "admin.rateLimiterIntervalInMS=0\nDigestAuthenticationProvider.superDigest=%s\n"
            % (self.exporter, self.admin, DIGEST)))
        path = os.path.join(home, "zoo.cfg")
        with open(path) as f:
            text = f.read().replace("admin.enableServer=false\n", "")
        with open(path, "w") as f:
            f.write(text)

    def scrape(self):
        """Milliseconds of one scrape."""
        began = time.monotonic()
        with urllib.request.urlopen("http://127.0.0.1:%d/metrics" % self.exporter) as answer:
            if b"znode_count" not in answer.read():
                sys.exit("that is no scrape")
        return (time.monotonic() - began) * 1e3


class Disturbance:
    """Does something again and again while it is switched on; the times that it took in ms."""

    def __init__(self, act, pause_s):
        self.act, self.pause_s, self.times, self.ends = act, pause_s, [], threading.Event()
        self.thread = threading.Thread(target=self.run)

    def run(self):
        while not self.ends.is_set():
            self.times.append(self.act())
            self.ends.wait(self.pause_s)

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.ends.set()
        self.thread.join()


def p99_of_sets(server, seconds):
    """Milliseconds; 16 sessions with 16 requests each."""
    side = bench("set", "--server", server.address, "--sessions", "16", "--pipeline", "16",
                 "--duration", "%ss" % seconds, "--warmup", "0.5s")["servers"][0]
    return statistics.median(round["latency_us"]["p99"] / 1e3 for round in side["rounds"])


def in_turns(server, act, pause_s, a):
    """The p99 of sets alone and disturbed, medians of the rounds, and the times of the disturbance."""
    alone, disturbed, times = [], [], []
    for _ in range(a.rounds):
        alone.append(p99_of_sets(server, a.seconds))
        with Disturbance(act, pause_s) as disturbance:
            disturbed.append(p99_of_sets(server, a.seconds))
        times += disturbance.times
    return statistics.median(alone), statistics.median(disturbed), times


def goal(limit, holds):
    return "%g, %s" % (limit, "met" if holds else "missed")


def scrapes(server, a):
    say("scrapes")
    alone, disturbed, times = in_turns(server, server.scrape, SCRAPE_EVERY_S, a)
    at_rest = statistics.median(server.scrape() for _ in range(20))
    took, ratio = statistics.median(times), disturbed / alone
    row("scrape of `/metrics`, sets 16 x 16 under way", "%.1f ms (%.1f at rest)" % (took, at_rest),
        goal(SCRAPE_MAX_MS, took < SCRAPE_MAX_MS))
    row("p99 of those sets, a scrape a second / none", "%.2f ms / %.2f ms = %.2f"
        % (disturbed, alone, ratio), goal(SCRAPE_P99_MAX, ratio <= SCRAPE_P99_MAX))


def timed(command, times=1):
    """The median of the milliseconds that a command takes."""
    took = []
    for _ in range(times):
        began = time.monotonic()
        subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=True)
        took.append((time.monotonic() - began) * 1e3)
    return statistics.median(took)


def shell(server):
    say("shell")
    took = timed([ZOARIUM, "cli", "-server", server.address, "get", "/"], 20)
    row("`zoarium cli get /` from start to end", "%.1f ms" % took,
        goal(SHELL_MAX_MS, took < SHELL_MAX_MS))


def export(server, a):
    say("fill")
    subprocess.run([ZOARIUM, "bench", "fill", "--server", server.address, "--znodes",
                    str(a.znodes)], check=True, stdout=subprocess.DEVNULL)
    say("export")
    took = timed([ZOARIUM, "cli", "-server", server.address, "export", "/"]) / 1e3
    row("`export /` of %d znodes of 100 bytes" % a.znodes, "%.1f s" % took,
        goal(EXPORT_MAX_S, took < EXPORT_MAX_S))


def backups(server, home, a):
    say("backups")
    number = iter(range(1, 1 << 30))
    environment = dict(os.environ, ZOARIUM_AUTH=WHO)

    def backup():
        began = time.monotonic()
        subprocess.run([ZOARIUM, "backup", os.path.join(home, "backup-%d" % next(number)), "--server",
                        "127.0.0.1:%d" % server.admin], env=environment, check=True,
                       stdout=subprocess.DEVNULL)
        return (time.monotonic() - began) * 1e3

    alone, disturbed, times = in_turns(server, backup, 0, a)
    row("a backup of them, sets 16 x 16 under way", "%.1f s" % (statistics.median(times) / 1e3), "")
    row("p99 of those sets, one backup after the other / none", "%.2f ms / %.2f ms = %.2f"
        % (disturbed, alone, disturbed / alone),
        goal(BACKUP_P99_MAX, disturbed / alone <= BACKUP_P99_MAX))


def main():
    p = argparse.ArgumentParser(description=__doc__)
    p.add_argument("--seconds", type=float, default=2)
    p.add_argument("--rounds", type=int, default=7)
    p.add_argument("--znodes", type=int, default=1_000_000)
    a = p.parse_args()
    print("Load of the machine before: %s\n" % " ".join("%.1f" % part for part in os.getloadavg()))
    if not os.path.exists(ZOARIUM):
        subprocess.run(["cargo", "build", "--profile", "dist"], cwd=ROOT, check=True, stdout=sys.stderr)
    with tempfile.TemporaryDirectory(dir=TARGET) as home:
        server = Operated(os.path.join(home, "zoarium"))
        server.start()
        try:
            row("what", "figure", "at most")
            row("---", "---", "---")
            scrapes(server, a)
            shell(server)
            export(server, a)
            backups(server, home, a)
        finally:
            server.stop()


if __name__ == "__main__":
    main()
