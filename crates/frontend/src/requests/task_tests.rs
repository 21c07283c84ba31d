//! Tests of tasks whose clients do not read their replies. Time is paused, so it passes only while
//! all tasks wait.

use std::time::Duration;

use admission::limits::{
    LARGE_FRAMES_BYTES, LARGE_REPLIES_BYTES, LARGE_REQUESTS_BYTES, MEMORY_PATIENCE,
};
use bytes::BufMut as _;
use host::answer_handshake;
use proto::SessionId;
use proto::request::{PathRequest, ReadRequest, Request, SetDataRequest, WriteRequest};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, DuplexStream, duplex};
use tokio::task::yield_now;
use tokio::time::{Instant, advance, timeout};

use super::*;
use crate::connection::outgoing::EventFrame;
use crate::requests::answer::tests::{get, queue, tree};
use crate::start::tests::test_frontend_with;

/// Time after which a task that has not finished waits for something that does not occur.
const STALLED: Duration = Duration::from_secs(3600);

fn context(config: &str) -> Arc<ConnectionContext> {
    let context = test_frontend_with(config).context;
    *context.requests.answers.state.tree.write() = tree();
    context
}

/// Starts the task of a client that has already sent these requests. Returns the client's end.
fn serve(
    context: &Arc<ConnectionContext>,
    sent: impl IntoIterator<Item = Request>,
) -> (Arc<Connection>, DuplexStream) {
    let connection = context.connections.register(([127, 0, 0, 1], 1).into());
    let connection = connection.unwrap();
    let session = SessionId(connection.ticket().0.try_into().unwrap());
    let registry = &context.requests.registry;
    answer_handshake(registry, &*connection, Some((session, 10_000)), false);
    connection.lock().client.outbox.clear();
    let mut input = BytesMut::new();
    for (xid, request) in (1..).zip(sent) {
        let mut frame = Vec::new();
        frame.put_i32(xid);
        frame.put_i32(request.op().number());
        request.encode(&mut frame).unwrap();
        input.put_u32(frame.len().try_into().unwrap());
        input.extend_from_slice(&frame);
    }
    let (theirs, ours) = duplex(8);
    let mut socket = Socket::new(ours, input);
    let (context, served) = (context.clone(), connection.clone());
    tokio::spawn(async move { requests(&context.requests, &served, &mut socket).await });
    (connection, theirs)
}

/// Adds reads to the queue, as the core does after a write.
fn defer(context: &ConnectionContext, connection: &Connection, reads: Vec<ReadRequest>) {
    let mut state = connection.lock();
    queue(&mut state, reads);
    connection.count_deferred(&state, &context.requests.answers.deferred_connections);
    drop(state);
    connection.wake();
}

fn set_data(len: usize) -> Request {
    Request::Write(WriteRequest::SetData(SetDataRequest {
        path: Some("/short".into()),
        data: Some(vec![0; len].into()),
        version: -1,
    }))
}

/// Reads until a reply is being written.
async fn begin_reply(theirs: &mut DuplexStream) -> usize {
    let len = timeout(STALLED, theirs.read_u32()).await.expect("a reply");
    len.unwrap() as usize
}

