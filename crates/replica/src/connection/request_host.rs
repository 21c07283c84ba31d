//! Handling of decoded requests: answering, queueing or submitting them.

use std::collections::VecDeque;

use bytes::Bytes;
use jute::{Encode, Str};
use proto::connect::AuthPacket;
use proto::request::{ReadRequest, WriteRequest};
use proto::{ErrorCode, OpCode, Xid, Zxid};

use super::answering::{DrainOutcome, Pace, ReplyHost, Responder};
use super::identities::Identities;
use super::queue::{
    ClientConnection, QueuedWork, REPLIES_BEFORE_WRITE_BYTES, RequestHead, WaitingRead,
};
use super::request::{IncomingRequest, RequestKind, is_slow};
use super::resource_counts::{ResourceCounts, ephemerals_of};
use super::unordered::{SyncStep, refusal_of_undecodable, sync_step};
use crate::interface::effect::Service;
use crate::interface::input::{ClientRequest, SyncRequest, Ticket};
use crate::interface::large_bytes::LargeBytes;
use crate::session::local::{SessionRules, WriteStep, write_step};
use tree::Watches;
use tree::auth::is_authenticated;

/// Rules for requests of a connection that arrive together.
#[derive(Debug, Clone, Copy)]
pub struct ConnectionRules<'a> {
    /// Rules for the connection's session.
    pub sessions: SessionRules,
    /// Current service for clients.
    pub service: Service,
    /// The permitted authentication schemes, if clients must authenticate (`enforce.auth.schemes`).
    pub enforced_schemes: Option<&'a [String]>,
    /// Whether forbidden writes are refused immediately (`enableEagerACLCheck`).
    pub eager_acl_check: bool,
    /// Whether the requests have waited so long that they are refused.
    pub is_late: bool,
    /// Whether the client's watches and ephemeral znodes are bounded. See
    /// [`RequestHost::permits_resources`].
    pub bounds_resources: bool,
    /// Maximum total size of the paths that a connection may watch, bytes.
    pub watch_bytes_max: usize,
}

/// Condition for handling more requests after the outbox is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Resume {
    /// No condition.
    Continue,
    /// Memory for a reply of this size in bytes.
    ReplyMemory(usize),
    /// A turn for a slow read.
    SlowReadTurn,
    /// Answers to queued reads, because the replies are expected to be too long for another write
    /// or `sync` to be queued.
    Wait,
    /// The host's work on the SASL token that is the next request. See
    /// [`RequestHost::needs_token_work`].
    SaslToken,
    /// The connection ends, and its outbox is not sent.
    Close,
}

/// Answer to a SASL token. It must not be logged, because it depends on a password.
pub enum SaslAnswer {
    /// This token, or an answer without a token.
    Token(Option<Bytes>),
    /// Authentication failed, and the connection ends.
    Refused(ErrorCode),
    /// The connection ends without an answer.
    Closed,
}

/// Event of a connection that the host may report.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ConnectionNote<'a> {
    /// A client has named the ensemble that it expects. If this server belongs to another ensemble,
    /// the connection ends without an answer, so that the client tries another server instead of
    /// failing.
    Ensemble {
        /// Whether the named ensemble is this one.
        is_accepted: bool,
        /// Whether the client has sent a name, and this server has names to compare it with.
        is_compared: bool,
    },
    /// The connection has too many identities and ends.
    TooManyIdentities,
    /// The credentials are wrong, or belong to an unsupported scheme, and the connection ends.
    AuthenticationFailed {
        /// Authentication scheme.
        scheme: Option<&'a str>,
    },
    /// The client sent a request without the required authentication, and the connection ends.
    NotAuthenticated,
    /// The client requested an operation that does not exist, and the connection ends.
    UnknownOp(i32),
    /// A request has waited too long and is refused.
    Throttled,
    /// A request would exceed the limit on the client's watches or ephemeral znodes.
    TooManyResources,
}

/// Callbacks to the host while requests of a connection are handled.
pub trait RequestHost: ReplyHost {
    /// Data that the host keeps with an unhandled request.
    type Extra;

