//! A leader among three.

use proto::learner::LearnerPacket;
use proto::request::{PathWatchRequest, ReadRequest, WriteRequest};
use proto::{SessionId, Zxid};
use replica::{Effect, Input, LearnerEvent, Port};
use tree::{Caller, WatcherId};
use zab::leader::LinkId;

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

/// Server 1 and this one have it on disk.
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
fn a_quorum_has_it_on_disk_before_anybody_is_told() {
    let mut server = leader();
    server.handle(Input::Requests(vec![request(1, SESSION, 1, create("/a"))]));
    server.handle(Input::Synced(zxid(1, 2)));
    assert!(server.book.applied.is_empty(), "one of three");
    server.learner_sends(1, LearnerPacket::Ack { zxid: zxid(1, 2) });
    assert_eq!(server.book.applied, [zxid(1, 2)]);
}

/// It may be cut off again by the next leader.
#[test]
fn what_a_role_ends_with_and_is_not_committed_is_shown_to_nobody() {
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
