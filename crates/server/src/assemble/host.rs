//! Execution of the replica's decisions with the sockets, files and connections of this process.

use std::sync::Arc;

use frontend::{
    AuditTrail, ClientMessage, Connection, CurrentService, Delivery, Registry, WaitingClients,
};
use host::{FlushAt, Schedule, ServerState, Traced};
use metrics::audit::AuditLog;
use proto::Zxid;
use quorum::MemberPorts;
use replica::{Applied, ClientRequest, Effect, Host, Input, Note, Now, Service, Ticket};
use tokio::sync::oneshot;
use tree::Tree;

use super::inbox::CoreMessage;
use super::measure::Measures;
use crate::disk::{Disk, SnapshotRequests};
use crate::error::EXIT_ELECTION_PORT;
use crate::failure::Failure;
use crate::recorder::Feed;

/// Exit code of a server whose data differs from the data of other members
/// (`zoarium.onDigestMismatch`). Apache ZooKeeper lacks such a code.
const EXIT_OTHER_DATA: u8 = 20;

/// The host of a replica, with a trace if one is configured.
pub(crate) type TracedHost = Traced<ServerHost>;

/// The host of a replica.
pub(crate) struct ServerHost {
    service: Arc<CurrentService>,
    registry: Arc<Registry>,
    disk: Disk,
    pub(super) schedule: Schedule,
    /// Connections to other members; `None` without an ensemble.
    ports: Option<MemberPorts>,
    clients: WaitingClients,
    delivery: Delivery,
    /// Feed of the change history; `None` without a change history.
    history: Option<Feed>,
    /// Audit log; `None` without one.
    trail: Option<AuditTrail>,
    measures: Measures,
    failure: Failure,
    snapshots: SnapshotRequests,
    /// Sender to the operator that waits for a restored tree.
    restored: Option<oneshot::Sender<()>>,
}

/// Parts from which the host of a replica is constructed.
pub(crate) struct HostParts {
    pub(crate) service: Arc<CurrentService>,
    pub(crate) registry: Arc<Registry>,
    pub(crate) disk: Disk,
    pub(crate) schedule: Schedule,
    /// Connections to other members; `None` without an ensemble.
    pub(crate) ports: Option<MemberPorts>,
    pub(crate) delivery: Delivery,
    /// Feed of the change history; `None` without a change history.
    pub(crate) history: Option<Feed>,
    /// Audit log; `None` without one.
    pub(crate) audit: Option<Arc<AuditLog>>,
    pub(crate) measures: Measures,
    pub(crate) failure: Failure,
    pub(crate) snapshots: SnapshotRequests,
}

impl ServerHost {
    pub(crate) fn new(parts: HostParts) -> Self {
        Self {
            service: parts.service,
            registry: parts.registry,
            disk: parts.disk,
            schedule: parts.schedule,
            ports: parts.ports,
            clients: WaitingClients::new(parts.history.is_some()),
            delivery: parts.delivery,
            history: parts.history,
            trail: parts.audit.map(AuditTrail::new),
            measures: parts.measures,
            failure: parts.failure,
            snapshots: parts.snapshots,
            restored: None,
        }
    }

    /// Syncs the newest group on this thread if the schedule decides so, and returns the report for
    /// the replica.
    pub(super) fn sync_due(&mut self) -> Option<Input> {
        self.disk.sync_due(&mut self.schedule)
    }

    /// Passes waiting orders to the log thread, as many as the log thread can accept.
    pub(super) fn pass_to_log_thread(&mut self, now_ms: i64) {
        self.disk.pass_to_log_thread(&mut self.schedule, now_ms);
    }

    /// Returns the time until which the last group waits for more records, ms.
    pub(super) fn gathers_until_ms(&self) -> Option<i64> {
        self.disk.gathers_until_ms(&self.schedule)
    }

    /// Begins a turn, in which the replica uses this host.
    pub(super) fn begin_turn(&mut self, now: Now) {
        self.measures.begin_turn(now);
        self.delivery.begin_turn(now.ms.unsigned_abs());
    }

    /// Ends a turn.
    pub(super) fn end_turn(&mut self) {
        self.measures.end_turn();
    }

    /// Registers a connection and its requests that are about to be ordered or forwarded.
    pub(super) fn note_requests(
        &mut self,
        connection: &Arc<Connection>,
        requests: &[ClientRequest],
    ) {
        self.clients.note(connection, requests);
        if let Some(trail) = &mut self.trail {
            trail.note_requests(connection.peer.ip(), requests);
        }
    }

    /// Releases the permits of handled election inputs.
    pub(super) fn release_elections(&mut self) {
        if let Some(ports) = &mut self.ports {
            ports.release_elections();
        }
    }

    /// Releases the read-ahead permits of packets that have been handled.
    pub(super) fn release_read_ahead(&mut self) {
        if let Some(ports) = &mut self.ports {
            ports.release_read_ahead();
        }
    }

