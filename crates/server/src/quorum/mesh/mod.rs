//! The connections of elections, over real sockets.
//!
//! ```text
//!   core: replica::elections --ElectionEffect--> +-------+ <--Input-- listener (one task an address)
//!                                                | actor |              \__ greetings: who is there?
//!                            <-----MeshEvent-----|       | <--Input-- links (one task a connection)
//!                                                +-------+ --newest message--> links
//!                                                    \---- dials (one task each)
//! ```
//!
//! What is said, and to whom, is decided by [`replica::elections::Elections`]; the tasks here move
//! bytes. The way in is bounded, and the way out to a server is one message that newer ones replace,
//! so that no server can fill the memory of another.
//!
//! Source: QuorumCnxManager.

mod actor;
mod connections;
mod dial;
mod limits;
mod link;
mod listener;
mod oracle;
mod settings;
#[cfg(test)]
mod tests;

use replica::elections::{ElectionEffect, ElectionInput};
use tokio::sync::{OwnedSemaphorePermit, mpsc};
use tokio::task::JoinHandle;

pub(crate) use listener::BindError;
pub(crate) use oracle::OracleFile;
pub(crate) use settings::MeshSettings;

use actor::{Actor, Order};

/// What the mesh tells.
#[derive(Debug)]
pub(crate) enum MeshEvent {
    /// Something happened on a connection.
    Input {
        /// What.
        input: ElectionInput,
        /// To be dropped when it is handled: so many may wait at a time.
        permit: InputPermit,
    },
    /// No address of this server can be listened on: the server must end.
    Failed {
        /// The last reason.
        error: BindError,
    },
}

/// One of the inputs that may wait for the core.
#[derive(Debug)]
pub(crate) struct InputPermit {
    _permit: OwnedSemaphorePermit,
}

/// Takes events. Called from the mesh's task, so it must not wait.
pub(crate) type EventSink = Box<dyn Fn(MeshEvent) + Send + Sync>;

/// The connections of elections. Dropping it ends them.
#[derive(Debug)]
pub(crate) struct Mesh {
    orders: mpsc::UnboundedSender<Order>,
    task: JoinHandle<()>,
}

impl Mesh {
    /// Does nothing before it is told to. Within a tokio runtime.
    pub(crate) fn start(settings: MeshSettings, sink: EventSink) -> Self {
        let (orders, received) = mpsc::unbounded_channel();
        let task = tokio::spawn(Actor::new(settings, sink, received).run());
        Self { orders, task }
    }

    /// From any thread; what a mesh is told after its end is lost.
    pub(crate) fn carry_out(&self, effect: ElectionEffect) {
        let _ = self.orders.send(Order::Carry(effect));
    }

    /// Closes all connections and the port, and waits until they are closed. A server drops its
    /// mesh; a test that starts the next one at the same port has to know when it is gone.
    #[cfg(test)]
    pub(crate) async fn stop(mut self) {
        let _ = self.orders.send(Order::Stop);
        if let Err(error) = (&mut self.task).await {
            tracing::error!(err = %error, "the election mesh ended by a panic");
        }
    }
}

impl Drop for Mesh {
    fn drop(&mut self) {
        self.task.abort();
    }
}
