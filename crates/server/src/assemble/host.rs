//! Execution of the replica's decisions with the sockets, files and connections of this process.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use frontend::{AuditTrail, ClientMessage, Clients, Connection, Delivery, note_renewal};
use hashbrown::HashMap;
use host::{FlushAt, Schedule, ServerState, SharedConnection as _, answer_renewal};
use metrics::audit::AuditLog;
use proto::Zxid;
use quorum::MemberPorts;
use replica::{
    Applied, ClientRequest, Effect, Host, Input, LargeBytes, Note, Now, Renewal, Service, Ticket,
};
use tokio::sync::oneshot;
use tree::Tree;

use super::inbox::CoreMessage;
use super::measure::Measures;
use crate::clock;
use crate::disk::{Disk, SnapshotRequests};
use crate::error::EXIT_ELECTION_PORT;
use crate::failure::Failure;
use crate::recorder::Feed;

/// Exit code of a server whose data differs from the data of other members
/// (`zoarium.onDigestMismatch`). Apache ZooKeeper lacks such a code.
const EXIT_OTHER_DATA: u8 = 20;

/// The host of a replica.
pub(crate) struct ServerHost {
    clients: Arc<Clients>,
    disk: Disk,
    pub(super) schedule: Schedule,
    /// Connections to other members; `None` without an ensemble.
    ports: Option<MemberPorts>,
    /// Connections that wait for a result, by number.
    connections: HashMap<Ticket, Arc<Connection>>,
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

impl ServerHost {
    pub(crate) fn new(
        clients: Arc<Clients>,
        (disk, schedule): (Disk, Schedule),
        ports: Option<MemberPorts>,
        audit: Option<Arc<AuditLog>>,
        history: Option<Feed>,
        failure: Failure,
        snapshots: SnapshotRequests,
    ) -> Self {
        Self {
            trail: audit.map(AuditTrail::new),
            history,
            snapshots,
            measures: Measures::new(clients.metrics.clone(), clients.role.clone()),
            clients,
            disk,
            schedule,
            ports,
            connections: HashMap::new(),
            delivery: Delivery::default(),
            failure,
            restored: None,
        }
    }

    /// Syncs the group that is due on this thread. Returns the input for the replica.
    pub(super) fn sync_due(&mut self) -> Option<Input> {
        self.disk.sync_due(&mut self.schedule)
    }

    /// Passes all orders to the log thread that it can accept.
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

    /// Registers a connection that is about to wait for a result.
    pub(super) fn note_client(&mut self, connection: &Arc<Connection>) {
        self.connections
            .entry(connection.ticket())
            .or_insert_with(|| connection.clone());
    }

    /// Registers requests of a connection that are about to be ordered or forwarded.
    pub(super) fn note_requests(&mut self, connection: &Connection, requests: &[ClientRequest]) {
        if let Some(trail) = &mut self.trail {
            trail.note_requests(connection.peer.ip(), requests);
        }
    }

    /// Releases the permits of requests that are dropped.
    pub(super) fn release_all(&self, requests: &[ClientRequest]) {
        let large_bytes = requests.iter().map(|request| request.large_bytes).sum();
        self.release(requests.len(), large_bytes);
    }

    fn release(&self, requests: usize, large_bytes: LargeBytes) {
        self.clients.ledger.permits.release(requests);
        self.clients.ledger.large_requests.release(large_bytes);
    }

    /// Releases the permits of handled election inputs.
    pub(super) fn release_elections(&mut self) {
        if let Some(ports) = &mut self.ports {
            ports.release_elections();
        }
    }

    /// Releases the read-ahead of the leader's packets that have been handled.
    pub(super) fn release_read_ahead(&mut self) {
        if let Some(ports) = &mut self.ports {
            ports.release_read_ahead();
        }
    }

