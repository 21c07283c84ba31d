//! Tests of the order of replies and events.
//!
//! Length: all tests use one fixture.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::ops::DerefMut;
use std::sync::Arc;

use bytes::Bytes;
use jute::Encode;
use proto::connect::AuthPacket;
use proto::multi::request_acl;
use proto::request::{
    self, CreateRequest, PathRequest, PathVersionRequest, PathWatchRequest, ReadRequest,
    SetWatchesRequest, WriteRequest, flags,
};
use proto::{Acl, ErrorCode, Id, OpCode, SessionId, Zxid};
use tree::{Overlay, PrepareContext, SessionKind, SharedWatches, Tree, TreeSettings, WatcherId};

use super::*;
use crate::session::Sessions;
use crate::{Applied, ClientRequest, LargeBytes, Service, SessionRules};

const SESSION: SessionId = SessionId(7);

/// Maximum total size of the paths that a connection may watch in these tests.
const WATCH_BYTES_MAX: usize = 3000;

/// Environment of one connection.
struct Fixture {
    tree: Tree,
    watches: SharedWatches,
    client: ClientConnection<()>,
    host: TestHost,
    rules: SessionRules,
    /// Pace of the answers after a write or a sync.
    behind: Pace,
}

struct TestHost {
    sessions: RefCell<Sessions>,
    submitted: Vec<ClientRequest>,
    synced: Vec<i32>,
    /// Maximum amount that the client may occupy.
    bound: Option<ResourceCounts>,
    /// Whether requests are late.
    is_late: bool,
}

impl ReplyHost for TestHost {
    type Note = ();

    fn sessions(&self) -> impl DerefMut<Target = Sessions> {
        self.sessions.borrow_mut()
    }
}

impl RequestHost for TestHost {
    type Extra = ();

    fn begin(&mut self, _: &RequestKind, (): ()) {}

    fn address(&self) -> String {
        "127.0.0.1".into()
    }

    fn submit(&mut self, request: ClientRequest) {
        self.submitted.push(request);
    }

    fn permits_resources(&mut self, held: ResourceCounts, more: ResourceCounts) -> bool {
        let bound = self.bound.expect("it is asked for where there is a bound");
        held.watches + more.watches <= bound.watches
            && held.ephemerals + more.ephemerals <= bound.ephemerals
    }

    fn sync(&mut self, sync: crate::SyncRequest) {
        self.synced.push(sync.cxid);
    }
}

fn responder<'a>(tree: &'a Tree, watches: &'a SharedWatches) -> Responder<'a> {
    Responder {
        tree,
        watches,
        session: SESSION,
        watcher: WatcherId(1),
        now_ms: 0,
        field_limits: testkit::LIMITS,
    }
}

const PACE: Pace = Pace::UNBOUNDED;

impl Fixture {
    fn new() -> Self {
        let sessions = RefCell::new(Sessions::reporting(100));
        Self {
            tree: Tree::new(Arc::new(TreeSettings::new(testkit::LIMITS))),
            watches: SharedWatches::default(),
            client: ClientConnection::new(Arc::from([])),
            host: TestHost {
                sessions,
                submitted: Vec::new(),
                synced: Vec::new(),
                bound: None,
                is_late: false,
            },
            rules: SessionRules {
                local: false,
                upgrades: false,
                is_read_only: false,
            },
            behind: PACE,
        }
    }

    /// Handles these frames.
    fn handle_frames(&mut self, frames: impl IntoIterator<Item = Bytes>, pace: Pace) -> Resume {
        let mut incoming = VecDeque::new();
        for frame in frames {
            decode_into(&mut incoming, frame, testkit::LIMITS, ()).unwrap();
        }
        let rules = ConnectionRules {
            service: Service::Forwarding,
            sessions: self.rules,
            enforced_schemes: None,
            eager_acl_check: false,
            is_late: self.host.is_late,
            bounds_resources: self.host.bound.is_some(),
            watch_bytes_max: WATCH_BYTES_MAX,
        };
        let responder = responder(&self.tree, &self.watches);
        responder.take(&mut self.client, &mut incoming, rules, pace, &mut self.host)
    }

