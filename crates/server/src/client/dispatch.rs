//! From decoded requests to answered, queued or submitted ones.

use std::sync::Arc;

use bytes::Bytes;
use proto::connect::AuthPacket;
use proto::request::{ReadRequest, WriteRequest};
use proto::{ErrorCode, Id, OpCode, Xid, Zxid};
use replica::{ClientRequest, LargeBytes, SyncRequest, SyncStep, WriteStep};

use super::answer::{Asked, Drained, Grant, Pace, Responder, is_slow};
use super::batch::{Batch, Kind, Parsed};
use super::connection::{Connection, ConnectionState, Identities, Queued, WaitingRead, Work};
use super::large::LargeRequest;
use super::room::Room;
use super::sasl;
use crate::client::clients::Clients;
use crate::limits;
use crate::metrics::Replies;

/// What must happen before more of a batch is handled, once the outbox is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Next {
    /// Nothing.
    GoOn,
    /// Room for a reply of so many bytes.
    Room(usize),
    /// A turn for a read that takes long.
    Turn,
    /// The core has to answer some of what waits.
    Wait,
}

/// Handles a batch under one shared hold of the tree: answers what can be, queues what must
/// wait, submits the writes. The caller has taken a permit for each write. What was left over in
/// the queue comes first.
///
/// Stops early when the outbox holds [`limits::OUTBOX_BYTES_SOFT`], or less if all connections hold
/// a lot; and before a reply that is not short or takes long, unless there is a `grant` for it. The
/// rest stays in the batch and in the queue.
/// What stays in `batch.permits` at the end is to be given back.
pub(crate) fn handle_batch(
    clients: &Clients,
    connection: &Arc<Connection>,
    batch: &mut Batch,
    now_ms: u64,
    grant: Grant,
) -> Next {
    let tree = clients.state.tree.read();
    if connection.is_closed() {
        // The server's role may have ended: the tree may hold by now what was never committed.
        batch.requests.clear();
        batch.broken = None;
        return Next::GoOn;
    }
    let mut state = connection.lock();
    let mut replies = Replies::default();
    let responder = Responder {
        clients,
        tree: &tree,
        connection,
        now_ms,
    };
    let is_late = batch.is_late;
    let pace = Pace::of_task(&state, grant);
    let mut sorter = Sorter {
        clients,
        connection,
        responder: &responder,
        now_ms,
        is_late,
        pace,
        identities: state.identities.clone(),
        stops: None,
        submissions: Vec::with_capacity(batch.writes),
    };
    if connection.has_left_over() {
        sorter.drain(&mut state, &mut replies);
    }
    let mut handled = 0;
    while sorter.stops.is_none()
        && !state.ends_after_flush
        && state.outbox.len() < pace.outbox_bytes()
    {
        let Some(parsed) = batch.requests.pop_front() else {
            break;
        };
        if parsed.kind.waits_for_core() && state.holds_up_writes() {
            batch.requests.push_front(parsed);
            sorter.stops = Some(Next::Wait);
            break;
        }
        let is_write = matches!(parsed.kind, Kind::Write(_));
        let submitted = sorter.handle(&mut state, &mut replies, parsed);
        batch.writes -= usize::from(is_write);
        batch.permits -= usize::from(submitted);
        handled += 1;
    }
    let next = sorter.stops.unwrap_or(Next::GoOn);
    if state.ends_after_flush {
        batch.requests.clear();
    }
    if let Some(fault) = batch.broken.take_if(|_| batch.requests.is_empty()) {
        tracing::warn!(peer = %connection.peer, session = %connection.session(), err = %fault, "closing connection");
        state.ends_after_flush = true;
    }
    connection.stats.packets_received(handled);
    // Under the tree's lock: nothing is submitted by a connection that a changed role has closed.
    sorter.hand_over();
    state.note_roomy(grant.room.unwrap_or(0));
    drop(state);
    drop(tree);
    clients.stats.packets_received(handled);
    clients
        .metrics
        .bytes_received_count
        .add(std::mem::take(&mut batch.bytes) as u64);
    clients.metrics.batch_answered(replies.reads());
    clients.stats.replied(&replies);
    next
}

/// Sorts the requests of one connection.
struct Sorter<'a> {
    clients: &'a Clients,
    connection: &'a Arc<Connection>,
    responder: &'a Responder<'a>,
    now_ms: u64,
    is_late: bool,
    pace: Pace,
    /// Those of the connection: shared once for all of the batch.
    identities: Identities,
    /// Why nothing more is handled under this hold of the tree.
    stops: Option<Next>,
    /// Writes for the core, which gets them in one message. See [`Sorter::hand_over`].
    submissions: Vec<ClientRequest>,
}

