//! The host of the replica: the thread that it runs on, and the threads of the disk.
//!
//! ```text
//!  connections ----ToCore----> core thread ----ToLog----> log thread ------> snapshot thread
//!  elections, links --ToCore->   Replica                    append, one fdatasync for the group,
//!                        <-------Input-------               epoch files, member lists, cuts
//! ```
//!
//! The core thread hands [`replica::Replica`] what happened and carries out what it wants. It decides
//! nothing itself. Neither channel can block its sender for good: what comes in is bounded where it
//! comes from, and what the log has no room for stays with the core and grows, which is what makes
//! group commit adapt to the disk.

mod core;
mod deliver;
mod disk;
mod host;
mod log;
mod measure;
mod member;
mod snapshot;

use std::sync::Arc;

use replica::{ClientRequest, Input, Renewal, SyncRequest, Ticket};

pub(crate) use self::core::{Core, CoreStart};
pub(crate) use self::disk::Disk;
pub(crate) use self::host::ServerHost;
pub(crate) use self::log::{GroupCommit, LogFile, LogThread};
pub(crate) use self::member::{MemberPorts, OracleWatch};
pub(crate) use self::snapshot::{SnapshotEnd, SnapshotParts, SnapshotSettings, Snapshotter};
use crate::mesh::MeshEvent;
use crate::net::connection::Connection;
use crate::peer::PeerEvent;

/// What the core thread is told.
pub(crate) enum ToCore {
    /// Order these requests of one connection, which came together.
    Submit {
        /// Who waits for the replies.
        connection: Arc<Connection>,
        /// When they came in, monotonic ms.
        received_ms: u64,
        /// Oldest first.
        requests: Vec<ClientRequest>,
    },
    /// A client's `sync`.
    Sync(Arc<Connection>, SyncRequest),
    /// A client came back with a session.
    Renew(Arc<Connection>, Renewal),
    /// A client's connection has ended: nobody waits for an answer there any more.
    Gone(Ticket),
    /// The election has something to say.
    Mesh(MeshEvent),
    /// A connection to another member has something to say.
    Peer(PeerEvent),
    /// A connection to an observer of this follower has something to say.
    Observer(PeerEvent),
    /// The disk or the oracle has something to say, or the server is told to end.
    Input(Input),
}