    /// Applies the oldest submitted write.
    fn apply(&mut self, zxid: i64, error: Option<ErrorCode>) -> WriteAnswer {
        let write = self.host.submitted.remove(0);
        let context = PrepareContext {
            session: SESSION,
            cxid: write.cxid,
            zxid: Zxid(zxid),
            time_ms: 0,
            identities: &[],
            session_check: match error {
                Some(error) => Err(error),
                None => Ok(SessionKind::Global),
            },
        };
        let record = Overlay::new(&self.tree).prepare(&self.tree, &write.request, &context);
        let mut events = Vec::new();
        let outcome = self
            .tree
            .apply(&record, &mut self.watches.lock(), &mut events);
        let applied = Applied {
            record: &record,
            outcome: &outcome,
            events: &mut events,
            op: write.request.op(),
            origin: None,
            is_counted: true,
            large_bytes: LargeBytes::NONE,
            is_last: true,
            is_committed: true,
        };
        let responder = responder(&self.tree, &self.watches);
        let behind = self.behind;
        responder.answer_write(&mut self.client, &applied, || behind, &mut self.host)
    }

    fn drain(&mut self, pace: Pace) -> DrainOutcome {
        let responder = responder(&self.tree, &self.watches);
        responder.drain(&mut self.client, pace, &mut self.host)
    }

    /// Empties the outbox. Returns the xids and errors of its frames.
    fn replies(&mut self) -> Vec<(i32, i32)> {
        let outbox = std::mem::take(&mut self.client.outbox);
        let mut rest = &*outbox;
        let mut told = Vec::new();
        while let Some((len, after)) = rest.split_first_chunk() {
            let len = usize::try_from(u32::from_be_bytes(*len)).unwrap();
            let (frame, after) = after.split_at(len);
            let number = |at: usize| i32::from_be_bytes(frame[at..at + 4].try_into().unwrap());
            told.push((number(0), number(12)));
            rest = after;
        }
        told
    }
}

fn frame(xid: i32, request: &request::Request) -> Bytes {
    let mut bytes = Vec::new();
    xid.encode(&mut bytes);
    request.op().number().encode(&mut bytes);
    request.encode(&mut bytes).unwrap();
    bytes.into()
}

fn get(xid: i32, path: &str) -> Bytes {
    let request = ReadRequest::GetData(PathWatchRequest {
        path: Some(path.into()),
        watch: true,
    });
    frame(xid, &request::Request::Read(request))
}

fn creation(path: &str, flags: i32) -> WriteRequest {
    let request = CreateRequest {
        path: Some(path.into()),
        data: None,
        acl: request_acl([Acl::open()]),
        flags,
    };
    WriteRequest::Create {
        op: OpCode::Create,
        request,
        ttl: -1,
    }
}

fn create(xid: i32, path: &str, flags: i32) -> Bytes {
    frame(xid, &request::Request::Write(creation(path, flags)))
}

fn sync(xid: i32) -> Bytes {
    let path = Some("/".into());
    frame(xid, &request::Request::Sync(PathRequest { path }))
}

fn auth(auth: &str) -> Bytes {
    let mut bytes = Vec::new();
    (-4).encode(&mut bytes);
    OpCode::Auth.number().encode(&mut bytes);
    AuthPacket {
        auth_type: 0,
        scheme: Some("digest".into()),
        auth: Some(Bytes::copy_from_slice(auth.as_bytes())).into(),
    }
    .encode(&mut bytes);
    bytes.into()
}

const NO_NODE: i32 = -101;

