//! The connections of elections.

use election::links::ConnectionId;
use replica::Input;
use replica::elections::{ElectionEffect, ElectionInput};

use super::host::SimHost;
use crate::configured::{hello_of, index_of, sid_of};
use crate::network::{Heard, Message, Patience, Port};

impl SimHost {
    pub(super) fn carry_out_election(&mut self, effect: ElectionEffect) {
        match effect {
            ElectionEffect::Listen(_) | ElectionEffect::AskOracle | ElectionEffect::Keep { .. } => {
            }
            ElectionEffect::Dial { sid, .. } => {
                self.world
                    .dial(Port::Election, index_of(sid), Patience::Once);
            }
            ElectionEffect::Close { connection, .. } => self.world.close(connection.0),
            ElectionEffect::Write {
                connection,
                notification,
            } => self
                .world
                .send(connection.0, Message::Vote(Box::new(notification))),
        }
    }

    pub(super) fn hear_election(&mut self, number: u64, heard: Heard) {
        let connection = ConnectionId(number);
        let input = match heard {
            Heard::Reached(server) => {
                self.world
                    .send(number, Message::Hello(hello_of(self.world.server)));
                let sid = sid_of(server);
                ElectionInput::Dialled { sid, connection }
            }
            Heard::NotReached { server, is_refusal } => {
                let sid = sid_of(server);
                ElectionInput::NotReached { sid, is_refusal }
            }
            Heard::Message(Message::Hello(hello)) => ElectionInput::Hello { connection, hello },
            Heard::Message(Message::Vote(notification)) => ElectionInput::Heard {
                connection,
                notification: *notification,
            },
            Heard::Closed => ElectionInput::Closed { connection },
            Heard::Accepted | Heard::Message(_) => return,
        };
        self.inputs.push_back(Input::Election(input));
    }
}