    /// Begins handling a request. Returns the data that is kept with the request if it becomes a
    /// waiting read.
    fn begin(&mut self, kind: &RequestKind, extra: Self::Extra) -> Self::Note;

    /// Returns the client's address, in the form used in identities.
    fn address(&self) -> String;

    /// Submits a request for ordering, after all requests submitted earlier.
    fn submit(&mut self, request: ClientRequest);

    /// Submits a sync, after all requests submitted earlier.
    fn sync(&mut self, sync: SyncRequest);

    /// Returns whether a SASL token needs slow work outside this call before it is handled. The
    /// batch then stops before the token.
    fn needs_token_work(&self) -> bool {
        false
    }

    /// Handles a SASL token. An answer without a token means that the exchange has ended.
    fn sasl(&mut self, _: &mut ClientConnection<Self::Note>, _token: &[u8]) -> SaslAnswer {
        SaslAnswer::Token(None)
    }

    /// Returns whether a client that occupies `_held` may occupy `_more` in addition.
    fn permits_resources(&mut self, _held: ResourceCounts, _more: ResourceCounts) -> bool {
        true
    }

    /// Reports an event.
    fn note(&mut self, _note: ConnectionNote<'_>) {}
}

/// Batch of requests of one connection, handled during one hold of the tree.
struct Batch<'a, 'b, H> {
    responder: &'a Responder<'b>,
    rules: ConnectionRules<'a>,
    pace: Pace,
    /// Current identities of the connection, for the requests that follow.
    identities: Identities,
    /// Reason why no further request is handled during this hold of the tree.
    stops: Option<Resume>,
    host: &'a mut H,
}

impl Responder<'_> {
    /// Handles requests of one connection, oldest first: answers, queues or submits them. Deferred
    /// requests in the queue come first.
    ///
    /// Stops early when the outbox is large enough, or before a reply that the pace does not
    /// permit. The remaining requests stay in `incoming`, unless the connection ends.
    pub fn take<H: RequestHost>(
        &self,
        client: &mut ClientConnection<H::Note>,
        incoming: &mut VecDeque<IncomingRequest<H::Extra>>,
        rules: ConnectionRules<'_>,
        pace: Pace,
        host: &mut H,
    ) -> Resume {
        let mut batch = Batch {
            responder: self,
            rules,
            pace,
            identities: client.identities.clone(),
            stops: None,
            host,
        };
        batch.drain(client);
        while batch.stops.is_none()
            && !client.ends_after_flush
            && client.outbox.len() < pace.outbox_bytes
        {
            let Some(next) = incoming.front() else {
                break;
            };
            if next.kind.waits_for_replica() && client.must_delay_writes() {
                return Resume::Wait;
            }
            if matches!(next.kind, RequestKind::Sasl(_)) && batch.host.needs_token_work() {
                return Resume::SaslToken;
            }
            let Some(next) = incoming.pop_front() else {
                break;
            };
            batch.handle(client, next);
        }
        let next = batch.stops.unwrap_or(Resume::Continue);
        if client.ends_after_flush || next == Resume::Close {
            incoming.clear();
        }
        next
    }
}

