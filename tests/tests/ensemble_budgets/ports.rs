//! Who connects, and how often.

use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use jute::Encode;
use proto::learner::LearnerPacket;
use proto::packet::QuorumPacket;
use proto::request::Request;
use tests::ensemble::Ensemble;
use tests::requests::set_data;
use tests::{Missing, Port, wait_for};

use crate::attacker::attacker;
use crate::crowd::{OF_ADDRESS, connections, connections_to, push, sessions};
use crate::forwarded::with_observers_port;
use crate::{FOLLOWER, LEADER, started_withstands, three, withstands};

/// Time limit for each expected event.
const PATIENCE: Duration = Duration::from_secs(30);

/// Returns a start of three voters, one of which accepts observers on this port.
fn with_observers(port: &Port) -> impl FnOnce() -> Result<Ensemble, Missing> {
    let number = port.number();
    move || with_observers_port(&three(), number)
}

/// Checks that every member still serves a client.
fn all_are_served(ensemble: &Ensemble) {
    for id in ensemble.ids() {
        let write = Request::Write(set_data("/short", "", -1));
        let answer = attacker(ensemble, id).call(&write);
        assert_eq!(answer.expect("an answer").err, 0);
    }
}

/// Returns the first bytes of a learner's first packet.
fn half_a_packet() -> Vec<u8> {
    let zxid = proto::Zxid(1);
    let packet = QuorumPacket::from(LearnerPacket::Ack { zxid }).to_bytes();
    packet[..packet.len() / 2].to_vec()
}

/// These connections occupy their slots until their time limit.
#[test]
fn silent_and_incomplete_connections_are_bounded() {
    let port = Port::take();
    let attack = |ensemble: &Ensemble| {
        let half = half_a_packet();
        let mut held: Vec<Vec<TcpStream>> = Vec::new();
        let mut ports: Vec<SocketAddr> = vec![
            ensemble.member(LEADER).quorum_address(),
            ([127, 0, 0, 1], port.number()).into(),
        ];
        for id in [FOLLOWER, LEADER] {
            ports.push(ensemble.member(id).election_address());
            ports.push(ensemble.member(id).client_address());
        }
        for port in ports {
            held.push(connections_to(port, 1));
            let mut halves = connections_to(port, 1);
            push(&mut halves, &half);
            held.push(halves);
        }
        all_are_served(ensemble);
        drop(held);
    };
    let start = with_observers(&port);
    started_withstands("half-open connections", start, |_| {}, attack);
}

/// Opens more connections to this port than it has slots for learners. The connected member stays,
/// and can reconnect after the time limit of the others.
fn crowd_at_port_of_learners(ensemble: &Ensemble, at: SocketAddr, member: u64) {
    let half = half_a_packet();
    // 1,080 connections.
    let mut crowd = connections_to(at, 18);
    push(&mut crowd, &half);
    let log = || ensemble.member(member).log();
    wait_for("a learner that is refused", PATIENCE, || {
        log().contains("too many connections").then_some(())
    });
    all_are_served(ensemble);
}

#[test]
fn a_crowd_at_the_quorum_port_does_not_affect_learners() {
    let attack = |ensemble: &Ensemble| {
        let at = ensemble.member(LEADER).quorum_address();
        crowd_at_port_of_learners(ensemble, at, LEADER);
    };
    withstands("a crowd at the quorum port", |_| {}, attack);
}

#[test]
fn a_crowd_at_the_observer_port_does_not_affect_its_follower() {
    let port = Port::take();
    let attack = |ensemble: &Ensemble| {
        let at = ([127, 0, 0, 1], port.number()).into();
        crowd_at_port_of_learners(ensemble, at, FOLLOWER);
    };
    let start = with_observers(&port);
    started_withstands("a crowd at the port for observers", start, |_| {}, attack);
}

