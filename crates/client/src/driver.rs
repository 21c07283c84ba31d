//! The task behind a [`crate::Client`]: one loop owns the socket, the session and the watches.
//!
//! ```text
//!              connect ok                       connection lost
//!   connect ---------------> serving <----------------------------> reconnecting
//!                               |            session continued            |
//!                   closeSession, last handle dropped             session is over
//!                               v                                         v
//!                             closed                                   expired
//! ```
//!
//! Calls made while reconnecting wait for the next connection, at most for a session timeout;
//! calls that were on the wire fail with `ConnectionLost`, because nobody knows whether the
//! server carried them out.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use jute::{Decode, Reader, Str};
use proto::connect::ReplyHeader;
use proto::watch::{EventType, WatcherEvent};
use proto::{OpCode, SessionId, Xid, Zxid};
use tokio::sync::{broadcast, mpsc, oneshot, watch};
use tokio::time::{Instant, sleep_until};

use crate::error::{Call, Error, LossReason, Result};
use crate::frame::{put_request, split_reply};
use crate::handshake::{Accepted, Handshake, RawConnection, Session};
use crate::in_flight::{InFlight, Pending, Reply};
use crate::limits::{AUTHS_MAX, IN_FLIGHT_MAX, OUTBOUND_BYTES_MAX};
use crate::options::Options;
use crate::watches::{WatchEffect, Watches};
use crate::wire::Wire;

/// A change that a watch saw.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WatchEvent {
    /// What happened.
    pub kind: EventType,
    /// To which path.
    pub path: Str,
    /// The transaction that did it; -1 from servers before 3.9, and for changes found when
    /// watches were set again on a new connection.
    pub zxid: Zxid,
}

/// How a client's session stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum State {
    /// Connected to a server.
    Connected {
        /// Which.
        server: Arc<str>,
        /// The session.
        session: SessionId,
        /// Negotiated timeout, ms.
        timeout_ms: i32,
        /// Whether the server only reads.
        read_only: bool,
    },
    /// The connection is lost; the session lives on if a server is reached in time.
    Reconnecting,
    /// A server said that the session is over.
    Expired,
    /// Closed by the application.
    Closed,
}

impl State {
    pub(crate) fn connected(server: Arc<str>, accepted: &Accepted) -> Self {
        Self::Connected {
            server,
            session: accepted.session.id,
            timeout_ms: accepted.timeout_ms,
            read_only: accepted.read_only,
        }
    }
}

/// A request on its way from a caller to the driver.
#[derive(Debug)]
pub(crate) struct Command {
    pub(crate) op: OpCode,
    pub(crate) path: Option<Str>,
    pub(crate) body: Bytes,
    pub(crate) watch: Option<WatchEffect>,
    pub(crate) reply: oneshot::Sender<Result<Reply>>,
}

impl Command {
    fn call(&self, server: &Arc<str>) -> Call {
        Call {
            op: self.op,
            path: self.path.clone(),
            server: Arc::clone(server),
        }
    }
}

/// Opens the session that `options` ask for, trying each server once.
pub(crate) async fn connect(options: &Options) -> Result<(usize, RawConnection)> {
    let mut last = Error::NoServers;
    for (index, server) in options.servers.iter().enumerate() {
        match RawConnection::open(server, &options.handshake()).await {
            Ok(connection) => return Ok((index, connection)),
            Err(error) if error.ends_session() => return Err(error),
            Err(error) => last = error,
        }
    }
    Err(last)
}

pub(crate) struct Driver {
    pub(crate) options: Options,
    pub(crate) commands: mpsc::Receiver<Command>,
    pub(crate) events: broadcast::Sender<WatchEvent>,
    pub(crate) state: watch::Sender<State>,
    /// Index of the server connected to last.
    pub(crate) server: usize,
    pub(crate) session: Session,
    pub(crate) timeout: Duration,
    pub(crate) last_zxid: Zxid,
    pub(crate) watches: Watches,
    /// Packets of the auths that succeeded, in order.
    pub(crate) auths: Vec<Bytes>,
    pub(crate) next_xid: i32,
}

/// One connection while it is served.
struct Link {
    server: Arc<str>,
    wire: Wire<transport::Stream>,
    in_flight: InFlight,
    /// Auths of [`Driver::restore`] that are not yet answered; nobody waits for them.
    auths_restored: usize,
    last_sent: Instant,
    last_heard: Instant,
}

/// Why serving stopped.
enum End {
    Lost(LossReason),
    /// The session was closed, or nobody is left to serve.
    Closed,
}

