//! A follower that serves observers.

use bytes::Bytes;
use jute::Encode;
use proto::leader::LeaderPacket;
use proto::learner::{LearnerInfo, LearnerPacket, LearnerRequest, Touch};
use proto::request::{SetDataRequest, WriteRequest};
use proto::txn::{Txn, TxnHeader, TxnRecord};
use proto::{Epoch, OpCode, SessionId, Sid, Zxid};
use zab::leader::LinkId;
use zoarium_replica::{Effect, Input, LeaderEvent, LearnerEvent, Port, Renewal, Ticket};

use crate::support::{Server, create, request, zxid};

const SESSION: SessionId = SessionId(77);

/// Links of two observers, and the connection of a client of this server.
const OBSERVER: u64 = 11;
const OTHER: u64 = 12;
const CLIENT: u64 = 5;

/// Creates server 1, which follows server 3 and has two observers.
fn follower() -> (Server, u64) {
    let mut server = Server::member_with(1, "observerMasterPort=2191\n");
    let attempt = server.follow_3(Zxid::ZERO, 1, 0);
    let event = LeaderEvent::Connected;
    server.handle(Input::Leader { attempt, event });
    server.leader_sends(attempt, LeaderPacket::leader_info(Epoch(1)));
    server.handle(Input::AcceptedEpochSaved(Epoch(1)));
    server.leader_sends(attempt, LeaderPacket::Diff { zxid: Zxid::ZERO });
    let new_leader = LeaderPacket::NewLeader {
        zxid: zxid(1, 0),
        config: None,
    };
    server.leader_sends(attempt, new_leader);
    server.handle(Input::CurrentEpochSaved(Epoch(1)));
    server.leader_sends(attempt, LeaderPacket::UpToDate);
    for (link, sid) in [(OBSERVER, 11), (OTHER, 12)] {
        let connected = LearnerEvent::Connected { link: LinkId(link) };
        server.handle(Input::Learner(Port::Observers, connected));
        let introduction = LearnerPacket::ObserverInfo {
            accepted_epoch: Epoch(1),
            info: Some(LearnerInfo::new(Sid(sid), 0)),
        };
        observer_sends(&mut server, link, introduction);
        let ack = LearnerPacket::AckEpoch {
            last_logged: Zxid::ZERO,
            current_epoch: Some(Epoch(0)),
        };
        observer_sends(&mut server, link, ack);
        let zxid = zxid(1, 0);
        observer_sends(&mut server, link, LearnerPacket::Ack { zxid });
    }
    server.effects();
    (server, attempt)
}

fn observer_sends(server: &mut Server, link: u64, packet: LearnerPacket) {
    let (link, packets) = (LinkId(link), vec![packet]);
    let event = LearnerEvent::Packets { link, packets };
    server.handle(Input::Learner(Port::Observers, event));
}

fn comes_to_observer(server: &mut Server, link: u64) {
    let touch = Touch {
        session: SESSION,
        timeout_ms: 4000,
    };
    observer_sends(server, link, LearnerPacket::Revalidate(touch));
}

fn comes_to_follower(server: &mut Server) {
    server.handle(Input::Renew(Renewal {
        ticket: Ticket(CLIENT),
        session: SESSION,
        timeout_ms: 4000,
        new_style: true,
    }));
}

fn asked_of_observer(op: OpCode, cxid: i32) -> LearnerPacket {
    let set = SetDataRequest {
        path: Some("/a".into()),
        data: Some(Bytes::from_static(b"late")),
        version: -1,
    };
    LearnerPacket::Request(LearnerRequest {
        session: SESSION,
        cxid,
        op: op.number(),
        body: match op {
            OpCode::SetData => set.to_bytes(),
            _ => Bytes::new(),
        },
        authinfo: Some(Vec::new()),
    })
}

/// Operations and cxids of the forwarded requests.
fn passed_on(server: &mut Server) -> Vec<(OpCode, i32)> {
    let effects = server.effects();
    let requests = effects.into_iter().filter_map(|effect| match effect {
        Effect::SendToLeader(LearnerPacket::Request(request)) => {
            Some((request.op()?, request.cxid))
        }
        _ => None,
    });
    requests.collect()
}