impl Sorter<'_> {
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
            frame_room,
            frame_bytes,
        } = parsed;
        if state.is_closing_local() {
            // As behind any closeSession.
            return false;
        }
        if self.is_turned_away(state, replies, (xid, frame_bytes), &kind) {
            return false;
        }
        match kind {
            Kind::Write(request) => {
                let asked = self.asked(xid, request.op(), frame_bytes);
                return self.write(state, replies, asked, request, (body, large));
            }
            Kind::Sync(path) => {
                let asked = self.asked(xid, OpCode::Sync, frame_bytes);
                self.sync(state, replies, asked, path);
            }
            Kind::Read(op, request) => {
                let asked = self.asked(xid, op, frame_bytes);
                self.read(state, replies, asked, request, (body, frame_room));
            }
            Kind::Undecodable(op) => {
                let is_read_only = self.connection.is_read_only();
                let work = Work::Refuse(replica::refusal_of_undecodable(op, is_read_only));
                self.enqueue(state, replies, self.asked(xid, op, frame_bytes), work);
            }
            Kind::Auth(packet) => self.authenticate(state, replies, xid, &packet),
            Kind::Sasl(token) => {
                let answer = sasl::answer(self.clients, self.connection, state, &token);
                self.identities = state.identities.clone();
                let asked = self.asked(xid, OpCode::Sasl, 0);
                self.answer_sasl(state, replies, asked, answer);
            }
            Kind::UnknownOp(op) => {
                tracing::warn!(peer = %self.connection.peer, session = %self.connection.session(), op, "unknown operation, closing connection");
                let asked = self.asked(xid, OpCode::Error, 0);
                self.refuse(state, replies, asked, Zxid(-1), ErrorCode::Unimplemented);
            }
        }
        false
    }

    /// Whether it is refused whatever it asks for: the client has not authenticated as it must, or the
    /// request waited for too long.
    fn is_turned_away(
        &mut self,
        state: &mut ConnectionState,
        replies: &mut Replies,
        (xid, frame_bytes): (Xid, usize),
        kind: &Kind,
    ) -> bool {
        if !matches!(kind, Kind::Auth(_) | Kind::Sasl(_)) && !self.is_let_in(&state.identities) {
            tracing::warn!(peer = %self.connection.peer, session = %self.connection.session(), "client has not authenticated by a scheme of enforce.auth.schemes, closing connection");
            let asked = self.asked(xid, OpCode::Auth, 0);
            let err = ErrorCode::SessionClosedRequireSaslAuth;
            self.refuse(state, replies, asked, Zxid::ZERO, err);
            return true;
        }
        let late = kind
            .op()
            .filter(|op| self.is_late && replica::may_be_throttled(*op));
        if let Some(op) = late {
            self.clients.metrics.throttled_ops.inc();
            let work = Work::Refuse(ErrorCode::ThrottledOp);
            self.enqueue(state, replies, self.asked(xid, op, frame_bytes), work);
        }
        late.is_some()
    }

    fn sync(
        &mut self,
        state: &mut ConnectionState,
        replies: &mut Replies,
        asked: Asked,
        path: Option<jute::Str>,
    ) {
        match self.clients.sync_step(self.connection) {
            SyncStep::Ask => {}
            SyncStep::Answer => {
                return self.enqueue(state, replies, asked, Work::Sync { path });
            }
            SyncStep::Refuse(err) => {
                return self.enqueue(state, replies, asked, Work::Refuse(err));
            }
        }
        let work = Work::ForwardedSync { path: path.clone() };
        let cxid = asked.xid.0;
        state.enqueue(Queued { asked, work });
        self.hand_over();
        let sync = SyncRequest {
            ticket: self.connection.ticket(),
            session: self.connection.session(),
            cxid,
            identities: self.identities.clone(),
            path,
        };
        self.clients.forward_sync(self.connection, sync);
    }

    fn asked(&self, xid: Xid, op: OpCode, frame_bytes: usize) -> Asked {
        Asked {
            xid,
            op,
            received_ms: self.now_ms,
            frame_bytes,
        }
    }

    /// Whether the identities satisfy `enforce.auth.*`. Source: AuthenticationHelper.enforceAuthentication.
    fn is_let_in(&self, identities: &[Id]) -> bool {
        let enforced = &self.clients.settings.config.auth.enforced_schemes;
        replica::is_authenticated(enforced.as_deref(), identities)
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
        self.responder
            .reply(state, replies, asked, zxid, |_| Err(err));
        state.ends_after_flush = true;
    }

    /// Sends the core what has gathered. Anything else that is sent to it on behalf of this
    /// connection must come behind.
    fn hand_over(&mut self) {
        if !self.submissions.is_empty() {
            let gathered = std::mem::take(&mut self.submissions);
            self.clients.submit(self.connection, self.now_ms, gathered);
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
        if self.clients.settings.eager_acl_check
            && !self.connection.is_read_only()
            && let Some(err) = self
                .responder
                .tree
                .refuses_at_once(&request, &self.identities)
        {
            // Ahead of the queue, and without a transaction.
            self.responder
                .reply(state, replies, asked, Zxid::ZERO, |_| Err(err));
            return false;
        }
        let mut upgrade_ms = None;
        let work = match self.clients.write_step(self.connection, &request) {
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
        state.enqueue(Queued { asked, work });
        let (body, large) = frame;
        self.submissions.push(ClientRequest {
            ticket: self.connection.ticket(),
            session: self.connection.session(),
            cxid: asked.xid.0,
            identities: self.identities.clone(),
            request,
            body,
            large_bytes: large.map_or(LargeBytes::NONE, LargeRequest::into_bytes),
            upgrade_ms,
        });
        true
    }

    /// Queues `work` behind what is under way; answers it at once if nothing is.
    fn enqueue(
        &mut self,
        state: &mut ConnectionState,
        replies: &mut Replies,
        asked: Asked,
        work: Work,
    ) {
        state.enqueue(Queued { asked, work });
        self.drain(state, replies);
    }

    fn drain(&mut self, state: &mut ConnectionState, replies: &mut Replies) {
        match self.responder.drain_queue(state, replies, self.pace) {
            Drained::All => {}
            Drained::Some => self.stops = Some(Next::GoOn),
            Drained::TooLong(bytes) => self.stops = Some(Next::Room(bytes)),
            Drained::Slow => self.stops = Some(Next::Turn),
        }
    }

    /// Answers a read at once if nothing is under way. `body` is the record as it came.
    fn read(
        &mut self,
        state: &mut ConnectionState,
        replies: &mut Replies,
        asked: Asked,
        request: ReadRequest,
        (body, frame_room): (Bytes, Option<Room>),
    ) {
        let is_first = state.queue.is_empty();
        let is_slow = is_slow(self.responder.tree, &request);
        if is_first && is_slow && !self.pace.answers_slow() {
            self.stops = Some(Next::Turn);
        } else if is_first {
            let read = (&request, &*self.identities);
            let answered = self
                .responder
                .read(state, replies, asked, read, self.pace.room());
            let Err(bytes) = answered else {
                if is_slow {
                    self.stops = Some(Next::GoOn);
                }
                return;
            };
            self.stops = Some(Next::Room(bytes));
        }
        let mut expected_bytes = self.responder.tree.expected_bytes(&request);
        if is_slow {
            // Nor may the core have to answer it before a write.
            expected_bytes = expected_bytes.max(limits::REPLIES_BEFORE_WRITE_BYTES + 1);
        }
        let work = Work::Read {
            request: WaitingRead::new(asked.op, request, body),
            identities: self.identities.clone(),
            expected_bytes: expected_bytes.max(state.longest_write()),
            is_slow,
            frame_room,
        };
        state.enqueue(Queued { asked, work });
        if is_first {
            self.connection
                .note_left_over(state, &self.clients.left_over);
        } else if self.connection.has_left_over() {
            self.drain(state, replies);
        }
    }

    /// A token goes back in any case, be it none.
    fn answer_sasl(
        &self,
        state: &mut ConnectionState,
        replies: &mut Replies,
        asked: Asked,
        answer: sasl::Answer,
    ) {
        let (token, outcome) = match answer {
            sasl::Answer::Token(token) => (token.map(Bytes::from), Ok(())),
            sasl::Answer::Refused(err) => (None, Err(err)),
            sasl::Answer::Closed => return self.connection.close(),
        };
        state.ends_after_flush |= outcome.is_err();
        self.responder
            .reply(state, replies, asked, Zxid::ZERO, |out| {
                jute::Encode::encode(&token, out);
                outcome
            });
    }

    /// Handled ahead of the queue: requests before it were judged without the new identities,
    /// those behind it are judged with them. Source: ZooKeeperServer.processPacket.
    fn authenticate(
        &mut self,
        state: &mut ConnectionState,
        replies: &mut Replies,
        xid: Xid,
        packet: &AuthPacket,
    ) {
        let asked = self.asked(xid, OpCode::Auth, 0);
        let peer = tree::auth::host_address(self.connection.peer.ip());
        let scheme = packet.scheme.as_deref();
        let settings = &self.responder.tree.settings().auth;
        let named = tree::auth::authenticate(settings, scheme, packet.auth.as_deref(), &peer);
        if let Some(ensemble) = settings
            .ensemble
            .as_ref()
            .filter(|_| scheme == Some("ensemble"))
        {
            let is_compared = !ensemble.names.is_empty()
                && packet.auth.as_ref().is_some_and(|name| !name.is_empty());
            let metrics = &self.clients.metrics;
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
                if !state.add_identities(ids) {
                    tracing::warn!(peer = %self.connection.peer, session = %self.connection.session(), count_max = limits::IDENTITIES_MAX, bytes_max = limits::IDENTITY_BYTES_MAX, "too many identities for one connection, closing it; use fewer or shorter ones");
                    self.clients.stats.auth_failed();
                    return self.refuse(state, replies, asked, Zxid::ZERO, ErrorCode::AuthFailed);
                }
                self.identities = state.identities.clone();
                self.responder
                    .reply(state, replies, asked, Zxid::ZERO, |_| Ok(()));
            }
            Err(err) => {
                tracing::warn!(peer = %self.connection.peer, session = %self.connection.session(), scheme = scheme.unwrap_or("null"), "authentication failed, closing connection");
                self.clients.stats.auth_failed();
                self.refuse(state, replies, asked, Zxid::ZERO, err);
            }
        }
    }
}
