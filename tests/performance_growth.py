#!/usr/bin/env python3
"""Measures how costs grow, for Zoarium and Apache ZooKeeper 3.9.5, and draws docs/figures/growth.

    cargo build --profile dist -p zoarium -p zoarium-lab
    cargo test -p tests --test foreign java   # brings the jars
    python3 tests/performance_growth.py DIR [--seconds 2] [--rounds 2] [--znodes 10000000] [--only lone]

`zoarium-lab growth` does the work; this starts the servers for it: one of each kind for the axes of
lone servers, then ensembles of each size. Writes reports and drawings to DIR/lone, DIR/voters and
DIR/observers. The servers' logs take more than 35 GB of the temporary directory meanwhile (TMPDIR).
"""
import argparse
import os
import subprocess
import sys
import tempfile

from performance import ROOT, Server, TARGET, prepare, say
from performance_ensemble import Ensemble

LAB = os.path.join(TARGET, "dist", "zoarium-lab")
# Apache ZooKeeper has these many in 8 GiB; the collector takes all processors for more.
ZNODES_OF_APACHE = 1000000
VOTERS = {"Zoarium": (1, 3, 5, 7, 9), "Apache": (1, 3, 5)}
OBSERVERS = (0, 1, 2, 4)


def growth(a, part, *words):
    report = os.path.join(a.dir, part)
    command = [LAB, "growth", "--name", "Zoarium", "--versus-name", "Apache ZooKeeper",
               "--duration", "%ss" % a.seconds, "--warmup", "%ss" % (a.seconds / 2),
               "--rounds", str(a.rounds), "--report", report, *words]
    say(" ".join(command))
    if subprocess.run(command, stdout=subprocess.DEVNULL).returncode:
        say("not everything could be measured, see the end of %s/growth.md" % report)


def lone(a, home):
    ours = Server("Zoarium", os.path.join(home, "zoarium"))
    theirs = Server("Apache", os.path.join(home, "apache"), properties=["-Xmx8g"])
    for server in (ours, theirs):
        server.start()
    growth(a, "lone", "--server", ours.address, "--versus", theirs.address,
           "--pid", str(ours.process.pid), "--versus-pid", str(theirs.process.pid),
           "--upto", "znodes=%d" % a.znodes, "--versus-upto", "znodes=%d" % ZNODES_OF_APACHE)
    for server in (ours, theirs):
        server.stop()


def ensembles(a, home, part, sizes):
    """`sizes` are name of the option, kind, number that it is shown as, voters and observers."""
    started, words = [], ["--only", part]
    for option, kind, shown, voters, observers in sizes:
        where = os.path.join(home, part, "%s-%d" % (kind, shown))
        # A server that is alone is none of an ensemble, in both.
        if voters == 1:
            server = Server(kind, where, properties=["-Xmx1g"])
            server.start()
            address = server.address
        else:
            server = Ensemble(kind, where, voters, observers, heap="1g")
            address = server.addresses()
        started.append(server)
        words += [option, "%d=%s" % (shown, address)]
    growth(a, part, *words)
    for server in started:
        server.stop()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("dir")
    parser.add_argument("--seconds", type=float, default=2)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--znodes", type=int, default=10000000)
    parser.add_argument("--only", choices=("lone", "voters", "observers"))
    a = parser.parse_args()
    prepare()
    if not os.path.exists(LAB):
        build = "cargo build --profile dist -p zoarium-lab"
        say(build)
        subprocess.run(build.split(), cwd=ROOT, check=True, stdout=sys.stderr)
    with tempfile.TemporaryDirectory(prefix="zoarium-growth-") as home:
        if a.only in (None, "lone"):
            lone(a, home)
        if a.only in (None, "voters"):
            ensembles(a, home, "voters", [
                (option, kind, voters, voters, 0)
                for option, kind in (("--voters", "Zoarium"), ("--versus-voters", "Apache"))
                for voters in VOTERS[kind]])
        if a.only in (None, "observers"):
            ensembles(a, home, "observers", [
                (option, kind, 3 + observers, 3, observers)
                for option, kind in (("--observers", "Zoarium"), ("--versus-observers", "Apache"))
                for observers in OBSERVERS])


if __name__ == "__main__":
    sys.exit(main())
