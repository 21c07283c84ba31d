//! A standalone server: the leader of one.

use proto::request::WriteRequest;
use proto::{SessionId, Zxid};
use zoarium_replica::{DiskOrder, Effect, Input, Service, State, SyncRequest, Ticket};

use crate::learning::tree_at;
use crate::support::{Server, create, request};

const SESSION: i64 = 77;

fn with_session() -> Server {
    let mut server = Server::alone();
    let begin = WriteRequest::CreateSession { timeout_ms: 4000 };
    server.handle(Input::Requests(vec![request(1, SESSION, 0, begin)]));
    assert_eq!(server.appended(), [Zxid(1)]);
    server.handle(Input::Synced(Zxid(1)));
    assert_eq!(std::mem::take(&mut server.book.applied), [Zxid(1)]);
    server
}

#[test]
fn a_standalone_server_serves_immediately() {
    let mut server = Server::alone();
    let effects = server.effects();
    let serves = |effect: &Effect| matches!(effect, Effect::Serve(Service::Deciding));
    assert!(effects.iter().any(serves), "{effects:?}");
    assert!(server.replica.is_ordering() && server.replica.is_alone());
}

#[test]
fn a_write_is_answered_once_it_is_on_disk() {
    let mut server = with_session();
    let writes = [(1, "/a"), (2, "/b")];
    let writes = writes.map(|(cxid, path)| request(1, SESSION, cxid, create(path)));
    server.handle(Input::Requests(writes.into()));
    assert_eq!(server.appended(), [Zxid(2), Zxid(3)]);
    assert!(server.book.applied.is_empty(), "nothing is on disk");
    server.handle(Input::Synced(Zxid(2)));
    assert_eq!(server.book.applied, [Zxid(2)]);
    server.handle(Input::Synced(Zxid(3)));
    assert_eq!(server.book.applied, [Zxid(2), Zxid(3)]);
}

#[test]
fn a_sync_is_answered_after_earlier_proposals() {
    let mut server = with_session();
    server.handle(Input::Requests(vec![request(1, SESSION, 1, create("/a"))]));
    let sync = SyncRequest {
        ticket: Ticket(9),
        session: SessionId(SESSION),
        cxid: 2,
        identities: [].into(),
        path: None,
    };
    server.handle(Input::Sync(sync));
    assert!(server.book.syncs.is_empty());
    server.handle(Input::Synced(Zxid(2)));
    assert_eq!(server.book.syncs, [Ticket(9)]);
}

#[test]
fn a_silent_session_ends_by_a_transaction() {
    let mut server = with_session();
    server.wait_until(3900);
    assert!(server.appended().is_empty());
    server.wait_until(4400);
    assert_eq!(server.appended(), [Zxid(2)]);
    server.handle(Input::Synced(Zxid(2)));
    assert_eq!(server.book.applied, [Zxid(2)]);
    let tree = server.state.tree.borrow();
    assert_eq!(tree.session_timeout_ms(SessionId(SESSION)), None);
}

/// A frontend creates the session, and the core orders its transaction. Before that, the core may
/// pause for longer than the session timeout.
#[test]
fn a_session_that_expires_before_its_transaction_expires_again() {
    let mut server = Server::alone();
    let begun_ms = server.now_ms;
    let mut sessions = server.state.sessions.borrow_mut();
    sessions.add(SessionId(SESSION), 4000, begun_ms);
    drop(sessions);
    server.wait_until(begun_ms + 9000);
    let begin = WriteRequest::CreateSession { timeout_ms: 4000 };
    server.handle(Input::Requests(vec![request(1, SESSION, 0, begin)]));
    assert_eq!(server.appended(), [Zxid(1), Zxid(2)]);
    server.handle(Input::Synced(Zxid(2)));
    server.wait_until(begun_ms + 30_000);
    assert_eq!(server.appended(), [Zxid(3)]);
    server.handle(Input::Synced(Zxid(3)));
    let tree = server.state.tree.borrow();
    assert_eq!(tree.session_timeout_ms(SessionId(SESSION)), None);
}

#[test]
fn after_a_disk_failure_nothing_is_answered() {
    let mut server = with_session();
    server.handle(Input::Requests(vec![request(1, SESSION, 1, create("/a"))]));
    server.effects();
    server.handle(Input::DiskFailed);
    let effects = server.effects();
    assert!(
        matches!(effects[..], [Effect::StopServing]),
        "nothing but the end: {effects:?}"
    );
    server.handle(Input::Synced(Zxid(2)));
    assert!(server.book.applied.is_empty() && server.replica.is_over());
}

#[test]
fn a_stopping_server_ends_once_all_is_applied() {
    let mut server = with_session();
    server.handle(Input::Requests(vec![request(1, SESSION, 1, create("/a"))]));
    server.handle(Input::Shutdown);
    assert!(!server.replica.is_over());
    server.handle(Input::Synced(Zxid(2)));
    assert!(server.replica.is_over());
    assert_eq!(server.book.applied, [Zxid(2)]);
}

/// Until the snapshot of the other tree is on disk, a crash would bring the earlier tree back.
#[test]
fn a_restored_tree_is_established_once_its_snapshot_is_on_disk() {
    let mut server = with_session();
    assert!(server.state.generation().is_established());
    server.effects();
    server.handle(Input::Restore(Box::new(tree_at(Zxid(5)))));
    assert!(!server.state.generation().is_established());
    let effects = server.effects();
    let attempt = effects.iter().find_map(|effect| match effect {
        Effect::Disk(DiskOrder::TakeOver { of, .. }) => Some(of.attempt),
        _ => None,
    });
    let attempt = attempt.unwrap_or_else(|| panic!("no snapshot: {effects:?}"));
    server.handle(Input::SnapshotWritten {
        attempt,
        zxid: Zxid(5),
    });
    assert!(server.state.generation().is_established());
}