/// The leader treats all requests that this follower forwards for a session as requests of one
/// connection. It would execute this one after later requests of the session.
#[test]
fn a_late_request_of_an_observer_is_refused_after_its_session_moved_here() {
    let (mut server, attempt) = follower();
    let set = |cxid| asked_of_observer(OpCode::SetData, cxid);
    comes_to_observer(&mut server, OBSERVER);
    observer_sends(&mut server, OBSERVER, set(1));
    assert_eq!(passed_on(&mut server), [(OpCode::SetData, 1)]);
    comes_to_follower(&mut server);
    observer_sends(&mut server, OBSERVER, set(2));
    // A transaction that must fail answers the second request.
    assert_eq!(passed_on(&mut server), [(OpCode::Delete, 2)]);
    let own = request(CLIENT, SESSION.0, 3, create("/b"));
    server.handle(Input::Requests(vec![own]));
    assert_eq!(passed_on(&mut server), [(OpCode::Create, 3)]);
    // Every connection may end the session. The follower then forgets the session.
    observer_sends(
        &mut server,
        OBSERVER,
        asked_of_observer(OpCode::CloseSession, 4),
    );
    assert_eq!(passed_on(&mut server), [(OpCode::CloseSession, 4)]);
    ends(&mut server, attempt);
    observer_sends(&mut server, OBSERVER, set(5));
    assert_eq!(passed_on(&mut server), [(OpCode::SetData, 5)]);
}

#[test]
fn a_late_request_is_dropped_after_its_session_moved_to_an_observer() {
    let (mut server, _) = follower();
    comes_to_follower(&mut server);
    comes_to_observer(&mut server, OBSERVER);
    server.effects();
    let own = request(CLIENT, SESSION.0, 1, create("/b"));
    server.handle(Input::Requests(vec![own]));
    let effects = server.effects();
    let is_closed = |effect: &Effect| matches!(effect, Effect::CloseClient(Ticket(CLIENT)));
    assert!(effects.iter().any(is_closed), "{effects:?}");
    let is_passed_on =
        |effect: &Effect| matches!(effect, Effect::SendToLeader(LearnerPacket::Request(_)));
    assert!(!effects.iter().any(is_passed_on), "{effects:?}");
    // The session ends nevertheless.
    let close = request(CLIENT, SESSION.0, 2, WriteRequest::CloseSession);
    server.handle(Input::Requests(vec![close]));
    assert_eq!(passed_on(&mut server), [(OpCode::CloseSession, 2)]);
}

#[test]
fn a_session_moves_from_observer_to_observer_and_back() {
    let (mut server, attempt) = follower();
    let set = |cxid| asked_of_observer(OpCode::SetData, cxid);
    comes_to_observer(&mut server, OTHER);
    observer_sends(&mut server, OBSERVER, set(1));
    assert_eq!(passed_on(&mut server), [(OpCode::Delete, 1)]);
    comes_to_observer(&mut server, OBSERVER);
    observer_sends(&mut server, OBSERVER, set(2));
    observer_sends(&mut server, OTHER, set(3));
    let expected = [(OpCode::SetData, 2), (OpCode::Delete, 3)];
    assert_eq!(passed_on(&mut server), expected);
    // The leader reports that it is over: no connection holds it.
    for is_valid in [true, false] {
        let session = SESSION;
        server.leader_sends(attempt, LeaderPacket::Revalidate { session, is_valid });
    }
    observer_sends(&mut server, OTHER, set(4));
    assert_eq!(passed_on(&mut server), [(OpCode::SetData, 4)]);
}

fn ends(server: &mut Server, attempt: u64) {
    let (txn, zxid) = (Txn::CloseSession { paths: None }, zxid(1, 1));
    let record = TxnRecord {
        header: TxnHeader {
            session: SESSION,
            cxid: 4,
            zxid,
            time_ms: 1,
            op: txn.op().number(),
        },
        txn,
        digest: None,
    };
    let txn = record.to_bytes();
    server.leader_sends(attempt, LeaderPacket::Proposal { zxid, txn });
    server.leader_sends(attempt, LeaderPacket::Commit { zxid });
    assert_eq!(server.book.applied.pop(), Some(zxid));
    server.effects();
}