impl Driver {
    /// Serves until the session ends or every handle is dropped.
    pub(crate) async fn run(mut self, first: RawConnection) {
        let mut connection = first;
        let end_state = loop {
            match self.serve(connection).await {
                End::Closed => break State::Closed,
                End::Lost(reason) => {
                    let session = self.session.id;
                    tracing::debug!(%session, %reason, "connection lost");
                }
            }
            let _ = self.state.send(State::Reconnecting);
            match self.reconnect().await {
                ControlFlow::Continue(next) => connection = next,
                ControlFlow::Break(state) => break state,
            }
        };
        self.commands.close();
        let expired = end_state == State::Expired;
        let _ = self.state.send(end_state);
        while let Ok(command) = self.commands.try_recv() {
            let error = match expired {
                true => Error::SessionExpired {
                    session: self.session.id,
                    server: self.server_name(),
                },
                false => Error::Closed { op: command.op },
            };
            let _ = command.reply.send(Err(error));
        }
    }

    fn server_name(&self) -> Arc<str> {
        let name = self.options.servers.get(self.server);
        name.cloned().unwrap_or_default()
    }

    /// Time without a byte from the server after which the connection counts as dead.
    fn silence_max(&self) -> Duration {
        self.timeout * 2 / 3
    }

    /// Time without a request after which a ping keeps the session alive.
    fn ping_after(&self) -> Duration {
        (self.timeout / 3).min(Duration::from_secs(10))
    }

    async fn serve(&mut self, connection: RawConnection) -> End {
        let accepted = connection.accepted;
        let connected = State::connected(self.server_name(), &accepted);
        self.session = accepted.session;
        self.timeout = Duration::from_millis(u64::try_from(accepted.timeout_ms).unwrap_or(0));
        let now = Instant::now();
        let mut link = Link {
            server: self.server_name(),
            wire: connection.wire,
            in_flight: InFlight::default(),
            auths_restored: self.auths.len(),
            last_sent: now,
            last_heard: now,
        };
        self.restore(&mut link);
        let _ = self.state.send(connected);
        loop {
            match self.step(&mut link).await {
                Ok(ControlFlow::Continue(())) => {}
                Ok(ControlFlow::Break(())) => {
                    link.in_flight.fail_all(&LossReason::ClosedByServer);
                    return End::Closed;
                }
                Err(reason) => {
                    link.in_flight.fail_all(&reason);
                    return End::Lost(reason);
                }
            }
        }
    }

    /// Puts credentials and watches in front of whatever is sent next.
    fn restore(&self, link: &mut Link) {
        let out = link.wire.outbound();
        for packet in &self.auths {
            put_request(Xid::AUTH, OpCode::Auth.number(), out, |out| {
                out.extend_from_slice(packet);
            });
        }
        for request in self.watches.set_again(self.last_zxid) {
            let op = OpCode::SetWatches2;
            put_request(Xid::SET_WATCHES, op.number(), out, |out| {
                request.encode(op, out);
            });
        }
    }

    async fn step(&mut self, link: &mut Link) -> Result<ControlFlow<()>, LossReason> {
        let has_room = |link: &Link| {
            link.in_flight.len() < IN_FLIGHT_MAX && link.wire.unsent() < OUTBOUND_BYTES_MAX
        };
        let ping_at = link.last_sent + self.ping_after();
        let dead_at = link.last_heard + self.silence_max();
        let room = has_room(link);
        tokio::select! {
            turned = link.wire.turn() => {
                turned?;
                link.last_heard = Instant::now();
                return self.take_frames(link);
            }
            command = self.commands.recv(), if room => {
                let Some(command) = command else {
                    // Every handle is gone without a close: the session is left to time out.
                    return Ok(ControlFlow::Break(()));
                };
                self.send(link, command);
                while has_room(link) && let Ok(command) = self.commands.try_recv() {
                    self.send(link, command);
                }
                link.last_sent = Instant::now();
            }
            () = sleep_until(ping_at.min(dead_at)) => {
                let now = Instant::now();
                if now >= dead_at {
                    let silent_ms = (now - link.last_heard).as_millis();
                    return Err(LossReason::Silent { silent_ms });
                }
                put_request(Xid::PING, OpCode::Ping.number(), link.wire.outbound(), |_| ());
                link.last_sent = now;
            }
        }
        Ok(ControlFlow::Continue(()))
    }

    fn send(&mut self, link: &mut Link, command: Command) {
        if command.reply.is_closed() {
            return;
        }
        let is_auth = command.op == OpCode::Auth;
        let xid = if is_auth { Xid::AUTH } else { self.take_xid() };
        put_request(xid, command.op.number(), link.wire.outbound(), |out| {
            out.extend_from_slice(&command.body);
        });
        link.in_flight.push(Pending {
            xid,
            call: command.call(&link.server),
            watch: command.watch,
            auth: is_auth.then_some(command.body),
            reply: command.reply,
        });
    }

    /// 1, 2, 3 ... and from 2^31-2 to 1 again: what is not positive is reserved.
    fn take_xid(&mut self) -> Xid {
        let xid = self.next_xid;
        self.next_xid = if xid >= i32::MAX - 1 { 1 } else { xid + 1 };
        Xid(xid)
    }