    /// Converts a message to an input of the replica. Returns `None` if the replica is not
    /// concerned.
    pub(super) fn translate(&mut self, message: CoreMessage) -> Option<Input> {
        match message {
            // The core has already handled these requests before it calls this function.
            CoreMessage::Client(ClientMessage::Submit { .. }) => None,
            CoreMessage::Client(ClientMessage::Sync(connection, sync)) => {
                self.clients.note(&connection, &[]);
                Some(Input::Sync(sync))
            }
            CoreMessage::Client(ClientMessage::Renew(connection, renewal)) => {
                self.clients.note(&connection, &[]);
                Some(Input::Renew(renewal))
            }
            CoreMessage::Client(ClientMessage::Gone(ticket)) => {
                self.clients.disconnected(ticket, self.delivery.is_idle());
                None
            }
            CoreMessage::Mesh(event) => match self.ports.as_mut()?.translate_election(event) {
                Ok(input) => Some(input),
                Err(error) => {
                    tracing::error!(err = %error, "cannot take part in elections, stopping");
                    self.failure.report(EXIT_ELECTION_PORT);
                    None
                }
            },
            CoreMessage::Peer(event) => self.ports.as_mut()?.translate(event),
            CoreMessage::Restore(order) => {
                self.restored = Some(order.done);
                Some(Input::Restore(order.tree))
            }
            CoreMessage::Synced(synced) => {
                self.disk.note_synced(&synced);
                self.schedule.note_sync(synced.took);
                Some(Input::Synced(synced.upto))
            }
            CoreMessage::Block(wait) => {
                wait();
                None
            }
            CoreMessage::Input(input) => {
                if let Input::Reloaded { tree: Some(_), end } = &input {
                    self.disk.note_replaced(*end);
                }
                Some(input)
            }
        }
    }
}

impl ServerHost {
    /// Sends the packets that wait, and flushes the newest group of records as the schedule
    /// decides.
    pub(super) fn flush(&mut self) {
        if let Some(ports) = &mut self.ports {
            ports.flush();
        }
        self.disk.flush(&mut self.schedule);
    }

    fn serve(&mut self, service: Service) {
        if let Some(trail) = &mut self.trail {
            trail.forget();
        }
        self.clients.forget_requests();
        self.service.begin(service);
        if let Some(done) = self.restored.take() {
            // Fails only if the operator no longer waits.
            let _ = done.send(());
        }
    }
}

impl Host for ServerHost {
    type State = ServerState;

    fn effect(&mut self, effect: Effect) {
        match effect {
            Effect::Append(record) => {
                self.delivery.note_appended(record.zxid);
                self.disk.append_shared(record.zxid, &record.txn);
            }
            Effect::Flush => {
                if self.schedule.flush() == FlushAt::Now {
                    self.flush();
                }
            }
            Effect::Disk(order) => self.disk.order(order),
            Effect::Serve(service) => self.serve(service),
            Effect::StopServing => self.service.end(),
            Effect::CloseClient(ticket) => self.registry.close(ticket),
            Effect::CloseSession(session) => self.registry.close_session(session),
            Effect::Release {
                requests,
                large_bytes,
            } => self.delivery.release(requests, large_bytes),
            Effect::Renewed { renewal, is_valid } => {
                self.delivery.answer_renewal(&renewal, is_valid);
            }
            Effect::Show(view) => self.measures.show(view),
            Effect::Stop => self.failure.report(EXIT_OTHER_DATA),
            other => {
                if let Some(ports) = &mut self.ports {
                    ports.carry_out(other);
                }
            }
        }
    }

    fn append(&mut self, zxid: Zxid, txn: &[u8]) {
        self.delivery.note_appended(zxid);
        self.disk.append(zxid, txn);
    }

    fn applying(&mut self, tree: &Tree, origin: Ticket) {
        // Deferred connections are rare, and without them the connection is not looked up.
        if self.delivery.has_deferred_connections()
            && let Some(connection) = self.clients.connection(origin)
        {
            self.delivery.answer_deferred(tree, connection);
        }
    }

    fn applied(&mut self, tree: &Tree, applied: Applied<'_>) {
        if let Some(trail) = &mut self.trail {
            trail.applied(&applied);
        }
        let client = self.clients.take_origin(&applied);
        if let Some(history) = &mut self.history
            && applied.is_committed
        {
            history.applied(applied.record, client);
        }
        let origin = applied.origin;
        let origin = origin.and_then(|ticket| self.clients.connection(ticket));
        self.delivery.applied(tree, applied, origin);
    }

    fn established(&mut self, last: Zxid) {
        if let Some(history) = &self.history {
            history.committed(last);
        }
        self.snapshots.resume();
    }

    fn answer_sync(&mut self, tree: &Tree, ticket: Ticket) {
        if let Some(connection) = self.clients.connection(ticket) {
            self.delivery.answer_sync(tree, connection);
        }
    }

    fn tree_released(&mut self) {
        if let Some(trail) = &mut self.trail {
            trail.released();
        }
        if let Some(history) = &mut self.history {
            history.released();
        }
        self.delivery.count_answers();
        self.delivery.wake(&self.schedule);
    }

    fn note(&mut self, note: Note<'_>) {
        self.measures.note(note);
    }
}
