//! Two thousand connections to each kind of port that begin a TLS handshake and then stay silent.
//! Connected clients continue, and new ones are accepted.

use std::io::Write;
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use client::tls::Connector;
use tests::Flavour::Zoarium;
use tests::certificates::Certificates;
use tests::{Bystander, HttpRequest, Port, RawSession, ServerBuilder, handshake, or_skip};

use crate::members::{builder, signed};
use crate::started;

const CROWD: usize = 2000;
/// Number of connections between two new clients.
const BETWEEN_NEWCOMERS: usize = 200;
/// A generous limit, because other tests run at the same time. A handshake that stops is dropped
/// after ten seconds.
const NEWCOMER_MAX: Duration = Duration::from_secs(5);

/// The beginning of a TLS 1.2 handshake.
const CLIENT_HELLO: &[u8] = b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03";

/// Opens all connections and keeps them open. Calls `newcomer` at intervals.
pub(crate) fn crowd(address: SocketAddr, mut newcomer: impl FnMut()) -> Vec<TcpStream> {
    let mut stuck = Vec::with_capacity(CROWD);
    for number in 1..=CROWD {
        let mut stream = TcpStream::connect(address).expect("a connection");
        // The oldest connections have already been dropped.
        stream.write_all(CLIENT_HELLO).ok();
        stuck.push(stream);
        if number % BETWEEN_NEWCOMERS == 0 {
            let begun = Instant::now();
            newcomer();
            let took = begun.elapsed();
            assert!(
                took < NEWCOMER_MAX,
                "a newcomer behind {number} took {took:?}"
            );
        }
    }
    stuck
}

#[test]
fn a_crowd_at_the_election_and_quorum_ports_does_not_block_members() {
    let certificates = signed();
    let builder = builder(&certificates, &[Zoarium; 3], "pem").setting("sslQuorum", "true");
    let Some(mut ensemble) = or_skip("three of ours", builder.start()) else {
        return;
    };
    let leader = ensemble.wait_until_all_serve();
    let addresses = ensemble.addresses(&ensemble.ids());
    let start = |address: &String| Bystander::start(address, Connector::plain());
    let bystanders: Vec<Bystander> = addresses.iter().map(start).collect();
    let member = ensemble.member(leader);
    let ports = [member.election_address(), member.quorum_address()];
    let write = || {
        let mut session = RawSession::open(&addresses[0], None, 10_000).expect("a session");
        assert_eq!(session.sync().expect("an answer").err, 0);
    };
    let stuck = ports.map(|port| crowd(port, write));
    bystanders.into_iter().for_each(Bystander::finish);
    assert_eq!(ensemble.leaders(), [leader]);
    // Members can connect to both ports, even while more connections arrive.
    let mut ids = ensemble.ids().into_iter();
    let follower = ids.find(|id| *id != leader).expect("a follower");
    ensemble.member_mut(follower).kill();
    let more = ports.map(|port| crowd(port, || {}));
    ensemble.start(follower);
    assert_eq!(ensemble.wait_until_all_serve(), leader);
    drop((stuck, more));
}

#[test]
fn a_crowd_at_the_secure_client_port_does_not_block_clients() {
    let certificates = Certificates::new();
    certificates.sign("server");
    certificates.sign("ann");
    let port = Port::take();
    let mut builder = ServerBuilder::new(Zoarium)
        .setting("secureClientPort", &port.number().to_string())
        .setting("secureClientPortAddress", "127.0.0.1");
    for (key, value) in certificates.settings("ssl.", "server", "pem") {
        builder = builder.setting(&key, &value);
    }
    let server = started(&builder);
    let secure = SocketAddr::from(([127, 0, 0, 1], port.number()));
    let connector = certificates.connector(Some("ann"));
    let plain = Bystander::start(&server.address(), Connector::plain());
    let tls = Bystander::start(&secure.to_string(), connector.clone());
    let handshake = handshake(10_000).with_connector(connector);
    let stuck = crowd(secure, || {
        RawSession::with_handshake(&secure.to_string(), &handshake).expect("a session");
    });
    plain.finish();
    tls.finish();
    drop(stuck);
}

#[test]
fn a_crowd_at_the_admin_port_does_not_block_callers() {
    let certificates = Certificates::new();
    certificates.sign("server");
    let port = Port::take();
    let mut builder = ServerBuilder::new(Zoarium)
        .setting("admin.enableServer", "true")
        .setting("admin.serverAddress", "127.0.0.1")
        .setting("admin.serverPort", &port.number().to_string())
        .setting("admin.forceHttps", "true");
    for (key, value) in certificates.settings("ssl.quorum.", "server", "pem") {
        builder = builder.setting(&key, &value);
    }
    let server = started(&builder);
    let bystander = Bystander::start(&server.address(), Connector::plain());
    let connector = certificates.connector(None);
    let admin = SocketAddr::from(([127, 0, 0, 1], port.number()));
    let stuck = crowd(admin, || {
        let request = HttpRequest {
            method: "GET",
            target: "/commands/ruok",
            headers: &[],
            body: None,
        };
        let answer = request.send_by_tls(port.number(), &connector);
        assert_eq!(answer.expect("an answer").status, 200);
    });
    bystander.finish();
    drop(stuck);
}