#[test]
fn a_read_after_a_write_sees_that_write_and_not_the_next() {
    let mut fixture = Fixture::new();
    let keep = flags::PERSISTENT;
    let frames = [
        get(1, "/a"),
        create(2, "/a", keep),
        get(3, "/a"),
        get(4, "/b"),
        create(5, "/b", keep),
        get(6, "/b"),
    ];
    fixture.handle_frames(frames, PACE);
    assert_eq!(fixture.replies(), [(1, NO_NODE)]);
    let answer = fixture.apply(1, None);
    assert!(matches!(
        answer,
        WriteAnswer::Replied {
            waiting: 4,
            answered: 2,
            ..
        }
    ));
    assert_eq!(fixture.replies(), [(2, 0), (3, 0), (4, NO_NODE)]);
    fixture.apply(2, None);
    assert_eq!(fixture.replies(), [(5, 0), (6, 0)]);
    assert_eq!(
        (fixture.client.waiting(), fixture.client.queued_bytes()),
        (0, 0)
    );
}

#[test]
fn a_sync_is_answered_in_order_and_later_reads_after_it() {
    let mut fixture = Fixture::new();
    fixture.handle_frames([sync(1), get(2, "/a"), sync(3), get(4, "/a")], PACE);
    assert_eq!(fixture.host.synced, [1, 3]);
    assert_eq!(fixture.replies(), []);
    let none = Pace { replies: 0, ..PACE };
    let told = [vec![(1, 0)], vec![(2, NO_NODE), (3, 0), (4, NO_NODE)]];
    for (behind, expected) in [none, PACE].into_iter().zip(told) {
        let responder = responder(&fixture.tree, &fixture.watches);
        let host = &mut fixture.host;
        let answered = responder.answer_sync(&mut fixture.client, PACE, || behind, host);
        assert!(answered.is_some());
        assert_eq!(fixture.replies(), expected);
    }
}

#[test]
fn deferred_requests_are_answered_before_the_next_write() {
    let mut fixture = Fixture::new();
    let keep = flags::PERSISTENT;
    let frames = [
        create(1, "/a", keep),
        get(2, "/a"),
        get(3, "/b"),
        create(4, "/b", keep),
    ];
    fixture.handle_frames(frames, PACE);
    assert!(!fixture.client.has_deferred(), "its oldest is a write");
    fixture.behind = Pace { replies: 1, ..PACE };
    fixture.apply(1, None);
    assert_eq!(fixture.replies(), [(1, 0), (2, 0)]);
    assert!(fixture.client.has_deferred());
    // A host does this in `Host::applying`.
    assert_eq!(fixture.drain(PACE), DrainOutcome::All);
    assert_eq!(fixture.replies(), [(3, NO_NODE)]);
    fixture.apply(2, None);
    assert_eq!(fixture.replies(), [(4, 0)]);
}

#[test]
fn a_full_outbox_is_written_before_more_is_answered() {
    let mut fixture = Fixture::new();
    let few = Pace {
        outbox_bytes: 1,
        ..PACE
    };
    assert_eq!(
        fixture.handle_frames([get(5, "/a"), get(6, "/a")], few),
        Resume::Continue
    );
    assert_eq!(fixture.replies(), [(5, NO_NODE)]);
}

#[test]
fn a_read_without_room_waits_and_nothing_overtakes_it() {
    let mut fixture = Fixture::new();
    fixture.handle_frames([create(1, "/a", flags::PERSISTENT)], PACE);
    fixture.apply(1, None);
    fixture.replies();
    let narrow = Pace { room: 10, ..PACE };
    let next = fixture.handle_frames([get(2, "/a"), get(3, "/none")], narrow);
    assert!(
        matches!(next, Resume::ReplyMemory(bytes) if bytes > 10),
        "{next:?}"
    );
    assert!(fixture.client.has_deferred());
    assert_eq!(fixture.replies(), []);
    // The read must be refused because it comes directly before a write.
    let before = Pace {
        refuses: true,
        ..narrow
    };
    fixture.drain(before);
    assert_eq!(fixture.replies(), [(2, ErrorCode::ThrottledOp.code())]);
    assert!(!fixture.client.has_deferred());
}

