//! What a replica is told.

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

use crate::effect::Port;
use crate::elections::ElectionInput;
use crate::large_bytes::LargeBytes;

/// A client's connection, as numbered by the host. Numbers are not used twice.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Ticket(pub u64);

impl fmt::Display for Ticket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "connection {}", self.0)
    }
}

/// A client's request that is to become a transaction.
#[derive(Debug)]
pub struct ClientRequest {
    /// The connection that waits for the reply.
    pub ticket: Ticket,
    /// Its session.
    pub session: SessionId,
    /// The client's number of the request.
    pub cxid: i32,
    /// The caller's identities when the request came in.
    pub identities: Arc<[Id]>,
    /// What it asks for.
    pub request: WriteRequest,
    /// The same as it came, for a leader elsewhere.
    pub body: Bytes,
    /// What it takes of the host's bounds on large requests, until it is applied or dropped.
    pub large_bytes: LargeBytes,
    /// The timeout of the session in ms, if it is local and must become global first.
    pub upgrade_ms: Option<i32>,
}

/// A client's `sync`.
#[derive(Debug)]
pub struct SyncRequest {
    /// The connection that waits for the answer.
    pub ticket: Ticket,
    /// Its session.
    pub session: SessionId,
    /// The client's number of the request.
    pub cxid: i32,
    /// The caller's identities when the request came in.
    pub identities: Arc<[Id]>,
    /// The path, which only the client looks at.
    pub path: Option<jute::Str>,
}

/// A client that came back with a session of which only the leader knows whether it lives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Renewal {
    /// The connection that waits for the answer.
    pub ticket: Ticket,
    /// The session.
    pub session: SessionId,
    /// Negotiated on this connection, ms.
    pub timeout_ms: i32,
    /// Whether the client sent the read-only byte and so expects it back.
    pub new_style: bool,
}

/// What happened.
#[derive(Debug)]
pub enum Input {
    /// Requests of clients, oldest first, some of which came together.
    Requests(Vec<ClientRequest>),
    /// A client's `sync`.
    Sync(SyncRequest),
    /// A client came back with a session.
    Renew(Renewal),
    /// Something happened on a connection of elections.
    Election(ElectionInput),
    /// A learner's connection has something to say.
    Learner(Port, LearnerEvent),
    /// The port at which learners are waited for could not be opened.
    ListenFailed {
        /// Which port.
        port: Port,
        /// The number of the order.
        attempt: u64,
    },
    /// The connection to the leader has something to say.
    Leader {
        /// The number of the order to dial.
        attempt: u64,
        /// What.
        event: LeaderEvent,
    },
    /// The oracle of two has answered.
    Oracle {
        /// Whether this server may go on alone.
        grants: bool,
    },
    /// The log is on disk up to and including this transaction.
    Synced(Zxid),
    /// The accepted epoch is on disk.
    AcceptedEpochSaved(Epoch),
    /// The current epoch is on disk.
    CurrentEpochSaved(Epoch),
    /// The tree was loaded from disk, as ordered; without a tree if the log could not be cut and
    /// nothing has changed.
    Reloaded {
        /// The tree.
        tree: Option<Box<Tree>>,
        /// Where the history ends.
        end: Zxid,
    },
    /// The snapshot that synchronisation waits for is on disk, and nothing that must not be read
    /// with it.
    SnapshotWritten {
        /// The number of the role that ordered it.
        attempt: u64,
        /// The transaction that the file is named after.
        zxid: Zxid,
    },
    /// An operator wants this tree in the place of that of a server that stands alone.
    Restore(Box<Tree>),
    /// The tree was written into a separate place by [`DiskOrder::KeepTree`](crate::DiskOrder::KeepTree),
    /// or could not be.
    TreeKept {
        /// Whether it is there.
        is_kept: bool,
    },
    /// The disk has failed: nothing is acknowledged any more.
    DiskFailed,
    /// The server is told to end.
    Shutdown,
}

/// What happens on a learner's connection.
#[derive(Debug)]
pub enum LearnerEvent {
    /// It is there.
    Connected {
        /// Its number from now on.
        link: LinkId,
    },
    /// It has sent packets.
    Packets {
        /// From whom.
        link: LinkId,
        /// What, oldest first.
        packets: Vec<LearnerPacket>,
    },
    /// It is gone.
    Closed {
        /// Which.
        link: LinkId,
    },
    /// The snapshot that was ordered for it has been written to it.
    SnapshotSent {
        /// To whom.
        link: LinkId,
    },
    /// What the log holds, as ordered.
    LogRecords {
        /// For whom.
        link: LinkId,
        /// The first is the last one that is not behind the zxid of the order.
        records: Vec<Record>,
    },
    /// The log cannot answer the order.
    LogUnusable {
        /// For whom.
        link: LinkId,
    },
}

/// What happens on the way to the leader.
#[derive(Debug)]
pub enum LeaderEvent {
    /// It is connected.
    Connected,
    /// It has sent packets.
    Packets(Vec<LeaderPacket>),
    /// It cannot be reached, or the connection is gone.
    Closed,
    /// Bytes of the snapshot have come.
    SnapshotProgress,
    /// The snapshot is complete, its signature is right.
    SnapshotReceived(Box<Tree>),
    /// The snapshot cannot be used.
    SnapshotDamaged,
}
