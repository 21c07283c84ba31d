//! The port at which followers accept observers (`observerMasterPort`): it uses TLS like the quorum
//! port, and accepts nothing else.

use std::net::SocketAddr;

use client::tls::Connector;
use tests::Flavour::Zoarium;
use tests::certificates::Flaw;
use tests::ensemble::{Ensemble, EnsembleBuilder};
use tests::{Bystander, or_skip, wait_for};

use crate::crowds::crowd;
use crate::flawed_peers::{FLAWS, flawed, is_refused, strict};
use crate::members::{LIMIT, builder, closes, signed};

const PORT: u16 = 2191;
const OBSERVER: u64 = 4;

/// Returns the follower of the observer, and the address of its port for observers.
fn master(ensemble: &Ensemble) -> (u64, SocketAddr) {
    let id = wait_for("an observer behind a follower", LIMIT, || {
        let master = ensemble.member(OBSERVER).metric("observer_master_id")?;
        let master: u64 = master.parse().ok()?;
        let count = ensemble.member(master).metric("synced_observers")?;
        (count == "1").then_some(master)
    });
    let ip = ensemble.member(id).quorum_address().ip();
    (id, SocketAddr::new(ip, PORT))
}

/// Sends these bytes to the port. The refusal is logged with the peer, and the observer stays
/// connected.
fn refuses(builder: EnsembleBuilder, bytes: &[u8], reason: &str) {
    let builder = builder
        .observers(&[Zoarium])
        .setting("observerMasterPort", &PORT.to_string())
        .in_network(4);
    let Some(ensemble) = or_skip("network namespaces", builder.start()) else {
        return;
    };
    ensemble.wait_until_all_serve();
    let (id, address) = master(&ensemble);
    closes(address, bytes);
    wait_for(reason, LIMIT, || {
        let log = ensemble.member(id).log();
        let mut lines = log.lines().filter(|line| line.contains(reason));
        lines.any(|line| line.contains("peer=")).then_some(())
    });
    assert_eq!(master(&ensemble).0, id);
    let mut session = ensemble.super_session(OBSERVER).expect("a session");
    assert_eq!(session.sync().expect("an answer").err, 0);
}

#[test]
fn an_observer_port_under_tls_refuses_plain_connections() {
    let certificates = signed();
    let builder = builder(&certificates, &[Zoarium; 3], "pem").setting("sslQuorum", "true");
    refuses(builder, b"\x00\x00\x00\x0b", "the peer does not use TLS");
}

/// Hosts are not checked, because the members have separate addresses in this test.
#[test]
fn an_observer_port_under_tls_refuses_flawed_certificates_and_bounds_crowds() {
    let certificates = flawed();
    let builder = strict(&certificates)
        .setting("fips-mode", "true")
        .observers(&[Zoarium])
        .setting("observerMasterPort", &PORT.to_string())
        .in_network(4);
    let Some(mut ensemble) = or_skip("network namespaces", builder.start()) else {
        return;
    };
    let leader = ensemble.wait_until_all_serve();
    let (id, address) = master(&ensemble);
    let of_observer = ensemble.member(OBSERVER).client_address().to_string();
    let bystander = Bystander::start(&of_observer, Connector::plain());
    for (name, flaw, reason) in FLAWS {
        if flaw != Some(Flaw::OtherHost) {
            let connector = certificates.connector(Some(name));
            is_refused(&ensemble, id, ("learners", address), &connector, reason);
        }
    }
    let stuck = crowd(address, || {});
    bystander.finish();
    assert_eq!(master(&ensemble).0, id);
    ensemble.member_mut(OBSERVER).kill();
    ensemble.start(OBSERVER);
    assert_eq!(ensemble.wait_until_all_serve(), leader);
    drop(stuck);
}

#[test]
fn an_observer_port_without_tls_refuses_tls() {
    let hello = b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\x00\x00\x00\x00\x00\x00\x00\x00\x00";
    refuses(
        EnsembleBuilder::new(&[Zoarium; 3]),
        hello,
        "uses TLS, but this port",
    );
}