#[test]
fn credentials_apply_to_later_requests_immediately() {
    let mut fixture = Fixture::new();
    let keep = flags::PERSISTENT;
    let frames = [
        create(1, "/a", keep),
        auth("user:word"),
        create(2, "/b", keep),
    ];
    fixture.handle_frames(frames, PACE);
    assert_eq!(fixture.replies(), [(-4, 0)], "ahead of the writes");
    let identities = fixture.host.submitted.iter().map(|of| of.identities.len());
    assert_eq!(identities.collect::<Vec<_>>(), [0, 1]);
}

#[test]
fn a_connection_with_too_many_identities_ends() {
    let mut fixture = Fixture::new();
    for number in 0..IDENTITIES_MAX {
        fixture.handle_frames([auth(&format!("user{number}:word"))], PACE);
    }
    assert!(!fixture.client.ends_after_flush);
    assert_eq!(fixture.client.identities.len(), IDENTITIES_MAX);
    let once_more = fixture
        .client
        .add_identities(vec![fixture.client.identities[0].clone()]);
    assert_eq!(once_more, Ok(()));
    fixture.replies();
    fixture.handle_frames([auth("one:more"), get(1, "/")], PACE);
    assert_eq!(fixture.replies(), [(-4, ErrorCode::AuthFailed.code())]);
    assert!(fixture.client.ends_after_flush);
    let long = Id {
        scheme: "digest".into(),
        id: "x".repeat(IDENTITY_BYTES_MAX).into(),
    };
    let mut fresh = Fixture::new();
    assert_eq!(
        fresh.client.add_identities(vec![long]),
        Err(TooManyIdentities)
    );
}

#[test]
fn an_answer_out_of_order_is_not_sent() {
    let mut fixture = Fixture::new();
    fixture.handle_frames([create(1, "/a", flags::PERSISTENT)], PACE);
    fixture.client.drop_requests();
    fixture.handle_frames([sync(2)], PACE);
    assert!(matches!(fixture.apply(1, None), WriteAnswer::OutOfTurn));
    let mut fixture = Fixture::new();
    fixture.handle_frames([create(1, "/a", flags::PERSISTENT)], PACE);
    fixture.client.drop_requests();
    assert!(matches!(fixture.apply(1, None), WriteAnswer::Forgotten));
    fixture.handle_frames([create(1, "/b", flags::PERSISTENT)], PACE);
    let moved = fixture.apply(2, Some(ErrorCode::SessionMoved));
    assert!(matches!(moved, WriteAnswer::Moved(_)));
    assert_eq!(fixture.replies(), []);
}

#[test]
fn close_session_ends_the_connection_after_the_reply() {
    let mut fixture = Fixture::new();
    let close = frame(1, &request::Request::Write(WriteRequest::CloseSession));
    let create = create(3, "/a", flags::PERSISTENT);
    fixture.handle_frames([close, get(2, "/a"), create], PACE);
    assert!(!fixture.client.ends_after_flush);
    fixture.apply(1, None);
    assert_eq!(fixture.replies(), [(1, 0)], "later requests are dropped");
    assert!(fixture.client.ends_after_flush);
    assert_eq!(fixture.client.waiting(), 0);
}

#[test]
fn nothing_is_executed_after_the_end_of_a_local_session() {
    let mut fixture = Fixture::new();
    fixture.rules.local = true;
    fixture
        .host
        .sessions
        .borrow_mut()
        .add_local(SESSION, 4000, 0);
    let close = frame(2, &request::Request::Write(WriteRequest::CloseSession));
    let keep = flags::PERSISTENT;
    fixture.handle_frames([create(1, "/a", keep), close, get(3, "/a")], PACE);
    assert_eq!(fixture.replies(), []);
    fixture.apply(1, None);
    fixture.drain(PACE);
    assert_eq!(fixture.replies(), [(1, 0), (2, 0)]);
    assert!(fixture.client.ends_after_flush);
    assert!(!fixture.host.sessions.borrow_mut().is_local(SESSION));
}

