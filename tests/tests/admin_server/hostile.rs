//! Malicious or slow callers, which do not affect the client port.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use tests::requests::get_data;
use tests::{Flavour, RawSession, http_get, wait_for};

use crate::site::Site;

const PATIENCE: Duration = Duration::from_secs(60);

fn connect(port: u16) -> TcpStream {
    let stream = TcpStream::connect(("127.0.0.1", port)).expect("connect");
    stream.set_read_timeout(Some(PATIENCE)).expect("a timeout");
    stream
}

/// Returns all bytes until the server ends the connection. A reset is an end as well.
fn read_all(mut stream: TcpStream) -> String {
    let mut bytes = Vec::new();
    let mut piece = [0; 4096];
    while let Ok(read) = stream.read(&mut piece) {
        if read == 0 {
            break;
        }
        bytes.extend_from_slice(&piece[..read]);
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[test]
fn an_endless_request_head_is_refused() {
    let Some(site) = Site::start::<&str>(&[]) else {
        return;
    };
    let mut stream = connect(site.port);
    stream
        .write_all(b"GET /commands/ruok HTTP/1.1\r\nHost: x\r\n")
        .expect("write");
    let line = format!("X-Long: {}\r\n", "a".repeat(1000));
    // Until the server closes the connection, because a head may have at most 8 KiB.
    for _ in 0..1000 {
        if stream.write_all(line.as_bytes()).is_err() {
            break;
        }
    }
    let answer = read_all(stream);
    assert!(
        answer.is_empty() || answer.starts_with("HTTP/1.1 431"),
        "{answer}"
    );
    assert_eq!(http_get(site.port, "/commands/ruok").status, 200);
}

/// The beginning of a TLS 1.2 handshake.
const CLIENT_HELLO: &[u8] = b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03";

#[test]
fn connections_with_tls_or_without_http_are_logged() {
    let Some(site) = Site::start::<&str>(&[]) else {
        return;
    };
    if Flavour::under_test() == Flavour::Apache {
        return;
    }
    for (bytes, reason) in [
        (CLIENT_HELLO, "uses TLS, but this port"),
        (b"\0\x01\x02\x03\r\n\r\n", "invalid HTTP"),
    ] {
        let mut stream = connect(site.port);
        let own = stream.local_addr().expect("an address");
        stream.write_all(bytes).expect("write");
        let answer = read_all(stream);
        assert!(!answer.contains("200"), "{answer}");
        let line = wait_for(reason, PATIENCE, || {
            let log = site.server.log();
            let peer = format!("peer={own} ");
            let mut lines = log.lines().filter(|line| line.contains("the admin server"));
            lines.find(|line| line.contains(&peer)).map(str::to_owned)
        });
        assert!(line.contains(reason), "{line}");
    }
    assert_eq!(http_get(site.port, "/commands/ruok").status, 200);
}

#[test]
fn silent_callers_are_cut_off() {
    let Some(site) = Site::start(&[("admin.idleTimeout", "300")]) else {
        return;
    };
    for sent in [
        "",
        "GET /comm",
        "GET /commands/ruok HTTP/1.1\r\nHost: x\r\n",
    ] {
        let mut stream = connect(site.port);
        stream.write_all(sent.as_bytes()).expect("write");
        let answer = read_all(stream);
        assert!(!answer.contains("200 OK"), "{sent}: {answer}");
    }
    // A caller that sends nothing more after its answer as well.
    let mut stream = connect(site.port);
    stream
        .write_all(b"GET /commands/ruok HTTP/1.1\r\nHost: x\r\n\r\n")
        .expect("write");
    assert!(read_all(stream).starts_with("HTTP/1.1 200"));
}

#[test]
fn an_aborted_upload_changes_nothing() {
    let settings = [
        ("admin.idleTimeout", "300"),
        ("admin.rateLimiterIntervalInMS", "0"),
    ];
    let Some(site) = Site::start(&settings) else {
        return;
    };
    let mut stream = connect(site.port);
    let head = "POST /commands/restore HTTP/1.1\r\nHost: x\r\nAuthorization: digest super:secret\r\n\
                Content-Length: 1000000000\r\n\r\nZKSN";
    stream.write_all(head.as_bytes()).expect("write");
    let answer = read_all(stream);
    assert!(!answer.contains("200 OK"), "{answer}");
    let left = std::fs::read_dir(site.server.data_dir().join("version-2")).expect("the data");
    let names: Vec<_> = left.map(|entry| entry.unwrap().file_name()).collect();
    assert!(
        names.iter().all(|name| name != "unfinished.restore"),
        "{names:?}"
    );
    let mut session = RawSession::open(&site.server.address(), None, 10_000).expect("a session");
    assert_eq!(
        session
            .call(&get_data("/zookeeper"))
            .expect("an answer")
            .err,
        0
    );
}

#[test]
fn no_path_leaves_the_commands() {
    let Some(site) = Site::start::<&str>(&[]) else {
        return;
    };
    for target in [
        "/commands/../../etc/passwd",
        "/commands/%2e%2e%2fetc%2fpasswd",
        "/../zoo.cfg",
        "/health/../commands",
        "/commandsruok",
    ] {
        let answer = http_get(site.port, target).text();
        let is_refused = answer.contains("Unknown command") || answer.contains("Not Found");
        assert!(is_refused, "{target}: {answer}");
    }
}

/// The maximum number of silent callers. Clients are served meanwhile.
#[test]
fn a_crowd_at_the_admin_port_does_not_affect_clients() {
    let Some(site) = Site::start::<&str>(&[]) else {
        return;
    };
    let crowd: Vec<TcpStream> = (0..100).map(|_| connect(site.port)).collect();
    let mut session = RawSession::open(&site.server.address(), None, 10_000).expect("a session");
    for _ in 0..100 {
        assert_eq!(session.call(&get_data("/")).expect("an answer").err, 0);
    }
    drop(crowd);
    assert_eq!(http_get(site.port, "/commands/ruok").status, 200);
}
