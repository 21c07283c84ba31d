//! Upper limit of performance: a server that only parses frames.
//!
//! It answers the handshake, and answers every request with the same bytes and the request's xid.
//! The result of a load generator with this server is the limit of generator, sockets and kernel on
//! a machine. No server that implements the protocol can be faster.
//!
//! With a log, it also writes each request that would be a transaction to a file, and syncs the
//! file before it answers. This adds the limit of the disk. With followers, it waits until a
//! majority of the files (its own and theirs) is synced, as every ensemble must do. Writes of a
//! follower's clients go through the leader. The server supports locks and watches only as far as
//! the loads need them.

mod deferred;
mod follower;
mod leader;
mod link;
mod log;
mod queues;

use std::future::pending;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::thread;

use bytes::Bytes;
use client::frame::put_frame;
use client::{LossReason, Wire};
use jute::{Decode, Encode, Reader};
use proto::connect::{ConnectRequest, ConnectResponse, ReplyHeader};
use proto::response::{GetDataResponse, NamesResponse};
use proto::{ErrorCode, OpCode, OpKind, SessionId, Stat, Xid, Zxid};
use tokio::net::{TcpListener, TcpStream};

use self::deferred::DeferredAnswers;
pub(crate) use self::log::Log;
use self::queues::{ConnectionEvents, Queues};
use crate::args::EchoArgs;
use crate::error::{BenchError, Result};
use crate::report::output;
use crate::session::template::Payload;

/// Maximum length of a request that is answered.
const FRAME_BYTES_MAX: usize = 0xf_ffff;
/// Offset of the xid in an answer, after the length.
const XID_AT: usize = 4;

/// Serves until the process is stopped.
pub(crate) fn run(args: &EchoArgs) -> Result<()> {
    let listener = std::net::TcpListener::bind(&args.listen)
        .map_err(BenchError::io(format!("listen on {}", args.listen)))?;
    let address = listener.local_addr().map_err(BenchError::io("listen"))?;
    output::print(&format!(
        "echo server on {address}, {} bytes of data in each answer\n",
        args.payload
    ));
    let log = args.log.as_deref();
    let log = log.map(|dir| Log::open(dir, args.followers as usize));
    let leader = log.transpose()?.map(|(leader, _)| leader);
    let serving = Serving::new(args.payload, leader);
    serve(listener, &serving, args.threads).map_err(BenchError::io("serve"))
}

/// State that all connections share.
#[derive(Debug, Clone)]
pub(crate) struct Serving {
    answers: Answers,
    /// Log to which writes are appended before they are answered.
    log: Option<Log>,
    queues: Queues,
}

impl Serving {
    /// Returns the state of a server whose answers contain `payload` bytes of data.
    pub(crate) fn new(payload: u32, log: Option<Log>) -> Self {
        Self {
            answers: Answers::new(payload),
            log,
            queues: Queues::default(),
        }
    }

    /// Returns the state for a member of the ensemble with this log. All members of an ensemble
    /// share the queues.
    pub(crate) fn with_log(&self, log: Option<Log>) -> Self {
        let serving = self.clone();
        Self { log, ..serving }
    }
}

/// Serves `listener` with threads that accept connections independently.
pub(crate) fn serve(
    listener: std::net::TcpListener,
    serving: &Serving,
    threads: u32,
) -> io::Result<()> {
    listener.set_nonblocking(true)?;
    let mut others = Vec::new();
    for index in 1..threads {
        let (listener, serving) = (listener.try_clone()?, serving.clone());
        let builder = thread::Builder::new().name(format!("echo-{index}"));
        others.push(builder.spawn(move || serve_here(listener, &serving))?);
    }
    serve_here(listener, serving)
}

fn serve_here(listener: std::net::TcpListener, serving: &Serving) -> io::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_io()
        .build()?;
    runtime.block_on(async {
        let listener = TcpListener::from_std(listener)?;
        loop {
            let (stream, peer) = listener.accept().await?;
            stream.set_nodelay(true)?;
            tokio::spawn(serve_client(stream, peer, serving.clone()));
        }
    })
}

/// Answers, encoded once.
#[derive(Debug, Clone)]
struct Answers {
    usual: Bytes,
    /// Answer to getChildren, with an empty list, so that the clean-up of a generator finds nothing
    /// to delete.
    no_children: Bytes,
}