#[test]
fn missed_events_come_before_the_reply_that_sets_the_watches_again() {
    let mut fixture = Fixture::new();
    fixture.handle_frames([create(1, "/a", flags::PERSISTENT)], PACE);
    fixture.apply(5, None);
    fixture.replies();
    let path = || Some(vec![Some("/a".into())]);
    let request = ReadRequest::SetWatches(SetWatchesRequest {
        relative_zxid: 1,
        data: Some(Vec::new()),
        exist: path(),
        child: Some(Vec::new()),
        persistent: Some(Vec::new()),
        persistent_recursive: Some(Vec::new()),
    });
    fixture.handle_frames([frame(-8, &request::Request::Read(request))], PACE);
    assert_eq!(fixture.replies(), [(-1, 0), (-8, 0)]);
}

#[test]
fn watches_over_the_limit_are_refused_and_not_set() {
    let mut fixture = Fixture::new();
    fixture.host.bound = Some(ResourceCounts {
        watches: 2,
        watch_bytes: usize::MAX,
        ephemerals: 0,
    });
    fixture.handle_frames([create(1, "/a", flags::PERSISTENT)], PACE);
    fixture.apply(1, None);
    let exists = |xid, path: &str| {
        let request = ReadRequest::Exists(PathWatchRequest {
            path: Some(path.into()),
            watch: true,
        });
        frame(xid, &request::Request::Read(request))
    };
    fixture.replies();
    fixture.handle_frames([get(2, "/a"), exists(3, "/b"), exists(4, "/c")], PACE);
    // A client may set its existing watches again.
    fixture.handle_frames([get(5, "/a"), exists(6, "/b")], PACE);
    let throttled = ErrorCode::ThrottledOp.code();
    let told = [(2, 0), (3, NO_NODE), (4, throttled), (5, 0), (6, NO_NODE)];
    assert_eq!(fixture.replies(), told);
    assert_eq!(fixture.watches.lock().count(), 2);
    // Reads that wait after a write count as well.
    fixture.watches.lock().remove_watcher(WatcherId(1));
    let write = create(7, "/d", flags::PERSISTENT);
    fixture.handle_frames(
        [write, get(8, "/a"), exists(9, "/b"), exists(10, "/c")],
        PACE,
    );
    fixture.apply(2, None);
    let told = [(7, 0), (8, 0), (9, NO_NODE), (10, throttled)];
    assert_eq!(fixture.replies(), told);
    // A client ignores an error reply to this request, so its connection ends.
    fixture.handle_frames([sets_watches_again()], PACE);
    assert_eq!(fixture.replies(), [(-8, throttled)]);
    assert!(fixture.client.ends_after_flush);
    assert_eq!(fixture.watches.lock().count(), 2);
}

#[test]
fn late_set_watches_are_refused_and_the_connection_continues() {
    let mut fixture = Fixture::new();
    fixture.host.is_late = true;
    fixture.handle_frames([sets_watches_again(), get(3, "/a")], PACE);
    let throttled = ErrorCode::ThrottledOp.code();
    assert_eq!(fixture.replies(), [(-8, throttled), (3, throttled)]);
    assert!(!fixture.client.ends_after_flush);
}

/// A watch needs at least the memory of its path. A reconnected client may set its watches again,
/// however much memory they need.
#[test]
fn watch_paths_over_the_limit_of_a_connection_are_refused() {
    let mut fixture = Fixture::new();
    let exists = |xid, path: String| {
        let request = ReadRequest::Exists(PathWatchRequest {
            path: Some(path.into()),
            watch: true,
        });
        frame(xid, &request::Request::Read(request))
    };
    let long = |letter: &str| format!("/{}", letter.repeat(WATCH_BYTES_MAX / 3));
    let frames = [
        exists(1, long("a")),
        exists(2, long("b")),
        exists(3, long("c")),
        exists(4, long("a")),
        get(5, "/zookeeper"),
        sets_watches_again(),
    ];
    fixture.handle_frames(frames, PACE);
    let told = [
        (1, NO_NODE),
        (2, NO_NODE),
        (3, ErrorCode::ThrottledOp.code()),
        (4, NO_NODE),
        (5, 0),
        (-8, 0),
    ];
    // Events for missing znodes come before the last reply.
    let mut answered = fixture.replies();
    answered.retain(|(xid, _)| *xid != -1);
    assert_eq!(answered, told);
    assert!(!fixture.client.ends_after_flush);
}

