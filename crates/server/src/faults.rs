//! Faults that tests inject into a server in their process.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::{Condvar, Mutex};
use storage::SwitchedDisk;
use tokio::sync::watch;
use transport::Cuts;

/// Faults for a server that is started with this value ([`crate::Server::start_with`]). Clones
/// share their state.
#[derive(Debug, Clone, Default)]
pub struct Faults {
    pub(crate) disk: SwitchedDisk,
    /// `None` for servers without injected faults.
    pub(crate) cuts: Option<Arc<Cuts>>,
}

impl Faults {
    /// Creates faults for one server. Use the value once: a disk that is off stays off.
    pub fn new() -> Self {
        Self {
            disk: SwitchedDisk::default(),
            cuts: Some(Arc::default()),
        }
    }

    /// Stops all writes to the server's disk: transactions and snapshots. Written data stays,
    /// synced or not.
    pub fn switch_disk_off(&self) {
        self.disk.switch_off();
    }

    /// Delays each sync of a file by `delay`; zero ends the delay.
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

/// Pause of a server, like SIGSTOP of its process: each thread that enters the pause waits until it
/// ends.
#[derive(Debug, Clone)]
pub struct Pause(Arc<Gate>);

#[derive(Debug)]
struct Gate {
    is_over: Mutex<bool>,
    ended: Condvar,
    /// Number of threads that have entered.
    entered: watch::Sender<usize>,
}

impl Default for Pause {
    fn default() -> Self {
        Self(Arc::new(Gate {
            is_over: Mutex::new(false),
            ended: Condvar::new(),
            entered: watch::Sender::new(0),
        }))
    }
}

impl Pause {
    /// Blocks the calling thread until the pause ends.
    pub fn hold(&self) {
        let gate = &*self.0;
        gate.entered.send_modify(|entered| *entered += 1);
        gate.ended
            .wait_while(&mut gate.is_over.lock(), |is_over| !*is_over);
    }

    /// Waits until this number of threads has entered.
    pub async fn entered(&self, threads: usize) {
        let mut entered = self.0.entered.subscribe();
        // The sender lives as long as this value.
        let _ = entered.wait_for(|entered| *entered >= threads).await;
    }

    /// Ends the pause.
    pub fn end(&self) {
        *self.0.is_over.lock() = true;
        self.0.ended.notify_all();
    }
}
