//! Bound on the connections of peers that are not identified yet.

use std::collections::VecDeque;
use std::net::SocketAddr;

use tokio::task::AbortHandle;

/// Tasks that identify the peers of new connections. Above a maximum, the oldest task is ended in
/// favour of a new one, because an honest peer introduces itself within milliseconds. Silent peers
/// therefore cannot block others.
#[derive(Debug)]
pub(crate) struct Greetings {
    max: usize,
    oldest_first: VecDeque<(SocketAddr, AbortHandle)>,
}

impl Greetings {
    /// Creates an empty list for at most `max` tasks.
    pub(crate) fn new(max: usize) -> Self {
        Self {
            max,
            oldest_first: VecDeque::new(),
        }
    }

    /// Adds the task for this peer. If there are too many, ends the oldest and returns its peer.
    pub(crate) fn add(&mut self, peer: SocketAddr, greeting: AbortHandle) -> Option<SocketAddr> {
        self.oldest_first
            .retain(|(_, greeting)| !greeting.is_finished());
        self.oldest_first.push_back((peer, greeting));
        if self.oldest_first.len() <= self.max {
            return None;
        }
        let (peer, oldest) = self.oldest_first.pop_front()?;
        oldest.abort();
        Some(peer)
    }

    /// Ends all tasks.
    pub(crate) fn end_all(&mut self) {
        for (_, greeting) in self.oldest_first.drain(..) {
            greeting.abort();
        }
    }
}
