//! Election connections over real sockets.
//!
//! ```text
//!   core: replica::elections --ElectionEffect--> +-------+ <--Input-- listener (one task an address)
//!                                                | actor |              \__ greetings: reading the hello
//!                            <-----MeshEvent-----|       | <--Input-- links (one task a connection)
//!                                                +-------+ --newest message--> links
//!                                                    \---- dials (one task each)
//! ```
//!
//! [`replica::elections::Elections`] decides which messages are sent to which servers. The tasks in
//! this module only transfer bytes. Inputs are bounded, and the output to a server is one message
//! that newer messages replace, so no server can fill the memory of another.
//!
//! Source: QuorumCnxManager.

mod actor;
mod connections;
mod dial;
mod event;
mod input;
mod limits;
mod link;
mod listener;
mod oracle;
mod settings;
#[cfg(test)]
mod tests;

use replica::elections::ElectionEffect;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

pub use event::{BindError, InputPermit, MeshEvent, MeshSink};
pub(crate) use oracle::OracleFile;
pub(crate) use settings::MeshSettings;

use actor::{Actor, MeshCommand};

/// Handle for the election connections. Dropping it ends them.
#[derive(Debug)]
pub(crate) struct Mesh {
    orders: mpsc::UnboundedSender<MeshCommand>,
    task: JoinHandle<()>,
}

impl Mesh {
    /// Starts a mesh without connections. Must be called within a tokio runtime.
    pub(crate) fn start(settings: MeshSettings, sink: MeshSink) -> Self {
        let (orders, received) = mpsc::unbounded_channel();
        let task = tokio::spawn(Actor::new(settings, sink, received).run());
        Self { orders, task }
    }

    /// Sends an effect to the mesh, from any thread. After the end of the mesh, effects are
    /// ignored.
    pub(crate) fn carry_out(&self, effect: ElectionEffect) {
        let _ = self.orders.send(MeshCommand::Carry(effect));
    }

    /// Closes all connections and the port, and waits until they are closed. Only tests need this,
    /// because they start another mesh on the same port. A server just drops its mesh.
    #[cfg(test)]
    pub(crate) async fn stop(mut self) {
        let _ = self.orders.send(MeshCommand::Stop);
        if let Err(error) = (&mut self.task).await {
            tracing::error!(err = %error, "the election mesh panicked");
        }
    }
}

impl Drop for Mesh {
    fn drop(&mut self) {
        self.task.abort();
    }
}
