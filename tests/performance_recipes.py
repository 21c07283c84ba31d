#!/usr/bin/env python3
"""Measures how quickly locks and leaderships change hands: the table "Recipes" of docs/PERFORMANCE.md.

    python3 tests/performance_recipes.py [--seconds 5] [--rounds 7] [--changes 100] [--dir DIR]
    python3 tests/performance_recipes.py --uses [RECIPE ...] [--seconds 2] [--rounds 5]

Our recipes, Curator's and kazoo's, each in one process, take turns at one Zoarium server on loopback
with default settings. A lock has eight contenders, each with a session of its own, that hold it for no
time; ours lets go in three ways: it waits for the answer, as the others do, it drops its guard and asks for
its next turn, or it lets go and stands again by one transaction (`Mutex::requeue`). An election has two candidates; measured is the time from the word to close until the
other one knows that it leads. Each program has warmed up before it counts, and the rounds of all alternate.

With --uses, one session of each library uses each recipe again and again: it takes a lock and lets it go, puts an
item that a consumer takes, joins a group and leaves it. A table has a row for each recipe that an original has, and
says for each whether ours is slower.
"""
import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time

from performance import JARS, ROOT, TARGET, ZOARIUM, Server, bench, row, say

FOREIGN = os.path.join(ROOT, "tests", "foreign")
OURS = os.path.join(TARGET, "dist", "examples", "hand_over")
OURS_USES = os.path.join(TARGET, "dist", "examples", "uses")
PYTHON = os.path.join(TARGET, "foreign", "kazoo", "bin", "python")
GOAL = 1.5
DROPPED = "ours, guards dropped"
REQUEUED = "ours, requeued"
# The recipes that one session uses, and whose originals there are: Curator's (c) and kazoo's (k).
USES = {
    "mutex": "ck", "semaphore": "ck", "multi-lock": "c", "write-lock": "ck", "read-lock": "ck", "revoke": "c",
    "barrier": "ck", "double-barrier": "ck", "count": "ck", "value": "c", "atomic": "c", "cache": "c",
    "node-cache": "ck", "children-watch": "k", "node": "c", "ttl-node": "c", "group": "c", "queue": "c",
    "priority-queue": "c", "delay-queue": "c", "id-queue": "c", "simple-queue": "c", "services": "c",
    "service-provider": "c", "kazoo-queue": "k", "locking-queue": "k", "party": "k", "shallow-party": "k",
    "lease": "k", "leases": "k", "set": "k",
}
# Ours is slower if it is below this share of the other one, which is the noise of such a measurement.
SLOWER = 0.95
# As long as Java's compiler needs to have seen everything.
WARM_UP_S, WARM_UP_CHANGES = 20, 500
TICKS = os.sysconf("SC_CLK_TCK")


def prepare():
    """Builds what is measured and has the others' libraries brought, unless they are there."""
    for name, command in ((ZOARIUM, "cargo build --profile dist"),
                          (OURS, "cargo build --profile dist -p zoarium-recipes --example hand_over"),
                          (OURS_USES, "cargo build --profile dist -p zoarium-recipes --example uses"),
                          (PYTHON, "cargo test -p zoarium-recipes --test it foreign"),
                          (os.path.dirname(JARS), "cargo test -p zoarium-recipes --test it foreign")):
        if not os.path.exists(name):
            say(command)
            subprocess.run(command.split(), cwd=ROOT, check=True, stdout=sys.stderr)


def processor_seconds(pid):
    with open("/proc/%d/stat" % pid) as f:
        fields = f.read().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


def busy_seconds():
    """What all processes of the machine have taken, and what its host gave to other machines."""
    with open("/proc/stat") as f:
        user, nice, system, _idle, _wait, irq, softirq, steal = map(int, f.readline().split()[1:9])
    return (user + nice + system + irq + softirq + steal) / TICKS


def counts(server):
    """Requests and syncs so far."""
    words = subprocess.run([ZOARIUM, "word", server.address, "mntr"], stdout=subprocess.PIPE, check=True)
    values = dict(line.split("\t", 1) for line in words.stdout.decode().splitlines() if "\t" in line)
    return [float(values["zk_" + name]) for name in ("packets_received", "cnt_fsynctime")]


