//! Tests of the limits on the replies produced in one turn.

use std::sync::Arc;

use proto::multi::request_acl;
use proto::request::{CreateRequest, PathRequest, PathWatchRequest, WriteRequest, flags};
use proto::{Acl, SessionId, Xid};
use replica::connection::{DrainOutcome, QueuedWork, WaitingRead};
use tree::{Overlay, PrepareContext, SessionKind, TreeSettings, WatcherId, Watches};

use super::*;
use crate::start::tests::test_frontend;

/// Data lengths of `/long`, `/medium` and `/short`, in bytes.
const LONG: usize = 400_000;
const MEDIUM: usize = 100_000;
const SHORT: usize = 100;

pub(crate) fn tree() -> Tree {
    let mut tree = Tree::new(Arc::new(TreeSettings::new(testkit::LIMITS)));
    let znodes = [("/long", LONG), ("/medium", MEDIUM), ("/short", SHORT)];
    for (zxid, (path, len)) in (1..).zip(znodes) {
        let request = CreateRequest {
            path: Some(path.into()),
            data: Some(vec![0; len].into()),
            acl: request_acl([Acl::open()]),
            flags: flags::PERSISTENT,
        };
        let request = WriteRequest::Create {
            op: OpCode::Create,
            request,
            ttl: -1,
        };
        let context = PrepareContext {
            session: SessionId(1),
            cxid: 1,
            zxid: Zxid(zxid),
            time_ms: 0,
            identities: &[],
            session_check: Ok(SessionKind::Global),
        };
        let record = Overlay::new(&tree).prepare(&tree, &request, &context);
        tree.apply(&record, &mut Watches::default(), &mut Vec::new());
    }
    tree
}

pub(crate) fn get(path: &str) -> ReadRequest {
    ReadRequest::GetData(PathWatchRequest {
        path: Some(path.into()),
        watch: false,
    })
}

pub(crate) fn queue(state: &mut ConnectionState, reads: impl IntoIterator<Item = ReadRequest>) {
    for (xid, request) in (1..).zip(reads) {
        let head = RequestHead {
            xid: Xid(xid),
            op: OpCode::GetData,
            received_ms: 0,
            frame_bytes: 0,
        };
        let is_slow = matches!(request, ReadRequest::GetAllChildrenNumber(_));
        let work = QueuedWork::Read {
            request: WaitingRead::Decoded(request),
            identities: Arc::from([]),
            expected_bytes: 0,
            is_slow,
            note: None,
        };
        state.client.enqueue(head, work);
    }
}

/// Answers these queued reads at this pace. Returns the reason for stopping, the error and length
/// of each reply, and the number of reads that still wait.
fn drained(
    pace: impl FnOnce(&ConnectionState) -> Pace,
    reads: Vec<ReadRequest>,
) -> (DrainOutcome, Vec<(i32, usize)>, usize) {
    let (context, tree) = (test_frontend().context, tree());
    let requests = &context.requests;
    let peer = "127.0.0.1:1".parse().unwrap();
    let connection = Connection::new(
        WatcherId(1),
        peer,
        Arc::from([]),
        requests.ledger.buffered.clone(),
    );
    let served = LockedConnection {
        answers: &requests.answers,
        connection: &connection,
        now_ms: 0,
    };
    let responder = served.responder(&tree);
    let mut state = connection.lock();
    queue(&mut state, reads);
    let pace = pace(&state);
    let drained = responder.drain(
        &mut state.client,
        pace,
        &mut served.recorder(&mut Replies::default()),
    );
    served.note_changed(&mut state);
    assert_eq!(connection.has_deferred(), state.client.waiting() > 0);
    let mut replies = Vec::new();
    let taken = state.take_outbox();
    let mut out = &*taken.frames;
    while let Some((len, rest)) = out.split_first_chunk() {
        let (frame, rest) = rest.split_at(u32::from_be_bytes(*len) as usize);
        let err = i32::from_be_bytes(frame[12..16].try_into().unwrap());
        replies.push((err, frame.len()));
        out = rest;
    }
    (drained, replies, state.client.waiting())
}

fn reply(len: usize) -> (i32, usize) {
    (0, 16 + 4 + len + 68)
}

#[test]
fn the_core_answers_some_short_reads_and_leaves_the_rest() {
    let reads = vec![get("/short"); limits::CORE_REPLIES + 5];
    let (how_far, replies, left) = drained(pace_of_core, reads);
    assert_eq!((how_far, left), (DrainOutcome::Some, 5));
    assert_eq!(replies, vec![reply(SHORT); limits::CORE_REPLIES]);
    let reads = vec![get("/short"), get("/long"), get("/short")];
    let (how_far, replies, left) = drained(pace_of_core, reads);
    assert_eq!((how_far, left), (DrainOutcome::TooLong(4 + LONG + 68), 2));
    assert_eq!(replies, [reply(SHORT)]);
    let path = Some("/".into());
    let slow = ReadRequest::GetAllChildrenNumber(PathRequest { path });
    let (how_far, replies, left) = drained(pace_of_core, vec![slow]);
    assert_eq!((how_far, replies, left), (DrainOutcome::Slow, vec![], 1));
}

#[test]
fn the_task_stops_when_there_is_enough_to_write() {
    let reads = vec![get("/long"); 3];
    let permits = ReadPermits {
        room: Some(LONG + 100),
        is_slow: false,
    };
    let (how_far, replies, left) = drained(|state| pace_of_task(state, permits), reads);
    assert_eq!((how_far, left), (DrainOutcome::Some, 2));
    assert_eq!(replies, [reply(LONG)]);
}

#[test]
fn before_a_write_too_long_replies_are_refused_and_none_is_deferred() {
    let mut reads = vec![get("/long"); 4];
    reads.push(get("/short"));
    let (how_far, replies, left) = drained(pace_before_write, reads);
    assert_eq!((how_far, left), (DrainOutcome::All, 0));
    let throttled = (ErrorCode::ThrottledOp.code(), 16);
    let expected = [reply(LONG), reply(LONG), throttled, throttled, reply(SHORT)];
    assert_eq!(replies, expected);
}