impl<H: RequestHost> Batch<'_, '_, H> {
    fn handle(
        &mut self,
        client: &mut ClientConnection<H::Note>,
        incoming: IncomingRequest<H::Extra>,
    ) {
        let IncomingRequest {
            xid,
            kind,
            body,
            frame_bytes,
            extra,
        } = incoming;
        let note = self.host.begin(&kind, extra);
        if client.is_closing() {
            // The request is ignored, as in Apache ZooKeeper, where a closing session cannot be
            // touched.
            return;
        }
        if self.refuses_early(client, xid, frame_bytes, &kind) {
            return;
        }
        match kind {
            RequestKind::Write(request) => {
                let head = self.request_head(xid, request.op(), frame_bytes);
                self.write(client, head, request, body);
            }
            RequestKind::Sync(path) => {
                let head = self.request_head(xid, OpCode::Sync, frame_bytes);
                self.sync(client, head, path);
            }
            RequestKind::Read(op, request) => {
                let head = self.request_head(xid, op, frame_bytes);
                self.read(client, head, request, body, note);
            }
            RequestKind::Undecodable(op) => {
                let refusal = refusal_of_undecodable(op, self.rules.sessions.is_read_only);
                let head = self.request_head(xid, op, frame_bytes);
                self.enqueue(client, head, QueuedWork::Refuse(refusal));
            }
            RequestKind::Auth(packet) => self.authenticate(client, xid, &packet),
            RequestKind::Sasl(token) => self.take_token(client, xid, token.expose()),
            RequestKind::UnknownOp(op) => {
                self.host.note(ConnectionNote::UnknownOp(op));
                let head = self.request_head(xid, OpCode::Error, 0);
                self.refuse(client, head, Zxid(-1), ErrorCode::Unimplemented);
            }
        }
    }

    /// Refuses a request for a reason that does not depend on its operation: the client lacks the
    /// required authentication, the request waited for too long, or the client would occupy too
    /// much. Returns whether the request was refused.
    fn refuses_early(
        &mut self,
        client: &mut ClientConnection<H::Note>,
        xid: Xid,
        frame_bytes: usize,
        kind: &RequestKind,
    ) -> bool {
        let is_login = matches!(kind, RequestKind::Auth(_) | RequestKind::Sasl(_));
        if !is_login && !is_authenticated(self.rules.enforced_schemes, &client.identities) {
            self.host.note(ConnectionNote::NotAuthenticated);
            let head = self.request_head(xid, OpCode::Auth, 0);
            let err = ErrorCode::SessionClosedRequireSaslAuth;
            self.refuse(client, head, Zxid::ZERO, err);
            return true;
        }
        let has_long_watches = self.has_too_long_watches(kind);
        if !self.rules.is_late && !self.rules.bounds_resources && !has_long_watches {
            return false;
        }
        let Some(op) = kind.op().filter(|op| op.may_be_throttled()) else {
            return false;
        };
        let exceeds_resources =
            has_long_watches || !self.rules.is_late && self.exceeds_resources(client, kind);
        if !self.rules.is_late && !exceeds_resources {
            return false;
        }
        self.host.note(if exceeds_resources {
            ConnectionNote::TooManyResources
        } else {
            ConnectionNote::Throttled
        });
        let head = self.request_head(xid, op, frame_bytes);
        self.enqueue(client, head, QueuedWork::Refuse(ErrorCode::ThrottledOp));
        // Clients ignore an error reply to this request and would consider their watches set, so
        // the connection ends. A late request receives only the error reply, as in Apache
        // ZooKeeper.
        let sets_again = matches!(op, OpCode::SetWatches | OpCode::SetWatches2);
        client.ends_after_flush |= exceeds_resources && sets_again;
        true
    }

    /// Returns whether a watch would exceed the connection's limit on the total size of watched
    /// paths. Watches that a client sets again after a reconnect are exempt, because the client
    /// relies on them.
    fn has_too_long_watches(&self, kind: &RequestKind) -> bool {
        let RequestKind::Read(_, request) = kind else {
            return false;
        };
        if !Watches::may_grow_by(request) || matches!(request, ReadRequest::SetWatches(_)) {
            return false;
        }
        let Responder {
            watches, watcher, ..
        } = *self.responder;
        let watches = watches.lock();
        let added = watches.path_bytes_added_by(watcher, request);
        added > 0 && watches.path_bytes_of(watcher) + added > self.rules.watch_bytes_max
    }

    /// Returns whether the client would have too many watches or ephemeral znodes.
    fn exceeds_resources(
        &mut self,
        client: &ClientConnection<H::Note>,
        kind: &RequestKind,
    ) -> bool {
        if !self.rules.bounds_resources {
            return false;
        }
        let more = ResourceCounts::added_by(kind, self.responder);
        more != ResourceCounts::default()
            && !self
                .host
                .permits_resources(ResourceCounts::of(client, self.responder), more)
    }

