//! The outbox between the task of a connection and the core, under random schedules. `Connection`
//! and `flush` are the shipped ones. The socket is a model.

use std::future::poll_fn;
use std::io;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};

use admission::Ledger;
use bytes::{Bytes, BytesMut};
use config::{Config, NoSurroundings, RawConfig, SystemProperties};
use host::SharedConnection as _;
use parking_lot::Mutex;
use testkit::interleavings::rand::{Rng as _, thread_rng};
use testkit::interleavings::{check, check_fails, future, thread};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::sync::Notify;
use transport::TcpWriter;
use tree::WatcherId;

use crate::connection::Connection;
use crate::connection::outgoing::EventFrame;
use crate::connection::socket::{Socket, flush};

/// Number of replies that the core makes.
const REPLIES: u8 = 4;

/// Length of each frame.
const FRAME_BYTES: usize = 3;

/// An answer that the task makes.
const ANSWER: u8 = 200;

/// An event that the core sends after each reply.
const EVENT: u8 = 100;

/// An error of the core or of the task.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fault {
    /// The core does not wake a task that must write the rest.
    NoWake,
    /// The task writes without asking whether the core writes.
    TaskWritesUnasked,
}

/// The socket, as both threads and the client see it. It accepts any part of the bytes.
#[derive(Clone, Default)]
struct Model(Arc<Shared>);

#[derive(Default)]
struct Shared {
    written: Mutex<Vec<u8>>,
    is_written: AtomicBool,
    /// Signal for a request of the client.
    requested: Notify,
}

impl Model {
    fn write_some(&self, bytes: &[u8]) -> usize {
        let other = self.0.is_written.swap(true, Ordering::SeqCst);
        assert!(!other, "two threads write to the socket");
        thread::yield_now();
        let accepted = thread_rng().gen_range(0..=bytes.len());
        self.0.written.lock().extend_from_slice(&bytes[..accepted]);
        self.0.is_written.store(false, Ordering::SeqCst);
        accepted
    }

    /// Returns the frames that the client has received.
    fn frames(&self) -> Vec<u8> {
        let written = self.0.written.lock();
        let frames = written.chunks_exact(FRAME_BYTES).map(|frame| {
            assert!(frame.iter().all(|byte| *byte == frame[0]), "{written:?}");
            frame[0]
        });
        frames.collect()
    }

    fn has_received(&self, frame: u8) -> bool {
        self.frames().contains(&frame)
    }
}

impl AsyncRead for Model {
    fn poll_read(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
        _: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Poll::Pending
    }
}

impl AsyncWrite for Model {
    fn poll_write(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        loop {
            let accepted = self.write_some(bytes);
            if accepted > 0 {
                return Poll::Ready(Ok(accepted));
            }
        }
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

fn push(connection: &Connection, frame: u8) {
    let outbox = &mut connection.lock().client.outbox;
    outbox.extend_from_slice(&[frame; FRAME_BYTES]);
}

/// Waits for the core or for a request of the client. Returns whether there is a request.
async fn wait(connection: &Connection, requested: &Notify) -> bool {
    let (mut woken, mut request) = (pin!(connection.wait_for_wake()), pin!(requested.notified()));
    poll_fn(|context| {
        if woken.as_mut().poll(context).is_ready() {
            return Poll::Ready(false);
        }
        request.as_mut().poll(context).map(|()| true)
    })
    .await
}

/// The task, until the connection ends. It answers each request of the client.
async fn run_task(ledger: &Ledger, connection: &Connection, model: Model, fault: Option<Fault>) {
    let requested = model.clone();
    let mut socket = Socket::new(model, BytesMut::new());
    let mut answers = false;
    loop {
        if std::mem::take(&mut answers) {
            push(connection, ANSWER);
            // The memory for a long answer is reserved, so its bytes do not count.
            connection.lock().note_reserved_reply(FRAME_BYTES);
        }
        if fault == Some(Fault::TaskWritesUnasked) {
            let outgoing = connection.lock().take_outbox();
            outgoing
                .write_to(&mut socket.stream)
                .await
                .expect("written");
        }
        let flushed = flush(ledger, connection, &mut socket).await;
        if flushed.expect("the socket accepts all bytes").is_break() {
            return;
        }
        if connection.lock().must_wait_for_answers() {
            continue;
        }
        answers = wait(connection, &requested.0.requested).await;
    }
}

/// The core, as in `Delivery::wake`.
fn send(connection: &Connection, model: &Model, fault: Option<Fault>) {
    let write = |_: &TcpWriter, bytes: &[u8]| Ok(model.write_some(bytes));
    if !connection.try_write_with(write) && fault != Some(Fault::NoWake) {
        connection.wake();
    }
}

/// The core makes replies and events, all of which the client must receive in order, and without
/// another reason for the task to run.
fn replies(ledger: &Arc<Ledger>, writer: &TcpWriter, fault: Option<Fault>) {
    let peer = ([127, 0, 0, 1], 1).into();
    let buffered = ledger.buffered.clone();
    let connection = Connection::new(WatcherId(1), peer, Arc::from([]), buffered);
    let (connection, model) = (Arc::new(connection), Model::default());
    connection.write_at_once(writer.clone());
    let task = {
        let (ledger, connection, model) = (ledger.clone(), connection.clone(), model.clone());
        thread::spawn(move || future::block_on(run_task(&ledger, &connection, model, fault)))
    };
    for reply in 0..REPLIES {
        if reply % 2 == 0 {
            model.0.requested.notify_one();
        }
        push(&connection, reply);
        let event = [EVENT + reply; FRAME_BYTES];
        connection.push_event(if reply == 1 {
            EventFrame::Long(Bytes::copy_from_slice(&event))
        } else {
            EventFrame::Short(&event)
        });
        send(&connection, &model, fault);
        if reply % 2 == 1 {
            while !model.has_received(EVENT + reply) {
                thread::yield_now();
            }
        }
    }
    connection.lock().client.ends_after_flush = true;
    connection.wake();
    task.join().expect("the task ends");
    let mut frames = model.frames();
    frames.retain(|frame| *frame != ANSWER);
    let expected: Vec<u8> = (0..REPLIES)
        .flat_map(|reply| [reply, EVENT + reply])
        .collect();
    assert_eq!(frames, expected);
    let state = connection.lock();
    assert_eq!((state.event_bytes, state.writing.bytes), (0, 0));
}

/// Returns the parts of a server that the model needs. The core does not use the writer, but a
/// connection without a writer is never written directly.
fn parts() -> (Arc<Ledger>, TcpWriter) {
    let raw = RawConfig::parse("zoo.cfg".as_ref(), b"dataDir=data\n").expect("a file");
    let config = Config::parse(raw, SystemProperties::new(), &mut NoSurroundings).expect("valid");
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_io()
        .build();
    let runtime = runtime.expect("a runtime");
    let writer = runtime.block_on(async {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
        let stream = tokio::net::TcpStream::connect(listener.local_addr()?).await?;
        io::Result::Ok(TcpWriter::split(stream).1)
    });
    (
        Arc::new(Ledger::new(&config, 10, 0)),
        writer.expect("a connection"),
    )
}

#[test]
fn shuttle_finds_no_reply_that_is_late_or_out_of_order() {
    let (ledger, writer) = parts();
    check(move || replies(&ledger, &writer, None));
}

#[test]
fn shuttle_finds_each_error_of_the_core_and_of_the_task() {
    for fault in [Fault::NoWake, Fault::TaskWritesUnasked] {
        let (ledger, writer) = parts();
        check_fails(&format!("{fault:?}"), move || {
            replies(&ledger, &writer, Some(fault));
        });
    }
}
