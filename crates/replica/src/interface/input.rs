//! Inputs of a replica.

use std::fmt;
use std::sync::Arc;

use bytes::Bytes;
use proto::leader::LeaderPacket;
use proto::learner::LearnerPacket;
use proto::request::WriteRequest;
use proto::{Epoch, Id, SessionId, Zxid};
use tree::Tree;
use zab::Record;
use zab::leader::LinkId;

use super::large_bytes::LargeBytes;
use crate::elections::ElectionInput;

/// Number that the host assigned to a client's connection. Numbers are not reused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Ticket(pub u64);

impl fmt::Display for Ticket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "connection {}", self.0)
    }
}

/// Port on which learners connect.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Port {
    /// The quorum port, for learners of this leader.
    Learners,
    /// The port `observerMasterPort`, for observers of this follower.
    Observers,
}

/// A client's request for a transaction.
#[derive(Debug)]
pub struct ClientRequest {
    /// Connection that waits for the reply.
    pub ticket: Ticket,
    /// Session of the connection.
    pub session: SessionId,
    /// Number that the client gave the request.
    pub cxid: i32,
    /// Identities of the client when the request arrived.
    pub identities: Arc<[Id]>,
    /// Decoded request.
    pub request: WriteRequest,
    /// Undecoded record, for a remote leader.
    pub body: Bytes,
    /// The request's share in the host's bounds on large requests, until the request is applied or
    /// dropped.
    pub large_bytes: LargeBytes,
    /// Timeout in ms if the session is local and must become global first.
    pub upgrade_ms: Option<i32>,
}

/// A client's `sync`.
#[derive(Debug)]
pub struct SyncRequest {
    /// Connection that waits for the answer.
    pub ticket: Ticket,
    /// Session of the connection.
    pub session: SessionId,
    /// Number that the client gave the request.
    pub cxid: i32,
    /// Identities of the client when the request arrived.
    pub identities: Arc<[Id]>,
    /// Path, which only the client uses.
    pub path: Option<jute::Str>,
}

/// Return of a client with its session. Only the leader knows whether the session is live.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Renewal {
    /// Connection that waits for the answer.
    pub ticket: Ticket,
    /// Session to renew.
    pub session: SessionId,
    /// Timeout negotiated on this connection, ms.
    pub timeout_ms: i32,
    /// Whether the client sent the read-only byte and expects it back.
    pub new_style: bool,
}

/// Event that the replica handles.
#[derive(Debug)]
pub enum Input {
    /// Requests of clients, oldest first. They may have arrived together.
    Requests(Vec<ClientRequest>),
    /// A client's `sync`.
    Sync(SyncRequest),
    /// A client has returned with a session.
    Renew(Renewal),
    /// An event on an election connection.
    Election(ElectionInput),
    /// An event on a learner's connection.
    Learner(Port, LearnerEvent),
    /// A port for learners could not be opened.
    ListenFailed {
        /// Port that could not be opened.
        port: Port,
        /// Number in the `Listen` effect.
        attempt: u64,
    },
    /// An event on the connection to the leader.
    Leader {
        /// Number in the effect that opened the connection.
        attempt: u64,
        /// The event.
        event: LeaderEvent,
    },
    /// The oracle of a two-voter ensemble has answered.
    Oracle {
        /// Whether this server may continue alone.
        grants: bool,
    },
    /// The log is on disk up to and including this transaction.
    Synced(Zxid),
    /// The accepted epoch is on disk.
    AcceptedEpochSaved(Epoch),
    /// The current epoch is on disk.
    CurrentEpochSaved(Epoch),
    /// The requested load of the tree from disk has ended. Without a tree, the log could not be cut
    /// and the disk is unchanged.
    Reloaded {
        /// Loaded tree.
        tree: Option<Box<LoadedTree>>,
        /// Last zxid of the log.
        end: Zxid,
    },
    /// The snapshot for a synchronisation or a restore is on disk. All files that must not be read
    /// together with the snapshot have been removed.
    SnapshotWritten {
        /// Number of the role or of the restore that requested the snapshot.
        attempt: u64,
        /// Transaction in the file's name.
        zxid: Zxid,
    },
    /// An operator replaces the tree of a standalone server.
    Restore(Box<Tree>),
    /// The write of the tree to a separate location, requested by
    /// [`DiskOrder::KeepTree`](crate::DiskOrder::KeepTree), has ended.
    TreeKept {
        /// Whether the write succeeded.
        is_kept: bool,
    },
    /// The disk has failed, so this server must not acknowledge anything more.
    DiskFailed,
    /// The server must stop.
    Shutdown,
}

/// Tree that was loaded from disk.
#[derive(Debug)]
pub struct LoadedTree {
    /// The tree.
    pub tree: Tree,
    /// Zxid after which the log files are without a gap: the zxid of the loaded snapshot. See
    /// [`MemberStart::log_whole_from`](crate::MemberStart::log_whole_from).
    pub log_whole_from: Zxid,
    /// Whether a snapshot was loaded. If this member was
    /// [untrusted](crate::MemberStart::is_trusted), only its leader's snapshot can have been
    /// loaded, after that snapshot had durably replaced the member's files. Logs alone may lack
    /// what precedes them.
    pub has_snapshot: bool,
}

/// Event on a learner's connection.
#[derive(Debug)]
pub enum LearnerEvent {
    /// A learner has connected.
    Connected {
        /// Number of the connection.
        link: LinkId,
    },
    /// The learner has sent packets.
    Packets {
        /// Connection of the learner.
        link: LinkId,
        /// Received packets, oldest first.
        packets: Vec<LearnerPacket>,
    },
    /// A connection has ended.
    Closed {
        /// Connection that ended.
        link: LinkId,
    },
    /// The requested snapshot has been sent to the learner.
    SnapshotSent {
        /// Connection of the learner.
        link: LinkId,
    },
    /// Records of the log that a [`ReadLog`](crate::Effect::ReadLog) effect requested.
    LogRecords {
        /// Learner that needs the records.
        link: LinkId,
        /// Records in zxid order. The first record after a `ReadLog` is the newest record whose
        /// zxid is at most `from` in the effect.
        records: Vec<Record>,
    },
    /// The log does not contain the requested records.
    LogUnusable {
        /// Learner that needs the records.
        link: LinkId,
    },
}

/// Event on the connection to the leader.
#[derive(Debug)]
pub enum LeaderEvent {
    /// The connection is open.
    Connected,
    /// The leader has sent packets.
    Packets(Vec<LeaderPacket>),
    /// The leader cannot be reached, or the connection has ended.
    Closed,
    /// Bytes of the snapshot have arrived.
    SnapshotProgress,
    /// The snapshot is complete, and its signature is correct.
    SnapshotReceived(Box<Tree>),
    /// The snapshot cannot be used.
    SnapshotDamaged,
}