async fn finish_reply(theirs: &mut DuplexStream, len: usize) {
    let mut frame = vec![0; len];
    let read = timeout(STALLED, theirs.read_exact(&mut frame)).await;
    read.expect("the rest of a reply").unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_client_that_does_not_read_holds_no_permit() {
    let context = context("request_throttle_max_requests=1\n");
    let (_, mut first) = serve(&context, [Request::Read(get("/short"))]);
    begin_reply(&mut first).await;
    let (_, mut second) = serve(&context, [Request::Read(get("/short"))]);
    begin_reply(&mut second).await;
}

/// The flush consumes the wake-ups of the core.
#[tokio::test(start_paused = true)]
async fn a_read_that_is_deferred_during_a_flush_is_answered() {
    let context = context("");
    let (connection, mut theirs) = serve(&context, []);
    defer(&context, &connection, vec![get("/short")]);
    let len = begin_reply(&mut theirs).await;
    defer(&context, &connection, vec![get("/short")]);
    finish_reply(&mut theirs, len).await;
    begin_reply(&mut theirs).await;
}

#[tokio::test(start_paused = true)]
async fn an_unread_long_reply_keeps_its_memory_while_the_next_read_needs_a_turn() {
    let context = context("");
    let (connection, mut theirs) = serve(&context, []);
    let path = Some("/".into());
    let slow = ReadRequest::GetAllChildrenNumber(PathRequest { path });
    defer(&context, &connection, vec![get("/medium"), slow]);
    begin_reply(&mut theirs).await;
    let free = context.requests.ledger.large_replies.free();
    assert!(free < LARGE_REPLIES_BYTES);
}

#[tokio::test(start_paused = true)]
async fn a_long_reply_does_not_wait_for_the_permits_of_later_requests() {
    let context = context("");
    let reads = ["/short", "/medium"].map(|path| Request::Read(get(path)));
    let sent = reads.into_iter().chain([set_data(100)]);
    let (_, mut theirs) = serve(&context, sent);
    let len = begin_reply(&mut theirs).await;
    let RequestContext {
        settings, ledger, ..
    } = &context.requests;
    assert!(
        ledger
            .permits
            .take_now(settings.outstanding_max.try_into().unwrap())
    );
    finish_reply(&mut theirs, len).await;
    begin_reply(&mut theirs).await;
}

#[tokio::test(start_paused = true)]
async fn a_batch_holds_no_memory_of_large_requests_behind_its_reads() {
    let context = context("");
    let (_, mut unread) = serve(&context, [Request::Read(get("/long")), set_data(14 << 10)]);
    begin_reply(&mut unread).await;
    let room = &context.requests.ledger.large_requests.room;
    assert_eq!(room.free(), LARGE_REQUESTS_BYTES);
}

/// Both clients do not read, and only the first one holds memory that the third one needs.
#[tokio::test(start_paused = true)]
async fn memory_of_large_requests_is_reclaimed_from_a_batch_behind_an_unread_reply() {
    let context = context("");
    let (holder, mut unread) = serve(&context, [set_data(14 << 10)]);
    defer(&context, &holder, vec![get("/long")]);
    begin_reply(&mut unread).await;
    let (other, mut unread) = serve(&context, [Request::Read(get("/long"))]);
    begin_reply(&mut unread).await;
    let room = &context.requests.ledger.large_requests.room;
    let taken = timeout(STALLED, room.take(LARGE_REQUESTS_BYTES)).await;
    taken.expect("memory");
    assert!(holder.is_closed() && !other.is_closed());
}

/// Sends the begin of a long frame, and returns after memory was reserved for it.
async fn begin_long_frame(context: &ConnectionContext, theirs: &mut DuplexStream) {
    theirs.write_u32(1 << 19).await.unwrap();
    let frames = &context.requests.ledger.large_frames;
    until(|| frames.free() < LARGE_FRAMES_BYTES).await;
}

/// Lets other tasks run until this holds. The bound makes a test fail instead of hanging.
async fn until(is_met: impl Fn() -> bool) {
    for _ in 0..10_000 {
        if is_met() {
            return;
        }
        yield_now().await;
    }
    panic!("the tasks do something else");
}

#[tokio::test(start_paused = true)]
async fn memory_of_a_partial_frame_is_reclaimed_while_an_event_is_unread() {
    let context = context("");
    let (connection, mut theirs) = serve(&context, []);
    begin_long_frame(&context, &mut theirs).await;
    connection.push_event(EventFrame::Short(&[7; 64]));
    connection.wake();
    begin_reply(&mut theirs).await;
    let frames = &context.requests.ledger.large_frames;
    let taken = timeout(STALLED, frames.take(LARGE_FRAMES_BYTES)).await;
    taken.expect("memory");
}

#[tokio::test(start_paused = true)]
async fn a_client_has_more_time_to_read_longer_output() {
    let context = context("");
    let (connection, mut theirs) = serve(&context, []);
    begin_long_frame(&context, &mut theirs).await;
    let event = vec![7; 3 << 20];
    connection.push_event(EventFrame::Long(event.clone().into()));
    connection.wake();
    theirs.read_u8().await.unwrap();
    let frames = &context.requests.ledger.large_frames;
    let taken = timeout(MEMORY_PATIENCE * 3, frames.take(LARGE_FRAMES_BYTES)).await;
    assert!(taken.is_err() && !connection.is_closed());
    finish_reply(&mut theirs, event.len() - 1).await;
}

/// The client cannot send while the task does not read.
#[tokio::test(start_paused = true)]
async fn a_long_frame_has_its_time_while_the_task_reads() {
    let context = context("");
    let (connection, mut theirs) = serve(&context, []);
    begin_long_frame(&context, &mut theirs).await;
    connection.push_event(EventFrame::Short(&[7; 64]));
    connection.wake();
    theirs.read_u8().await.unwrap();
    advance(MEMORY_PATIENCE * 2).await;
    finish_reply(&mut theirs, 63).await;
    let frames = &context.requests.ledger.large_frames;
    let taken = timeout(MEMORY_PATIENCE / 2, frames.take(LARGE_FRAMES_BYTES)).await;
    assert!(taken.is_err() && !connection.is_closed());
}

/// The wait consumes the wake-up of the close.
#[tokio::test(start_paused = true)]
async fn a_connection_that_is_closed_during_a_wait_for_permits_ends() {
    let context = context("request_throttle_max_requests=1\n");
    let ledger = &context.requests.ledger;
    assert!(ledger.permits.take_now(1));
    let (connection, mut theirs) = serve(&context, [Request::Read(get("/short"))]);
    until(|| ledger.request_throttle.waiting() > 0).await;
    connection.close();
    yield_now().await;
    ledger.permits.release(1);
    let end = timeout(STALLED, theirs.read_u8()).await;
    assert!(end.expect("the end of the connection").is_err());
}

#[tokio::test(start_paused = true)]
async fn earlier_reads_are_answered_while_later_requests_wait_for_a_budget() {
    let context = context("budget.all.who=ip:127.0.0.1\nbudget.all.bytesPerSecond=1\n");
    let read = || Request::Read(get("/short"));
    let (connection, mut theirs) = serve(&context, [read(), read()]);
    let len = begin_reply(&mut theirs).await;
    finish_reply(&mut theirs, len).await;
    until(|| connection.stats.get().throttled > 0).await;
    let begun = Instant::now();
    defer(&context, &connection, vec![get("/short")]);
    begin_reply(&mut theirs).await;
    assert!(begun.elapsed() < Duration::from_secs(5));
}
