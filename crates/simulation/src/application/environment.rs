//! The environment of an application's process.

use std::sync::Arc;

use client::Options;

use super::sockets::{Sockets, name_of};

/// Environment of an application's process.
#[derive(Debug, Clone)]
pub struct Environment {
    pub(super) sockets: Sockets,
    pub(super) servers: usize,
    pub(super) seed: u64,
    pub(super) life: u64,
}

impl Environment {
    /// Returns the options of a client that connects to the simulated servers.
    pub fn options(&self) -> Options {
        let servers: Vec<String> = (0..self.servers).map(name_of).collect();
        Options::new(&servers.join(","))
            .with_dialer(Arc::new(self.sockets.clone()))
            .with_seed(self.seed)
            .with_wall_clock(Arc::new(self.sockets.clone()))
    }

    /// Returns a number that was drawn for this process from the random numbers of the simulation.
    pub fn seed(&self) -> u64 {
        self.seed
    }

    /// Returns the number of processes of this application so far, including this one.
    pub fn life(&self) -> u64 {
        self.life
    }
}
