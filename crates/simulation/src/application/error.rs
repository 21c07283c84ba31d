//! Errors of simulations.

use std::fmt;
use std::io;

use super::Target;

/// Error of a simulation.
#[derive(Debug)]
pub enum SimulationError {
    /// The plan refers to an application or a server that does not exist.
    NoTarget(Target),
    /// A server cannot start.
    Server {
        /// Index of the server.
        server: usize,
        /// Reason why it cannot start.
        why: String,
    },
    /// The runtime of an application cannot be created.
    Runtime(io::Error),
}

impl fmt::Display for SimulationError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoTarget(target) => write!(f, "the plan names {target:?}, which does not exist"),
            Self::Server { server, why } => write!(f, "server {server} cannot start: {why}"),
            Self::Runtime(error) => write!(f, "cannot create a runtime: {error}"),
        }
    }
}

impl std::error::Error for SimulationError {}
