//! Learners, and strangers that connect to the ports of members.

use std::net::{SocketAddr, TcpStream};

use proto::learner::LearnerPacket;
use proto::request::Request;
use proto::{ErrorCode, Id, Zxid};
use tests::ensemble::Ensemble;
use tests::requests::set_data;

use crate::attacker::{LONG, attacker, create_long};
use crate::crowd::{connections_to, push};
use crate::learner::RawObserver;
use crate::{FOLLOWER, LEADER, withstands};

fn identity(bytes: usize) -> Id {
    Id {
        scheme: "digest".into(),
        id: "i".repeat(bytes).into(),
    }
}

/// A follower of another implementation forwards all identities that a client has added.
#[test]
fn a_request_with_long_identities_is_refused_and_its_learner_stays() {
    let attack = |ensemble: &Ensemble| {
        let leader = ensemble.member(LEADER).quorum_address();
        let mut observer = RawObserver::join(ensemble, leader);
        observer.open_session();
        let write = Request::Write(set_data("/short", "", -1));
        for cxid in 1..20 {
            let long = observer.request(cxid, &write, vec![identity(900_000); 5]);
            observer.send(long);
        }
        let fair = observer.request(20, &write, vec![identity(1_000)]);
        observer.send(fair);
        for cxid in 1..20 {
            assert_eq!(observer.answer(cxid), ErrorCode::MarshallingError);
        }
        assert_eq!(observer.answer(20), ErrorCode::Ok);
    };
    withstands("long identities of a learner", |_| {}, attack);
}

/// The learner still answers pings.
#[test]
fn only_a_learner_that_does_not_read_is_dropped() {
    let attack = |ensemble: &Ensemble| {
        let leader = ensemble.member(LEADER).quorum_address();
        let mut silent = RawObserver::join(ensemble, leader);
        let mut busy = attacker(ensemble, LEADER);
        let write = Request::Write(set_data("/long", vec![b'x'; LONG], -1));
        let is_dropped = || ensemble.member(LEADER).log().contains("too slow");
        let mut rounds = 0..300;
        assert!(rounds.any(|_| {
            assert_eq!(busy.call(&write).expect("an answer").err, 0);
            let touched = Vec::new();
            silent.send(LearnerPacket::Ping {
                zxid: Zxid(0),
                touched,
            });
            is_dropped()
        }));
        drop(silent);
    };
    withstands("a learner that does not read", create_long, attack);
}

/// Incomplete packets and messages, from strangers that find the ports.
#[test]
fn connections_of_strangers_at_member_ports_are_bounded() {
    let attack = |ensemble: &Ensemble| {
        let mut held = Vec::new();
        let ports: [SocketAddr; 3] = [
            ensemble.member(LEADER).quorum_address(),
            ensemble.member(LEADER).election_address(),
            ensemble.member(FOLLOWER).election_address(),
        ];
        let ack = LearnerPacket::Ack { zxid: Zxid(1) };
        let ack = jute::Encode::to_bytes(&proto::packet::QuorumPacket::from(ack));
        // A packet of 2 MB, without its last bytes.
        let mut bytes = ack[..12].to_vec();
        bytes.extend(2_000_000i32.to_be_bytes());
        bytes.extend(vec![0; 1_900_000]);
        for port in ports {
            let mut streams: Vec<TcpStream> = connections_to(port, 5);
            push(&mut streams, &bytes);
            held.push(streams);
        }
        let mut patient = attacker(ensemble, FOLLOWER);
        let write = Request::Write(set_data("/long", vec![b'x'; LONG], -1));
        assert_eq!(patient.call(&write).expect("an answer").err, 0);
    };
    withstands("strangers at the ports of members", create_long, attack);
}
