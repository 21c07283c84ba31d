//! Carries out what the replica decides, with the sockets, files and connections of this process.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use replica::{Applied, ClientRequest, Effect, Host, Input, Note, Ticket};
use tree::Tree;

use super::ToCore;
use super::deliver::Delivery;
use super::disk::Disk;
use super::log::ToLog;
use super::measure::Measures;
use super::member::MemberPorts;
use super::snapshot::Synchronised;
use crate::net::connection::Connection;
use crate::net::handshake;
use crate::shared::Shared;
use crate::state::ServerState;

/// The host of a replica.
pub(crate) struct ServerHost {
    shared: Arc<Shared>,
    pub(super) disk: Disk,
    /// `None` if there is no ensemble.
    ports: Option<MemberPorts>,
    /// Connections that wait for something, by number.
    clients: HashMap<Ticket, Arc<Connection>>,
    delivery: Delivery,
    measures: Measures,
}

impl ServerHost {
    pub(crate) fn new(shared: Arc<Shared>, disk: Disk, ports: Option<MemberPorts>) -> Self {
        Self {
            measures: Measures::new(shared.clone()),
            shared,
            disk,
            ports,
            clients: HashMap::new(),
            delivery: Delivery::default(),
        }
    }

    /// A connection is about to wait for something.
    pub(super) fn note_client(&mut self, connection: &Arc<Connection>) {
        self.clients
            .entry(connection.ticket())
            .or_insert_with(|| connection.clone());
    }

    /// Requests that go no further.
    pub(super) fn release_all(&self, requests: &[ClientRequest]) {
        let large_bytes = requests.iter().map(|request| request.large_bytes).sum();
        self.release(requests.len(), large_bytes);
    }

    fn release(&self, requests: usize, large_bytes: u64) {
        self.shared.permits.give_back(requests);
        self.shared.large_requests.give_back(large_bytes);
    }

    /// What the elections were told is handled.
    pub(super) fn release_elections(&mut self) {
        if let Some(ports) = &mut self.ports {
            ports.elections_ahead.clear();
        }
    }

    /// The packets of the leader that waited are handled.
    pub(super) fn release_read_ahead(&mut self) {
        if let Some(ports) = &mut self.ports {
            ports.read_ahead.clear();
        }
    }

    /// What a message means to the replica.
    pub(super) fn translate(&mut self, message: ToCore) -> Option<Input> {
        match message {
            // Taken before.
            ToCore::Submit { .. } => None,
            ToCore::Sync(connection, sync) => {
                self.note_client(&connection);
                Some(Input::Sync(sync))
            }
            ToCore::Renew(connection, renewal) => {
                self.note_client(&connection);
                Some(Input::Renew(renewal))
            }
            ToCore::Gone(ticket) => {
                self.clients.remove(&ticket);
                None
            }
            ToCore::Mesh(event) => self.ports.as_mut()?.translate_election(event),
            ToCore::Peer(event) => self.ports.as_mut()?.translate(event),
            ToCore::Observer(event) => self.ports.as_mut()?.translate_observer(event),
            ToCore::Input(input) => {
                match &input {
                    Input::Synced(upto) => self.disk.note_synced(*upto),
                    Input::Reloaded { tree: Some(_), end } => self.disk.note_replaced(*end),
                    _ => {}
                }
                Some(input)
            }
        }
    }

    fn client(&self, ticket: Ticket) -> Option<&Arc<Connection>> {
        self.clients.get(&ticket)
    }

    fn flush(&mut self) {
        if let Some(ports) = &mut self.ports {
            ports.flush();
        }
        self.disk.flush();
    }
}

impl Host for ServerHost {
    type State = ServerState;

    fn effect(&mut self, effect: Effect) {
        match effect {
            Effect::Append(record) => self.disk.append(&record),
            Effect::Flush => self.flush(),
            Effect::SaveAcceptedEpoch(epoch) => self.disk.order(ToLog::SaveAcceptedEpoch(epoch)),
            Effect::SaveCurrentEpoch(epoch) => self.disk.order(ToLog::SaveCurrentEpoch(epoch)),
            Effect::SaveMembers { file, is_required } => {
                self.disk.order(ToLog::SaveMembers { file, is_required });
            }
            Effect::Reload { keep } => self.disk.order(ToLog::Reload { keep }),
            Effect::TakeOver { attempt, last } => {
                let generation = self.shared.state.tree_generation();
                self.disk.note_replaced(last);
                self.disk.order(ToLog::TakeOver {
                    last,
                    of: Synchronised {
                        attempt,
                        generation,
                    },
                });
            }
            Effect::GiveUpSnapshots => self.shared.state.give_up_snapshots(),
            Effect::Serve(service) => self.shared.serve(service),
            Effect::StopServing => self.shared.stop_serving(),
            Effect::CloseClient(ticket) => {
                if let Some(connection) = self.client(ticket) {
                    connection.close();
                }
            }
            Effect::CloseSession(session) => {
                self.shared.registry.close_session_connection(session);
            }
            Effect::Release {
                requests,
                large_bytes,
            } => self.release(requests, large_bytes),
            Effect::Renewed { renewal, is_valid } => {
                if let Some(connection) = self.client(renewal.ticket) {
                    handshake::finish_renewal(
                        &self.shared,
                        connection,
                        renewal.session,
                        is_valid.then_some(renewal.timeout_ms),
                        renewal.new_style,
                    );
                    connection.wake();
                }
            }
            Effect::Show(view) => self.measures.show(view),
            other => {
                if let Some(ports) = &mut self.ports {
                    ports.carry_out(other);
                }
            }
        }
    }

    fn applying(&mut self, tree: &Tree, origin: Ticket) {
        // Hardly ever: no look for the connection otherwise.
        if self.shared.left_over.load(Ordering::Relaxed) > 0
            && let Some(connection) = self.clients.get(&origin)
        {
            self.delivery
                .answer_left_over(&self.shared, tree, connection);
        }
    }

    fn applied(&mut self, tree: &Tree, applied: Applied<'_>) {
        let origin = applied.origin.and_then(|ticket| self.clients.get(&ticket));
        self.delivery.applied(&self.shared, tree, applied, origin);
    }

    fn answer_sync(&mut self, tree: &Tree, ticket: Ticket) {
        if let Some(connection) = self.clients.get(&ticket) {
            self.delivery.answer_sync(&self.shared, tree, connection);
        }
    }

    fn tree_released(&mut self) {
        self.delivery.settle(&self.shared);
        self.delivery.wake();
    }

    fn note(&mut self, note: Note<'_>) {
        self.measures.note(note);
    }
}
