//! A leader of three.

use bytes::Bytes;
use jute::Encode;
use proto::leader::LeaderPacket;
use proto::learner::{LearnerPacket, LearnerRequest, Touch};
use proto::request::{PathWatchRequest, ReadRequest, SetDataRequest, WriteRequest};
use proto::{Epoch, OpCode, SessionId, Zxid};
use tree::{Caller, WatcherId};
use zab::leader::LinkId;
use zoarium_replica::{Effect, Input, LearnerEvent, Port};

use crate::support::{Server, create, request, zxid};

const SESSION: i64 = 77;

fn leader() -> Server {
    let mut server = Server::member(3);
    server.elect_3(Zxid::ZERO, 1, 0);
    server.lead(1, Zxid::ZERO);
    let begin = WriteRequest::CreateSession { timeout_ms: 60_000 };
    server.handle(Input::Requests(vec![request(1, SESSION, 0, begin)]));
    commit(&mut server, zxid(1, 1));
    server.effects();
    server
}

/// Reports that server 1 and this one have the record on disk.
fn commit(server: &mut Server, zxid: Zxid) {
    server.handle(Input::Synced(zxid));
    server.learner_sends(1, LearnerPacket::Ack { zxid });
    assert_eq!(server.book.applied.pop(), Some(zxid));
}

fn watch(server: &Server, path: &str) {
    let request = ReadRequest::Exists(PathWatchRequest {
        path: Some(path.into()),
        watch: true,
    });
    let caller = Caller {
        session: SessionId(SESSION),
        watcher: WatcherId(1),
        identities: &[],
    };
    let watches = parking_lot::Mutex::new(server.state.watches.take());
    let tree = server.state.tree.borrow();
    let _ = tree.read(&request, &caller, &watches, &mut Vec::new());
    *server.state.watches.borrow_mut() = watches.into_inner();
}

#[test]
fn a_write_is_answered_after_a_quorum_has_it_on_disk() {
    let mut server = leader();
    server.handle(Input::Requests(vec![request(1, SESSION, 1, create("/a"))]));
    server.handle(Input::Synced(zxid(1, 2)));
    assert!(server.book.applied.is_empty(), "one of three");
    server.learner_sends(1, LearnerPacket::Ack { zxid: zxid(1, 2) });
    assert_eq!(server.book.applied, [zxid(1, 2)]);
}

/// The next leader may cut it.
#[test]
fn uncommitted_transactions_of_an_ended_role_stay_invisible() {
    let mut server = leader();
    watch(&server, "/a");
    server.handle(Input::Requests(vec![request(1, SESSION, 1, create("/a"))]));
    server.handle(Input::Synced(zxid(1, 2)));
    let link = LinkId(1);
    let closed = LearnerEvent::Closed { link };
    server.handle(Input::Learner(Port::Learners, closed));
    server.wait_until(server.now_ms + 3000);
    assert!(!server.replica.is_ordering(), "it leads without a quorum");
    let tree = server.state.tree.borrow();
    assert_eq!(tree.last_zxid(), zxid(1, 2), "it is history");
    assert!(server.book.applied.is_empty() && server.book.events == 0);
    let releases = |effect: &Effect| matches!(effect, Effect::Release { requests: 1, .. });
    assert!(server.book.effects.iter().any(releases));
}

/// Returns a request of server 1's client that sets data of this size. It fails, and is
/// nevertheless a transaction.
fn set_data_of_learner(cxid: i32, bytes: usize) -> LearnerPacket {
    let request = SetDataRequest {
        path: Some("/none".into()),
        data: Some(vec![b'x'; bytes].into()),
        version: -1,
    };
    LearnerPacket::Request(LearnerRequest {
        session: SessionId(SESSION + 1),
        cxid,
        op: OpCode::SetData.number(),
        body: request.to_bytes(),
        authinfo: Some(Vec::new()),
    })
}

const LONG: usize = 1_000_000;