class Program:
    """One that answers a line for each line."""

    def __init__(self, name, command, server, log, how=()):
        self.name, self.server, self.how, self.locks, self.elections = name, server, how, [], []
        self.process = subprocess.Popen(command + [server.address], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, stderr=log, text=True)

    def ask(self, *words):
        print(*words, file=self.process.stdin, flush=True)
        line = self.process.stdout.readline()
        if not line:
            sys.exit("%s has failed" % self.name)
        return line.split()

    def lock(self, seconds, sessions):
        """Hand-overs a second; requests, syncs, and milliseconds of processors for one of them."""
        pids = [self.process.pid, self.server.process.pid]
        before, used = counts(self.server), [processor_seconds(pid) for pid in pids]
        taken, elapsed = map(float, self.ask("lock", self.path("lock"), seconds, sessions, *self.how))
        after, now = counts(self.server), [processor_seconds(pid) for pid in pids]
        return [taken / elapsed] + [(b - a) / taken for a, b in zip(before, after)] + [
            (b - a) / taken * 1e3 for a, b in zip(used, now)]

    def election(self, rounds):
        """Milliseconds of each change."""
        return [float(us) / 1e3 for us in self.ask("election", self.path("leader"), rounds)]

    def path(self, of):
        return "/%s/%s" % (self.name.split(",")[0], of)

    def end(self):
        self.process.stdin.close()
        self.process.wait()


def java_program(home, name):
    classes = os.path.join(home, "classes")
    source = os.path.join(FOREIGN, "java", name + ".java")
    subprocess.run(["javac", "-nowarn", "-cp", JARS, "-d", classes, source], check=True)
    logging = "-Dlogback.configurationFile=" + os.path.join(FOREIGN, "java", "logback.xml")
    return ["java", "-Xmx1g", logging, "-cp", JARS + ":" + classes, name]


def programs(server, home, log):
    java = java_program(home, "CuratorHandOver")
    python = [PYTHON, os.path.join(FOREIGN, "python", "hand_over.py")]
    return [Program("ours", [OURS], server, log), Program(DROPPED, [OURS], server, log, ["drop"]),
            Program(REQUEUED, [OURS], server, log, ["requeue"]),
            Program("Curator", java, server, log), Program("kazoo", python, server, log)]


def users(server, home, log):
    python = [PYTHON, os.path.join(FOREIGN, "python", "uses.py")]
    return [Program("ours", [OURS_USES], server, log),
            Program("Curator", java_program(home, "CuratorUses"), server, log),
            Program("kazoo", python, server, log)]


def use(program, name, seconds, number):
    """Uses a second, in a directory that no other measurement has used."""
    count, elapsed = map(float, program.ask(name, "/%s/%s-%d" % (program.name, name, number), seconds))
    return count / elapsed


def compare_uses(everyone, a):
    """A row for each recipe. The two programs alternate, and each has warmed up with the recipe."""
    ours, others = everyone[0], {"c": everyone[1], "k": everyone[2]}
    row("recipe", "ours, uses a second", "its", "ours / it, round by round", "slower")
    row(*["---"] * 5)
    slower = []
    for name, originals in ((name, USES[name]) for name in a.uses or USES):
        for other in (others[letter] for letter in originals):
            pairs = []
            for number in range(a.rounds + 1):
                seconds = a.seconds if number else min(a.seconds, a.warm_up)
                pairs.append([use(one, name, seconds, number) for one in (ours, other)])
            pairs = pairs[1:]
            ratios = [mine / its for mine, its in pairs]
            is_slower = statistics.median(ratios) < SLOWER
            slower += [name + " / " + other.name] * is_slower
            row("%s / %s" % (name, other.name), spread([mine for mine, _ in pairs]),
                spread([its for _, its in pairs]), spread(ratios, "%.2f"), "yes" if is_slower else "no")
    print("\nSlower: %s" % (", ".join(slower) or "none"))


def spread(values, form="%.0f"):
    return (form + " (" + form + " to " + form + ")") % (statistics.median(values), min(values), max(values))


def p99(values):
    return sorted(values)[int(len(values) * 0.99)]


def measure(everyone, a):
    for program in everyone:
        say("warm up", program.name)
        program.lock(a.warm_up, a.sessions)
        if not program.how:
            program.election(a.warm_up_changes)
    for number in range(a.rounds):
        say("round", number + 1)
        for program in everyone:
            program.locks.append(program.lock(a.seconds, a.sessions))
        for program in everyone:
            if not program.how:
                program.elections.append(program.election(a.changes))


