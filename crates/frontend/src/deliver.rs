//! Delivery of the results of committed transactions to the outboxes.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use admission::Ledger;
use bytes::Bytes;
use host::{
    AnswerOutcome, DeliveryHost, PendingAnswer, Schedule, SharedConnection, Writer, answer_sync,
    deliver,
};
use metrics::traces::{TracedRequest, Traces, WriteTrace};
use metrics::{GroupApplied, Metrics, Replies, ServerStats};
use proto::Zxid;
use proto::txn::TxnHeader;
use replica::connection::WriteAnswer;
use replica::{Applied, LargeBytes, Renewal, Service};
use tree::{Event, Tree};

use crate::clock;
use crate::connection::outgoing::{EventFrame, LONG_EVENT_BYTES};
use crate::connection::{Connection, Registry};
use crate::greeting::handshake::note_renewal;
use crate::requests::answer::{AnswerContext, LockedConnection, pace_before_write, pace_of_core};

/// Values that the delivery of results uses.
pub(crate) struct DeliveryContext {
    pub(crate) answers: Arc<AnswerContext>,
    pub(crate) registry: Arc<Registry>,
    pub(crate) ledger: Arc<Ledger>,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) stats: Arc<ServerStats>,
    /// Traced writes. `None` without a collector.
    pub(crate) traces: Option<Arc<Traces>>,
}

/// Delivery of results, including the connections to wake after the tree has been unlocked.
pub struct Delivery {
    context: DeliveryContext,
    woken: Vec<Arc<Connection>>,
    frame: Vec<u8>,
    replies: Replies,
    /// Number of permits to release for the applied transactions.
    permits: usize,
    /// Reservations of the applied transactions for large requests.
    large_bytes: LargeBytes,
    /// Time at which the application of the group began. The clock is read once per group.
    begun: Option<Timestamps>,
    /// Start of the turn that may apply transactions, in monotonic ms.
    turn_since_ms: u64,
    /// Counts for the group of transactions.
    group: GroupApplied,
    /// Request that was just answered, if it is traced.
    traced: Option<TracedRequest>,
}

/// Point in time on both clocks.
#[derive(Clone, Copy)]
struct Timestamps {
    wall_ms: i64,
    monotonic_ms: u64,
}

impl Timestamps {
    fn now() -> Self {
        Self {
            wall_ms: clock::wall_ms(),
            monotonic_ms: clock::monotonic_ms(),
        }
    }
}

impl Delivery {
    /// Creates a delivery without results.
    pub(crate) fn new(context: DeliveryContext) -> Self {
        Self {
            context,
            woken: Vec::new(),
            frame: Vec::new(),
            replies: Replies::default(),
            permits: 0,
            large_bytes: LargeBytes::default(),
            begun: None,
            turn_since_ms: 0,
            group: GroupApplied::default(),
            traced: None,
        }
    }

    /// Begins a turn. Transactions applied in the turn have waited since `now_ms` (monotonic).
    pub fn begin_turn(&mut self, now_ms: u64) {
        self.turn_since_ms = now_ms;
    }

    /// Records that a transaction is appended to the log, if the transaction is traced.
    pub fn note_appended(&self, zxid: Zxid) {
        if let Some(traces) = &self.context.traces
            && traces.is_sampled(zxid)
        {
            traces.appended(zxid, clock::wall_ns());
        }
    }

    /// Releases the permits of `requests` requests, and reservations for large requests.
    pub fn release(&self, requests: usize, large_bytes: LargeBytes) {
        let ledger = &self.context.ledger;
        ledger.permits.release(requests);
        ledger.large_requests.release(large_bytes);
    }

    /// Returns whether no requests of clients are in progress.
    pub fn is_idle(&self) -> bool {
        self.context.ledger.permits.outstanding() == 0
    }

    /// Delivers the results of an applied transaction: events, its reply, and the replies to the
    /// reads that waited for it.
    ///
    /// The answers to a group of transactions are counted, and the permits of the group are
    /// released, before the reply to the last transaction becomes visible. Thus, when the client
    /// has received this reply, its request has been counted and is not outstanding. The group is
    /// counted together, because counting each transaction separately would cost too much.
    pub fn applied(&mut self, tree: &Tree, applied: Applied<'_>, origin: Option<&Arc<Connection>>) {
        let DeliveryContext {
            metrics, traces, ..
        } = &self.context;
        if applied.origin.is_some() && origin.is_none() {
            metrics.stale_replies.inc();
        }
        self.permits += usize::from(applied.is_counted);
        self.large_bytes += applied.large_bytes;
        let record = applied.record;
        let now = *self.begun.get_or_insert_with(Timestamps::now);
        self.replies.applied(record, now.wall_ms);
        self.group.waited_ms = now.monotonic_ms.saturating_sub(self.turn_since_ms);
        match applied.origin {
            Some(_) => self.group.of_clients_here += 1,
            None => self.group.of_others += 1,
        }
        let header = record.header;
        let is_traced = traces
            .as_ref()
            .is_some_and(|traces| traces.is_sampled(header.zxid));
        // The frame is taken to reuse its allocation.
        let mut frame = std::mem::take(&mut self.frame);
        let mut delivering = self.answering(now.monotonic_ms);
        deliver(&mut delivering, &mut frame, tree, applied, origin);
        self.frame = frame;
        if is_traced {
            let trace = self.trace(header);
            if let Some(traces) = &self.context.traces {
                traces.applied(trace);
            }
        }
    }

