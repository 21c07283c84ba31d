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
}
