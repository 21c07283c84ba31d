//! Messages to the core thread.

use admin::served::RestoreOrder;
use frontend::{ClientMessage, CoreInbox};
use quorum::{MeshEvent, PeerEvent};
use replica::Input;

use super::core::CoreHandle;
use crate::disk::Synced;

/// A message for the core thread.
pub(crate) enum CoreMessage {
    /// A message from a client connection.
    Client(ClientMessage),
    /// An event on the election connections.
    Mesh(MeshEvent),
    /// An event on a connection to another member.
    Peer(PeerEvent),
    /// A request by an operator to restore another tree.
    Restore(RestoreOrder),
    /// The report about a sync by the log thread or by a visitor.
    Synced(Synced),
    /// An input from the disk, or the request to stop.
    Input(Input),
    /// A call by a test that blocks the core for the duration of the call.
    Block(Box<dyn FnOnce() + Send>),
}

/// Kind of visitor: a thread that runs the core for a turn to deliver a message, instead of the
/// core's own thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Visitor {
    /// A thread that has other work to do after the turn.
    Passing,
    /// A thread that syncs the group that the core leaves for it. Another thread continues its
    /// other work meanwhile.
    CanSync,
}

/// The core's inbox as seen by client connections.
pub(crate) struct ClientInbox(pub(crate) CoreHandle);

impl CoreInbox for ClientInbox {
    fn send(&self, message: ClientMessage) {
        self.0.send(CoreMessage::Client(message));
    }

    fn put(&self, message: ClientMessage) {
        self.0.put(CoreMessage::Client(message));
    }

    fn run_inline(&self) {
        self.0.run_inline(Visitor::Passing);
    }
}
