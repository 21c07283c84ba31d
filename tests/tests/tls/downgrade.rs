//! A client that requests an older protocol, or a second handshake on the same connection, is
//! refused with a log line. So is an attacker in the middle who downgrades others.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::Command;
use std::thread::JoinHandle;
use std::time::Duration;

use client::tls::Connector;
use tests::Flavour::Zoarium;
use tests::certificates::Certificates;
use tests::{Bystander, RawSession, find_tool, handshake, or_skip, wait_for};

use crate::flawed::refusal;
use crate::members::{builder, signed};
use crate::{started, unified};

const LIMIT: Duration = Duration::from_secs(30);
const BOTH: &str = "TLSv1.3,TLSv1.2";

/// Runs openssl's client with this input, and returns its output.
fn openssl(address: SocketAddr, options: &str, input: &str) -> Option<String> {
    let openssl = or_skip("openssl", find_tool("openssl"))?;
    let script = format!(
        "(printf '{input}'; sleep 1) | {} s_client -connect {address} {options} 2>&1",
        openssl.display()
    );
    let output = Command::new("sh").args(["-c", &script]).output();
    let output = output.expect("a shell");
    Some(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Requests another handshake on the same connection (`R`), and is disconnected.
fn renegotiates(address: SocketAddr, options: &str) {
    let options = format!("-tls1_2 {options}");
    let said = openssl(address, &options, "R\\n").expect("openssl");
    let (_, behind) = said.split_once("RENEGOTIATING").expect("an attempt");
    assert!(behind.contains("error:"), "{said}");
}

/// Waits for a log line about this, with the peer and the port.
fn tells_of_renegotiation(log: impl Fn() -> String, at: SocketAddr) {
    let at = format!("at={at}");
    wait_for("a line", LIMIT, || {
        let log = log();
        let mut lines = log.lines().filter(|line| line.contains("renegotiation"));
        let line = lines.find(|line| line.contains(&at))?;
        assert!(line.contains("peer=127.0.0.1:"), "{line}");
        Some(())
    });
}

#[test]
fn clients_are_not_downgraded_or_renegotiated() {
    let certificates = Certificates::new();
    for name in ["server", "ann"] {
        certificates.sign(name);
    }
    let builder = unified(&certificates, "pem").setting("ssl.clientAuth", "none");
    let newest = started(&builder);
    let newest_at = newest.address().parse().expect("an address");
    let Some(said) = openssl(newest_at, "-tls1_2", "") else {
        return;
    };
    assert!(said.contains("alert protocol version"), "{said}");
    let line = refusal(&newest, "TLS handshake failed: peer is incompatible");
    assert!(line.contains("peer=127.0.0.1:"), "{line}");

    let server = started(&builder.setting("ssl.enabledProtocols", BOTH));
    let at = server.address().parse().expect("an address");
    let bystander = Bystander::start(&server.address(), certificates.connector(Some("ann")));
    let oldest = openssl(at, "-tls1_1 -cipher ALL@SECLEVEL=0", "").expect("openssl");
    assert!(oldest.contains("SSL alert number"), "{oldest}");
    refusal(&server, "TLS handshake failed: peer is incompatible");
    renegotiates(at, "");
    tells_of_renegotiation(|| server.log(), at);
    bystander.finish();
}

#[test]
fn members_are_not_downgraded_or_renegotiated() {
    let certificates = signed();
    let builder = builder(&certificates, &[Zoarium; 3], "pem")
        .setting("sslQuorum", "true")
        .setting("ssl.quorum.enabledProtocols", BOTH);
    let Some(ensemble) = or_skip("three of ours", builder.start()) else {
        return;
    };
    let leader = ensemble.wait_until_all_serve();
    let member = ensemble.member(leader);
    let bystander = Bystander::start(&member.client_address().to_string(), Connector::plain());
    let own = certificates.path("member.pem").display().to_string();
    for (of, at) in [
        ("elections", member.election_address()),
        ("learners", member.quorum_address()),
    ] {
        let Some(oldest) = openssl(at, "-tls1_1 -cipher ALL@SECLEVEL=0", "") else {
            return;
        };
        assert!(oldest.contains("SSL alert number"), "{oldest}");
        wait_for("a line", LIMIT, || {
            let log = member.log();
            let mut lines = log.lines();
            let of = format!("of=\"{of}\"");
            let line = lines.find(|line| line.contains(&of) && line.contains("incompatible"))?;
            line.contains("peer=127.0.0.1:").then_some(())
        });
        renegotiates(at, &format!("-cert {own} -key {own}"));
        tells_of_renegotiation(|| member.log(), at);
    }
    bystander.finish();
    assert_eq!(ensemble.leaders(), [leader]);
}

/// The extension by which a client offers TLS 1.3 (RFC 8446, 4.2.1), with its length and the length
/// of the list.
const VERSIONS: &[u8] = b"\x00\x2b\x00\x05\x04";

/// Forwards one connection, and removes TLS 1.3 from the client's hello.
fn in_the_middle(server: SocketAddr) -> (SocketAddr, JoinHandle<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let here = listener.local_addr().expect("a port");
    let handing_on = std::thread::spawn(move || {
        let (mut client, _) = listener.accept().expect("a client");
        let mut server = TcpStream::connect(server).expect("a server");
        let mut head = [0; 5];
        client.read_exact(&mut head).expect("a greeting");
        let mut body = vec![0; usize::from(u16::from_be_bytes([head[3], head[4]]))];
        client.read_exact(&mut body).expect("a greeting");
        let mut windows = body.windows(VERSIONS.len());
        let at = windows.position(|part| part == VERSIONS);
        // An unknown version.
        body[at.expect("TLS 1.3 and 1.2")] = 0xfe;
        server.write_all(&head).expect("a server");
        server.write_all(&body).expect("a server");
        let (mut from, mut to) = (
            server.try_clone().expect("a stream"),
            client.try_clone().expect("a stream"),
        );
        let back = std::thread::spawn(move || {
            std::io::copy(&mut from, &mut to).ok();
            to.shutdown(std::net::Shutdown::Both).ok();
        });
        std::io::copy(&mut client, &mut server).ok();
        server.shutdown(std::net::Shutdown::Both).ok();
        back.join().expect("a copy");
    });
    (here, handing_on)
}

/// The server then marks its reply, and the client detects the downgrade by this mark.
#[test]
fn a_man_in_the_middle_cannot_downgrade_the_protocol() {
    let certificates = Certificates::new();
    for name in ["server", "ann"] {
        certificates.sign(name);
    }
    let server = started(&unified(&certificates, "pem").setting("ssl.enabledProtocols", BOTH));
    let bystander = Bystander::start(&server.address(), certificates.connector(Some("ann")));
    let (here, handing_on) = in_the_middle(server.address().parse().expect("an address"));
    let handshake = handshake(10_000).with_connector(certificates.connector(Some("ann")));
    let refused = RawSession::with_handshake(&here.to_string(), &handshake);
    let text = refused
        .expect_err("a connection that was tampered with")
        .to_string();
    assert!(text.contains("AttemptedDowngrade"), "{text}");
    handing_on.join().expect("somebody in the middle");
    let line = refusal(&server, "received fatal alert");
    assert!(line.contains("peer=127.0.0.1:"), "{line}");
    bystander.finish();
}
