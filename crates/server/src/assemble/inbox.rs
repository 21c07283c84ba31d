//! Messages to the core thread.

use admin::served::RestoreOrder;
use frontend::{ClientMessage, CoreInbox};
use quorum::{MeshEvent, PeerEvent};
use replica::Input;

use super::core::CoreHandle;
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
    /// A test blocks the core for the duration of this call.
    Block(Box<dyn FnOnce() + Send>),
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

/// The core's inbox as connections of clients see it.
pub(crate) struct ClientInbox(pub(crate) CoreHandle);

impl CoreInbox for ClientInbox {
    fn send(&self, message: ClientMessage) {
        self.0.send(ToCore::Client(message));
    }

    fn put(&self, message: ClientMessage) {
        self.0.put(ToCore::Client(message));
    }

    fn run_inline(&self) {
        self.0.run_inline(Visitor::Passing);
    }
}