impl Answers {
    fn new(payload: u32) -> Self {
        let reply = |record: Bytes| {
            let mut out = Vec::new();
            put_frame(&mut out, |out| {
                ReplyHeader::new(Xid(0), Zxid(1), ErrorCode::Ok).encode(out);
                out.extend_from_slice(&record);
            });
            Bytes::from(out)
        };
        let usual = GetDataResponse {
            data: Some(Payload::new(payload as usize).0),
            stat: Stat::default(),
        };
        Self {
            usual: reply(usual.to_bytes()),
            no_children: reply(NamesResponse { names: Vec::new() }.to_bytes()),
        }
    }

    fn put_usual(&self, xid: Xid, out: &mut Vec<u8>) {
        let start = out.len();
        out.extend_from_slice(&self.usual);
        if let Some(place) = out.get_mut(start + XID_AT..start + XID_AT + 4) {
            place.copy_from_slice(&xid.0.to_be_bytes());
        }
    }

    /// Appends the answer to the request in `frame`. Returns whether the session ends after the
    /// answer, or `None` if the frame is too short.
    #[inline]
    fn put(&self, frame: &[u8], out: &mut Vec<u8>) -> Option<bool> {
        let (xid, rest) = frame.split_first_chunk::<4>()?;
        let op = i32::from_be_bytes(*rest.first_chunk::<4>()?);
        let answer = if op == OpCode::GetChildren.number() {
            &self.no_children
        } else {
            &self.usual
        };
        let start = out.len();
        out.extend_from_slice(answer);
        out.get_mut(start + XID_AT..start + XID_AT + 4)?
            .copy_from_slice(xid);
        Some(op == OpCode::CloseSession.number())
    }
}

async fn serve_client(stream: TcpStream, peer: SocketAddr, mut serving: Serving) {
    let mut wire = Wire::new(stream, FRAME_BYTES_MAX);
    if let Err(reason) = serve_session(&mut wire, &mut serving).await {
        tracing::debug!(%peer, %reason, "connection ended");
    }
}

/// Entries of a session in the queues, which are removed when this value is dropped.
struct Queueing {
    queues: Queues,
    events: Arc<ConnectionEvents>,
}

impl Queueing {
    fn new(queues: &Queues) -> Self {
        Self {
            queues: queues.clone(),
            events: Arc::default(),
        }
    }
}

impl Drop for Queueing {
    fn drop(&mut self) {
        self.queues.end(&self.events);
    }
}

static NEXT_SESSION: AtomicI64 = AtomicI64::new(1);

async fn serve_session(
    wire: &mut Wire<TcpStream>,
    serving: &mut Serving,
) -> Result<(), LossReason> {
    shake_hands(wire, serving.log.as_mut()).await?;
    let queueing = Queueing::new(&serving.queues);
    let events = &queueing.events;
    let mut deferred = DeferredAnswers::default();
    let (mut is_told, mut is_last) = (false, false);
    loop {
        while let Some((frame, out)) = wire.next_frame_and_outbound()? {
            let len = frame.len();
            if let Some(request) = serving.queues.parse_request(frame) {
                is_told = true;
                // A write is executed once it is durable. A read waits until all earlier writes are
                // durable.
                let log = serving.log.as_mut();
                if let Some(log) = log.filter(|_| request.is_write() || !deferred.is_empty()) {
                    let number = if request.is_write() {
                        Some(log.append(frame))
                    } else {
                        deferred.last()
                    };
                    log.flush()?;
                    log.synced(number.unwrap_or(0)).await?;
                    deferred.release(log.durable(), wire.outbound());
                }
                let usual = |xid: Xid, out: &mut Vec<u8>| serving.answers.put_usual(xid, out);
                let queues = &serving.queues;
                queues.carry_out(request, events, usual, wire.outbound());
                continue;
            }
            let log = serving.log.as_ref().filter(|_| is_write(frame));
            let out = deferred.place(log.map(|log| log.append(frame)), out);
            is_last |= serving
                .answers
                .put(frame, out)
                .ok_or(client::frame::FrameError::Header(len))?;
        }
        if let Some(log) = &serving.log {
            if !deferred.is_empty() {
                log.flush()?;
            }
            deferred.release(log.durable(), wire.outbound());
        }
        if is_last && deferred.is_empty() {
            return Ok(wire.flush().await?);
        }
        if is_told {
            events.take(wire.outbound());
        }
        // While held answers wait, answers that do not have to wait are sent.
        tokio::select! {
            biased;
            synced = wait_for_first(&deferred, serving.log.as_mut()) => synced?,
            () = events.came.notified(), if is_told => (),
            turned = wire.turn() => turned?,
        }
    }
}

