//! From the bytes of a socket to answered, queued or submitted requests.

use std::collections::VecDeque;
use std::sync::Arc;

use bytes::{Buf, Bytes, BytesMut};
use jute::{Decode, Limits, Reader};
use proto::connect::{AuthPacket, RequestHeader, SaslToken};
use proto::request::{ReadRequest, Request, WriteRequest};
use proto::{ErrorCode, Id, OpCode, OpKind, Xid, Zxid};
use replica::{ClientRequest, SyncRequest};

use super::answer::{Asked, Desk, UNDECODABLE};
use super::connection::{Connection, ConnectionState, Queued, Work};
use super::large::{LargeRequest, TooMuch};
use crate::limits;
use crate::local_sessions::WriteStep;
use crate::metrics::Replies;
use crate::settings::Settings;
use crate::shared::Shared;

/// One decoded frame.
pub(crate) struct Parsed {
    xid: Xid,
    kind: Kind,
    /// The record as the client sent it, for a leader elsewhere; it shares the frame's memory.
    body: Bytes,
    large: Option<LargeRequest>,
}

enum Kind {
    Write(WriteRequest),
    Read(OpCode, ReadRequest),
    Sync(Option<jute::Str>),
    Undecodable(OpCode),
    Auth(AuthPacket),
    Sasl,
    UnknownOp(i32),
}

/// Requests decoded from one read of the socket, in order.
#[derive(Default)]
pub(crate) struct Batch {
    requests: VecDeque<Parsed>,
    /// How many of them need a permit of the pipeline.
    pub(crate) writes: usize,
    /// Whether they waited so long for their place that they are refused.
    pub(crate) is_late: bool,
    /// Bytes of their frames, prefix included.
    pub(crate) bytes: usize,
    /// Whether the connection must close once they are answered: the bytes behind them are no
    /// frame.
    pub(crate) broken: Option<FrameFault>,
}

/// Why the bytes of a connection make no sense.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum FrameFault {
    /// The length is negative or above `jute.maxbuffer`.
    #[error("frame length {len} is not between 0 and {limit} (jute.maxbuffer)")]
    Length { len: i32, limit: usize },
    /// The frame is too short for a request header.
    #[error("frame of {len} bytes is too short for a request header")]
    Header { len: usize },
    /// `largeRequestMaxBytes` of large requests are under way.
    #[error("no room for a large request of {len} bytes (largeRequestMaxBytes)")]
    TooMuch { len: usize },
    /// Credentials or a SASL token that do not decode.
    #[error("the {op} packet does not decode")]
    Credentials { op: &'static str },
}

impl Kind {
    /// The operation, for those that go through the queue.
    fn op(&self) -> Option<OpCode> {
        match self {
            Self::Write(request) => Some(request.op()),
            Self::Read(op, _) | Self::Undecodable(op) => Some(*op),
            Self::Sync(_) => Some(OpCode::Sync),
            Self::Auth(_) | Self::Sasl | Self::UnknownOp(_) => None,
        }
    }
}

/// Sessions must be kept and ended however busy the server is.
fn may_be_refused(op: OpCode) -> bool {
    !matches!(op, OpCode::Ping | OpCode::CloseSession)
}

impl Batch {
    pub(crate) fn is_empty(&self) -> bool {
        self.requests.is_empty() && self.broken.is_none()
    }
}

/// Splits the next frame off `input`: its body without the length, `None` if bytes are missing.
pub(crate) fn split_frame(input: &mut BytesMut, limit: usize) -> Result<Option<Bytes>, FrameFault> {
    let Some(prefix) = input.first_chunk::<4>() else {
        return Ok(None);
    };
    let len = i32::from_be_bytes(*prefix);
    let body = usize::try_from(len).ok().filter(|body| *body <= limit);
    let Some(body) = body else {
        return Err(FrameFault::Length { len, limit });
    };
    if input.len() - 4 < body {
        return Ok(None);
    }
    input.advance(4);
    Ok(Some(input.split_to(body).freeze()))
}

