//! Effects that a replica requests from its host.

use std::fmt;

use config::members::HostPort;
use proto::leader::LeaderPacket;
use proto::learner::LearnerPacket;
use proto::txn::TxnRecord;
use proto::{Epoch, OpCode, SessionId, Zxid};
use tree::{Event, Generation, Outcome};
use zab::Record;
use zab::leader::{LinkFault, LinkId};

use super::input::{Port, Renewal, Ticket};
use super::large_bytes::LargeBytes;
use super::view::View;
use crate::elections::ElectionEffect;
use crate::members::files::MemberFile;

/// Handling of clients' requests by this server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Service {
    /// Clients are not served, because there is no leader. Handshakes are refused by closing the
    /// connection.
    None = 0,
    /// This server orders the requests itself.
    Deciding = 1,
    /// Requests are forwarded to the leader.
    Forwarding = 2,
    /// Only reads are answered, because there is no leader. Clients must accept this in the
    /// handshake.
    ReadOnly = 3,
}

/// Task for the disk, executed after all earlier appends.
#[derive(Debug)]
pub enum DiskOrder {
    /// Make the accepted epoch durable. `AcceptedEpochSaved` follows.
    SaveAcceptedEpoch(Epoch),
    /// Make the current epoch durable. `CurrentEpochSaved` follows.
    SaveCurrentEpoch(Epoch),
    /// Make a member list durable, before anything that is appended later.
    SaveMembers {
        /// File to write.
        file: MemberFile,
        /// Whether the server must stop if the file cannot be written.
        is_required: bool,
    },
    /// Load the tree from disk again. If `keep` is set, first cut the log after that transaction.
    /// `Reloaded` follows.
    Reload {
        /// Last transaction to keep.
        keep: Option<Zxid>,
    },
    /// Write the current tree to a separate location. The tree does not change during the write.
    /// `TreeKept` follows.
    KeepTree,
    /// Make the current tree, which came from a leader or was restored by an operator, this
    /// server's durable state: remove all records after `last` from the log, continue in a new
    /// file, write a snapshot and remove all other snapshots. `SnapshotWritten` follows.
    TakeOver {
        /// Last transaction in the tree.
        last: Zxid,
        /// Origin and generation of the tree.
        of: Synchronised,
    },
}

/// State that replaces this server's state. It was received from a leader or restored by an
/// operator.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Synchronised {
    /// Number of the role or of the restore that requested the replacement, which `SnapshotWritten`
    /// repeats.
    pub attempt: u64,
    /// Generation of the tree that contains the state
    /// ([`State::generation`](crate::State::generation)). If the generation has changed, the
    /// snapshot is obsolete.
    pub generation: Generation,
}

/// An effect that the host must execute. Effects for the disk are executed in order.
#[derive(Debug)]
pub enum Effect {
    /// Append a record to the log. [`Input::Synced`](crate::Input::Synced) follows once it is on
    /// disk. A host may implement [`Host::append`](crate::Host::append) instead.
    Append(Record),
    /// Send the packets and sync the log, because this turn does not produce more packets and
    /// records for now.
    Flush,
    /// Execute a task for the disk.
    Disk(DiskOrder),

    /// Listen for learners. This effect replaces an earlier `Listen`.
    Listen {
        /// Port to open.
        port: Port,
        /// Number that `ListenFailed` repeats.
        attempt: u64,
        /// Addresses to listen on.
        addresses: Vec<HostPort>,
    },
    /// Stop listening, and close the connections.
    StopListening {
        /// Port to close.
        port: Port,
        /// Whether to send the queued packets to up-to-date learners first.
        hands_over: bool,
    },
    /// Send a packet to a learner.
    Send {
        /// Port of the connection.
        port: Port,
        /// Learner that receives the packet.
        to: LinkId,
        /// Packet to send.
        packet: LeaderPacket,
    },
    /// Send a SNAP packet and the tree to a learner. `SnapshotSent` follows.
    SendSnapshot {
        /// Port of the connection.
        port: Port,
        /// Learner that receives the tree.
        to: LinkId,
        /// Last transaction that the tree certainly contains.
        zxid: Zxid,
    },
    /// Read the log for a learner. `LogRecords` or `LogUnusable` follows.
    ReadLog {
        /// Learner that needs the records.
        to: LinkId,
        /// First zxid that is needed.
        from: Zxid,
        /// Last zxid that is needed.
        upto: Zxid,
    },
    /// Drop a learner's connection.
    CloseLink {
        /// Port of the connection.
        port: Port,
        /// Connection to drop.
        link: LinkId,
        /// Reason for the log.
        fault: LinkFault,
    },