/// New sessions are transactions, and wait for a slot in the pipeline as other transactions do.
#[test]
fn a_flood_of_new_sessions_does_not_block_others() {
    let attack = |ensemble: &Ensemble| {
        std::thread::scope(|scope| {
            for id in ensemble.ids() {
                scope.spawn(move || {
                    for _ in 0..5 {
                        drop(sessions(ensemble, id, 1));
                    }
                });
            }
        });
        all_are_served(ensemble);
    };
    withstands("a flood of sessions", |_| {}, attack);
}

/// Log line of a member that does not have any open files left for clients.
const NO_FILES: &str = "no file descriptors left";

/// Clients may use all open files that the system allows the process, except those that the server
/// needs.
#[test]
fn clients_leave_enough_open_files_for_members() {
    let start = || {
        // With this setting, new logs and snapshots are created all the time.
        let mut ensemble = three().setting("snapCount", "100").prepare()?;
        ensemble.start_after(FOLLOWER, "ulimit -n 160");
        ensemble.start(LEADER);
        assert_eq!(ensemble.wait_until_all_serve(), LEADER);
        ensemble.start(2);
        assert_eq!(ensemble.wait_until_all_serve(), LEADER);
        Ok(ensemble)
    };
    let attack = |ensemble: &Ensemble| {
        let member = ensemble.member(FOLLOWER);
        let crowd = connections(ensemble, FOLLOWER, 4);
        assert_eq!(crowd.len(), 4 * OF_ADDRESS);
        let times_told = || member.log().matches(NO_FILES).count();
        wait_for("a word on open files", PATIENCE, || {
            (times_told() > 0).then_some(())
        });
        let newest = || newest_log(ensemble);
        for _ in 0..3 {
            let before = newest();
            wait_for("another log", PATIENCE, || {
                (newest() > before).then_some(())
            });
        }
        assert_eq!(times_told(), 1);
        drop(crowd);
        wait_for("a new connection", PATIENCE, || {
            member.word("srvr").filter(|answer| !answer.is_empty())
        });
        all_are_served(ensemble);
    };
    started_withstands("open files", start, |_| {}, attack);
}

/// Returns the first zxid of the follower's newest log.
fn newest_log(ensemble: &Ensemble) -> u64 {
    let dir = ensemble.member(FOLLOWER).data_dir().join("version-2");
    let names = std::fs::read_dir(dir).expect("the logs");
    let begins = names.filter_map(|entry| {
        let name = entry.expect("a file").file_name().into_string().ok()?;
        u64::from_str_radix(name.strip_prefix("log.")?, 16).ok()
    });
    begins.max().expect("a log")
}

/// A few answers are built at a time. Unread answers share the memory for long replies.
#[test]
fn unread_answers_to_four_letter_words_share_a_bound() {
    const LONG_PATH: usize = 100_000;
    const PATHS: usize = 25;
    let attack = |ensemble: &Ensemble| {
        let member = ensemble.member(FOLLOWER);
        let mut watching = attacker(ensemble, FOLLOWER);
        for number in 0..PATHS {
            let path = format!("/{number}{}", "n".repeat(LONG_PATH));
            let answer = watching.call(&tests::requests::exists_watched(&path));
            let code = proto::ErrorCode::from_i32(answer.expect("an answer").err);
            assert_eq!(code, Some(proto::ErrorCode::NoNode));
        }
        let mut silent = crate::crowd::slow_readers(member.client_address(), 1);
        // The log has lines for only some of the words. Each query of the metric is also a word.
        let received = || member.metric("packets_received")?.parse::<usize>().ok();
        let before = received().expect("a figure");
        push(&mut silent, b"wchp");
        let mut looks = 0;
        wait_for("words that are asked", PATIENCE, || {
            looks += 1;
            (received()? >= before + looks + OF_ADDRESS).then_some(())
        });
        for _ in 0..5 {
            assert!(member.word("srvr").is_some_and(|answer| !answer.is_empty()));
        }
        drop(silent);
        let whole = || {
            member
                .word("wchp")
                .filter(|answer| answer.len() > LONG_PATH * PATHS)
        };
        wait_for("an answer to one who reads", PATIENCE, whole);
    };
    withstands("four-letter words", |_| {}, attack);
}
