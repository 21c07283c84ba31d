//! Reasons for the end of a connection between members.

use std::io;

use host::{PacketFault, TooSlow};
use jute::DecodeError;

use crate::auth::AuthError;

/// Reason why a connection ended or could not be established.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub(crate) enum PeerError {
    /// The other side has closed the connection between two packets.
    #[error("the other side closed the connection")]
    Closed,
    /// The other side has closed the connection within a packet.
    #[error("the connection ended within a packet, after {bytes} bytes of the packet")]
    CutOff {
        /// Number of received bytes of the packet.
        bytes: usize,
    },
    /// The connection broke.
    #[error("{0}")]
    Io(#[from] io::Error),
    /// The bytes are not a packet, so the start of the next packet is unknown.
    #[error("malformed packet: {0}")]
    Malformed(#[from] DecodeError),
    /// The other side uses TLS.
    #[error(
        "the peer uses TLS, but this port accepts only plain connections (sslQuorum, portUnification)"
    )]
    Tls,
    /// The other side reads more slowly than this side sends.
    #[error("the other side is too slow: {bytes} bytes wait to be sent, the limit is {limit}")]
    TooSlow {
        /// Number of waiting bytes.
        bytes: usize,
        /// Maximum number of waiting bytes.
        limit: usize,
    },
    /// The other side does not read.
    #[error("nothing could be sent for {waited_ms} ms")]
    Stalled {
        /// Waiting time, in ms.
        waited_ms: u128,
    },
    /// None of the leader's addresses could be reached.
    #[error("cannot connect to {address}: {reason}")]
    Unreachable {
        /// Address that was tried last, as configured.
        address: String,
        /// Reason why this address could not be reached.
        reason: String,
    },
    /// The SASL login failed.
    #[error("{0}")]
    Auth(#[from] AuthError),
    /// The leader's snapshot is invalid.
    #[error("{0}")]
    Snapshot(String),
    /// Another tree has replaced the tree that was being sent.
    #[error("the tree was replaced while the snapshot was sent")]
    TreeReplaced,
    /// There are too many connections, and the learner has not introduced itself.
    #[error("too many connections, closing the oldest one without an introduction")]
    GivesWay,
    /// This side closes the connection. The core does not receive an event.
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
    /// Returns whether this error is normal when a server stops or changes its role.
    pub(super) fn is_expected(&self) -> bool {
        matches!(
            self,
            Self::Closed | Self::CutOff { .. } | Self::Io(_) | Self::ClosedHere
        )
    }
}