    /// Converts a message to an input of the replica.
    pub(super) fn translate(&mut self, message: CoreMessage) -> Option<Input> {
        match message {
            // Already handled before this function.
            CoreMessage::Client(ClientMessage::Submit { .. }) => None,
            CoreMessage::Client(ClientMessage::Sync(connection, sync)) => {
                self.note_client(&connection);
                Some(Input::Sync(sync))
            }
            CoreMessage::Client(ClientMessage::Renew(connection, renewal)) => {
                self.note_client(&connection);
                Some(Input::Renew(renewal))
            }
            CoreMessage::Client(ClientMessage::Gone(ticket)) => {
                self.connections.remove(&ticket);
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
    /// Sends the packets that wait, and passes all appended records to the disk.
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
        self.clients.serve(service);
        if let Some(done) = self.restored.take() {
            // Fails only if the operator no longer waits.
            let _ = done.send(());
        }
    }

    fn answer_renewal(&self, renewal: &Renewal, is_valid: bool) {
        let answered = answer_renewal(&self.clients.registry, renewal, is_valid);
        if let Some(connection) = answered {
            let session = is_valid.then_some((renewal.session, renewal.timeout_ms));
            note_renewal(&self.clients, &connection, renewal.session, session);
            connection.wake();
        }
    }
}

impl Host for ServerHost {
    type State = ServerState;

    fn effect(&mut self, effect: Effect) {
        match effect {
            Effect::Append(record) => {
                trace_append(&self.clients, record.zxid);
                self.disk.append_shared(record.zxid, &record.txn);
            }
            Effect::Flush => {
                if self.schedule.flush() == FlushAt::Now {
                    self.flush();
                }
            }
            Effect::Disk(order) => self.disk.order(order),
            Effect::Serve(service) => self.serve(service),
            Effect::StopServing => self.clients.stop_serving(),
            Effect::CloseClient(ticket) => self.clients.registry.close(ticket),
            Effect::CloseSession(session) => self.clients.registry.close_session(session),
            Effect::Release {
                requests,
                large_bytes,
            } => self.release(requests, large_bytes),
            Effect::Renewed { renewal, is_valid } => self.answer_renewal(&renewal, is_valid),
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
        trace_append(&self.clients, zxid);
        self.disk.append(zxid, txn);
    }

    fn applying(&mut self, tree: &Tree, origin: Ticket) {
        // Rare. In all other cases the connection is not looked up.
        if self.clients.deferred_connections.load(Ordering::Relaxed) > 0
            && let Some(connection) = self.connections.get(&origin)
        {
            self.delivery
                .answer_deferred(&self.clients, tree, connection);
        }
    }

    fn applied(&mut self, tree: &Tree, applied: Applied<'_>) {
        if let Some(trail) = &mut self.trail {
            trail.applied(&applied);
        }
        let origin = applied
            .origin
            .and_then(|ticket| self.connections.get(&ticket));
        if applied.origin.is_some() && origin.is_none() {
            self.clients.metrics.stale_replies.inc();
        }
        if let Some(history) = &mut self.history
            && applied.is_committed
        {
            history.applied(applied.record, || {
                origin.map(|connection| {
                    (connection.peer, connection.lock().client.identities.clone())
                })
            });
        }
        self.delivery.applied(&self.clients, tree, applied, origin);
    }

    fn established(&mut self, last: Zxid) {
        if let Some(history) = &self.history {
            history.committed(last);
        }
        self.snapshots.resume();
    }

    fn answer_sync(&mut self, tree: &Tree, ticket: Ticket) {
        if let Some(connection) = self.connections.get(&ticket) {
            self.delivery.answer_sync(&self.clients, tree, connection);
        }
    }

    fn tree_released(&mut self) {
        if let Some(trail) = &mut self.trail {
            trail.released();
        }
        if let Some(history) = &mut self.history {
            history.released();
        }
        self.delivery.count_answers(&self.clients);
        self.delivery.wake(&self.clients, &self.schedule);
    }

    fn note(&mut self, note: Note<'_>) {
        self.measures.note(note);
    }
}

fn trace_append(clients: &Clients, zxid: Zxid) {
    if let Some(traces) = &clients.traces
        && traces.is_sampled(zxid)
    {
        traces.appended(zxid, clock::wall_ns());
    }
}
