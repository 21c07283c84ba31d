//! Contents of the network: its connections, and the messages in flight.

use super::{Connection, Message, Network};

impl Connection {
    /// Returns the messages from one end that the other end has not received yet.
    pub fn in_flight(&self, from_end: usize) -> impl Iterator<Item = &Message> {
        let messages = self.lanes[from_end].messages.iter();
        messages.map(|(_, message)| message)
    }
}

impl Network {
    /// Returns all connections, each with its number, oldest first.
    pub fn connections(&self) -> impl Iterator<Item = (u64, &Connection)> {
        let all = self.connections.iter();
        all.map(|(number, connection)| (*number, connection))
    }

    /// Splits the first message of packets from one end after this number of bytes. The parts
    /// arrive one after the other, as on a stream of bytes. Returns the length of the first part.
    pub fn split_first(&mut self, number: u64, from_end: usize, bytes: usize) -> Option<usize> {
        let connection = self.connections.get_mut(&number)?;
        let messages = &mut connection.lanes[from_end].messages;
        let Some((at, Message::Packets(packets))) = messages.front_mut() else {
            return None;
        };
        let len = packets.len();
        if bytes < len {
            let rest = (*at, Message::Packets(packets.split_off(bytes)));
            messages.insert(1, rest);
        }
        Some(len.min(bytes))
    }
}
