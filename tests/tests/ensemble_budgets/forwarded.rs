//! Requests that learners forward for many clients, each of which stays within its own limit.

use std::collections::HashMap;
use std::io::Write;
use std::net::SocketAddr;

use jute::{Decode, Encode, Reader};
use proto::leader::LeaderPacket;
use proto::packet::QuorumPacket;
use proto::request::Request;
use proto::txn::{Txn, TxnRecord};
use proto::{ErrorCode, SessionId};
use tests::ensemble::{Ensemble, EnsembleBuilder};
use tests::requests::set_data;
use tests::{Flavour, Missing, Port};

use crate::attacker::{LONG, create_long};
use crate::crowd::{frame_of, sessions, take_frame};
use crate::learner::{RawObserver, STRANGER};
use crate::{FOLLOWER, LEADER, started_withstands, started_withstands_within, three, withstands};

/// Number of concurrent requests.
const REQUESTS: i32 = 150;
/// Number of their sessions.
const SESSIONS: i64 = 10;
/// The observer, if the ensemble has one.
const OBSERVER: u64 = 4;

fn long_write() -> Request {
    Request::Write(set_data("/long", vec![b'x'; LONG], -1))
}

/// At a Zoarium learner, the clients wait for each other.
#[test]
fn long_writes_through_several_learners_wait_for_each_other() {
    let builder = three().observers(&[Flavour::Zoarium]);
    let attack = |ensemble: &Ensemble| {
        let mut sessions = [FOLLOWER, OBSERVER].map(|id| sessions(ensemble, id, 1));
        let frame = frame_of(1, &long_write());
        std::thread::scope(|scope| {
            for session in sessions.iter_mut().flatten() {
                scope.spawn(|| {
                    session.write_all(&frame).expect("a write");
                    take_frame(session).expect("an answer");
                });
            }
        });
    };
    let start = || builder.start_led_by_last_voter();
    started_withstands("long writes through learners", start, create_long, attack);
}

/// Sends all requests on an observer's connection without waiting. Each request is executed, or
/// refused because it exceeds the limit. The replies of each session are in the order of its
/// requests.
fn flood(ensemble: &Ensemble, port: SocketAddr, sid: i64, requests: i32) {
    let mut observer = RawObserver::join_as(ensemble, port, sid);
    for number in 1..=SESSIONS {
        observer.session = SessionId(sid << 56 | number);
        observer.open_session();
    }
    let packets: Vec<_> = (1..=requests)
        .map(|cxid| {
            let number = i64::from(cxid) % SESSIONS + 1;
            observer.session = SessionId(sid << 56 | number);
            let packet = observer.request(cxid, &long_write(), Vec::new());
            QuorumPacket::from(packet).to_bytes()
        })
        .collect();
    let output = observer.output.clone();
    let mut answers = HashMap::new();
    std::thread::scope(|scope| {
        scope.spawn(move || {
            for packet in packets {
                let mut output = output.lock().expect("no other sender has failed");
                output.write_all(&packet).expect("the packet is taken");
            }
        });
        for _ in 0..requests {
            let answer = |packet: &_| answer_of(packet).filter(|answer| answer.0.0 >> 56 == sid);
            let packet = observer.wait_for(|packet| answer(packet).is_some());
            let (session, cxid, code) = answer(&packet).expect("it was looked for");
            assert!(matches!(code, ErrorCode::Ok | ErrorCode::ThrottledOp));
            let of_session: &mut Vec<_> = answers.entry(session).or_default();
            of_session.push((cxid, code));
        }
    });
    let done = answers.values().flatten();
    let done = done.filter(|(_, code)| *code == ErrorCode::Ok).count();
    assert!(done >= 1, "only {done} of {requests} were carried out");
    eprintln!("{done} of {requests} were carried out");
    for cxids in answers.values() {
        assert!(cxids.is_sorted_by_key(|(cxid, _)| *cxid), "out of order");
    }
}

/// Returns the session, the cxid and the result of a request, if this packet contains them.
fn answer_of(packet: &LeaderPacket) -> Option<(SessionId, i32, ErrorCode)> {
    let LeaderPacket::Inform { txn, .. } = packet else {
        return None;
    };
    let record = TxnRecord::decode(&mut Reader::new(txn.clone())).expect("a transaction");
    let (session, cxid) = (record.header.session, record.header.cxid);
    let code = match record.txn {
        Txn::Error { code } => ErrorCode::from_i32(code).expect("a known error"),
        _ => ErrorCode::Ok,
    };
    (cxid > 0).then_some((session, cxid, code))
}

/// A learner of another implementation forwards all requests of its clients.
#[test]
fn long_requests_of_a_learner_without_a_bound_do_not_cost_the_quorum() {
    let attack = |ensemble: &Ensemble| {
        let port = ensemble.member(LEADER).quorum_address();
        flood(ensemble, port, STRANGER, REQUESTS);
    };
    withstands("long requests of a learner", create_long, attack);
}

#[test]
fn several_learners_without_a_bound_do_not_cost_the_quorum() {
    /// The leader sends each write to the three learners, which read slowly. The unsent packets
    /// also take memory at the leader: up to 32 MiB for each learner. Measured: 48 to 65 MiB in
    /// total.
    const GROWTH_MAX: u64 = 96 << 20;
    let attack = |ensemble: &Ensemble| {
        let port = ensemble.member(LEADER).quorum_address();
        std::thread::scope(|scope| {
            for sid in STRANGER..STRANGER + 3 {
                scope.spawn(move || flood(ensemble, port, sid, REQUESTS / 3));
            }
        });
    };
    let what = "long requests of several learners";
    let start = || three().start_led_by_last_voter();
    started_withstands_within(GROWTH_MAX, what, start, create_long, attack);
}

/// The same load through a follower. The follower must not lose its leader.
#[test]
fn long_requests_of_an_observer_do_not_cost_its_follower_the_leader() {
    let port = Port::take();
    let start = || with_observers_port(&three(), port.number());
    let attack = |ensemble: &Ensemble| {
        let port = ([127, 0, 0, 1], port.number()).into();
        flood(ensemble, port, STRANGER, REQUESTS);
    };
    started_withstands("long requests of an observer", start, create_long, attack);
}

/// Starts three voters of which the last leads. One of the others accepts observers on this port.
pub(crate) fn with_observers_port(
    builder: &EnsembleBuilder,
    port: u16,
) -> Result<Ensemble, Missing> {
    let mut ensemble = builder.prepare()?;
    let file = ensemble.member(FOLLOWER).config_file();
    let text = std::fs::read_to_string(&file).expect("read zoo.cfg");
    let text = format!("{text}\nobserverMasterPort={port}\n");
    std::fs::write(file, text).expect("write zoo.cfg");
    for id in [FOLLOWER, LEADER] {
        ensemble.start(id);
    }
    assert_eq!(ensemble.wait_until_all_serve(), LEADER);
    ensemble.start(2);
    assert_eq!(ensemble.wait_until_all_serve(), LEADER);
    Ok(ensemble)
}