fn sets_watches_again() -> Bytes {
    let request = ReadRequest::SetWatches(SetWatchesRequest {
        relative_zxid: 9,
        data: Some(vec![Some("/a".into()), Some("/c".into())]),
        exist: Some(Vec::new()),
        child: Some(Vec::new()),
        persistent: Some(Vec::new()),
        persistent_recursive: Some(Vec::new()),
    });
    frame(-8, &request::Request::Read(request))
}

#[test]
fn ephemerals_over_the_limit_are_refused_in_order() {
    let mut fixture = Fixture::new();
    fixture.host.bound = Some(ResourceCounts {
        watches: 0,
        watch_bytes: 0,
        ephemerals: 2,
    });
    let brief = flags::EPHEMERAL;
    let both = WriteRequest::Multi(Ok(["/b", "/c"].map(|path| creation(path, brief)).into()));
    let both = frame(2, &request::Request::Write(both));
    let keep = create(5, "/e", flags::PERSISTENT);
    let frames = [
        create(1, "/a", brief),
        both,
        create(3, "/b", brief),
        create(4, "/c", brief),
        keep,
    ];
    fixture.handle_frames(frames, PACE);
    assert_eq!(
        fixture.host.submitted.len(),
        3,
        "two ephemerals and another"
    );
    assert_eq!(fixture.replies(), [], "they are refused in their turn");
    for zxid in 1..=3 {
        fixture.apply(zxid, None);
    }
    let throttled = ErrorCode::ThrottledOp.code();
    let told = [(1, 0), (2, throttled), (3, 0), (4, throttled), (5, 0)];
    assert_eq!(fixture.replies(), told);
    let delete = WriteRequest::Delete(PathVersionRequest {
        path: Some("/a".into()),
        version: -1,
    });
    fixture.handle_frames([frame(6, &request::Request::Write(delete))], PACE);
    fixture.apply(4, None);
    fixture.handle_frames([create(7, "/c", brief), create(8, "/f", brief)], PACE);
    fixture.apply(5, None);
    assert_eq!(fixture.replies(), [(6, 0), (7, 0), (8, throttled)]);
}

#[test]
fn unknown_operations_are_answered_and_end_the_connection() {
    let mut fixture = Fixture::new();
    let mut unknown = Vec::new();
    2.encode(&mut unknown);
    12345.encode(&mut unknown);
    let keep = flags::PERSISTENT;
    let frames = [create(1, "/a", keep), unknown.into(), get(3, "/a")];
    fixture.handle_frames(frames, PACE);
    assert_eq!(fixture.replies(), [(2, ErrorCode::Unimplemented.code())]);
    assert!(fixture.client.ends_after_flush);
    assert_eq!(fixture.client.waiting(), 1, "the write stays under way");
}

#[test]
fn a_slow_read_delays_the_next_write() {
    let mut fixture = Fixture::new();
    let path = Some("/".into());
    let slow = ReadRequest::GetAllChildrenNumber(PathRequest { path });
    let slow = frame(2, &request::Request::Read(slow));
    let keep = flags::PERSISTENT;
    let next = fixture.handle_frames([create(1, "/a", keep), slow, create(3, "/b", keep)], PACE);
    assert_eq!(next, Resume::Wait);
    assert_eq!(fixture.host.submitted.len(), 1);
}
