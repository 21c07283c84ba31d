#!/usr/bin/env python3
"""Measures Zoarium against Apache ZooKeeper 3.9.5 over TLS, with a certificate on both sides.

    python3 tests/performance_tls.py [--seconds 5] [--rounds 3]

It builds the server and has Maven bring Apache ZooKeeper if they are not there.

Both servers have the same key and trust stores (PEM, ECDSA with P-256, as docs/SECURITY.md makes
them) and speak TLS 1.3. Loads and figures are those of performance.py; `handshake` opens a
connection, which is refused at the end of its handshake, so that nothing is written.
"""
import argparse
import os
import statistics
import subprocess
import sys
import tempfile

from performance import (TARGET, Server, bench, free_port, prepare, row, say,
                         undisturbed)
from performance_ensemble import Ensemble, in_turns

LOADS = [("get", 16, 16, ()), ("get", 128, 16, ()), ("set", 16, 16, ()), ("set", 128, 16, ()),
         ("get", 1, 1, ()), ("handshake", 16, 1, ("--tls-full-handshakes",)),
         ("handshake", 16, 1, ()), ("connect", 16, 1, ("--tls-full-handshakes",))]
# What a ratio is to reach at least; a load without a goal is there for comparison.
GOALS = {"get 16 x 16": 4, "set 16 x 16": 2.5, "handshake 16 x 1, whole handshakes": 3}
# Of the throughput without TLS between the servers.
QUORUM_GOAL = 0.85
AUTHORITY = "basicConstraints=critical,CA:TRUE"
MEMBER = "subjectAltName=IP:127.0.0.1\nextendedKeyUsage=serverAuth,clientAuth\n"


def openssl(home, *words):
    subprocess.run(["openssl", *words], cwd=home, check=True, stderr=subprocess.DEVNULL)


def certificates(home):
    """An authority, and a key with a certificate for either side."""
    key = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes")
    openssl(home, "req", "-x509", *key, "-days", "2", "-keyout", "authority.key",
            "-out", "authority.pem", "-subj", "/O=Test/CN=Authority", "-addext", AUTHORITY)
    with open(os.path.join(home, "ext"), "w") as f:
        f.write(MEMBER)
    for name in ("server", "client"):
        openssl(home, "req", *key, "-keyout", name + ".key", "-out", name + ".csr",
                "-subj", "/O=Test/CN=" + name)
        openssl(home, "x509", "-req", "-in", name + ".csr", "-CA", "authority.pem",
                "-CAkey", "authority.key", "-CAcreateserial", "-days", "2", "-extfile", "ext",
                "-out", name + ".crt")
        with open(os.path.join(home, name + ".pem"), "w") as whole:
            for part in (name + ".key", name + ".crt"):
                with open(os.path.join(home, part)) as f:
                    whole.write(f.read())


def secured(name, home):
    port = free_port()
    settings = ("secureClientPort=%d\nsecureClientPortAddress=127.0.0.1\n"
                "ssl.keyStore.location=%s/server.pem\nssl.trustStore.location=%s/authority.pem\n"
                % (port, home, home))
    properties = ["-Dzookeeper.serverCnxnFactory="
                  "org.apache.zookeeper.server.NettyServerCnxnFactory"]
    made = Server(name, os.path.join(home, name), settings, properties)
    made.secure_address = "127.0.0.1:%d" % port
    return made


def versus(ours, theirs, home, load, a):
    op, sessions, pipeline, options = load
    return bench(op, "--server", ours.secure_address, "--versus", theirs.secure_address,
                 "--pid", str(ours.process.pid), "--versus-pid", str(theirs.process.pid),
                 "--sessions", str(sessions), "--pipeline", str(pipeline),
                 "--duration", "%ss" % a.seconds, "--warmup", "2s", "--rounds", str(a.rounds),
                 "--tls", "--tls-trust", os.path.join(home, "authority.pem"),
                 "--tls-key", os.path.join(home, "client.pem"), *options)


def goal(ratio, least):
    if least is None:
        return ""
    return "%g, %s" % (least, "met" if ratio >= least else "missed")


