//! Hashes of the messages that members have received. The explorer compares them.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};

use simulation::network::{Endpoint, Message, Process};

/// Hash of the messages that each end of a connection has received.
#[derive(Debug, Default)]
pub(crate) struct Received(BTreeMap<(u64, Endpoint), u64>);

impl Received {
    /// Records a message that arrives.
    pub(crate) fn note(&mut self, connection: u64, to: Endpoint, message: &Message) {
        if let Some(kind) = kind_of(message) {
            let mut hasher = DefaultHasher::new();
            let received = self.0.entry((connection, to)).or_default();
            received.hash(&mut hasher);
            kind.hash(&mut hasher);
            *received = hasher.finish();
        }
    }

    /// Returns the hash of the messages that a process has received, for each of its connections. It
    /// includes connections that have ended, because a leader remembers their acknowledgements.
    pub(crate) fn by_process(&self, process: Process) -> Vec<u64> {
        let own = self.0.iter();
        let own = own.filter(|((_, to), _)| *to == Endpoint::Server(process));
        let mut hashes: Vec<u64> = own.map(|(_, hash)| *hash).collect();
        hashes.sort_unstable();
        hashes
    }

    /// Returns the hash of the messages that this end of a connection has received.
    pub(crate) fn by(&self, connection: u64, end: Endpoint) -> u64 {
        self.0.get(&(connection, end)).copied().unwrap_or_default()
    }
}

/// Returns the number of the kind and the content of a message, if it contains packets or a part of
/// a tree, or ends the connection. Returns `None` for other messages.
pub(crate) fn kind_of(message: &Message) -> Option<(u8, &[u8])> {
    match message {
        Message::Packets(packets) => Some((0, packets)),
        Message::Tree(part, false) => Some((1, part)),
        Message::Tree(part, true) => Some((2, part)),
        Message::End => Some((3, &[])),
        Message::Hello(_) | Message::Vote(_) | Message::ToServer(_) | Message::ToClient(_) => None,
    }
}
