//! Crowds at the admin port: probes, commands and clients are answered all the same.

use std::io::Write;
use std::net::TcpStream;

use proto::request::{PathWatchRequest, ReadRequest, Request};
use tests::requests::get_data;
use tests::{Flavour, Port, RawSession, http_get};

use crate::site::Site;

/// Connections that are there at a time. The test must not need more files than most systems allow.
const CROWD: usize = 350;

fn crowd(port: u16, sent: &str) -> Vec<TcpStream> {
    let connect = |_| {
        let mut stream = TcpStream::connect(("127.0.0.1", port)).expect("connect");
        // It may have had to give way already.
        let _ = stream.write_all(sent.as_bytes());
        stream
    };
    (0..CROWD).map(connect).collect()
}

/// Connections that say nothing, or never end what they say, hold no slot, and the port for probes has none of them.
#[test]
fn silent_connections_hold_up_neither_probes_nor_commands_nor_clients() {
    if Flavour::under_test() != Flavour::Zoarium {
        return;
    }
    let health = Port::take();
    let health_port = health.number().to_string();
    // Nothing of this may hang on silence that is cut off in time.
    let settings = [
        ("admin.idleTimeout", "600000"),
        ("zoarium.health.port", &health_port),
    ];
    let Some(site) = Site::start(&settings) else {
        return;
    };
    let mut session = RawSession::open(&site.server.address(), None, 10_000).expect("a session");
    for sent in ["", "GET /commands/ruok HTTP/1.1\r\nHost: 127.0.0.1\r\n"] {
        let crowd = crowd(site.port, sent);
        assert_eq!(http_get(site.port, "/health/live").status, 200);
        assert_eq!(http_get(site.port, "/commands/ruok").status, 200);
        for target in ["/health/live", "/health/ready"] {
            assert_eq!(http_get(health.number(), target).status, 200);
        }
        assert_eq!(session.call(&get_data("/")).expect("an answer").err, 0);
        drop(crowd);
    }
    assert_eq!(http_get(health.number(), "/commands/ruok").status, 404);
    let crowd = crowd(health.number(), "");
    assert_eq!(http_get(health.number(), "/health/live").status, 200);
    drop(crowd);
}

/// Watches of one session, with paths that make the listing of them some MiB long.
const WATCHES: usize = 20_000;

/// Listings that nobody reads.
const LISTINGS: usize = 40;

fn resident_kib(pid: u32) -> usize {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).expect("its status");
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let text = line.and_then(|line| line.split_whitespace().next());
    text.and_then(|text| text.parse().ok()).expect("a number")
}

/// One listing is made at a time, and the next one when there is room for it.
#[test]
fn listings_that_nobody_reads_take_no_memory_and_hold_up_nobody() {
    if Flavour::under_test() != Flavour::Zoarium {
        return;
    }
    let Some(site) = Site::start::<&str>(&[]) else {
        return;
    };
    let mut session = RawSession::open(&site.server.address(), None, 60_000).expect("a session");
    let path = |number: usize| format!("/{}-{number}", "watched".repeat(40));
    for chunk in (0..WATCHES).collect::<Vec<_>>().chunks(500) {
        for number in chunk {
            let watch = PathWatchRequest {
                path: Some(path(*number).into()),
                watch: true,
            };
            session.put(&Request::Read(ReadRequest::Exists(watch)));
        }
        session.flush().expect("sent");
        for _ in chunk {
            session.take().expect("an answer");
        }
    }
    let pid = site.server.process_id().expect("it runs");
    // Once, so that what a listing takes anyway is there before.
    let listing = http_get(site.port, "/commands/watches_by_path").text();
    assert!(
        listing.contains(&path(WATCHES - 1)),
        "{} bytes",
        listing.len()
    );
    let (before, mut most) = (resident_kib(pid), 0);
    let request = "GET /commands/watches_by_path HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n";
    let unread: Vec<TcpStream> = (0..LISTINGS)
        .map(|_| {
            let mut stream = TcpStream::connect(("127.0.0.1", site.port)).expect("connect");
            stream.write_all(request.as_bytes()).expect("write");
            stream
        })
        .collect();
    for _ in 0..100 {
        assert_eq!(http_get(site.port, "/health/live").status, 200);
        assert_eq!(http_get(site.port, "/commands/watch_summary").status, 200);
        assert_eq!(session.call(&get_data("/")).expect("an answer").err, 0);
        most = most.max(resident_kib(pid));
    }
    let grown = most.saturating_sub(before) >> 10;
    assert!(
        grown <= 64,
        "{grown} MiB more for {LISTINGS} listings of {} bytes",
        listing.len()
    );
    drop(unread);
}