/// Waits until the first held answer may be sent. Does not return if no answer is held.
async fn wait_for_first(deferred: &DeferredAnswers, log: Option<&mut Log>) -> io::Result<()> {
    match log.zip(deferred.first()) {
        Some((log, number)) => log.synced(number).await,
        None => pending().await,
    }
}

/// Returns whether a server would create a transaction for the request.
fn is_write(frame: &[u8]) -> bool {
    let op = frame.get(4..).and_then(|rest| rest.first_chunk::<4>());
    let op = op.and_then(|op| OpCode::from_i32(i32::from_be_bytes(*op)));
    op.is_some_and(|op| op.kind() == OpKind::Write)
}

async fn shake_hands(wire: &mut Wire<TcpStream>, log: Option<&mut Log>) -> Result<(), LossReason> {
    loop {
        wire.turn().await?;
        if let Some(frame) = wire.next_frame()? {
            let mut input = Reader::new(Bytes::copy_from_slice(frame));
            let request =
                ConnectRequest::decode(&mut input).map_err(|source| LossReason::Decode {
                    what: "connect request",
                    source,
                })?;
            // The creation of a session is also a transaction.
            if let Some(log) = log {
                let number = log.append(frame);
                log.flush()?;
                log.synced(number).await?;
            }
            let response = ConnectResponse {
                protocol_version: 0,
                timeout_ms: request.timeout_ms.max(1000),
                session_id: SessionId(NEXT_SESSION.fetch_add(1, Ordering::Relaxed)),
                password: Bytes::from_static(&[0; 16]).into(),
                read_only: request.read_only.map(|_| false),
            };
            put_frame(wire.outbound(), |out| response.encode(out));
            return Ok(());
        }
    }
}

#[cfg(test)]
mod tests {
    use client::frame::{FrameReader, put_request, split_reply};

    use super::*;

    #[test]
    fn only_writes_are_synced() {
        let is_synced = |op: OpCode| {
            let mut requests = Vec::new();
            put_request(Xid(1), op.number(), &mut requests, |_| ());
            is_write(&requests[4..])
        };
        let writes = [OpCode::SetData, OpCode::Multi, OpCode::CloseSession];
        assert!(writes.into_iter().all(is_synced));
        let others = [OpCode::GetData, OpCode::Sync, OpCode::Ping];
        assert!(!others.into_iter().any(is_synced));
        assert!(!is_write(&[0; 5]));
    }

    #[test]
    fn every_answer_carries_the_xid_of_its_request() {
        let answers = Answers::new(100);
        let mut requests = Vec::new();
        for (xid, op) in [
            (7, OpCode::GetData),
            (8, OpCode::GetChildren),
            (9, OpCode::CloseSession),
        ] {
            put_request(Xid(xid), op.number(), &mut requests, |_| ());
        }
        let mut frames = FrameReader::new(1 << 20);
        frames.extend(&requests);
        let mut out = Vec::new();
        let mut last = Vec::new();
        while let Some(frame) = frames.next_frame().unwrap() {
            last.push(answers.put(frame, &mut out).unwrap());
        }
        assert_eq!(last, [false, false, true]);
        assert_eq!(answers.put(&[0; 7], &mut Vec::new()), None);

        let mut frames = FrameReader::new(1 << 20);
        frames.extend(&out);
        let mut seen = Vec::new();
        while let Some(frame) = frames.next_frame().unwrap() {
            let (header, body) = split_reply(frame).unwrap();
            seen.push((header.xid.0, header.err, body.len()));
        }
        assert_eq!(seen, [(7, 0, 172), (8, 0, 4), (9, 0, 172)]);
    }
}
