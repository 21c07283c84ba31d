//! The way of a write, from a connection's hands back into them.
//!
//! ```text
//!  connections --ToCore--> core thread --LogGroup--> log thread
//!                            prepare                   append, one fdatasync
//!                            apply  <----Synced--------  for the group
//! ```
//!
//! Two plain threads. The core is the only one that orders and applies: it prepares a request
//! against the tree plus what is proposed but not applied, hands the transactions to the log in
//! groups, and applies in zxid order what `zab` says is committed. The log thread knows files
//! only. A standalone server is a quorum of one on this same way: its own log is the only
//! acknowledgement that `zab` waits for.
//!
//! Neither channel can block its sender for good: what comes in is bounded by permits, and a
//! group that the log has no room for stays with the core and grows, which is what makes group
//! commit adapt to the disk.

mod configuring;
mod core;
mod deliver;
mod driver;
mod forwarded;
mod leading;
mod learning;
mod local;
mod log;
mod member;
mod observers;
mod observing;
mod oracle;
mod own_syncs;
mod read_only;
mod revalidation;
mod role;
mod showing;
mod snapshot;

use std::sync::Arc;

use bytes::Bytes;
use proto::request::WriteRequest;
use proto::{SessionId, Zxid};
use tree::Tree;

pub(crate) use self::core::{Core, CoreStart};
pub(crate) use self::log::{GroupCommit, LogFile, LogThread};
pub(crate) use self::member::{Member, MemberStart, Ways};
pub(crate) use self::observing::at_port;
pub(crate) use self::oracle::OracleWatch;
pub(crate) use self::revalidation::Revalidation;
pub(crate) use self::snapshot::{SnapshotEnd, Snapshotter, compression};
use crate::mesh::MeshEvent;
use crate::net::connection::{Connection, Identities};
use crate::net::large::LargeRequest;
use crate::peer::PeerEvent;

/// A request that is to become a transaction.
pub(crate) struct Submission {
    /// The connection that waits for the reply; `None` if the server itself asks.
    pub(crate) origin: Option<Arc<Connection>>,
    pub(crate) session: SessionId,
    pub(crate) cxid: i32,
    /// When the request came in, monotonic ms.
    pub(crate) received_ms: u64,
    /// The caller's identities when the request came in.
    pub(crate) identities: Identities,
    pub(crate) request: WriteRequest,
    /// The same as it came, for a leader elsewhere; empty if the server itself asks.
    pub(crate) body: Bytes,
    /// Held until the reply, if the request is large.
    pub(crate) large: Option<LargeRequest>,
    /// The timeout of the session in ms, if it is local and must become global first.
    pub(crate) upgrade_ms: Option<i32>,
}

/// A client's sync on its way to the leader.
pub(crate) struct ForwardedSync {
    pub(crate) connection: Arc<Connection>,
    pub(crate) cxid: i32,
    pub(crate) identities: Identities,
    pub(crate) path: Option<jute::Str>,
}

/// What the core thread is told.
pub(crate) enum ToCore {
    /// Order these requests, which came together.
    Submit(Vec<Submission>),
    /// Pass this sync on to the leader.
    ForwardSync(ForwardedSync),
    /// Ask the leader about this session.
    Revalidate(Revalidation),
    /// The election has something to say.
    Mesh(MeshEvent),
    /// A connection to another member has something to say.
    Peer(PeerEvent),
    /// A connection to an observer of this follower has something to say.
    Observer(PeerEvent),
    /// The oracle says whether one of two may go on alone.
    Oracle {
        /// Whether this one may.
        grants: bool,
    },
    /// The log is on disk up to this zxid.
    Synced(Zxid),
    /// The tree was loaded from disk, as ordered; without a tree if the log could not be cut.
    Reloaded {
        /// The tree.
        tree: Option<Box<Tree>>,
        /// Where the history ends.
        end: Zxid,
    },
    /// The snapshot that a learner waits for is on disk.
    SnapshotWritten {
        /// The one that asked for it.
        attempt: u64,
    },
    /// The log cannot be written any more: acknowledge nothing, end.
    LogFailed,
    /// End once everything proposed is applied.
    Shutdown,
}
