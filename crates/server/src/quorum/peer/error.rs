//! Why a connection between members ends.

use std::io;

use hosting::{PacketFault, TooSlow};
use jute::DecodeError;

use crate::quorum::auth::AuthError;

/// What ended a connection, or kept it from coming about.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub(crate) enum PeerError {
    /// The other side has closed it, between two packets.
    #[error("the other side has closed the connection")]
    Closed,
    /// The other side has closed it within a packet.
    #[error("the connection ends within a packet, after {bytes} bytes of it")]
    CutOff {
        /// How much of the packet is there.
        bytes: usize,
    },
    /// The connection broke.
    #[error("{0}")]
    Io(#[from] io::Error),
    /// Bytes that are no packet; where the next one begins is not known.
    #[error("malformed packet: {0}")]
    Malformed(#[from] DecodeError),
    /// The other side speaks TLS.
    #[error("it speaks TLS, and this port takes plain connections (sslQuorum, portUnification)")]
    Tls,
    /// The other side takes in less than is sent to it.
    #[error("{bytes} bytes wait to be sent, {limit} are allowed: the other side is too slow")]
    TooSlow {
        /// What waits.
        bytes: usize,
        /// What may wait.
        limit: usize,
    },
    /// The other side takes in nothing.
    #[error("nothing could be sent for {waited_ms} ms")]
    Stalled {
        /// How long, ms.
        waited_ms: u128,
    },
    /// No address of a leader could be reached.
    #[error("cannot connect to {address}: {reason}")]
    Unreachable {
        /// The address that was tried last, as configured.
        address: String,
        /// What came of it.
        reason: String,
    },
    /// One side does not let the other in.
    #[error("{0}")]
    Auth(#[from] AuthError),
    /// The snapshot that the leader sends is no good.
    #[error("{0}")]
    Snapshot(String),
    /// Another history has taken the place of the one that was being sent.
    #[error("the tree was replaced while it was sent")]
    TreeReplaced,
    /// This side ends it; nobody is told.
    #[error("closed by this server")]
    ClosedHere,
}

impl From<PacketFault> for PeerError {
    fn from(fault: PacketFault) -> Self {
        match fault {
            PacketFault::Malformed(error) => Self::Malformed(error),
            PacketFault::Foreign => Self::Tls,
        }
    }
}

impl From<TooSlow> for PeerError {
    fn from(TooSlow { bytes, limit }: TooSlow) -> Self {
        Self::TooSlow { bytes, limit }
    }
}

impl From<transport::DialFailure> for PeerError {
    fn from(failure: transport::DialFailure) -> Self {
        let transport::DialFailure { address, reason } = failure;
        Self::Unreachable { address, reason }
    }
}

impl PeerError {
    /// Whether it happens whenever a server stops or changes its role.
    pub(super) fn is_expected(&self) -> bool {
        matches!(
            self,
            Self::Closed | Self::CutOff { .. } | Self::Io(_) | Self::ClosedHere
        )
    }
}
