//! Messages to the core thread.

use admin::served::RestoreOrder;
use executor::Executor;
use quorum::{MeshEvent, PeerEvent};
use replica::Input;

use super::core::CoreThread;
use crate::client::inbox::{ClientMessage, CoreInbox};
use crate::disk::Synced;

/// A message for the core thread.
pub(crate) enum ToCore {
    /// A message of a client connection.
    Client(ClientMessage),
    /// An event of the election connections.
    Mesh(MeshEvent),
    /// An event of a connection to another member.
    Peer(PeerEvent),
    /// An operator restores another tree.
    Restore(RestoreOrder),
    /// The log thread has synced a group.
    Synced(Synced),
    /// An input from the disk, or the request to stop.
    Input(Input),
}

/// A thread that visits the core.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Visitor {
    /// The visiting thread has other work to do after the visit.
    Passing,
    /// The visiting thread takes the group that the core leaves for it. Another thread continues
    /// its other work meanwhile.
    CanSync,
}

impl CoreInbox for Executor<CoreThread> {
    fn send(&self, message: ClientMessage) {
        self.send(ToCore::Client(message));
    }

    fn put(&self, message: ClientMessage) {
        self.put(ToCore::Client(message));
    }

    fn run_inline(&self) {
        self.run_inline(Visitor::Passing);
    }
}