    fn take_frames(&mut self, link: &mut Link) -> Result<ControlFlow<()>, LossReason> {
        while let Some(frame) = link.wire.next_frame()? {
            let (header, body) = split_reply(frame)?;
            match header.xid {
                Xid::EVENT => self.handle_event(&header, body)?,
                Xid::PING => {}
                Xid::SET_WATCHES => {
                    if header.err != 0 {
                        tracing::warn!(err = header.err, "watches were not set again");
                    }
                }
                Xid::AUTH if link.auths_restored > 0 => {
                    link.auths_restored -= 1;
                    if header.err != 0 {
                        tracing::warn!(err = header.err, "credentials were refused on reconnect");
                        self.auths.clear();
                    }
                }
                _ => {
                    let body = Bytes::copy_from_slice(body);
                    let pending = link.in_flight.answered_by(&header)?;
                    if self.handle_reply(pending, header, body)?.is_break() {
                        return Ok(ControlFlow::Break(()));
                    }
                }
            }
        }
        Ok(ControlFlow::Continue(()))
    }

    fn handle_event(&mut self, header: &ReplyHeader, body: &[u8]) -> Result<(), LossReason> {
        let mut input = Reader::new(Bytes::copy_from_slice(body));
        let event = WatcherEvent::decode(&mut input).map_err(|source| LossReason::Decode {
            what: "watch event",
            source,
        })?;
        let Some(kind) = EventType::from_i32(event.event_type) else {
            tracing::warn!(kind = event.event_type, "watch event of an unknown type");
            return Ok(());
        };
        self.watches.handle_event(kind, &event.path);
        // It is no error that nobody listens.
        let _ = self.events.send(WatchEvent {
            kind,
            path: event.path,
            zxid: header.zxid,
        });
        Ok(())
    }

    fn handle_reply(
        &mut self,
        pending: Pending,
        header: ReplyHeader,
        body: Bytes,
    ) -> Result<ControlFlow<()>, LossReason> {
        let op = pending.call.op;
        if header.zxid > self.last_zxid {
            self.last_zxid = header.zxid;
        }
        if let (Some(effect), Some(path)) = (pending.watch, &pending.call.path) {
            self.watches.handle_reply(effect, path, header.err);
        }
        let result = match header.err {
            // A multiRead that failed has its results so far in the body, of use to nobody.
            0 => Ok(Reply { header, body }),
            code => Err(Error::Op {
                call: pending.call,
                code,
            }),
        };
        let succeeded = result.is_ok();
        if let (Some(packet), true) = (pending.auth, succeeded)
            && self.auths.len() < AUTHS_MAX
            && !self.auths.contains(&packet)
        {
            self.auths.push(packet);
        }
        let _ = pending.reply.send(result);
        match op {
            OpCode::CloseSession if succeeded => Ok(ControlFlow::Break(())),
            OpCode::Auth if !succeeded => Err(LossReason::AuthFailed),
            _ => Ok(ControlFlow::Continue(())),
        }
    }

    /// Goes on with the session at the next server that takes it.
    async fn reconnect(&mut self) -> ControlFlow<State, RawConnection> {
        let mut pause = PAUSE_MIN;
        // Servers give every session a full timeout after a restart, so trying goes on; but
        // calls are not kept waiting for longer than the session may last.
        let patience_ends = Instant::now() + self.timeout;
        loop {
            self.server = (self.server + 1) % self.options.servers.len().max(1);
            let server = self.server_name();
            let handshake = Handshake {
                session: Some(self.session.clone()),
                last_zxid_seen: self.last_zxid,
                ..self.options.handshake()
            };
            let error = match RawConnection::open(&server, &handshake).await {
                Ok(connection) => return ControlFlow::Continue(connection),
                Err(Error::SessionExpired { .. }) => return ControlFlow::Break(State::Expired),
                Err(error) => error,
            };
            tracing::debug!(session = %self.session.id, %error, "not reconnected");
            if self.commands.is_closed() && self.commands.is_empty() {
                return ControlFlow::Break(State::Closed);
            }
            if Instant::now() >= patience_ends && self.refuse_waiting(&server, &error).is_break() {
                return ControlFlow::Break(State::Closed);
            }
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(PAUSE_MAX);
        }
    }

    /// Answers the calls that wait for a connection; a close among them ends the client.
    fn refuse_waiting(&mut self, server: &Arc<str>, last: &Error) -> ControlFlow<()> {
        while let Ok(command) = self.commands.try_recv() {
            let is_close = command.op == OpCode::CloseSession;
            let call = command.call(server);
            let last = Box::new(last.clone());
            let _ = command.reply.send(Err(Error::Unreachable { call, last }));
            if is_close {
                return ControlFlow::Break(());
            }
        }
        ControlFlow::Continue(())
    }
}

/// Pause after a failed attempt to reconnect: doubles from the first to the last.
const PAUSE_MIN: Duration = Duration::from_millis(20);
const PAUSE_MAX: Duration = Duration::from_secs(1);
