//! Whole ensembles in one thread, on a simulated clock, network and disk. A seed determines a run.
//!
//! [`Simulation`] runs applications on such an ensemble, with the faults of a [`Plan`].
//!
//! The rest of the crate is for Zoarium's own tests and changes with them. Each server runs the
//! real [`Replica`](replica::Replica) with the real `tree` and `storage`. The host of a replica
//! ([`server`]) executes the effects of the replica, as the real server does, and decides nothing
//! itself. It works without threads, sockets and real time.
//!
//! * [`world`] contains the time, the network, the random numbers and the checks.
//! * [`servers`] contains the machines. The owner of the servers removes events from the queue.
//! * [`checks`] observe each step of each server.
//! * [`application`] runs processes with the shipped client.

pub mod application;
pub mod checks;
pub mod configured;
pub mod network;
pub mod queue;
pub mod server;
pub mod servers;
pub mod settings;
mod votes;
pub mod world;

pub use application::{Environment, Fault, Plan, Simulation, SimulationError, Target};
