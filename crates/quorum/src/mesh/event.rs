//! Events from the mesh to the core.

use std::io;

use proto::hello::Endpoint;
use replica::elections::ElectionInput;
use tokio::sync::OwnedSemaphorePermit;

/// Event from the mesh.
#[derive(Debug)]
pub enum MeshEvent {
    /// An input from a connection.
    Input {
        /// Input for the replica.
        input: ElectionInput,
        /// Permit to drop after the input has been handled. It bounds the number of waiting inputs.
        permit: InputPermit,
    },
    /// The server cannot listen on any of its addresses, so it must end.
    Failed {
        /// Reason of the last failure.
        error: BindError,
    },
}

/// Permit for one input that waits for the core.
#[derive(Debug)]
pub struct InputPermit {
    _permit: OwnedSemaphorePermit,
}

/// Receiver of events. The mesh's task calls it, so it must not wait.
pub type MeshSink = Box<dyn Fn(MeshEvent) + Send + Sync>;

/// Error that the server cannot listen on the election port. Without the port, other servers cannot
/// reach it.
#[derive(Debug, thiserror::Error)]
#[error(
    "cannot listen for elections on {endpoint} after {attempts} attempts: {source} (stop the process that uses the port, or correct the host in this server's server.N line; electionPortBindRetry=0 retries without a limit)"
)]
pub struct BindError {
    /// Address in the member list.
    pub(crate) endpoint: Endpoint,
    /// Number of failed attempts.
    pub(crate) attempts: u32,
    /// Last error of the system.
    pub(crate) source: io::Error,
}

impl From<OwnedSemaphorePermit> for InputPermit {
    fn from(permit: OwnedSemaphorePermit) -> Self {
        Self { _permit: permit }
    }
}