    /// Returns the trace of an applied write.
    fn trace(&mut self, header: TxnHeader) -> WriteTrace {
        WriteTrace {
            header,
            request: self.traced.take(),
            log: None,
            committed_ns: clock::wall_ns_at(self.turn_since_ms),
            applied_ns: clock::wall_ns(),
        }
    }

    /// Sends the output of the connections, or wakes their tasks to send it. The tree must not be
    /// locked.
    pub fn wake(&mut self, schedule: &Schedule) {
        let writes = schedule.writer_to_clients(self.woken.len()) == Writer::Core;
        for connection in self.woken.drain(..) {
            if !writes || !connection.try_write() {
                connection.wake();
            }
        }
        self.context.answers.slow.write();
    }

    /// Counts the answers since the last call, and releases their permits.
    pub fn count_answers(&mut self) {
        let DeliveryContext {
            registry,
            ledger,
            metrics,
            stats,
            ..
        } = &self.context;
        stats.replied(&self.replies);
        self.replies = Replies::default();
        if let Some(begun) = self.begun.take() {
            let took_ms = clock::monotonic_ms().saturating_sub(begun.monotonic_ms);
            let under_way = ledger.permits.outstanding() as u64;
            let group = std::mem::take(&mut self.group);
            let transactions = group.of_clients_here + group.of_others;
            metrics.group_applied(group, took_ms, under_way);
            if registry.service() == Service::Deciding {
                // This server created these transactions, and the tree now contains them.
                metrics.outstanding_changes_removed.add(transactions);
            }
        }
        let permits = std::mem::take(&mut self.permits);
        let large_bytes = std::mem::take(&mut self.large_bytes);
        self.release(permits, large_bytes);
    }

    fn mark_touched(&mut self, connection: &Arc<Connection>) {
        // Replies to a pipelining client are consecutive, so only the last entry is compared.
        if !self
            .woken
            .last()
            .is_some_and(|last| Arc::ptr_eq(last, connection))
        {
            self.woken.push(connection.clone());
        }
    }

    /// Returns whether tasks have deferred reads to answer before the next write.
    pub fn has_deferred_connections(&self) -> bool {
        let connections = &self.context.answers.deferred_connections;
        connections.load(Ordering::Relaxed) > 0
    }

    /// Answers the reads that precede the next write or sync of `connection`, if the task has not
    /// answered them yet.
    pub fn answer_deferred(&mut self, tree: &Tree, connection: &Arc<Connection>) {
        if !connection.has_deferred() {
            return;
        }
        let mut answering = self.answering(clock::monotonic_ms());
        answering.answer(tree, connection, PendingAnswer::Deferred);
    }

    /// Answers the oldest sync of `connection`, which is at the head of its queue. Called when the
    /// leader has confirmed it.
    pub fn answer_sync(&mut self, tree: &Tree, connection: &Arc<Connection>) {
        let mut answering = self.answering(clock::monotonic_ms());
        answer_sync(&mut answering, tree, connection);
    }

    /// Answers the client that renews a session. Called when the leader has checked the session.
    pub fn answer_renewal(&self, renewal: &Renewal, is_valid: bool) {
        let context = &self.context;
        let answered = host::answer_renewal(&context.registry, renewal, is_valid);
        if let Some(connection) = answered {
            let session = is_valid.then_some((renewal.session, renewal.timeout_ms));
            note_renewal(&context.stats, &connection, renewal.session, session);
            connection.wake();
        }
    }

    fn answering(&mut self, now_ms: u64) -> Answering<'_> {
        Answering {
            delivery: self,
            now_ms,
            long_event: Bytes::new(),
        }
    }
}

/// Context for answers to clients at one point in time.
struct Answering<'a> {
    delivery: &'a mut Delivery,
    now_ms: u64,
    /// Last long event. The next watcher usually receives the same event.
    long_event: Bytes,
}

impl Answering<'_> {
    /// Returns an event with this frame. Copies a long frame once for all consecutive watchers.
    fn shared<'f>(&mut self, frame: &'f [u8]) -> EventFrame<'f> {
        if frame.len() < LONG_EVENT_BYTES {
            return EventFrame::Short(frame);
        }
        if self.long_event != frame {
            self.long_event = Bytes::copy_from_slice(frame);
        }
        EventFrame::Long(self.long_event.clone())
    }
}

