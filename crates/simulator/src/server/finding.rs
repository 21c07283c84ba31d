//! The connections of elections.

use std::collections::BTreeSet;

use election::links::ConnectionId;
use proto::hello::{Hello, HelloAddresses};
use proto::notification::Notification;
use replica::Input;
use replica::elections::{ElectionEffect, ElectionInput};

use super::host::SimHost;
use crate::configured::{election_address, index_of, sid_of};
use crate::network::{Message, Patience, Place, Port};
use crate::world::World;

/// Connections of elections that are kept.
pub(super) type Kept = BTreeSet<ConnectionId>;

impl SimHost {
    fn tell_of_election(&mut self, input: ElectionInput) {
        self.inputs.push_back(Input::Election(input));
    }

    pub(super) fn carry_out_election(&mut self, effect: ElectionEffect) {
        match effect {
            ElectionEffect::Listen(_) | ElectionEffect::AskOracle => {}
            ElectionEffect::Dial { sid, .. } => {
                self.dial(Port::Election, index_of(sid), Patience::Once);
            }
            ElectionEffect::Keep { connection, .. } => {
                self.kept.insert(connection);
            }
            ElectionEffect::Close { connection, .. } => {
                self.kept.remove(&connection);
                self.close(connection.0);
            }
            ElectionEffect::Write {
                connection,
                notification,
            } => self.send(connection.0, Message::Vote(Box::new(notification))),
        }
    }

    pub(super) fn hear_hello(&mut self, connection: u64, sid: proto::Sid) {
        let at = election_address(index_of(sid));
        let addresses = HelloAddresses::One(vec![at]);
        let hello = Hello { sid, addresses };
        let connection = ConnectionId(connection);
        self.tell_of_election(ElectionInput::Hello { connection, hello });
    }

    pub(super) fn hear_vote(&mut self, connection: u64, notification: Notification) {
        let connection = ConnectionId(connection);
        self.tell_of_election(ElectionInput::Heard {
            connection,
            notification,
        });
    }

    pub(super) fn election_closed(&mut self, connection: u64) {
        let connection = ConnectionId(connection);
        if self.kept.remove(&connection) {
            self.tell_of_election(ElectionInput::Closed { connection });
        }
    }

    pub(super) fn election_dialled(&mut self, connection: u64, is_open: bool) {
        let dialled = self.world.network.get(connection);
        let Some(server) = dialled.and_then(|dialled| dialled.ends[1].server()) else {
            return;
        };
        let sid = sid_of(server);
        if is_open {
            self.send(connection, Message::Hello(sid_of(self.index)));
            let connection = ConnectionId(connection);
            return self.tell_of_election(ElectionInput::Dialled { sid, connection });
        }
        // Behind a cut nobody answers; a host whose server is down does.
        let (me, network) = (self.index, &self.world.network);
        let is_refusal = !network.is_cut(me, server) && !network.is_cut(server, me);
        self.tell_of_election(ElectionInput::NotReached { sid, is_refusal });
    }

    /// Dials a server; the answer comes as an event.
    pub(super) fn dial(&mut self, port: Port, server: usize, patience: Patience) -> u64 {
        let ends = [self.place(), Place::Server { server, life: 0 }];
        let World { network, queue, .. } = &mut self.world;
        network.dial(port, ends, patience, queue)
    }
}