    fn request_head(&self, xid: Xid, op: OpCode, frame_bytes: usize) -> RequestHead {
        RequestHead {
            xid,
            op,
            received_ms: self.responder.now_ms,
            frame_bytes,
        }
    }

    /// Answers with an error immediately, before all queued requests, and then ends the connection.
    fn refuse(
        &mut self,
        client: &mut ClientConnection<H::Note>,
        head: RequestHead,
        zxid: Zxid,
        err: ErrorCode,
    ) {
        self.responder
            .reply(client, head, zxid, self.host, |_| Err(err));
        client.ends_after_flush = true;
    }

    fn write(
        &mut self,
        client: &mut ClientConnection<H::Note>,
        head: RequestHead,
        request: WriteRequest,
        body: Bytes,
    ) {
        let (rules, responder) = (self.rules, self.responder);
        let is_checked = rules.eager_acl_check && !rules.sessions.is_read_only;
        if is_checked && let Some(err) = responder.tree.eager_refusal(&request, &self.identities) {
            // This answer does not wait for queued requests and does not need a transaction.
            return responder.reply(client, head, Zxid::ZERO, self.host, |_| Err(err));
        }
        let host = &*self.host;
        let step = write_step(rules.sessions, responder.session, &request, || {
            host.sessions()
        });
        let ephemerals = if rules.bounds_resources {
            ephemerals_of(&request)
        } else {
            0
        };
        let write = QueuedWork::Write { ephemerals };
        let (work, upgrade_ms) = match step {
            WriteStep::Order => (write, None),
            WriteStep::UpgradeAndOrder(timeout_ms) => (write, Some(timeout_ms)),
            WriteStep::OrderInVain(err) => (QueuedWork::WriteInVain(err), None),
            WriteStep::CloseLocal => return self.enqueue(client, head, QueuedWork::CloseLocal),
            WriteStep::Refuse(err) => return self.enqueue(client, head, QueuedWork::Refuse(err)),
        };
        client.enqueue(head, work);
        self.host.submit(ClientRequest {
            ticket: Ticket(responder.watcher.0),
            session: responder.session,
            cxid: head.xid.0,
            identities: self.identities.clone(),
            request,
            body,
            large_bytes: LargeBytes::NONE,
            upgrade_ms,
        });
    }

    fn sync(
        &mut self,
        client: &mut ClientConnection<H::Note>,
        head: RequestHead,
        path: Option<Str>,
    ) {
        let ConnectionRules {
            sessions, service, ..
        } = self.rules;
        match sync_step(service, sessions.is_read_only) {
            SyncStep::Ask => {
                let work = QueuedWork::ForwardedSync { path: path.clone() };
                client.enqueue(head, work);
                self.host.sync(SyncRequest {
                    ticket: Ticket(self.responder.watcher.0),
                    session: self.responder.session,
                    cxid: head.xid.0,
                    identities: self.identities.clone(),
                    path,
                });
            }
            SyncStep::Answer => self.enqueue(client, head, QueuedWork::Sync { path }),
            SyncStep::Refuse(err) => self.enqueue(client, head, QueuedWork::Refuse(err)),
        }
    }

    /// Queues `work` after the waiting requests, or answers it immediately if there are none.
    fn enqueue(
        &mut self,
        client: &mut ClientConnection<H::Note>,
        head: RequestHead,
        work: QueuedWork<H::Note>,
    ) {
        client.enqueue(head, work);
        self.drain(client);
    }

    fn drain(&mut self, client: &mut ClientConnection<H::Note>) {
        match self.responder.drain(client, self.pace, self.host) {
            DrainOutcome::All => {}
            DrainOutcome::Some => self.stops = Some(Resume::Continue),
            DrainOutcome::TooLong(bytes) => self.stops = Some(Resume::ReplyMemory(bytes)),
            DrainOutcome::Slow => self.stops = Some(Resume::SlowReadTurn),
        }
    }