#[test]
fn a_learners_long_requests_wait_for_each_other_and_its_short_ones_do_not() {
    let mut server = leader();
    for cxid in 1..=8 {
        server.learner_sends(1, set_data_of_learner(cxid, LONG));
    }
    assert_eq!(server.appended().len(), 2, "2 MiB of them");
    let short = create("/short");
    server.handle(Input::Requests(vec![request(1, SESSION, 1, short)]));
    assert_eq!(server.appended(), [zxid(1, 4)]);
    // Later requests of this session must wait for the earlier ones.
    server.learner_sends(1, set_data_of_learner(9, 1));
    assert_eq!(server.appended(), []);
    for last in [4, 6, 8] {
        let zxid = zxid(1, last);
        server.learner_sends(1, LearnerPacket::Ack { zxid });
        assert_eq!(server.appended(), [], "this server's own log");
        server.handle(Input::Synced(zxid));
        let more = if last == 8 { 3 } else { 2 };
        assert_eq!(server.appended().len(), more);
    }
}

/// Long requests wait for the log, so the size of its backlog does not reveal that it hangs.
#[test]
fn a_leader_with_a_stalled_log_under_long_requests_steps_down() {
    let mut server = leader();
    for cxid in 1..=10 {
        server.learner_sends(1, set_data_of_learner(cxid, LONG));
    }
    let zxid = zxid(1, 3);
    server.learner_sends(1, LearnerPacket::Ack { zxid });
    for _ in 0..8 {
        server.wait_until(server.now_ms + 150);
        let touched = Vec::new();
        server.learner_sends(1, LearnerPacket::Ping { zxid, touched });
    }
    assert!(!server.replica.is_ordering());
}

/// A learner queries a session after the request that makes it global. Both arrived in one batch.
#[test]
fn a_session_query_follows_earlier_requests() {
    const UPGRADED: i64 = 88;
    let mut server = leader();
    let upgrade = LearnerRequest {
        session: SessionId(UPGRADED),
        cxid: 0,
        op: OpCode::CreateSession.number(),
        body: Bytes::copy_from_slice(&60_000_i32.to_be_bytes()),
        authinfo: None,
    };
    let ask = |session: i64| {
        LearnerPacket::Revalidate(Touch {
            session: SessionId(session),
            timeout_ms: 60_000,
        })
    };
    let link = LinkId(1);
    let packets = vec![ask(99), LearnerPacket::Request(upgrade), ask(UPGRADED)];
    let event = LearnerEvent::Packets { link, packets };
    server.handle(Input::Learner(Port::Learners, event));
    let answer = |effect: &Effect| match effect {
        Effect::Send {
            packet: LeaderPacket::Revalidate { session, is_valid },
            ..
        } => Some((session.0, *is_valid)),
        _ => None,
    };
    let answers: Vec<_> = server.effects().iter().filter_map(answer).collect();
    assert_eq!(answers, [(99, false), (UPGRADED, true)]);
}

/// A session that is local to a learner until its upgrade is ordered.
const UPGRADED: SessionId = SessionId(SESSION + 1);

fn upgrade() -> LearnerPacket {
    LearnerPacket::Request(LearnerRequest {
        session: UPGRADED,
        cxid: 0,
        op: OpCode::CreateSession.number(),
        body: Bytes::copy_from_slice(&60_000_i32.to_be_bytes()),
        authinfo: None,
    })
}

/// Connects server 2 over link 2, up to date.
fn second_learner(server: &mut Server) {
    let (epoch, last) = (Epoch(1), zxid(1, 1));
    server.learner_comes(2, 2, epoch, last);
    let zxid = Zxid::new(epoch, 0);
    server.learner_sends(2, LearnerPacket::Ack { zxid });
    server.effects();
}