    /// Connect to the server to learn from. The new connection replaces an earlier one.
    Dial {
        /// Number of the connection.
        attempt: u64,
        /// Addresses of the server.
        addresses: Vec<HostPort>,
        /// Pause before the connection attempt, ms.
        pause_ms: u64,
    },
    /// Send a packet to the leader.
    SendToLeader(LearnerPacket),
    /// Read a snapshot from the connection to the leader. `SnapshotReceived` or `SnapshotDamaged`
    /// follows.
    ReceiveSnapshot,
    /// Close the connection to the leader.
    HangUp,

    /// Stop the server, because its tree differs from the trees of other members or from its own
    /// transactions, and the server cannot or must not repair the tree.
    Stop,
    /// Execute an effect that elections request.
    Election(ElectionEffect),
    /// Use these names and addresses as the hosts of all members, because the member lists have
    /// changed.
    SetMemberHosts(Vec<String>),
    /// Query the oracle (`oraclePath`) of a two-voter ensemble. `Oracle` follows.
    QueryOracle,

    /// Use this service for clients from now on.
    Serve(Service),
    /// Stop the service: every connection ends without another answer.
    StopServing,
    /// End a client's connection without another answer.
    CloseClient(Ticket),
    /// End the connection that serves this session, if any.
    CloseSession(SessionId),
    /// Free the slots of dropped requests.
    Release {
        /// Number of dropped requests.
        requests: usize,
        /// The requests' share in the host's bounds on large requests.
        large_bytes: LargeBytes,
    },
    /// Use the leader's answer to a query about a session.
    Renewed {
        /// Query that was answered.
        renewal: Renewal,
        /// Whether the session is live.
        is_valid: bool,
    },
    /// Show this view to operators.
    Show(View),
}

impl Effect {
    /// Returns whether the host must first send the packets that wait for a flush.
    pub fn follows_packets(&self) -> bool {
        matches!(
            self,
            Self::StopListening { .. }
                | Self::SendSnapshot { .. }
                | Self::ReadLog { .. }
                | Self::CloseLink { .. }
        )
    }
}

impl fmt::Display for Effect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Append(record) => write!(f, "append {record}"),
            Self::Send { to, packet, .. } => {
                write!(f, "{to}: send {}", zab::packets::LeaderPacketText(packet))
            }
            Self::SendToLeader(packet) => {
                write!(f, "send {}", zab::packets::LearnerPacketText(packet))
            }
            other => write!(f, "{other:?}"),
        }
    }
}

/// A transaction that was just applied.
#[derive(Debug)]
pub struct Applied<'a> {
    /// Applied transaction.
    pub record: &'a TxnRecord,
    /// Outcome of the transaction.
    pub outcome: &'a Outcome,
    /// Events for watchers. The host removes them from here to deliver them.
    pub events: &'a mut Vec<Event>,
    /// Requested operation. The transaction may be an error instead.
    pub op: OpCode,
    /// Connection that waits for the reply.
    pub origin: Option<Ticket>,
    /// Whether the transaction was requested by a client of this server. The request's slot is then
    /// free.
    pub is_counted: bool,
    /// The request's share in the host's bounds on large requests.
    pub large_bytes: LargeBytes,
    /// Whether the tree is released after this transaction.
    pub is_last: bool,
    /// Whether the transaction is known to be committed. Learners treat a record from a leader
    /// whose epoch is not established as committed, but the next leader may cut it.
    pub is_committed: bool,
}
