//! Effects of a replica, which its host executes.

use std::fmt;

use config::members::HostPort;
use config::membership::Membership;
use proto::leader::LeaderPacket;
use proto::learner::LearnerPacket;
use proto::txn::TxnRecord;
use proto::{Epoch, OpCode, SessionId, Zxid};
use tree::{Event, Generation, Outcome};
use zab::Record;
use zab::leader::{LinkFault, LinkId};

use super::input::{Renewal, Ticket};
use super::large_bytes::LargeBytes;
use super::view::View;
use crate::elections::ElectionEffect;

/// The port on which learners connect.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Port {
    /// Learners of this leader: the quorum port.
    Learners,
    /// Observers of this follower: `observerMasterPort`.
    Observers,
}

/// Handling of clients' requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Service {
    /// Clients are not served without a leader. Handshakes are refused by closing the connection.
    None = 0,
    /// This server orders the requests.
    Deciding = 1,
    /// Requests are forwarded to the leader.
    Forwarding = 2,
    /// Reads are answered without a leader, for clients that accept this.
    ReadOnly = 3,
}

/// A file with a member list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MemberFile {
    /// The last list seen (`zoo.cfg.dynamic.next`); `None` removes the file.
    LastSeen(Option<Membership>),
    /// The committed list (`zoo.cfg.dynamic.<version>`, named by zoo.cfg).
    Committed {
        /// The list.
        list: Membership,
        /// Whether the list contains this server's client address, so that zoo.cfg omits it.
        has_client: bool,
        /// Whether to remove the file of the last list seen.
        removes_last_seen: bool,
    },
}

/// A task of the disk, executed after all earlier appends.
#[derive(Debug)]
pub enum DiskOrder {
    /// Make the promised epoch durable. `AcceptedEpochSaved` follows.
    SaveAcceptedEpoch(Epoch),
    /// Make the epoch durable. `CurrentEpochSaved` follows.
    SaveCurrentEpoch(Epoch),
    /// Make a member list durable, before anything that is appended later.
    SaveMembers {
        /// The file.
        file: MemberFile,
        /// Whether the server must stop if the file cannot be written.
        is_required: bool,
    },
    /// Load the tree from disk again. If `keep` is set, first cut the log after that transaction.
    /// `Reloaded` follows.
    Reload {
        /// The last transaction to keep.
        keep: Option<Zxid>,
    },
    /// Write the current tree to a separate place. The tree does not change during the write.
    /// `TreeKept` follows.
    KeepTree,
    /// Make a leader's tree this server's durable state: remove all records after `last` from the
    /// log, continue in a new file, write a snapshot and remove all others. `SnapshotWritten`
    /// follows.
    TakeOver {
        /// The tree's last transaction.
        last: Zxid,
        /// The leader's state.
        of: Synchronised,
    },
}

/// A leader's state that replaces this server's own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Synchronised {
    /// The number of the role that requested it, for the report.
    pub attempt: u64,
    /// Generation of the tree that contains it ([`State::generation`](crate::State::generation)).
    /// In a later generation, the snapshot is obsolete.
    pub generation: Generation,
}

/// An effect that the host must execute. Effects for the disk are executed in order.
#[derive(Debug)]
pub enum Effect {
    /// Append a record to the log. [`Input::Synced`](crate::Input::Synced) follows once it is on
    /// disk. A host may implement [`Host::append`](crate::Host::append) instead.
    Append(Record),
    /// Send the packets and sync the log, because this turn does not produce more for now.
    Flush,
    /// Another task of the disk.
    Disk(DiskOrder),