/// Sends a query for the session over link 2. Returns whether it is alive.
fn comes_back(server: &mut Server) -> bool {
    server.effects();
    server.learner_sends(
        2,
        LearnerPacket::Revalidate(Touch {
            session: UPGRADED,
            timeout_ms: 60_000,
        }),
    );
    let answer = |effect: &Effect| match effect {
        Effect::Send {
            packet: LeaderPacket::Revalidate { is_valid, .. },
            ..
        } => Some(*is_valid),
        _ => None,
    };
    let effects = server.effects();
    let answer = effects.iter().find_map(answer);
    answer.expect("it waits for nobody")
}

/// Creates a leader with an upgrade that came over link 1, and that waits after long requests of
/// its session.
fn with_upgrade_waiting() -> Server {
    let mut server = leader();
    second_learner(&mut server);
    for cxid in 1..=3 {
        server.learner_sends(1, set_data_of_learner(cxid, LONG));
    }
    assert_eq!(server.appended().len(), 2);
    server.learner_sends(1, upgrade());
    assert_eq!(server.appended(), [], "it waits");
    server
}

/// Reports that both logs have every proposal, so that further long requests may be proposed.
fn make_room(server: &mut Server, last: Zxid) {
    server.handle(Input::Synced(last));
    for link in [1, 2] {
        server.learner_sends(link, LearnerPacket::Ack { zxid: last });
    }
}

fn may_write(server: &Server, owner: u64) -> bool {
    let mut sessions = server.state.sessions.borrow_mut();
    sessions
        .check(UPGRADED, zoarium_replica::session::Owner(owner))
        .is_ok()
}

#[test]
fn a_session_with_a_waiting_upgrade_can_be_continued_elsewhere() {
    let mut server = with_upgrade_waiting();
    assert!(comes_back(&mut server));
    make_room(&mut server, zxid(1, 3));
    assert_eq!(server.appended().len(), 2, "what waited is ordered");
    assert!(may_write(&server, 2), "it lives where it came back");
    assert!(!may_write(&server, 1));
}

#[test]
fn a_session_with_a_waiting_upgrade_can_be_continued_at_the_leader() {
    let mut server = with_upgrade_waiting();
    let now_ms = server.now_ms;
    let mut sessions = server.state.sessions.borrow_mut();
    assert!(sessions.renew(UPGRADED, 60_000, now_ms));
    drop(sessions);
    make_room(&mut server, zxid(1, 3));
    assert!(may_write(&server, 0));
}

/// A client was informed that its session is alive. The session is created even if the connection
/// of its upgrade closes.
#[test]
fn an_upgrade_that_waits_outlives_its_connection() {
    let mut server = with_upgrade_waiting();
    assert!(comes_back(&mut server));
    let link = LinkId(1);
    let closed = LearnerEvent::Closed { link };
    server.handle(Input::Learner(Port::Learners, closed));
    // The earlier request is gone, so the upgrade does not wait for room any more.
    assert_eq!(server.appended(), [zxid(1, 4)], "the upgrade alone");
    make_room(&mut server, zxid(1, 4));
    let tree = server.state.tree.borrow();
    assert_eq!(tree.session_timeout_ms(UPGRADED), Some(60_000));
}

/// Its own client's local session has moved between the request that needs the upgrade and its
/// turn.
#[test]
fn an_upgrade_does_not_take_back_a_moved_session() {
    let mut server = leader();
    second_learner(&mut server);
    let now_ms = server.now_ms;
    let mut sessions = server.state.sessions.borrow_mut();
    sessions.add_local(UPGRADED, 60_000, now_ms);
    let upgrade_ms = sessions.upgrade(UPGRADED);
    drop(sessions);
    assert!(comes_back(&mut server));
    let mut asked = request(1, UPGRADED.0, 1, create("/a"));
    asked.upgrade_ms = upgrade_ms;
    server.handle(Input::Requests(vec![asked]));
    assert_eq!(server.appended(), [zxid(1, 2), zxid(1, 3)]);
    assert!(may_write(&server, 2));
    assert!(!may_write(&server, 0));
}
