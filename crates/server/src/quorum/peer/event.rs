//! What the core is told.

use std::fmt;
use std::sync::Arc;

use replica::Input;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::PeerError;
use crate::limits;

/// Takes events, in the order of their connection. It is called by tasks, and by the core's own
/// thread where an order fails at once, so it must not wait.
pub(crate) type EventSink = Arc<dyn Fn(PeerEvent) + Send + Sync>;

/// What happened on a connection between members, or came of an order.
///
/// Events of a link or an attempt that the core has closed itself may still be under way; none are
/// made any more. That a learner has connected comes before, that it is gone after everything else of
/// its link that is not an answer to an order.
#[derive(Debug)]
pub(crate) struct PeerEvent {
    /// What the replica is told.
    pub(crate) input: Input,
    /// Of packets: to be dropped when all of them are handled, and not before. While a learner does not
    /// read, packets are kept with it.
    pub(crate) permit: Option<ReadAheadPermit>,
    /// Why a connection has ended, or what is wrong with a snapshot. Boxed: hardly any event has it.
    pub(crate) reason: Option<Box<PeerError>>,
}

impl PeerEvent {
    /// Packets.
    pub(super) fn packets(input: Input, permit: ReadAheadPermit) -> Self {
        Self {
            permit: Some(permit),
            ..input.into()
        }
    }

    /// Whether it is packets.
    pub(crate) fn is_packets(&self) -> bool {
        self.permit.is_some()
    }

    /// The end of a connection.
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

/// A part of what a connection may have sent ahead; dropping it lets the connection go on.
pub(crate) struct ReadAheadPermit {
    _permit: Option<OwnedSemaphorePermit>,
}

/// All that a connection may have sent ahead, or several together.
#[derive(Debug, Clone)]
pub(super) struct ReadAhead(Arc<Semaphore>);

impl ReadAhead {
    pub(super) fn new() -> Self {
        let all = limits::PEER_READ_AHEAD_BYTES as usize;
        Self(Arc::new(Semaphore::new(all)))
    }

    /// Waits until there is room. What is larger than all of it gets all of it.
    pub(super) async fn take(&self, bytes: usize) -> ReadAheadPermit {
        let bytes = u32::try_from(bytes).unwrap_or(u32::MAX);
        let counted = bytes.clamp(limits::PEER_BATCH_BYTES_MIN, limits::PEER_READ_AHEAD_BYTES);
        // The semaphore is never closed, so there is always a permit.
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
