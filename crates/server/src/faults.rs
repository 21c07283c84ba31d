//! Faults that tests inject into a server that runs in their own process.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use storage::SwitchedDisk;
use transport::Cuts;

/// Faults for a server that is started with this value ([`crate::Server::start_with`]). Clones
/// share their state.
#[derive(Debug, Clone, Default)]
pub struct Faults {
    pub(crate) disk: SwitchedDisk,
    /// Injected faults; `None` for servers without them.
    pub(crate) cuts: Option<Arc<Cuts>>,
}

impl Faults {
    /// Creates faults for one server. Use the value only once, because a disk that is off stays
    /// off.
    pub fn new() -> Self {
        Self {
            disk: SwitchedDisk::default(),
            cuts: Some(Arc::default()),
        }
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

    /// Blocks or unblocks both directions of the connections that this server opens to this port of
    /// another server.
    pub fn cut(&self, port: SocketAddr, is_cut: bool) {
        if let Some(cuts) = &self.cuts {
            cuts.set(port, is_cut);
        }
    }
}