    /// Listen for learners. This effect replaces an earlier `Listen`.
    Listen {
        /// The port.
        port: Port,
        /// Number for `ListenFailed`.
        attempt: u64,
        /// The addresses.
        addresses: Vec<HostPort>,
    },
    /// Stop listening, and close the connections.
    StopListening {
        /// The port.
        port: Port,
        /// Whether to send the queued packets first to learners that are up to date.
        hands_over: bool,
    },
    /// Send a packet to a learner.
    Send {
        /// The port of the connection.
        port: Port,
        /// The receiver.
        to: LinkId,
        /// The packet.
        packet: LeaderPacket,
    },
    /// Send a SNAP packet and the tree. `SnapshotSent` follows.
    SendSnapshot {
        /// The port of the connection.
        port: Port,
        /// The receiver.
        to: LinkId,
        /// The last transaction that the tree is sure to contain.
        zxid: Zxid,
    },
    /// Read the log for a learner. `LogRecords` or `LogUnusable` follows.
    ReadLog {
        /// The learner.
        to: LinkId,
        /// The zxid to begin at.
        from: Zxid,
        /// Last zxid that is needed.
        upto: Zxid,
    },
    /// Drop a learner.
    CloseLink {
        /// The port of the connection.
        port: Port,
        /// The connection.
        link: LinkId,
        /// The reason.
        fault: LinkFault,
    },

    /// Connect to the server to learn from. It replaces an earlier connection.
    Dial {
        /// Number of the connection.
        attempt: u64,
        /// The addresses.
        addresses: Vec<HostPort>,
        /// Pause before connecting, ms.
        pause_ms: u64,
    },
    /// Send a packet to the leader.
    SendToLeader(LearnerPacket),
    /// Read a snapshot from the connection. `SnapshotReceived` or `SnapshotDamaged` follows.
    ReceiveSnapshot,
    /// Close the connection to the leader.
    HangUp,

    /// Stop the server: its data differs from the data of other members, and it cannot or must not
    /// repair that itself.
    Stop,
    /// Execute an effect of elections.
    Election(ElectionEffect),
    /// Use these hosts of all members, by name or address, because the member lists have changed.
    SetMemberHosts(Vec<String>),
    /// Query the oracle of two. `Oracle` follows.
    AskOracle,

    /// Use this service for clients from now on.
    Serve(Service),
    /// Stop the service: every connection ends without another answer.
    StopServing,
    /// End a connection without another answer.
    CloseClient(Ticket),
    /// End the connection that serves this session, if there is one.
    CloseSession(SessionId),
    /// Free the slots of dropped requests.
    Release {
        /// Number of requests.
        requests: usize,
        /// The requests' share of the host's bounds on large requests.
        large_bytes: LargeBytes,
    },
    /// Use the leader's answer about a session.
    Renewed {
        /// The query.
        renewal: Renewal,
        /// Whether the session is alive.
        is_valid: bool,
    },
    /// Show this view to operators.
    Show(View),
}

impl fmt::Display for Effect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Append(record) => write!(f, "append {record}"),
            Self::Send { to, packet, .. } => {
                write!(f, "{to}: send {}", zab::packets::ShowLeader(packet))
            }
            Self::SendToLeader(packet) => {
                write!(f, "send {}", zab::packets::ShowLearner(packet))
            }
            other => write!(f, "{other:?}"),
        }
    }
}

/// A transaction that was just applied.
#[derive(Debug)]
pub struct Applied<'a> {
    /// The transaction.
    pub record: &'a TxnRecord,
    /// The outcome.
    pub outcome: &'a Outcome,
    /// Events for watchers. The host takes them for delivery.
    pub events: &'a mut Vec<Event>,
    /// The requested operation. The transaction may be an error instead.
    pub op: OpCode,
    /// The connection that waits for the reply.
    pub origin: Option<Ticket>,
    /// Whether the transaction was a request of this server's client. Its slot is then free.
    pub is_counted: bool,
    /// The request's share of the host's bounds on large requests.
    pub large_bytes: LargeBytes,
    /// Whether the tree is released after this transaction.
    pub is_last: bool,
    /// Whether the transaction is known to be committed. Learners treat a record from a leader
    /// without an established epoch as committed, but the next leader may cut it.
    pub is_committed: bool,
}