/// Decodes the complete frames of `input`, at most a batch of them.
pub(crate) fn decode_batch(shared: &Shared, input: &mut BytesMut) -> Batch {
    let Settings {
        jute_max_buffer,
        field_limits,
        ..
    } = shared.settings;
    let mut batch = Batch::default();
    while batch.requests.len() < limits::BATCH_REQUESTS_MAX {
        let frame = match split_frame(input, jute_max_buffer) {
            Ok(Some(frame)) => frame,
            Ok(None) => break,
            Err(fault) => {
                batch.broken = Some(fault);
                break;
            }
        };
        batch.bytes += frame.len() + 4;
        let large = shared.large_requests.admit(frame.len());
        let len = frame.len();
        let parsed = match large {
            Ok(large) => decode(frame, field_limits, large),
            Err(TooMuch) => {
                shared.metrics.large_requests_rejected.inc();
                Err(FrameFault::TooMuch { len })
            }
        };
        match parsed {
            Ok(parsed) => {
                batch.writes += usize::from(matches!(parsed.kind, Kind::Write(_)));
                batch.requests.push_back(parsed);
            }
            Err(fault) => {
                batch.broken = Some(fault);
                break;
            }
        }
    }
    batch
}

fn decode(
    frame: Bytes,
    field_limits: Limits,
    large: Option<LargeRequest>,
) -> Result<Parsed, FrameFault> {
    let len = frame.len();
    let mut input = Reader::with_limits(frame, field_limits);
    let header = RequestHeader::decode(&mut input).map_err(|_| FrameFault::Header { len })?;
    let body = input.clone().rest();
    let kind = match OpCode::from_i32(header.op) {
        Some(op) if op.kind() == OpKind::Connection => credentials(op, &mut input)?,
        Some(op) if op.kind() != OpKind::Internal => match Request::decode(op, &mut input) {
            Ok(Request::Write(request)) => Kind::Write(request),
            Ok(Request::Read(request)) => Kind::Read(op, request),
            Ok(Request::Sync(request)) => Kind::Sync(request.path),
            Err(error) => {
                tracing::debug!(op = op.name(), err = %error, "request does not decode");
                Kind::Undecodable(op)
            }
        },
        _ => Kind::UnknownOp(header.op),
    };
    Ok(Parsed {
        xid: header.xid,
        kind,
        body,
        large,
    })
}

fn credentials(op: OpCode, input: &mut Reader) -> Result<Kind, FrameFault> {
    let fault = FrameFault::Credentials { op: op.name() };
    if op == OpCode::Auth {
        return AuthPacket::decode(input).map(Kind::Auth).map_err(|_| fault);
    }
    let token = SaslToken::decode(input).map_err(|_| fault)?;
    token.token.map(|_| Kind::Sasl).ok_or(fault)
}

/// Handles a batch under one shared hold of the tree: answers what can be, queues what must
/// wait, submits the writes. The caller has taken a permit for each write.
///
/// Stops early when the outbox holds [`limits::OUTBOX_BYTES_SOFT`]; the rest stays in the batch
/// until that is written. What stays in `batch.writes` at the end are permits to give back.
pub(crate) fn handle_batch(
    shared: &Shared,
    connection: &Arc<Connection>,
    batch: &mut Batch,
    now_ms: u64,
) {
    let tree = shared.tree.read();
    if connection.is_closed() {
        // The server's role may have ended: the tree may hold by now what was never committed.
        batch.requests.clear();
        batch.broken = None;
        return;
    }
    let mut state = connection.lock();
    let mut replies = Replies::default();
    let desk = Desk {
        shared,
        tree: &tree,
        connection,
        now_ms,
    };
    let is_late = batch.is_late;
    let mut intake = Intake {
        shared,
        connection,
        desk: &desk,
        now_ms,
        is_late,
        submissions: Vec::with_capacity(batch.writes),
    };
    let mut handled = 0;
    while !state.ends_after_flush && state.outbox.len() < limits::OUTBOX_BYTES_SOFT {
        let Some(parsed) = batch.requests.pop_front() else {
            break;
        };
        batch.writes -= usize::from(intake.handle(&mut state, &mut replies, parsed));
        handled += 1;
    }
    if state.ends_after_flush {
        batch.requests.clear();
    }
    if let Some(fault) = batch.broken.take_if(|_| batch.requests.is_empty()) {
        tracing::warn!(peer = %connection.peer, session = %connection.session(), err = %fault, "closing connection");
        state.ends_after_flush = true;
    }
    connection.stats.packets_received(handled);
    // Under the tree's lock: nothing is submitted by a connection that a changed role has closed.
    intake.hand_over();
    drop(state);
    drop(tree);
    shared.stats.packets_received(handled);
    shared
        .metrics
        .bytes_received_count
        .add(std::mem::take(&mut batch.bytes) as u64);
    shared.stats.replied(&replies);
}

