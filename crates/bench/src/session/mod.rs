//! Session under load. In each turn it fills the pipeline, writes once, reads once, and counts
//! replies.

pub(crate) mod bulk;
pub(crate) mod control;
pub(crate) mod fan_out;
pub(crate) mod idle;
pub(crate) mod locks;
pub(crate) mod storm;
pub(crate) mod template;
pub(crate) mod workload;

use std::cell::RefCell;
use std::collections::VecDeque;
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::mpsc::SyncSender;
use std::time::Duration;

use client::frame::split_reply;
use client::{Error, Handshake, LossReason, RawConnection, XidOrNothing};
use proto::Xid;
use tokio::net::TcpSocket;
use tokio::sync::Semaphore;

use crate::error::{BenchError, Result};
use crate::rounds::stats::Stats;
use crate::session::control::{Control, Phase};
use crate::session::idle::keep_alive;
use crate::session::workload::{LoadPlan, Requests, xid_after};

/// State that the sessions of one thread share.
#[derive(Debug, Clone)]
pub(crate) struct Context {
    pub(crate) control: Arc<Control>,
    pub(crate) plan: Arc<LoadPlan>,
    pub(crate) servers: Arc<[Arc<str>]>,
    pub(crate) handshake: Arc<Handshake>,
    pub(crate) round: u32,
    pub(crate) stats: Rc<RefCell<Stats>>,
    /// Statistics of requests during snapshots.
    pub(crate) apart: Rc<RefCell<Stats>>,
    /// Sender of reports. The round ends when all sessions of all threads have dropped their
    /// senders.
    pub(crate) reports: SyncSender<Report>,
    /// Permits for concurrent handshakes. A burst of thousands of connections would overflow the
    /// server's accept queue.
    pub(crate) connecting: Rc<Semaphore>,
}

/// Report that a session sends when it begins and when it ends.
#[derive(Debug)]
pub(crate) enum Report {
    /// The session is open, or does not need to be opened.
    Ready,
    /// The session could not be opened.
    Failed(BenchError),
    /// The session has no more work, or is lost.
    Finished,
}

/// Time limit for the server's answer when a session is closed.
const FAREWELL_MAX: Duration = Duration::from_secs(5);

impl Context {
    /// Returns the server of session number `session`.
    pub(crate) fn server(&self, session: u32) -> Arc<str> {
        let count = self.servers.len().max(1);
        let server = self.servers.get(session as usize % count);
        server.cloned().unwrap_or_default()
    }

    /// Opens session number `session`.
    pub(crate) async fn open(&self, session: u32) -> Result<RawConnection> {
        // The wait cannot fail, because the semaphore is never closed.
        let _permit = self.connecting.acquire().await;
        let server = self.server(session);
        match loopback_source(&server, session) {
            None => RawConnection::open(&server, &self.handshake)
                .await
                .map_err(named),
            Some((source, address)) => self.open_from(source, address, &server).await,
        }
    }

    /// Opens a session from the loopback address `source`.
    async fn open_from(
        &self,
        source: IpAddr,
        address: SocketAddr,
        server: &Arc<str>,
    ) -> Result<RawConnection> {
        let connect = async {
            let socket = TcpSocket::new_v4()?;
            socket.bind(SocketAddr::new(source, 0))?;
            let stream = socket.connect(address).await?;
            stream.set_nodelay(true)?;
            let host = address.ip().to_string();
            self.handshake.connector().establish(stream, &[&host]).await
        };
        let stream = connect
            .await
            .map_err(BenchError::io(format!("connect to {server}")))?;
        RawConnection::over(stream, server, &self.handshake)
            .await
            .map_err(named)
    }

    /// Sends a report to the measuring thread.
    pub(crate) fn report(&self, report: Report) {
        // The channel has capacity for the reports of every session. After a failure, the receiver
        // no longer exists.
        let _ = self.reports.try_send(report);
    }

    /// Counts a session as lost, with its pending requests.
    pub(crate) fn note_lost(&self, session: u32, reason: &LossReason, unanswered: u32) {
        let what = format!("{reason} ({})", self.server(session));
        self.stats.borrow_mut().note_lost(what, unanswered.into());
    }
}

/// Maximum number of sessions from one source address. It is less than the number of ports for
/// outgoing connections.
const SESSIONS_PER_SOURCE: u32 = 20_000;

