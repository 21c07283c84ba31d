//! Dispatch of decoded requests, which are answered, queued or submitted. This module adds batches,
//! permits and metrics to `replica::connection`.

use std::ops::DerefMut;
use std::sync::Arc;

use admission::{BudgetExceeded, ConnectionBudgets, LargeRequest, MemoryReservation};
use metrics::Replies;
use proto::request::ReadRequest;
use proto::{ErrorCode, OpCode, Zxid};
pub(crate) use replica::connection::Resume;
use replica::connection::{
    ClientConnection, ConnectionNote, IDENTITIES_MAX, IDENTITY_BYTES_MAX, Identities, ReplyHost,
    RequestHead, RequestHost, RequestKind, ResourceCounts, SaslAnswer,
};
use replica::session::Sessions;
use replica::{ClientRequest, SyncRequest};
use tree::Tree;

use crate::clock;
use crate::connection::inbox::ClientMessage;
use crate::connection::{Connection, ConnectionState};
use crate::login::Login;
use crate::login::sasl;
use crate::requests::answer::{AnswerRecorder, LockedConnection, ReadPermits, pace_of_task};
use crate::requests::batch::{Batch, Extra};
use crate::requests::context::RequestContext;

/// Handles a batch under one shared lock of the tree: answers the requests that can be answered,
/// queues those that must wait, and submits the writes. The caller holds a permit for each write.
/// Deferred requests in the queue are handled first.
///
/// Stops early when the outbox holds
/// [`limits::OUTBOX_BYTES_SOFT`](crate::limits::OUTBOX_BYTES_SOFT), or less if all connections
/// together hold many bytes. Also stops before a long or slow reply, unless `read_permits` cover
/// it. The remaining requests stay in the batch and in the queue. The caller must return the
/// permits that remain in `batch.permits`.
pub(crate) fn handle_batch(
    context: &RequestContext,
    connection: &Arc<Connection>,
    batch: &mut Batch,
    now_ms: u64,
    read_permits: ReadPermits,
) -> Resume {
    let (mut replies, mut handled) = (Replies::default(), 0);
    let permits = batch.permits;
    let state = &context.answers.state;
    let next = state.take_requests(&**connection, |tree| {
        let (next, count) = take_batch(
            context,
            connection,
            tree,
            batch,
            now_ms,
            read_permits,
            &mut replies,
        );
        handled = count;
        next
    });
    if batch.permits < permits {
        // The requests handled above included writes.
        context.core.run_inline();
    }
    let Some(next) = next else {
        // The connection has ended.
        batch.requests.clear();
        batch.broken = None;
        return Resume::Continue;
    };
    context.stats.packets_received(handled);
    context
        .metrics
        .bytes_received_count
        .add(std::mem::take(&mut batch.bytes) as u64);
    let reads = replies.reads();
    if reads > 0 {
        let took_ms = clock::monotonic_ms().saturating_sub(now_ms);
        context.metrics.reads_took(reads, took_ms);
    }
    context.metrics.batch_answered(reads);
    context.stats.replied(&replies);
    context.answers.slow.write();
    if let (Some(refused), Some(budgets)) = (batch.refused.take(), &context.ledger.budgets) {
        budgets.log_refusal(&refused, clock::monotonic_ms());
    }
    next
}

/// Handles a batch while the tree is locked. Returns the number of handled requests.
fn take_batch(
    context: &RequestContext,
    connection: &Arc<Connection>,
    tree: &Tree,
    batch: &mut Batch,
    now_ms: u64,
    read_permits: ReadPermits,
    replies: &mut Replies,
) -> (Resume, u64) {
    let served = LockedConnection {
        answers: &context.answers,
        connection,
        now_ms,
    };
    let mut state = connection.lock();
    let responder = served.responder(tree);
    let rules = context.connection_rules(connection, batch.is_late);
    let pace = pace_of_task(&state, read_permits);
    let ConnectionState {
        client,
        sasl,
        connection_budgets,
        ..
    } = &mut *state;
    let mut sorter = RequestDispatcher {
        context,
        noting: served.recorder(replies),
        connection,
        sasl,
        connection_budgets: connection_budgets.as_deref(),
        refused: None,
        handled: 0,
        writes: 0,
        large: None,
        submitted: 0,
        submissions: Vec::with_capacity(batch.writes),
    };
    let next = responder.take(client, &mut batch.requests, rules, pace, &mut sorter);
    // This runs under the tree's lock, so a connection that a role change has closed cannot submit
    // requests.
    sorter.submit_writes();
    let handled = sorter.handled;
    batch.refused = sorter.refused.take();
    batch.writes -= sorter.writes;
    batch.permits -= sorter.submitted;
    if let Some(fault) = batch.broken.take_if(|_| batch.requests.is_empty()) {
        log_limiter::limited!(warn, peer = %connection.peer, session = %connection.session(), err = %fault, "closing connection");
        state.client.ends_after_flush = true;
    }
    connection.stats.packets_received(handled);
    connection.stats.bytes_received(batch.bytes as u64);
    served.note_changed(&mut state);
    state.note_reserved_reply(read_permits.room.unwrap_or(0));
    (next, handled)
}

