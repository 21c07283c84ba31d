//! Host of the replica: the shipped parts of the frontend, and a log whose syncs take time.

use std::sync::Arc;
use std::time::Duration;

use frontend::{
    AuditTrail, ClientMessage, Connection, CurrentService, Delivery, Registry, WaitingClients,
    clock,
};
use host::{FlushAt, Schedule, ServerState, Syncer, WaitingGroup};
use parking_lot::Mutex;
use proto::Zxid;
use replica::{
    Applied, ClientRequest, Effect, Host, Input, LargeBytes, Note, Now, Service, Ticket,
};
use testkit::Random;
use tokio::sync::mpsc;
use tokio::time::sleep;
use tree::Tree;

use crate::core::{Core, Message};
use crate::history::History;
use crate::settings::CoreSettings;

/// Host of the replica.
pub(crate) struct SimServer {
    pub(crate) schedule: Schedule,
    service: Arc<CurrentService>,
    registry: Arc<Registry>,
    clients: WaitingClients,
    delivery: Delivery,
    trail: Option<AuditTrail>,
    history: Arc<Mutex<History>>,
    core: Arc<Core>,
    group: LogGroup,
    /// Groups for the disk.
    disk: mpsc::UnboundedSender<LogGroup>,
    /// Last transaction that was passed to the disk, and last transaction that is on disk.
    queued: Zxid,
    synced: Zxid,
}

/// Transactions that are written together.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct LogGroup {
    last: Zxid,
    txns: usize,
    bytes: usize,
    since_ms: i64,
}

/// Parts of the host.
pub(crate) struct ServerParts {
    pub(crate) schedule: Schedule,
    pub(crate) service: Arc<CurrentService>,
    pub(crate) registry: Arc<Registry>,
    pub(crate) delivery: Delivery,
    pub(crate) trail: Option<AuditTrail>,
    pub(crate) keeps_origins: bool,
    pub(crate) history: Arc<Mutex<History>>,
    pub(crate) core: Arc<Core>,
    pub(crate) disk: mpsc::UnboundedSender<LogGroup>,
}

impl SimServer {
    pub(crate) fn new(parts: ServerParts) -> Self {
        Self {
            schedule: parts.schedule,
            service: parts.service,
            registry: parts.registry,
            clients: WaitingClients::new(parts.keeps_origins),
            delivery: parts.delivery,
            trail: parts.trail,
            history: parts.history,
            core: parts.core,
            group: LogGroup::default(),
            disk: parts.disk,
            queued: Zxid::ZERO,
            synced: Zxid::ZERO,
        }
    }

    /// Describes what the host still keeps for clients. Returns `None` if it keeps nothing.
    pub(crate) fn leftovers(&self) -> Option<&'static str> {
        if !self.clients.is_empty() {
            return Some("WaitingClients has entries");
        }
        if self.trail.as_ref().is_some_and(|trail| !trail.is_empty()) {
            return Some("AuditTrail has entries");
        }
        if self.delivery.has_deferred_connections() {
            return Some("deferred_connections is not 0");
        }
        None
    }

    pub(crate) fn begin_step(&mut self, now: Now) {
        self.delivery.begin_turn(now.ms.unsigned_abs());
    }

    pub(crate) fn note_requests(
        &mut self,
        connection: &Arc<Connection>,
        requests: &[ClientRequest],
    ) {
        self.clients.note(connection, requests);
        if let Some(trail) = &mut self.trail {
            trail.note_requests(connection.peer.ip(), requests);
        }
    }

    pub(crate) fn translate(&mut self, message: Message) -> Option<Input> {
        match message {
            Message::Client(ClientMessage::Submit { .. }) => None,
            Message::Client(ClientMessage::Sync(connection, sync)) => {
                self.clients.note(&connection, &[]);
                Some(Input::Sync(sync))
            }
            Message::Client(ClientMessage::Renew(connection, renewal)) => {
                self.clients.note(&connection, &[]);
                Some(Input::Renew(renewal))
            }
            Message::Client(ClientMessage::Gone(ticket)) => {
                self.clients.disconnected(ticket, self.delivery.is_idle());
                None
            }
            Message::Synced(upto, took) => {
                self.synced = self.synced.max(upto);
                self.schedule.note_sync(took);
                Some(Input::Synced(upto))
            }
        }
    }

    pub(crate) fn flush(&mut self) {
        let now_ms = clock::session_ms();
        if self.schedule.flush_group(&self.waiting_group(), now_ms) != Syncer::CoreThread {
            self.pass_to_disk(now_ms);
        }
    }

    /// Syncs the newest group in the core if the schedule decides so.
    pub(crate) fn sync_due(&mut self) -> Option<Zxid> {
        let waiting = self.waiting_group();
        if !self.schedule.sync_due(|| waiting) || self.group.txns == 0 {
            return None;
        }
        let group = std::mem::take(&mut self.group);
        self.schedule.note_group(group.txns, Syncer::CoreThread);
        self.schedule.note_sync(Duration::ZERO);
        (self.queued, self.synced) = (group.last, group.last);
        Some(group.last)
    }

    pub(crate) fn pass_to_disk(&mut self, now_ms: i64) {
        let syncer = self.schedule.syncer(&self.waiting_group(), now_ms);
        if self.group.txns == 0 || syncer != Syncer::LogThread {
            return;
        }
        let group = std::mem::take(&mut self.group);
        self.schedule.note_group(group.txns, syncer);
        self.queued = group.last;
        // Fails only at the end of the simulation.
        let _ = self.disk.send(group);
    }

    fn waiting_group(&self) -> WaitingGroup {
        WaitingGroup {
            txns: self.group.txns,
            bytes: self.group.bytes,
            since_ms: self.group.since_ms,
            follows_orders: false,
            is_visitor_syncing: false,
            is_log_idle: self.queued == self.synced,
            is_log_full: false,
        }
    }

    fn release(&self, requests: usize, large_bytes: LargeBytes) {
        *self.core.in_progress.lock() -= requests;
        self.delivery.release(requests, large_bytes);
    }

    fn serve(&mut self, service: Service) {
        if let Some(trail) = &mut self.trail {
            trail.forget();
        }
        self.clients.forget_requests();
        self.service.begin(service);
    }
}

