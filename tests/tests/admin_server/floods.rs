//! Floods on each port of a server. The log stays short, and reports how many lines it omits.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};

use tests::certificates::Certificates;
use tests::ensemble::EnsembleBuilder;
use tests::{Flavour, HttpRequest, Port, RawSession, ServerBuilder, http_get, or_skip, wait_for};

use crate::site::LIMIT;

/// Maximum lines per minute from one place in the code.
const LINES_MAX: usize = 10;

/// Maximum election connections of callers that have not sent their id.
const SILENT_MAX: usize = 64;

/// Number of repetitions of each action.
const TIMES: usize = 60;

/// Connects, sends some bytes and waits for the end.
fn send(port: u16, bytes: &[u8]) {
    send_to(([127, 0, 0, 1], port).into(), bytes);
}

fn send_to(address: SocketAddr, bytes: &[u8]) {
    let Ok(mut stream) = TcpStream::connect(address) else {
        return;
    };
    let _ = stream.write_all(bytes);
    let _ = stream.shutdown(Shutdown::Write);
    let _ = stream.read_to_end(&mut Vec::new());
}

/// A frame of four bytes that is not a handshake, and the beginning of a TLS handshake.
const NO_HANDSHAKE: &[u8] = b"\0\0\0\x04\xff\xff\xff\xff";
const CLIENT_HELLO: &[u8] = b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03";

#[test]
fn strangers_cause_only_bounded_log_lines() {
    if Flavour::under_test() != Flavour::Zoarium {
        return;
    }
    let (admin, exporter) = (Port::take(), Port::take());
    let provider = "org.apache.zookeeper.metrics.prometheus.PrometheusMetricsProvider";
    let builder = ServerBuilder::new(Flavour::Zoarium)
        .setting("admin.enableServer", "true")
        .setting("admin.serverAddress", "127.0.0.1")
        .setting("admin.serverPort", &admin.number().to_string())
        .setting("metricsProvider.className", provider)
        .setting("metricsProvider.httpHost", "127.0.0.1")
        .setting("metricsProvider.httpPort", &exporter.number().to_string())
        .setting("maxClientCnxns", "20");
    let Some(mut server) = or_skip("a server", builder.start()) else {
        return;
    };
    let client: u16 = server.port();
    let lines_since = |before: usize| server.log().lines().count() - before;
    let begun = server.log().lines().count();
    let floods: [(&str, &dyn Fn()); 9] = [
        ("handshakes that do not decode", &|| {
            send(client, NO_HANDSHAKE);
        }),
        ("TLS at the client port", &|| send(client, CLIENT_HELLO)),
        ("four-letter words", &|| send(client, b"ruok")),
        ("sessions", &|| {
            let session = RawSession::open(&server.address(), None, 10_000);
            session.expect("a session").close().expect("its end");
        }),
        ("TLS at the admin port", &|| {
            send(admin.number(), CLIENT_HELLO);
        }),
        ("commands without credentials", &|| {
            http_get(admin.number(), "/commands/snapshot");
        }),
        ("TLS at the exporter", &|| {
            send(exporter.number(), CLIENT_HELLO);
        }),
        ("no HTTP at the exporter", &|| {
            send(exporter.number(), b"\0\x01\r\n\r\n");
        }),
        ("commands with credentials of nobody", &|| {
            made_up_snapshot(admin.number());
        }),
    ];
    for (what, once) in floods {
        let before = server.log().lines().count();
        (0..TIMES).for_each(|_| once());
        // Each action causes one or two lines. A session causes one at its beginning and one at its
        // end.
        assert!(
            lines_since(before) <= 2 * LINES_MAX,
            "{what}: {}",
            server.log()
        );
    }
    // More connections than one address may have.
    let before = server.log().lines().count();
    let crowd: Vec<_> = (0..3 * TIMES)
        .filter_map(|_| TcpStream::connect(("127.0.0.1", client)).ok())
        .collect();
    drop(crowd);
    send(client, NO_HANDSHAKE);
    assert!(lines_since(before) <= 2 * LINES_MAX, "{}", server.log());
    assert!(lines_since(begun) <= 12 * LINES_MAX, "{}", server.log());
    assert!(server.log().contains("cannot decode the handshake"));
    // Most lines were not followed by another line that could report them.
    assert!(server.terminate().success());
    let log = server.log();
    // Handshakes, TLS, words and sessions on the client port; TLS and credentials on the admin
    // port, and more.
    assert!(suppressed(&log) >= 7 * (TIMES - LINES_MAX), "{log}");
    assert!(log.contains("log lines dropped"), "{log}");
}