impl DeliveryHost for Answering<'_> {
    type Connection = Connection;

    fn registry(&self) -> &Registry {
        &self.delivery.context.registry
    }

    fn note_fired(&mut self, event: &Event) {
        let metrics = &self.delivery.context.metrics;
        metrics.event_fired(event.event_type, event.watchers.len());
    }

    fn push_event(&mut self, connection: &Arc<Connection>, frame: &[u8]) {
        connection.push_event(self.shared(frame));
        let replies = &mut self.delivery.replies;
        replies.event(frame.len().saturating_sub(4));
        self.mark_touched(connection);
    }

    fn answer(
        &mut self,
        tree: &Tree,
        connection: &Arc<Connection>,
        what: PendingAnswer<'_, '_>,
    ) -> AnswerOutcome {
        let served = LockedConnection {
            answers: &self.delivery.context.answers,
            connection,
            now_ms: self.now_ms,
        };
        let mut state = connection.lock();
        let behind = pace_of_core(&state);
        let before = match what {
            PendingAnswer::Write(_) => behind,
            PendingAnswer::Deferred | PendingAnswer::Sync => pace_before_write(&state),
        };
        let noting = &mut served.recorder(&mut self.delivery.replies);
        let responder = served.responder(tree);
        let answered = what.carry_out(&responder, &mut state.client, before, || behind, noting);
        served.note_changed(&mut state);
        match (what, &answered) {
            (PendingAnswer::Write(applied), AnswerOutcome::Write(answer)) => {
                note_if_slow(served, applied, answer);
                let traces = self.delivery.context.traces.as_deref();
                self.delivery.traced = traced_request(traces, served, applied, answer);
                self.note(applied, answer);
                drop(state);
                log_answer(connection, applied, answer);
            }
            (_, AnswerOutcome::Sync(Some(_))) => self.delivery.count_answers(),
            _ => {}
        }
        answered
    }

    fn mark_touched(&mut self, connection: &Arc<Connection>) {
        self.delivery.mark_touched(connection);
    }
}

impl Answering<'_> {
    /// Counts an answer. Its connection is locked, so the answer is not visible yet.
    fn note(&mut self, applied: &Applied<'_>, answer: &WriteAnswer) {
        let head = match answer {
            WriteAnswer::Replied { head, .. }
            | WriteAnswer::Session { head, .. }
            | WriteAnswer::Moved(head) => head,
            WriteAnswer::Forgotten | WriteAnswer::OutOfTurn => return,
        };
        let waited_ms = self.now_ms.saturating_sub(head.received_ms);
        let (waiting, reads) = match answer {
            WriteAnswer::Replied {
                waiting, answered, ..
            } => (*waiting as u64, *answered as u64),
            _ => (0, 0),
        };
        let Delivery {
            context,
            replies,
            group,
            ..
        } = self.delivery;
        replies.committed(waited_ms, waiting);
        group.waiting_sessions += u64::from(waiting > 0);
        context.metrics.reads_behind_write(reads, waited_ms);
        if applied.is_last && !matches!(answer, WriteAnswer::Moved(_)) {
            self.delivery.count_answers();
        }
    }
}

/// Records a write if it was slow.
fn note_if_slow(served: LockedConnection<'_>, applied: &Applied<'_>, answer: &WriteAnswer) {
    let WriteAnswer::Replied { head, .. } = answer else {
        return;
    };
    let took_ms = served.now_ms.saturating_sub(head.received_ms);
    if served.answers.slow.is_slow(took_ms) {
        let record = applied.record;
        let path = record.txn.first_path().map(|path| &**path);
        served.note_slow(*head, record.header.zxid, path);
    }
}

/// Returns the trace data of a request if it is traced.
fn traced_request(
    traces: Option<&Traces>,
    served: LockedConnection<'_>,
    applied: &Applied<'_>,
    answer: &WriteAnswer,
) -> Option<TracedRequest> {
    let traces = traces?;
    let (WriteAnswer::Replied { head, .. } | WriteAnswer::Session { head, .. }) = answer else {
        return None;
    };
    let record = applied.record;
    traces
        .is_sampled(record.header.zxid)
        .then(|| TracedRequest {
            received_ns: clock::wall_ns_at(head.received_ms),
            op: head.op,
            path: record.txn.first_path().map(|path| path.to_string()),
            peer: served.connection.peer,
            xid: head.xid,
        })
}

/// Logs a new session, or an answer that arrived in the wrong order.
fn log_answer(connection: &Connection, applied: &Applied<'_>, answer: &WriteAnswer) {
    match answer {
        WriteAnswer::Session {
            session: Some((id, timeout_ms)),
            ..
        } => {
            tracing::debug!(peer = %connection.peer, session = %id, timeout_ms, "session established");
        }
        WriteAnswer::OutOfTurn => {
            let header = &applied.record.header;
            log_limiter::limited!(warn, peer = %connection.peer, session = %header.session, cxid = header.cxid, "the leader answered requests in the wrong order, closing connection");
        }
        _ => {}
    }
}