def share_of_others(everyone, work):
    """The share of the processors' time that neither the server nor the programs took meanwhile."""
    def used():
        processes = [program.process for program in everyone] + [everyone[0].server.process]
        return [busy_seconds(), sum(processor_seconds(one.pid) for one in processes)]

    before, began = used(), time.monotonic()
    work()
    busy, own = (b - a for a, b in zip(before, used()))
    return (busy - own) / ((time.monotonic() - began) * os.cpu_count())


def lone(server, op):
    """The p50 of one request after the other, ms."""
    side = bench(op, "--server", server.address, "--sessions", "1", "--pipeline", "1", "--duration", "2s",
                 "--rounds", "3")["servers"][0]
    return statistics.median(one["latency_us"]["p50"] / 1e3 for one in side["rounds"])


def tables(everyone):
    ours = everyone[0]
    row("lock, eight sessions", "hand-overs a second, median (range)", "ours / it, round by round", "requests",
        "syncs", "CPU ms of the program", "CPU ms of the server")
    row(*["---"] * 7)
    for program in everyone:
        columns = list(zip(*program.locks))
        ratios = [mine[0] / its[0] for mine, its in zip(ours.locks, program.locks)]
        row(program.name, spread(columns[0]), spread(ratios, "%.2f"),
            *("%.2f" % statistics.median(column) for column in columns[1:]))
    print()
    row("change of leader", "median of all", "p99 of all", "medians of the rounds", "it / ours, round by round")
    row(*["---"] * 5)
    for program in (one for one in everyone if one.elections):
        every = [ms for times in program.elections for ms in times]
        medians = [statistics.median(times) for times in program.elections]
        ratios = [its / statistics.median(mine) for its, mine in zip(medians, ours.elections)]
        row(program.name, "%.2f ms" % statistics.median(every), "%.2f ms" % p99(every),
            spread(medians, "%.2f"), spread(ratios, "%.2f"))
    for own in everyone[:3]:
        for other in everyone[3:]:
            ratios = [mine[0] / its[0] for mine, its in zip(own.locks, other.locks)]
            verdict = "met" if statistics.median(ratios) >= GOAL else "missed"
            print("\n%s / %s: %s, goal %.1f, %s" % (own.name, other.name, spread(ratios, "%.2f"), GOAL, verdict))


def main():
    p = argparse.ArgumentParser(description=__doc__)
    p.add_argument("--seconds", type=float, default=5)
    p.add_argument("--rounds", type=int, default=7)
    p.add_argument("--changes", type=int, default=100, help="of leader, in each round")
    p.add_argument("--sessions", type=int, default=8)
    p.add_argument("--dir", default=TARGET, help="where the server has its data; in memory, syncs cost nothing")
    p.add_argument("--warm-up", type=float, default=WARM_UP_S)
    p.add_argument("--warm-up-changes", type=int, default=WARM_UP_CHANGES)
    p.add_argument("--uses", nargs="*", choices=list(USES), metavar="RECIPE",
                   help="compares these recipes, or all recipes, each with one session")
    a = p.parse_args()
    of_uses = a.uses is not None
    print("Load of the machine before: %s\n" % " ".join("%.1f" % part for part in os.getloadavg()))
    prepare()
    with tempfile.TemporaryDirectory(dir=a.dir) as home, open(os.path.join(home, "log"), "ab") as log:
        server = Server("Zoarium", os.path.join(home, "zoarium"), "4lw.commands.whitelist=*\nextendedTypesEnabled=true\n")
        server.start()
        everyone = []
        try:
            everyone = users(server, home, log) if of_uses else programs(server, home, log)
            others = share_of_others(everyone, lambda: (compare_uses if of_uses else measure)(everyone, a))
            if not of_uses:
                tables(everyone)
            print("\nA lone set takes %.2f ms, a lone get %.2f ms (p50). Others took %.0f percent of the "
                  "processors' time." % (lone(server, "set"), lone(server, "get"), others * 100))
        finally:
            for program in everyone:
                program.end()
            server.stop()


if __name__ == "__main__":
    main()