/// Calls an administrator command with an invented identity.
fn made_up_snapshot(port: u16) {
    let request = HttpRequest {
        method: "GET",
        target: "/commands/snapshot",
        headers: &[("Authorization", "digest nobody:knows")],
        body: None,
    };
    assert_eq!(request.send(port).expect("an answer").status, 403);
}

/// Returns the number of omitted lines that the log reports.
fn suppressed(log: &str) -> usize {
    let counts = log.split("left_out=").skip(1);
    let digits = counts.map(|text| text.split(|c: char| !c.is_ascii_digit()).next());
    let counts = digits.filter_map(|digits| digits?.parse::<usize>().ok());
    counts.sum()
}

#[test]
fn strangers_cause_only_bounded_log_lines_at_tls_and_health_ports() {
    if Flavour::under_test() != Flavour::Zoarium {
        return;
    }
    let certificates = Certificates::new();
    certificates.sign("server");
    let (secure, health) = (Port::take(), Port::take());
    let mut builder = ServerBuilder::new(Flavour::Zoarium)
        .setting("secureClientPort", &secure.number().to_string())
        .setting("zoarium.health.port", &health.number().to_string());
    for (key, value) in certificates.settings("ssl.", "server", "pem") {
        builder = builder.setting(&key, &value);
    }
    let Some(mut server) = or_skip("a server", builder.start()) else {
        return;
    };
    for port in [secure.number(), health.number()] {
        for bytes in [NO_HANDSHAKE, CLIENT_HELLO, b"ruok"] {
            let before = server.log().lines().count();
            (0..TIMES).for_each(|_| send(port, bytes));
            let lines = server.log().lines().count() - before;
            assert!(lines <= 2 * LINES_MAX, "{lines} lines: {}", server.log());
        }
    }
    assert!(server.terminate().success());
    let log = server.log();
    assert!(suppressed(&log) >= 2 * (TIMES - LINES_MAX), "{log}");
}

/// Bytes that are neither a hello nor a packet of a learner.
const NO_PEER: &[u8] = b"\xff\xff\xff\xff\xff\xff\x00\x00\x7f\xff\xff\xff";

#[test]
fn strangers_cause_only_bounded_log_lines_of_a_member() {
    let builder = EnsembleBuilder::new(&[Flavour::Zoarium; 3])
        .setting("observerMasterPort", "2191")
        .in_network(3);
    if Flavour::under_test() != Flavour::Zoarium {
        return;
    }
    let Some(mut ensemble) = or_skip("an ensemble", builder.start()) else {
        return;
    };
    let id = ensemble.wait_until_all_serve();
    let leader = ensemble.member(id);
    let follower = ensemble.member(if id == 1 { 2 } else { 1 });
    let of_observers = SocketAddr::new(follower.quorum_address().ip(), 2191);
    assert!(
        TcpStream::connect(of_observers).is_ok(),
        "an observer master"
    );
    let silent: Vec<TcpStream> = (0..=SILENT_MAX)
        .map(|_| TcpStream::connect(leader.election_address()).expect("a connection"))
        .collect();
    let own = silent.last().and_then(|stream| stream.local_addr().ok());
    let own = own.expect("a connected socket").ip();
    wait_for("a line that names the peer", LIMIT, || {
        let log = leader.log();
        let mut lines = log
            .lines()
            .filter(|line| line.contains("too many election connections"));
        lines
            .any(|line| line.contains(&format!("peer={own}:")))
            .then_some(())
    });
    drop(silent);
    let floods = [
        ("the quorum port", leader, leader.quorum_address()),
        ("the election port", leader, leader.election_address()),
        ("the observer master's port", follower, of_observers),
    ];
    for (port, member, address) in floods {
        for bytes in [NO_PEER, CLIENT_HELLO] {
            let before = member.log().lines().count();
            (0..TIMES).for_each(|_| send_to(address, bytes));
            let lines = member.log().lines().count() - before;
            assert!(
                lines <= 3 * LINES_MAX,
                "{lines} lines by {port}: {}",
                member.log()
            );
        }
    }
    ensemble.wait_until_all_serve();
    assert!(ensemble.member_mut(id).terminate().success());
    let log = ensemble.member(id).log();
    assert!(suppressed(&log) >= 2 * (TIMES - LINES_MAX), "{log}");
}
