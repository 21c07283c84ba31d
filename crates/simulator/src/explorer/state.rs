//! Identity of a state. Two schedules with equal states should have the same continuations.
//!
//! A state consists of the roles, trees and disks, the messages that each running process has
//! received, the messages in flight, and the rest of the bounds. The messages of connections that
//! have ended are included, because a leader remembers which learners have acknowledged its epoch.
//! The identity omits the time, the numbers of connections and processes, and the order of messages
//! from different connections. Most differences that this order causes are visible in a tree, on a
//! disk or in a later message.

use std::hash::{DefaultHasher, Hash, Hasher};

use replica::{RoleView, State as _};
use simulation::network::{Connection, Endpoint, Port};

use super::stage::Stage;
use super::waiting::Effect;
use crate::checks::received::kind_of;
use crate::simulated::Server;

impl Stage {
    /// Returns a number for the state.
    pub(super) fn identity(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        let world = &self.ensemble.servers.world;
        (self.left, world.checks.history_end()).hash(&mut hasher);
        for machine in &self.ensemble.servers.machines {
            machine.disk.hash_files(&mut hasher);
            machine.lives.hash(&mut hasher);
            machine.process.is_some().hash(&mut hasher);
            if let Some(server) = &machine.process {
                hash_server(server, &mut hasher);
                let received = world.checks.received.as_ref();
                received
                    .map(|of| of.by_process(server.host.process))
                    .hash(&mut hasher);
            }
        }
        let connections = world.network.connections();
        let members = connections.filter(|(_, connection)| connection.port != Port::Election);
        let mut places: Vec<_> = members
            .map(|(number, connection)| (ends_of(connection), number))
            .collect();
        places.sort_unstable();
        for (ends, number) in places {
            ends.hash(&mut hasher);
            if let Some(connection) = world.network.get(number) {
                self.hash_connection(number, connection, &mut hasher);
            }
        }
        self.hash_pending(&mut hasher);
        hasher.finish()
    }

    fn hash_connection(&self, number: u64, connection: &Connection, hasher: &mut DefaultHasher) {
        connection.is_open.hash(hasher);
        for end in 0..2 {
            let received = &self.ensemble.servers.world.checks.received;
            let received = received.as_ref();
            let received = received.map(|of| of.by(number, connection.ends[end]));
            received.hash(hasher);
            for message in connection.in_flight(end) {
                kind_of(message).hash(hasher);
            }
            u8::MAX.hash(hasher);
        }
    }

    /// Hashes the work of disks, the dials and the ends of connections that are pending.
    fn hash_pending(&self, hasher: &mut DefaultHasher) {
        let pending = self.ensemble.servers.world.queue.pending();
        let number = |effect| match effect {
            Effect::Message { .. } | Effect::Immediate => None,
            Effect::Election(_) | Effect::Deadline(_) => None,
            Effect::End { at, peer, .. } => Some((1, at, peer)),
            Effect::Dial { from, to, .. } => Some((2, from, to)),
            Effect::Disk { at, is_snapshot } => Some((3, at, u8::from(is_snapshot))),
        };
        let mut pending: Vec<(u8, u8, u8)> = pending
            .filter_map(|event| number(self.effect_of(event)))
            .collect();
        pending.sort_unstable();
        pending.hash(hasher);
    }
}

/// Returns the servers at both ends of a connection.
fn ends_of(connection: &Connection) -> [Option<usize>; 2] {
    connection.ends.map(Endpoint::server)
}

fn hash_server(server: &Server, hasher: &mut DefaultHasher) {
    let (host, replica) = (&server.host, &server.replica);
    let role = replica.view().map(|view| {
        let kind = match view.role {
            RoleView::Looking => 0,
            RoleView::ReadOnly => 1,
            RoleView::Following { .. } => 2,
            RoleView::Observing { .. } => 3,
            RoleView::Leading { .. } => 4,
        };
        (kind, view.is_serving, view.phase as u8, view.leader)
    });
    role.hash(hasher);
    let candidate = replica.candidate().map(|it| (it.zxid, it.peer_epoch));
    (candidate, replica.last_zxid(), host.inputs.len()).hash(hasher);
    let tree = host.state.tree();
    (tree.last_zxid(), tree.digest()).hash(hasher);
    host.state.generation().is_established().hash(hasher);
    for work in host.disk.pending() {
        work.hash(hasher);
    }
    let snapshots = &host.disk.snapshots;
    let writing = snapshots.writing();
    let writing = writing.map(|snapshot| (snapshot.zxid(), snapshot.bytes()));
    (writing, snapshots.next().is_some()).hash(hasher);
}
