//! Events for the core.

use std::fmt;
use std::sync::Arc;

use replica::Input;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::error::PeerError;
use crate::limits;

/// Receiver of events, in order per connection. It must not wait, because tasks call it, and the
/// core's own thread calls it if an order fails immediately.
pub type PeerSink = Arc<dyn Fn(PeerEvent) + Send + Sync>;

/// Event of a connection between members, or result of an order.
///
/// Events of a link or an attempt that the core has closed may still arrive, but no new events are
/// created. The event for a connected learner precedes all other events of its link. The event for
/// the end of the link follows all others, except answers to orders.
#[derive(Debug)]
pub struct PeerEvent {
    /// Input for the replica.
    pub(crate) input: Input,
    /// Permit for the packets. Drop it only after all of them have been handled. While the replica
    /// keeps packets of its leader for later, the permit is kept, too.
    pub(crate) permit: Option<ReadAheadPermit>,
    /// Reason why a connection has ended or a snapshot is invalid. Boxed because few events have a
    /// reason.
    pub(crate) reason: Option<Box<PeerError>>,
}

impl PeerEvent {
    /// Creates an event with packets.
    pub(super) fn packets(input: Input, permit: ReadAheadPermit) -> Self {
        Self {
            permit: Some(permit),
            ..input.into()
        }
    }

    /// Returns whether the event contains packets.
    pub fn is_packets(&self) -> bool {
        self.permit.is_some()
    }

    /// Creates the event for the end of a connection.
    pub(super) fn end(input: Input, reason: PeerError) -> Self {
        Self {
            reason: Some(Box::new(reason)),
            ..input.into()
        }
    }
}

impl From<Input> for PeerEvent {
    fn from(input: Input) -> Self {
        Self {
            input,
            permit: None,
            reason: None,
        }
    }
}

/// Part of a connection's read-ahead. Dropping it lets the connection continue.
pub(crate) struct ReadAheadPermit {
    _permit: Option<OwnedSemaphorePermit>,
}

/// Read-ahead of one connection, or of several connections that share it.
#[derive(Debug, Clone)]
pub(super) struct ReadAhead(Arc<Semaphore>);

impl ReadAhead {
    pub(super) fn new() -> Self {
        let all = limits::PEER_READ_AHEAD_BYTES as usize;
        Self(Arc::new(Semaphore::new(all)))
    }

    /// Waits for space. A batch that exceeds the whole read-ahead receives a permit for all of it.
    pub(super) async fn take(&self, bytes: usize) -> ReadAheadPermit {
        let bytes = u32::try_from(bytes).unwrap_or(u32::MAX);
        let counted = bytes.clamp(limits::PEER_BATCH_BYTES_MIN, limits::PEER_READ_AHEAD_BYTES);
        // The semaphore is never closed, so a permit is always returned.
        let permit = self.0.clone().acquire_many_owned(counted).await;
        ReadAheadPermit {
            _permit: permit.ok(),
        }
    }
}

impl fmt::Debug for ReadAheadPermit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ReadAheadPermit")
    }
}
