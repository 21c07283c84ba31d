//! Tests of a leader that does not listen yet, or only on one of its addresses.

use std::net::{SocketAddr, TcpListener};
use std::time::{Duration, Instant};

use config::members::HostPort;
use replica::LeaderEvent;

use super::support::{TestMember, host_port, listen_on, of_leader, open, raw_leader};
use crate::peer::PeerEvent;

/// Returns an address at which nothing listens.
fn closed_port_address() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.local_addr().unwrap()
}

fn unreachable(site: &TestMember, wanted: u64) -> String {
    let PeerEvent { input, reason, .. } = site.at_learner();
    let told = of_leader(input);
    assert!(
        matches!(told, (attempt, LeaderEvent::Closed) if attempt == wanted),
        "{told:?}"
    );
    reason.unwrap().to_string()
}

#[test]
fn an_unreachable_leader_is_dialled_a_few_times() {
    let mut site = TestMember::new();
    site.dial.retry_delay = Duration::from_millis(30);
    let begun = Instant::now();
    let address = closed_port_address();
    let _connection = site.dial(4, &[address]);
    let error = unreachable(&site, 4);
    assert!(error.contains(&address.to_string()), "{error}");
    // Five attempts have four pauses between them.
    assert!(begun.elapsed() >= Duration::from_millis(4 * 30));
    let _nowhere = site.dial(5, &[]);
    assert!(unreachable(&site, 5).contains("does not have an address"));
}

#[test]
fn the_time_for_all_tries_is_limited() {
    let mut site = TestMember::new();
    site.dial.retry_delay = Duration::from_secs(3600);
    site.dial.time_limit = Duration::from_millis(50);
    let _connection = site.dial(1, &[closed_port_address()]);
    unreachable(&site, 1);
}

#[test]
fn a_leader_that_begins_to_listen_later_is_reached() {
    let mut site = TestMember::new();
    site.dial.retry_delay = Duration::from_millis(200);
    let address = closed_port_address();
    let _connection = site.dial(1, &[address]);
    let port = site.port();
    open(&port, listen_on("127.0.0.1", address.port()));
    site.leader_connected();
    site.learner_connected();
}

#[test]
fn the_first_address_that_answers_wins() {
    let mut site = TestMember::new();
    site.dial.retry_delay = Duration::from_secs(3600);
    let (listener, address) = raw_leader();
    let _connection = site.dial(1, &[closed_port_address(), address, closed_port_address()]);
    let _accepted = listener.accept().unwrap();
    site.leader_connected();
}

#[test]
fn a_name_is_resolved_and_a_wrong_name_is_unreachable() {
    let mut site = TestMember::new();
    let (listener, address) = raw_leader();
    let named = |host: &str| HostPort {
        host: host.to_owned(),
        ..host_port(address)
    };
    let _connection = site
        .dialer()
        .dial(1, vec![named("localhost")], Duration::ZERO);
    let _accepted = listener.accept().unwrap();
    site.leader_connected();
    site.dial.time_limit = Duration::from_secs(5);
    let _wrong = site
        .dialer()
        .dial(2, vec![named("not a name")], Duration::ZERO);
    assert!(unreachable(&site, 2).contains("not a name"));
}

#[test]
fn an_abandoned_attempt_reports_nothing() {
    let mut site = TestMember::new();
    site.dial.retry_delay = Duration::from_millis(10);
    drop(site.dial(1, &[closed_port_address()]));
    let _second = site.dial(2, &[closed_port_address()]);
    unreachable(&site, 2);
}

#[test]
fn the_first_dial_follows_a_pause() {
    let site = TestMember::new();
    let (leader, address) = raw_leader();
    let begun = Instant::now();
    let pause = Duration::from_millis(150);
    let _connection = site.dialer().dial(1, vec![host_port(address)], pause);
    drop(leader.accept().unwrap());
    assert!(begun.elapsed() >= pause);
}
