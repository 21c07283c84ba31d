//! Dispatch of decoded requests, which are answered, queued or submitted. This module adds batches,
//! permits and metrics to `replica::connection`.

use std::ops::DerefMut;
use std::sync::Arc;

use admission::{BeyondBudget, LargeRequest, Obeyed, Room};
use metrics::Replies;
use proto::request::ReadRequest;
use proto::{ErrorCode, OpCode, Zxid};
pub(crate) use replica::connection::Resume;
use replica::connection::{
    ClientConnection, ConnectionNote, Holding, IDENTITIES_MAX, IDENTITY_BYTES_MAX, Identities,
    Replying, RequestHead, RequestKind, SaslAnswer, Taking,
};
use replica::session::Sessions;
use replica::{ClientRequest, SyncRequest};
use tree::Tree;

use crate::clients::Clients;
use crate::clock;
use crate::connection::{Connection, ConnectionState};
use crate::login::Login;
use crate::login::sasl;
use crate::requests::answer::{Grant, Noting, Served, pace_of_task};
use crate::requests::batch::{Batch, Extra};

/// Handles a batch under one shared lock of the tree: answers the requests that can be answered,
/// queues those that must wait, and submits the writes. The caller holds a permit for each write.
/// Deferred requests in the queue are handled first.
///
/// Stops early when the outbox holds
/// [`limits::OUTBOX_BYTES_SOFT`](crate::limits::OUTBOX_BYTES_SOFT), or less if all connections
/// together hold many bytes. Also stops before a long or slow reply, unless `grant` covers it. The
/// remaining requests stay in the batch and in the queue. The caller must return the permits that
/// remain in `batch.permits`.
pub(crate) fn handle_batch(
    clients: &Clients,
    connection: &Arc<Connection>,
    batch: &mut Batch,
    now_ms: u64,
    grant: Grant,
) -> Resume {
    let served = Served {
        clients,
        connection,
        now_ms,
    };
    let (mut replies, mut handled) = (Replies::default(), 0);
    let permits = batch.permits;
    let next = clients.state.take_requests(&**connection, |tree| {
        let (next, count) = take_batch(served, connection, tree, batch, grant, &mut replies);
        handled = count;
        next
    });
    if batch.permits < permits {
        // The requests handled above included writes.
        clients.run_core_inline();
    }
    let Some(next) = next else {
        // The connection has ended.
        batch.requests.clear();
        batch.broken = None;
        return Resume::GoOn;
    };
    clients.stats.packets_received(handled);
    clients
        .metrics
        .bytes_received_count
        .add(std::mem::take(&mut batch.bytes) as u64);
    let reads = replies.reads();
    if reads > 0 {
        let took_ms = clock::monotonic_ms().saturating_sub(now_ms);
        clients.metrics.reads_took(reads, took_ms);
    }
    clients.metrics.batch_answered(reads);
    clients.stats.replied(&replies);
    clients.slow.write();
    if let (Some(refused), Some(budgets)) = (batch.refused.take(), &clients.ledger.budgets) {
        budgets.tell_of_refusal(&refused, clock::monotonic_ms());
    }
    next
}

/// Handles a batch while the tree is locked. Returns the number of handled requests.
fn take_batch(
    served: Served<'_>,
    connection: &Arc<Connection>,
    tree: &Tree,
    batch: &mut Batch,
    grant: Grant,
    replies: &mut Replies,
) -> (Resume, u64) {
    let mut state = connection.lock();
    let responder = served.responder(tree);
    let rules = served.clients.connection_rules(connection, batch.is_late);
    let pace = pace_of_task(&state, grant);
    let ConnectionState {
        client,
        sasl,
        obeyed,
        ..
    } = &mut *state;
    let mut sorter = Sorter {
        noting: served.noting(replies),
        connection,
        sasl,
        obeyed: obeyed.as_deref(),
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
    sorter.hand_over();
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
    state.note_roomy(grant.room.unwrap_or(0));
    (next, handled)
}

/// Dispatcher of one connection's requests.
struct Sorter<'a> {
    noting: Noting<'a>,
    connection: &'a Arc<Connection>,
    sasl: &'a mut Option<Box<Login>>,
    /// Budgets of the connection.
    obeyed: Option<&'a Obeyed>,
    /// Last request that exceeded a budget.
    refused: Option<BeyondBudget>,
    /// Number of handled requests.
    handled: u64,
    /// Number of writes among the handled requests.
    writes: usize,
    /// Reservation for the current request, if it is large.
    large: Option<LargeRequest>,
    /// Number of submitted writes. Each has a permit.
    submitted: usize,
    /// Writes that the core receives in one message. See [`Sorter::hand_over`].
    submissions: Vec<ClientRequest>,
}

