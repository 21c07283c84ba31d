//! What tests may do to a server inside their process.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use storage::SwitchedDisk;
use transport::Cuts;

/// What may be done to a server that is started with it ([`crate::Server::start_with`]). Copies are the same.
#[derive(Debug, Clone, Default)]
pub struct Faults {
    pub(crate) disk: SwitchedDisk,
    /// `None` for servers that nothing is done to.
    pub(crate) cuts: Option<Arc<Cuts>>,
}

impl Faults {
    /// For one server, once: a disk that is off stays off.
    pub fn new() -> Self {
        Self {
            disk: SwitchedDisk::default(),
            cuts: Some(Arc::default()),
        }
    }

    /// Nothing more gets to its disk: neither a transaction nor a snapshot. What was written stays, synced or not.
    pub fn switch_disk_off(&self) {
        self.disk.switch_off();
    }

    /// Each sync of a file takes so much longer; zero to end that.
    pub fn slow_disk_down(&self, delay: Duration) {
        self.disk.slow_down(delay);
    }

    /// On connections that this server opens to this port of another, nothing passes in either direction, or everything
    /// again.
    pub fn cut(&self, port: SocketAddr, is_cut: bool) {
        if let Some(cuts) = &self.cuts {
            cuts.set(port, is_cut);
        }
    }
}