/// Returns the source and target addresses for a session whose number exceeds the limit of one
/// source address. Returns `None` for other sessions, or if `server` is not an IPv4 loopback
/// address.
fn loopback_source(server: &str, session: u32) -> Option<(IpAddr, SocketAddr)> {
    let address: SocketAddr = server.parse().ok()?;
    let block = u8::try_from(session / SESSIONS_PER_SOURCE).ok()?;
    let is_needed = block > 0 && address.is_ipv4() && address.ip().is_loopback();
    is_needed.then(|| (Ipv4Addr::new(127, 0, block, 1).into(), address))
}

/// Converts an error. If the server closed the connection during the handshake, the result names
/// the usual reason: too many connections from this address.
pub(crate) fn named(error: Error) -> BenchError {
    let is_turned_away = match &error {
        Error::Handshake { reason, .. } => match reason {
            LossReason::ClosedByServer => true,
            // The server closed the connection while the request was in flight.
            LossReason::Io(error) => error.kind() == io::ErrorKind::ConnectionReset,
            _ => false,
        },
        _ => false,
    };
    if is_turned_away {
        BenchError::TooManyConnections(error)
    } else {
        error.into()
    }
}

/// Closes a session, so that the server does not have to expire it.
pub(crate) async fn close_session(connection: &mut RawConnection) {
    // Any xid is valid, because no other request is pending.
    connection.put_close(Xid(i32::MAX - 1));
    let closed = async { while connection.wire.turn().await.is_ok() {} };
    // A server that does not close in time will notice that this side has closed the connection.
    let _ = tokio::time::timeout(FAREWELL_MAX, closed).await;
}

/// Loads the server through one connection until the round ends or no request remains.
pub(crate) async fn drive(context: &Context, session: u32, mut connection: RawConnection) {
    if let Err(reason) = keep_alive(context, &mut connection, Phase::Warmup).await {
        return context.note_lost(session, &reason, 0);
    }
    let plan = &context.plan;
    let mut load = Load {
        requests: Requests::new(plan, context.round, session),
        stats: Rc::clone(&context.stats),
        apart: Rc::clone(&context.apart),
        in_flight: 0,
        batches: VecDeque::with_capacity(plan.pipeline as usize),
        expected: 1,
    };
    let end = load
        .run(&context.control, plan.pipeline, &mut connection)
        .await;
    context.report(Report::Finished);
    match end {
        Ok(()) => close_session(&mut connection).await,
        Err(reason) => context.note_lost(session, &reason, load.in_flight),
    }
}

struct Load {
    requests: Requests,
    stats: Rc<RefCell<Stats>>,
    apart: Rc<RefCell<Stats>>,
    in_flight: u32,
    /// Batches of requests that were written together. All requests of a batch share one clock
    /// reading.
    batches: VecDeque<Batch>,
    /// Xid of the next answer.
    expected: i32,
}

struct Batch {
    count: u32,
    sent_ns: u64,
}

impl Load {
    async fn run(
        &mut self,
        control: &Control,
        pipeline: u32,
        connection: &mut RawConnection,
    ) -> Result<(), LossReason> {
        let mut now_ns = control.now_ns();
        loop {
            self.top_up(control, pipeline, connection.wire.outbound(), now_ns);
            if self.in_flight == 0 {
                return Ok(());
            }
            connection.wire.turn().await?;
            let replies = self.take_replies(connection)?;
            now_ns = control.now_ns();
            self.account(control, &replies, now_ns);
            control.add_answers(replies.count);
        }
    }

    #[inline]
    fn top_up(&mut self, control: &Control, pipeline: u32, out: &mut Vec<u8>, now_ns: u64) {
        let room = pipeline.saturating_sub(self.in_flight);
        if room == 0 {
            return;
        }
        let granted = control.grant(room);
        let mut count = 0;
        while count < granted && self.requests.put(out) {
            count += 1;
        }
        if count > 0 {
            self.in_flight += count;
            self.batches.push_back(Batch {
                count,
                sent_ns: now_ns,
            });
        }
    }

    #[inline]
    fn take_replies(&mut self, connection: &mut RawConnection) -> Result<Replies, LossReason> {
        let mut replies = Replies::default();
        while let Some(frame) = connection.wire.next_frame()? {
            let (header, body) = split_reply(frame)?;
            if header.xid.0 != self.expected {
                // The frame answers a ping that was sent while other sessions were still
                // connecting.
                if header.xid == Xid::PING {
                    continue;
                }
                return Err(LossReason::OutOfOrder {
                    got: header.xid.0,
                    expected: XidOrNothing(Some(self.expected)),
                });
            }
            self.expected = xid_after(self.expected);
            replies.count += 1;
            let code = match header.err {
                0 if self.requests.is_multi => multi_failure(body),
                code => code,
            };
            if code != 0 {
                replies.refused.push(code);
            }
        }
        Ok(replies)
    }