def measure(ours, theirs, home, a):
    row("load", "Zoarium ops/s", "Apache ops/s", "ratio", "goal", "p99 Zoarium / Apache",
        "CPU s per million ops, Zoarium / Apache", "generator's", "stolen")
    row(*["---"] * 9)
    for load in LOADS:
        op, sessions, pipeline, options = load
        say(op, sessions, pipeline, *options)
        r, lost = undisturbed(lambda: versus(ours, theirs, home, load, a), a.tries)
        z, j = r["servers"]
        ops, p99 = ([statistics.median(figure(round) for round in side["rounds"]) for side in (z, j)]
                    for figure in (lambda round: round["ops_per_second"],
                                   lambda round: round["latency_us"]["p99"] / 1e3))
        kind = {"get": "", "set": ""}.get(op, ", resumed" if not options else ", whole handshakes")
        name = "%s %d x %d%s" % (op, sessions, pipeline, kind)
        ratio = ops[0] / ops[1]
        row(name, "%.0f" % ops[0], "%.0f" % ops[1], "%.1f" % ratio, goal(ratio, GOALS.get(name)),
            "%.2f ms / %.2f ms = %.2f" % (p99[0], p99[1], p99[0] / p99[1]),
            "%.2f / %.1f = %.2f" % (z["cpu_seconds_per_million_ops"],
                                    j["cpu_seconds_per_million_ops"], r["ratios"]["cpu_per_op"]),
            "%.2f" % z["generator_cpu_seconds_per_million_ops"], "%.0f %%" % (100 * lost))
        sys.stdout.flush()


def idle(ours, home, a):
    """What a session costs the server as long as it only pings, over TLS and without."""
    print("\n### Idle sessions\n")
    row("way", "sessions", "bytes a session")
    row(*["---"] * 3)
    tls = ("--tls", "--tls-trust", os.path.join(home, "authority.pem"),
           "--tls-key", os.path.join(home, "client.pem"))
    for way, address, options in (("plain", ours.address, ()),
                                  ("TLS", ours.secure_address, tls)):
        ours.start()
        r = bench("idle", "--server", address, "--pid", str(ours.process.pid),
                  "--sessions", str(a.sessions), "--duration", "%ss" % a.idle_seconds,
                  "--session-timeout", "30s", *options)
        row(way, a.sessions, "%.0f" % r["servers"][0]["resident_bytes_grown_each"])
        ours.stop()


def quorum(home, a):
    """Three servers that speak TLS with one another, against three that do not."""
    print("\n### Three servers, TLS between them\n")
    row("load", "plain ops/s", "TLS ops/s", "ratio", "goal", "CPU s per million ops, plain / TLS")
    row(*["---"] * 6)
    settings = ["sslQuorum=true", "ssl.quorum.keyStore.location=%s/server.pem" % home,
                "ssl.quorum.trustStore.location=%s/authority.pem" % home]
    plain = Ensemble("Zoarium", os.path.join(home, "plain"))
    tls = Ensemble("Zoarium", os.path.join(home, "tls"), settings=settings)
    try:
        for sessions, pipeline in ((16, 16), (128, 16)):
            say("set", sessions, pipeline)
            p, t = in_turns(plain, tls, "set", sessions, pipeline, a)
            row("set %d x %d" % (sessions, pipeline), "%.0f" % p[0], "%.0f" % t[0],
                "%.2f" % (t[0] / p[0]), goal(t[0] / p[0], QUORUM_GOAL),
                "%.1f / %.1f" % (p[3], t[3]))
            sys.stdout.flush()
    finally:
        plain.stop()
        tls.stop()


def main():
    p = argparse.ArgumentParser(description=__doc__)
    p.add_argument("--seconds", type=float, default=5)
    p.add_argument("--rounds", type=int, default=3)
    p.add_argument("--tries", type=int, default=3, help="for a load that is disturbed")
    p.add_argument("--sessions", type=int, default=5000, help="that are idle")
    p.add_argument("--idle-seconds", type=float, default=20)
    p.add_argument("--only", choices=["clients", "quorum"])
    a = p.parse_args()
    prepare()
    with tempfile.TemporaryDirectory(dir=TARGET) as home:
        certificates(home)
        if a.only != "clients":
            quorum(home, a)
        if a.only == "quorum":
            return
        ours, theirs = secured("Zoarium", home), secured("Apache", home)
        ours.start()
        theirs.start()
        try:
            for op in ("get", "set", "handshake"):
                say("warming the JVM:", op)
                bench(op, "--server", theirs.secure_address, "--duration", "6s", "--tls",
                      "--tls-trust", os.path.join(home, "authority.pem"),
                      "--tls-key", os.path.join(home, "client.pem"))
            measure(ours, theirs, home, a)
            theirs.stop()
            ours.stop()
            idle(ours, home, a)
        finally:
            for server in (ours, theirs):
                if server.process.poll() is None:
                    server.stop()


if __name__ == "__main__":
    main()