/// Dispatcher of one connection's requests.
struct RequestDispatcher<'a> {
    context: &'a RequestContext,
    noting: AnswerRecorder<'a>,
    connection: &'a Arc<Connection>,
    sasl: &'a mut Option<Box<Login>>,
    /// Budgets of the connection.
    connection_budgets: Option<&'a ConnectionBudgets>,
    /// Last request that exceeded a budget.
    refused: Option<BudgetExceeded>,
    /// Number of handled requests.
    handled: u64,
    /// Number of writes among the handled requests.
    writes: usize,
    /// Reservation for the current request, if it is large.
    large: Option<LargeRequest>,
    /// Number of submitted writes. Each has a permit.
    submitted: usize,
    /// Writes that the core receives in one message. See [`RequestDispatcher::submit_writes`].
    submissions: Vec<ClientRequest>,
}

impl RequestDispatcher<'_> {
    /// Sends the collected writes to the core. Each has a permit, so the queue has space. Any other
    /// message to the core for this connection must be sent afterwards.
    /// [`CoreInbox::run_inline`](crate::CoreInbox::run_inline) must follow soon.
    fn submit_writes(&mut self) {
        if !self.submissions.is_empty() {
            self.context.core.put(ClientMessage::Submit {
                connection: self.connection.clone(),
                received_ms: self.noting.served.now_ms,
                requests: std::mem::take(&mut self.submissions),
            });
        }
    }
}

impl ReplyHost for RequestDispatcher<'_> {
    type Note = Option<MemoryReservation>;

    fn sessions(&self) -> impl DerefMut<Target = Sessions> {
        self.noting.sessions()
    }

    fn note_reply(&mut self, head: RequestHead, zxid: Zxid, err: ErrorCode, bytes: usize) {
        self.noting.note_reply(head, zxid, err, bytes);
    }

    fn note_event(&mut self, bytes: usize) {
        self.noting.note_event(bytes);
    }

    fn note_read(&mut self, request: &ReadRequest, body: &[u8]) {
        self.noting.note_read(request, body);
    }

    fn note_refusal(&mut self, op: OpCode, err: ErrorCode, identities: &Identities) {
        self.noting.note_refusal(op, err, identities);
    }

    fn note_long_refusal(&mut self, head: RequestHead, bytes: usize) {
        self.noting.note_long_refusal(head, bytes);
    }
}

impl RequestHost for RequestDispatcher<'_> {
    type Extra = Extra;

    fn begin(&mut self, kind: &RequestKind, extra: Extra) -> Option<MemoryReservation> {
        self.handled += 1;
        self.writes += usize::from(kind.is_write());
        self.large = extra.large;
        extra.frame_reservation
    }

    fn address(&self) -> String {
        tree::auth::host_address(self.connection.peer.ip())
    }

    fn submit(&mut self, mut request: ClientRequest) {
        if let Some(large) = self.large.take() {
            request.large_bytes = large.into_bytes();
        }
        self.submitted += 1;
        self.submissions.push(request);
    }

    fn sync(&mut self, sync: SyncRequest) {
        self.submit_writes();
        let message = ClientMessage::Sync(self.connection.clone(), sync);
        self.context.core.send(message);
    }

    fn needs_token_work(&self) -> bool {
        let auth = &self.context.settings.config.auth;
        sasl::needs_token_work(auth, self.sasl.as_deref())
    }

    fn sasl(
        &mut self,
        client: &mut ClientConnection<Option<MemoryReservation>>,
        token: &[u8],
    ) -> SaslAnswer {
        sasl::answer(
            &self.context.settings.config.auth,
            self.context.login_failures(),
            self.connection,
            client,
            self.sasl,
            token,
        )
    }

    fn permits_resources(&mut self, held: ResourceCounts, more: ResourceCounts) -> bool {
        let judged = self
            .connection_budgets
            .map(|connection_budgets| connection_budgets.permits_resources(held, more));
        match judged {
            Some(Err(refused)) => {
                self.refused = Some(refused);
                false
            }
            _ => true,
        }
    }

    fn note(&mut self, note: ConnectionNote<'_>) {
        let (context, connection) = (self.context, self.connection);
        match note {
            ConnectionNote::Ensemble {
                is_accepted,
                is_compared,
            } => {
                context.metrics.ensemble_named(is_accepted, is_compared);
                if !is_accepted {
                    log_limiter::limited!(warn, peer = %connection.peer, session = %connection.session(), "client belongs to another ensemble, closing connection");
                }
            }
            ConnectionNote::TooManyIdentities => {
                log_limiter::limited!(warn, peer = %connection.peer, session = %connection.session(), count_max = IDENTITIES_MAX, bytes_max = IDENTITY_BYTES_MAX, "too many identities for one connection, closing connection; use fewer or shorter identities");
                context.login_failures().note(connection.peer);
            }
            ConnectionNote::AuthenticationFailed { scheme } => {
                log_limiter::limited!(warn, peer = %connection.peer, session = %connection.session(), scheme = scheme.unwrap_or("null"), "authentication failed, closing connection");
                context.login_failures().note(connection.peer);
            }
            ConnectionNote::NotAuthenticated => {
                log_limiter::limited!(warn, peer = %connection.peer, session = %connection.session(), "client has not authenticated with a scheme of enforce.auth.schemes, closing connection");
            }
            ConnectionNote::UnknownOp(op) => {
                log_limiter::limited!(warn, peer = %connection.peer, session = %connection.session(), op, "unknown operation, closing connection");
            }
            ConnectionNote::Throttled => context.metrics.throttled_ops.inc(),
            ConnectionNote::TooManyResources => {
                context.metrics.throttled_ops.inc();
                context.metrics.zoarium_budget_requests_refused.inc();
                connection.stats.throttled(1);
            }
        }
    }
}