/// Sorts the requests of one connection.
struct Intake<'a> {
    shared: &'a Shared,
    connection: &'a Arc<Connection>,
    desk: &'a Desk<'a>,
    now_ms: u64,
    is_late: bool,
    /// Writes for the core, which gets them in one message. See [`Intake::hand_over`].
    submissions: Vec<ClientRequest>,
}

impl Intake<'_> {
    /// Whether a permit went on with a submission.
    fn handle(
        &mut self,
        state: &mut ConnectionState,
        replies: &mut Replies,
        parsed: Parsed,
    ) -> bool {
        let Parsed {
            xid,
            kind,
            body,
            large,
        } = parsed;
        if state.is_closing_local() {
            // As behind any closeSession.
            return false;
        }
        if !matches!(kind, Kind::Auth(_) | Kind::Sasl) && !self.is_let_in(&state.identities) {
            tracing::warn!(peer = %self.connection.peer, session = %self.connection.session(), "client has not authenticated by a scheme of enforce.auth.schemes, closing connection");
            self.refuse(
                state,
                replies,
                self.asked(xid, OpCode::Auth),
                Zxid::ZERO,
                ErrorCode::SessionClosedRequireSaslAuth,
            );
            return false;
        }
        if let Some(op) = kind.op().filter(|op| self.is_late && may_be_refused(*op)) {
            self.shared.metrics.throttled_ops.inc();
            let work = Work::Refuse(ErrorCode::ThrottledOp);
            self.enqueue(state, replies, self.asked(xid, op), work);
            return false;
        }
        match kind {
            Kind::Write(request) => {
                let asked = self.asked(xid, request.op());
                return self.write(state, replies, asked, request, (body, large));
            }
            Kind::Sync(_) if self.connection.is_read_only() => {
                let work = Work::Refuse(ErrorCode::NotReadOnly);
                self.enqueue(state, replies, self.asked(xid, OpCode::Sync), work);
            }
            Kind::Read(op, request) if state.queue.is_empty() => {
                let identities = state.identities.clone();
                self.desk
                    .read(state, replies, self.asked(xid, op), &request, &identities);
            }
            Kind::Read(op, request) => {
                let identities = state.identities.clone();
                let work = Work::Read {
                    request,
                    identities,
                };
                self.enqueue(state, replies, self.asked(xid, op), work);
            }
            Kind::Sync(path) if self.shared.syncs_in_core() => {
                let work = Work::ForwardedSync { path: path.clone() };
                let asked = self.asked(xid, OpCode::Sync);
                state.queue.push_back(Queued { asked, work });
                self.hand_over();
                let sync = SyncRequest {
                    ticket: self.connection.ticket(),
                    session: self.connection.session(),
                    cxid: xid.0,
                    identities: state.identities.clone(),
                    path,
                };
                self.shared.forward_sync(self.connection, sync);
            }
            Kind::Sync(path) => {
                self.enqueue(
                    state,
                    replies,
                    self.asked(xid, OpCode::Sync),
                    Work::Sync { path },
                );
            }
            Kind::Undecodable(op) => {
                let is_refused = self.connection.is_read_only() && op.kind() != OpKind::Read;
                let work = Work::Refuse(match is_refused {
                    true => ErrorCode::NotReadOnly,
                    false => UNDECODABLE,
                });
                self.enqueue(state, replies, self.asked(xid, op), work);
            }
            Kind::Auth(packet) => self.authenticate(state, replies, xid, &packet),
            // No SASL is configured: a null token says that there is nothing to exchange.
            Kind::Sasl => {
                let asked = self.asked(xid, OpCode::Sasl);
                self.desk.reply(state, replies, asked, Zxid::ZERO, |out| {
                    jute::Encode::encode(&None::<Bytes>, out);
                    Ok(())
                });
            }
            Kind::UnknownOp(op) => {
                tracing::warn!(peer = %self.connection.peer, session = %self.connection.session(), op, "unknown operation, closing connection");
                let asked = self.asked(xid, OpCode::Error);
                self.refuse(state, replies, asked, Zxid(-1), ErrorCode::Unimplemented);
            }
        }
        false
    }

    fn asked(&self, xid: Xid, op: OpCode) -> Asked {
        Asked {
            xid,
            op,
            received_ms: self.now_ms,
        }
    }

    /// Whether the identities satisfy `enforce.auth.*`. Source: client-protocol.md 9.8.
    fn is_let_in(&self, identities: &[Id]) -> bool {
        let Some(schemes) = &self.shared.settings.config.auth.enforced_schemes else {
            return true;
        };
        identities
            .iter()
            .any(|id| schemes.iter().any(|scheme| **scheme == *id.scheme))
    }

    /// Answers at once, ahead of the queue, and ends the connection.
    fn refuse(
        &self,
        state: &mut ConnectionState,
        replies: &mut Replies,
        asked: Asked,
        zxid: Zxid,
        err: ErrorCode,
    ) {
        self.desk.reply(state, replies, asked, zxid, |_| Err(err));
        state.ends_after_flush = true;
    }

    /// Sends the core what has gathered. Anything else that is sent to it on behalf of this
    /// connection must come behind.
    fn hand_over(&mut self) {
        if !self.submissions.is_empty() {
            let gathered = std::mem::take(&mut self.submissions);
            self.shared.submit(self.connection, self.now_ms, gathered);
        }
    }

    /// Whether a permit went on with a submission. `frame` is the record as it came, and its share
    /// in the large requests.
    fn write(
        &mut self,
        state: &mut ConnectionState,
        replies: &mut Replies,
        asked: Asked,
        request: WriteRequest,
        frame: (Bytes, Option<LargeRequest>),
    ) -> bool {
        let mut upgrade_ms = None;
        let work = match self.shared.write_step(self.connection, &request) {
            WriteStep::Order => Work::Write,
            WriteStep::UpgradeAndOrder(timeout_ms) => {
                upgrade_ms = Some(timeout_ms);
                Work::Write
            }
            WriteStep::OrderInVain(err) => Work::WriteInVain(err),
            WriteStep::CloseLocal => {
                self.enqueue(state, replies, asked, Work::CloseLocal);
                return false;
            }
            WriteStep::Refuse(err) => {
                self.enqueue(state, replies, asked, Work::Refuse(err));
                return false;
            }
        };
        state.queue.push_back(Queued { asked, work });
        let (body, large) = frame;
        self.submissions.push(ClientRequest {
            ticket: self.connection.ticket(),
            session: self.connection.session(),
            cxid: asked.xid.0,
            identities: state.identities.clone(),
            request,
            body,
            large_bytes: large.map_or(0, LargeRequest::into_bytes),
            upgrade_ms,
        });
        true
    }

    /// Queues `work` behind what is under way; answers it at once if nothing is.
    fn enqueue(
        &self,
        state: &mut ConnectionState,
        replies: &mut Replies,
        asked: Asked,
        work: Work,
    ) {
        state.queue.push_back(Queued { asked, work });
        self.desk.drain_queue(state, replies);
    }

    /// Handled ahead of the queue: requests before it were judged without the new identities,
    /// those behind it are judged with them. Source: client-protocol.md 3.8.
    fn authenticate(
        &self,
        state: &mut ConnectionState,
        replies: &mut Replies,
        xid: Xid,
        packet: &AuthPacket,
    ) {
        let asked = self.asked(xid, OpCode::Auth);
        let peer = self.connection.peer.ip().to_canonical().to_string();
        let scheme = packet.scheme.as_deref();
        let settings = &self.desk.tree.settings().auth;
        let named = tree::auth::authenticate(settings, scheme, packet.auth.as_deref(), &peer);
        if let Some(ensemble) = settings
            .ensemble
            .as_ref()
            .filter(|_| scheme == Some("ensemble"))
        {
            let is_compared = !ensemble.names.is_empty()
                && packet.auth.as_ref().is_some_and(|name| !name.is_empty());
            let metrics = &self.shared.metrics;
            metrics.ensemble_named(named.is_ok(), is_compared);
            if named.is_err() {
                // In silence, so that the client tries another server instead of giving up.
                tracing::warn!(peer = %self.connection.peer, session = %self.connection.session(), "client belongs to another ensemble, closing connection");
                state.ends_after_flush = true;
                return self.connection.close();
            }
        }
        match named {
            Ok(ids) => {
                let mut identities = state.identities.to_vec();
                identities.extend(ids.into_iter().filter(|id| !state.identities.contains(id)));
                state.identities = identities.into();
                self.desk
                    .reply(state, replies, asked, Zxid::ZERO, |_| Ok(()));
            }
            Err(err) => {
                tracing::warn!(peer = %self.connection.peer, session = %self.connection.session(), scheme = scheme.unwrap_or("null"), "authentication failed, closing connection");
                self.shared.stats.auth_failed();
                self.refuse(state, replies, asked, Zxid::ZERO, err);
            }
        }
    }
}
