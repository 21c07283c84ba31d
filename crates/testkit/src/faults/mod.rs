//! Faults of the disk and the connections of a server in this process.

mod cuts;
mod disk;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

pub use cuts::Cuts;
pub use disk::{SwitchedDisk, SwitchedFile};

/// Faults for one server, which is started with this disk and these cuts. Clones share their state.
/// Use a new value for each start of a server, because a disk that was switched off stays off.
#[derive(Debug, Clone, Default)]
pub struct Faults {
    disk: SwitchedDisk,
    cuts: Arc<Cuts>,
}

impl Faults {
    /// Returns the server's disk.
    pub fn disk(&self) -> SwitchedDisk {
        self.disk.clone()
    }

    /// Returns the cuts of connections that the server opens.
    pub fn cuts(&self) -> Arc<Cuts> {
        self.cuts.clone()
    }

    /// Stops all writes to the server's disk, of transactions and of snapshots. Data that was
    /// written remains, synced or not.
    pub fn switch_disk_off(&self) {
        self.disk.switch_off();
    }

    /// Delays each sync of a file by `delay`. Zero ends the delay.
    pub fn slow_disk_down(&self, delay: Duration) {
        self.disk.slow_down(delay);
    }

    /// Blocks or unblocks both directions of the connections that the server opens to this address
    /// of another server.
    pub fn cut(&self, port: SocketAddr, is_cut: bool) {
        self.cuts.set(port, is_cut);
    }
}