impl Sorter<'_> {
    fn clients(&self) -> &Clients {
        self.noting.served.clients
    }

    /// Sends the collected writes to the core. Any other message to the core for this connection
    /// must be sent afterwards.
    fn hand_over(&mut self) {
        if !self.submissions.is_empty() {
            let gathered = std::mem::take(&mut self.submissions);
            let now_ms = self.noting.served.now_ms;
            self.clients().submit(self.connection, now_ms, gathered);
        }
    }
}

impl Replying for Sorter<'_> {
    type Note = Option<Room>;

    fn sessions(&self) -> impl DerefMut<Target = Sessions> {
        self.noting.sessions()
    }

    fn replied(&mut self, asked: RequestHead, zxid: Zxid, err: ErrorCode, bytes: usize) {
        self.noting.replied(asked, zxid, err, bytes);
    }

    fn event_pushed(&mut self, bytes: usize) {
        self.noting.event_pushed(bytes);
    }

    fn has_read(&mut self, request: &ReadRequest, body: &[u8]) {
        self.noting.has_read(request, body);
    }

    fn refuses(&mut self, op: OpCode, err: ErrorCode, identities: &Identities) {
        self.noting.refuses(op, err, identities);
    }

    fn refuses_long(&mut self, asked: RequestHead, bytes: usize) {
        self.noting.refuses_long(asked, bytes);
    }
}

impl Taking for Sorter<'_> {
    type Extra = Extra;

    fn begin(&mut self, kind: &RequestKind, extra: Extra) -> Option<Room> {
        self.handled += 1;
        self.writes += usize::from(kind.is_write());
        self.large = extra.large;
        extra.frame_room
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
        self.hand_over();
        self.clients().forward_sync(self.connection, sync);
    }

    fn works_on_token(&self) -> bool {
        sasl::works_on_token(self.clients(), self.sasl.as_deref())
    }

    fn sasl(&mut self, client: &mut ClientConnection<Option<Room>>, token: &[u8]) -> SaslAnswer {
        let clients = self.noting.served.clients;
        sasl::answer(clients, self.connection, client, self.sasl, token)
    }

    fn may_hold(&mut self, held: Holding, more: Holding) -> bool {
        let judged = self.obeyed.map(|obeyed| obeyed.may_hold(held, more));
        match judged {
            Some(Err(refused)) => {
                self.refused = Some(refused);
                false
            }
            _ => true,
        }
    }

    fn note(&mut self, note: ConnectionNote<'_>) {
        let (clients, connection) = (self.noting.served.clients, self.connection);
        match note {
            ConnectionNote::Ensemble {
                is_let_in,
                is_compared,
            } => {
                clients.metrics.ensemble_named(is_let_in, is_compared);
                if !is_let_in {
                    log_limiter::limited!(warn, peer = %connection.peer, session = %connection.session(), "client belongs to another ensemble, closing connection");
                }
            }
            ConnectionNote::TooMany => {
                log_limiter::limited!(warn, peer = %connection.peer, session = %connection.session(), count_max = IDENTITIES_MAX, bytes_max = IDENTITY_BYTES_MAX, "too many identities for one connection, closing connection; use fewer or shorter identities");
                clients.auth_failed(connection.peer);
            }
            ConnectionNote::Failed { scheme } => {
                log_limiter::limited!(warn, peer = %connection.peer, session = %connection.session(), scheme = scheme.unwrap_or("null"), "authentication failed, closing connection");
                clients.auth_failed(connection.peer);
            }
            ConnectionNote::Missing => {
                log_limiter::limited!(warn, peer = %connection.peer, session = %connection.session(), "client has not authenticated with a scheme of enforce.auth.schemes, closing connection");
            }
            ConnectionNote::UnknownOp(op) => {
                log_limiter::limited!(warn, peer = %connection.peer, session = %connection.session(), op, "unknown operation, closing connection");
            }
            ConnectionNote::Throttled => clients.metrics.throttled_ops.inc(),
            ConnectionNote::TooMuch => {
                clients.metrics.throttled_ops.inc();
                clients.metrics.zoarium_budget_requests_refused.inc();
                connection.stats.throttled(1);
            }
        }
    }
}
