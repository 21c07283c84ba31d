//! What a replica wants of the world.

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

use crate::elections::ElectionEffect;
use crate::input::{Renewal, Ticket};
use crate::large_bytes::LargeBytes;
use crate::view::View;

/// Where learners come to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Port {
    /// Learners of this leader: the quorum port.
    Learners,
    /// Observers of this follower: `observerMasterPort`.
    Observers,
}

/// What becomes of clients' requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Service {
    /// Nothing: there is no leader. Handshakes are turned away by closing the connection.
    None = 0,
    /// This server orders them.
    Deciding = 1,
    /// They go up to the leader.
    Forwarding = 2,
    /// There is no leader: reads are answered to clients that can do with them.
    ReadOnly = 3,
}

/// A file that holds a member list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MemberFile {
    /// The last list seen (`zoo.cfg.dynamic.next`); `None` removes it.
    LastSeen(Option<Membership>),
    /// The committed list (`zoo.cfg.dynamic.<version>`, named by zoo.cfg).
    Committed {
        /// The list.
        list: Membership,
        /// Whether the list says where this server's clients go, and zoo.cfg does not any more.
        has_client: bool,
        /// Whether the file of the last list seen goes.
        removes_last_seen: bool,
    },
}

/// An order to the host that concerns the files, behind all that was appended.
#[derive(Debug)]
pub enum DiskOrder {
    /// Make the promise durable; `AcceptedEpochSaved` follows.
    SaveAcceptedEpoch(Epoch),
    /// Make the epoch durable; `CurrentEpochSaved` follows.
    SaveCurrentEpoch(Epoch),
    /// Make a member list durable, before anything that is appended later.
    SaveMembers {
        /// What.
        file: MemberFile,
        /// Whether the server must end if it cannot be written.
        is_required: bool,
    },
    /// Load the tree from disk again; first cut the log behind `keep`, if that is asked for.
    /// `Reloaded` follows.
    Reload {
        /// The last transaction to keep.
        keep: Option<Zxid>,
    },
    /// Write the tree as it is into a separate place; nothing changes it meanwhile. `TreeKept` follows.
    KeepTree,
    /// The tree is a leader's, and becomes this server's history: remove from the log what lies
    /// behind `last`, go on in a new file, write a snapshot and remove all others.
    /// `SnapshotWritten` follows.
    TakeOver {
        /// The tree's last transaction.
        last: Zxid,
        /// Whose tree it is.
        of: Synchronised,
    },
}

/// A leader's history that takes the place of this server's own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Synchronised {
    /// The number of the role that orders it, for the report.
    pub attempt: u64,
    /// Of the tree that holds it ([`State::generation`](crate::State::generation)). Once there is
    /// another the snapshot is not wanted any more.
    pub generation: Generation,
}

/// An order to the host. Those that concern the disk are carried out in the order given.
#[derive(Debug)]
pub enum Effect {
    /// Append this to the log; [`Input::Synced`](crate::Input::Synced) follows once it is on disk. A
    /// host may take it by [`Host::append`](crate::Host::append).
    Append(Record),
    /// Nothing more comes in this turn for now: packets leave, and what was appended goes to the
    /// disk.
    Flush,
    /// Something else that concerns the files.
    Disk(DiskOrder),

    /// Listen for learners. An earlier order is over.
    Listen {
        /// Which.
        port: Port,
        /// For `ListenFailed`.
        attempt: u64,
        /// Where.
        addresses: Vec<HostPort>,
    },
    /// Listen no more, and close the connections.
    StopListening {
        /// Which.
        port: Port,
        /// Whether learners that are up to date get what waits for them first.
        hands_over: bool,
    },
    /// Send this to a learner.
    Send {
        /// By which port it came.
        port: Port,
        /// To whom.
        to: LinkId,
        /// What.
        packet: LeaderPacket,
    },
    /// Send a SNAP packet and the tree; `SnapshotSent` follows.
    SendSnapshot {
        /// By which port it came.
        port: Port,
        /// To whom.
        to: LinkId,
        /// The last transaction that the tree is sure to have.
        zxid: Zxid,
    },
    /// Read the log for a learner; `LogRecords` or `LogUnusable` follows.
    ReadLog {
        /// For whom.
        to: LinkId,
        /// Where to begin.
        from: Zxid,
        /// What stands behind it is not needed.
        upto: Zxid,
    },
    /// Drop a learner.
    CloseLink {
        /// By which port it came.
        port: Port,
        /// Which.
        link: LinkId,
        /// Why.
        fault: LinkFault,
    },

    /// Connect to the server to learn from. An earlier connection is over.
    Dial {
        /// Numbers the connection.
        attempt: u64,
        /// Where.
        addresses: Vec<HostPort>,
        /// To be waited for before.
        pause_ms: u64,
    },
    /// Send this to the leader.
    SendToLeader(LearnerPacket),
    /// Take what comes on the connection for a snapshot; `SnapshotReceived` or `SnapshotDamaged`
    /// follows.
    ReceiveSnapshot,
    /// Close the connection to the leader.
    HangUp,

    /// End the server: it holds other data than others, and cannot or must not repair that itself.
    Stop,
    /// What elections want.
    Election(ElectionEffect),
    /// The member lists have changed. These are the hosts of all their members, by name or address.
    SetMemberHosts(Vec<String>),
    /// Ask the oracle of two; `Oracle` follows.
    AskOracle,

    /// Serve clients like this from here on.
    Serve(Service),
    /// Serve nobody: every connection ends without another answer.
    StopServing,
    /// End a connection without another answer.
    CloseClient(Ticket),
    /// End the connection that serves this session, if there is one.
    CloseSession(SessionId),
    /// Requests were dropped: their places are free.
    Release {
        /// How many.
        requests: usize,
        /// What they took of the host's bounds on large requests.
        large_bytes: LargeBytes,
    },
    /// The leader has answered for a session.
    Renewed {
        /// Who asked.
        renewal: Renewal,
        /// Whether it lives.
        is_valid: bool,
    },
    /// Show this to operators.
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
    /// What it brought about.
    pub outcome: &'a Outcome,
    /// Whom it concerns; taken by whoever delivers them.
    pub events: &'a mut Vec<Event>,
    /// What was asked for; the transaction may be an error instead.
    pub op: OpCode,
    /// The connection that waits for the reply.
    pub origin: Option<Ticket>,
    /// Whether it was a client's of this server: its place is free.
    pub is_counted: bool,
    /// What it took of the host's bounds on large requests.
    pub large_bytes: LargeBytes,
    /// Whether the tree is let go after it.
    pub is_last: bool,
    /// Whether it is known to be committed. What a leader sends before its epoch is established
    /// counts as committed for its learners, and may be cut off again under the next leader.
    pub is_committed: bool,
}