    /// Answers a read immediately if the queue is empty and the pace permits it. Otherwise queues
    /// the read. `body` is the undecoded record.
    fn read(
        &mut self,
        client: &mut ClientConnection<H::Note>,
        head: RequestHead,
        request: ReadRequest,
        body: Bytes,
        note: H::Note,
    ) {
        let tree = self.responder.tree;
        let is_first = client.waiting() == 0;
        let is_slow = is_slow(tree, &request);
        if is_first && is_slow && !self.pace.answers_slow {
            self.stops = Some(Resume::SlowReadTurn);
        } else if is_first {
            let (identities, room) = (&*self.identities, self.pace.room);
            let answered = self
                .responder
                .read(client, head, &request, identities, room, self.host);
            let Err(bytes) = answered else {
                if is_slow {
                    self.stops = Some(Resume::Continue);
                }
                return;
            };
            self.stops = Some(Resume::ReplyMemory(bytes));
        }
        let mut expected_bytes = tree.expected_bytes(&request);
        if is_slow {
            // The next write must also wait for a slow read whose reply is short.
            expected_bytes = expected_bytes.max(REPLIES_BEFORE_WRITE_BYTES + 1);
        }
        let work = QueuedWork::Read {
            request: WaitingRead::new(head.op, request, body),
            identities: self.identities.clone(),
            expected_bytes: expected_bytes.max(client.longest_write()),
            is_slow,
            note,
        };
        client.enqueue(head, work);
    }

    /// Answers a SASL token. The answer contains a null token if no token of the server follows.
    /// Like credentials, tokens do not wait for queued requests.
    fn take_token(&mut self, client: &mut ClientConnection<H::Note>, xid: Xid, token: &[u8]) {
        let answer = self.host.sasl(client, token);
        self.identities = client.identities.clone();
        let (token, outcome) = match answer {
            SaslAnswer::Token(token) => (token, Ok(())),
            SaslAnswer::Refused(err) => (None, Err(err)),
            SaslAnswer::Closed => return self.stops = Some(Resume::Close),
        };
        client.ends_after_flush |= outcome.is_err();
        let head = self.request_head(xid, OpCode::Sasl, 0);
        self.responder
            .reply(client, head, Zxid::ZERO, self.host, |out| {
                token.encode(out);
                outcome
            });
    }

    /// Handles credentials immediately. Requests that are already queued keep the old identities,
    /// and later requests use the new identities. Source: ZooKeeperServer.processPacket.
    fn authenticate(
        &mut self,
        client: &mut ClientConnection<H::Note>,
        xid: Xid,
        packet: &AuthPacket,
    ) {
        let head = self.request_head(xid, OpCode::Auth, 0);
        let settings = &self.responder.tree.settings().auth;
        let scheme = packet.scheme.as_deref();
        let address = self.host.address();
        let data = packet.auth.expose().as_deref();
        let named = tree::auth::authenticate(settings, scheme, data, &address);
        let ensemble = settings.ensemble.as_ref();
        if let Some(ensemble) = ensemble.filter(|_| scheme == Some("ensemble")) {
            let is_named = data.is_some_and(|name| !name.is_empty());
            let is_accepted = named.is_ok();
            self.host.note(ConnectionNote::Ensemble {
                is_accepted,
                is_compared: !ensemble.names.is_empty() && is_named,
            });
            if !is_accepted {
                self.stops = Some(Resume::Close);
                return;
            }
        }
        let merge_identities = named.map(|named| client.add_identities(named));
        match merge_identities {
            Ok(Ok(())) => {
                self.identities = client.identities.clone();
                self.responder
                    .reply(client, head, Zxid::ZERO, self.host, |_| Ok(()));
            }
            Ok(Err(_)) => {
                self.host.note(ConnectionNote::TooManyIdentities);
                self.refuse(client, head, Zxid::ZERO, ErrorCode::AuthFailed);
            }
            Err(err) => {
                self.host
                    .note(ConnectionNote::AuthenticationFailed { scheme });
                self.refuse(client, head, Zxid::ZERO, err);
            }
        }
    }
}