    #[inline]
    fn account(&mut self, control: &Control, replies: &Replies, now_ns: u64) {
        let is_measuring = control.is_measuring();
        let mut stats = if control.is_apart() {
            self.apart.borrow_mut()
        } else {
            self.stats.borrow_mut()
        };
        self.in_flight = self.in_flight.saturating_sub(replies.count);
        if is_measuring {
            for code in &replies.refused {
                stats.refuse(*code);
            }
        }
        let mut left = replies.count;
        // Latencies of refusals are not recorded. The refused requests are assumed to be the oldest
        // of the answered requests.
        let mut refused = u32::try_from(replies.refused.len()).unwrap_or(u32::MAX);
        while left > 0
            && let Some(batch) = self.batches.front_mut()
        {
            let answered = left.min(batch.count);
            let skipped = refused.min(answered);
            if is_measuring && answered > skipped {
                let latency_ns = now_ns.saturating_sub(batch.sent_ns);
                stats.record(latency_ns, u64::from(answered - skipped));
            }
            refused -= skipped;
            left -= answered;
            batch.count -= answered;
            if batch.count == 0 {
                self.batches.pop_front();
            }
        }
    }
}

/// Replies received in one read.
#[derive(Debug, Default)]
struct Replies {
    count: u32,
    /// Error codes. The vector is empty (and does not allocate) while all requests succeed.
    refused: Vec<i32>,
}

/// Returns the error code of a failed multi, or 0 after success. The code is in the results, not in
/// the header. In a failed multi, every operation has an error result. Only the result of the
/// failed operation contains a code other than 0 and -2.
fn multi_failure(body: &[u8]) -> i32 {
    const RESULT_BYTES: usize = 13;
    const ERROR_RESULT: [u8; 5] = [0xff, 0xff, 0xff, 0xff, 0];
    const NOT_TRIED: i32 = -2;
    if !body.starts_with(&ERROR_RESULT) {
        return 0;
    }
    let code_of = |result: &[u8]| {
        let code = result.strip_prefix(&ERROR_RESULT)?.first_chunk::<4>()?;
        Some(i32::from_be_bytes(*code))
    };
    body.chunks_exact(RESULT_BYTES)
        .map_while(code_of)
        .find(|code| *code != 0 && *code != NOT_TRIED)
        .unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use jute::Encode;
    use proto::multi::{MultiHeader, encode_error_result};
    use proto::response::StatResponse;
    use proto::{ErrorCode, OpCode, Stat};

    use super::*;

    #[test]
    fn a_failed_multi_is_found_in_its_results() {
        let mut body = Vec::new();
        encode_error_result(ErrorCode::Ok, &mut body);
        encode_error_result(ErrorCode::NoNode, &mut body);
        encode_error_result(ErrorCode::RuntimeInconsistency, &mut body);
        MultiHeader::END.encode(&mut body);
        assert_eq!(multi_failure(&body), ErrorCode::NoNode.code());
    }

    #[test]
    fn many_sessions_come_from_many_addresses() {
        assert_eq!(loopback_source("127.0.0.1:2181", 19_999), None);
        let (source, address) = loopback_source("127.0.0.1:2181", 45_000).unwrap();
        assert_eq!(
            (source.to_string(), address.to_string()),
            ("127.0.2.1".into(), "127.0.0.1:2181".into())
        );
        assert_eq!(loopback_source("10.0.0.1:2181", 45_000), None);
        assert_eq!(loopback_source("localhost:2181", 45_000), None);
    }

    #[test]
    fn a_multi_that_succeeded_is_no_failure() {
        let mut body = Vec::new();
        for _ in 0..10 {
            MultiHeader::result(OpCode::SetData).encode(&mut body);
            let stat = Stat {
                mzxid: -1,
                version: -1,
                ..Stat::default()
            };
            StatResponse { stat }.encode(&mut body);
        }
        MultiHeader::END.encode(&mut body);
        assert_eq!(multi_failure(&body), 0);
        assert_eq!(multi_failure(&[]), 0);
    }
}