impl Host for SimServer {
    type State = ServerState;

    fn effect(&mut self, effect: Effect) {
        match effect {
            Effect::Append(record) => self.append(record.zxid, &record.txn),
            Effect::Flush if self.schedule.flush() == FlushAt::Now => self.flush(),
            Effect::Serve(service) => self.serve(service),
            Effect::StopServing => self.service.end(),
            Effect::CloseClient(ticket) => self.registry.close(ticket),
            Effect::CloseSession(session) => self.registry.close_session(session),
            Effect::Release {
                requests,
                large_bytes,
            } => self.release(requests, large_bytes),
            Effect::Renewed { renewal, is_valid } => {
                self.delivery.answer_renewal(&renewal, is_valid);
            }
            // A standalone server has no other members, and its files are not simulated.
            _ => {}
        }
    }

    fn append(&mut self, zxid: Zxid, txn: &[u8]) {
        self.delivery.note_appended(zxid);
        if self.group.txns == 0 {
            self.group.since_ms = clock::session_ms();
        }
        self.group.last = zxid;
        self.group.txns += 1;
        self.group.bytes += txn.len();
    }

    fn applying(&mut self, tree: &Tree, origin: Ticket) {
        if self.delivery.has_deferred_connections()
            && let Some(connection) = self.clients.connection(origin)
        {
            self.delivery.answer_deferred(tree, connection);
        }
    }

    fn applied(&mut self, tree: &Tree, applied: Applied<'_>) {
        self.history.lock().applied(applied.record);
        *self.core.in_progress.lock() -= usize::from(applied.is_counted);
        if let Some(trail) = &mut self.trail {
            trail.applied(&applied);
        }
        drop(self.clients.take_origin(&applied));
        let origin = applied.origin;
        let origin = origin.and_then(|ticket| self.clients.connection(ticket));
        self.delivery.applied(tree, applied, origin);
    }

    fn established(&mut self, _: Zxid) {}

    fn answer_sync(&mut self, tree: &Tree, ticket: Ticket) {
        if let Some(connection) = self.clients.connection(ticket) {
            self.delivery.answer_sync(tree, connection);
        }
    }

    fn tree_released(&mut self) {
        if let Some(trail) = &mut self.trail {
            trail.released();
        }
        self.delivery.count_answers();
        self.delivery.wake(&self.schedule);
    }

    fn note(&mut self, _: Note<'_>) {}
}

/// Syncs groups, each after a delay.
pub(crate) async fn run_disk(
    core: Arc<Core>,
    mut groups: mpsc::UnboundedReceiver<LogGroup>,
    settings: CoreSettings,
    mut random: Random,
) {
    while let Some(group) = groups.recv().await {
        let delay = settings.sync_delay(&mut random);
        sleep(delay).await;
        core.post(Message::Synced(group.last, delay));
    }
}
