//! Pause of a server.

use std::sync::Arc;

use parking_lot::{Condvar, Mutex};
use tokio::sync::watch;

/// Pause of a server, like a SIGSTOP sent to its process. Each thread that enters the pause waits
/// until the pause ends.
#[derive(Debug, Clone)]
pub(super) struct Pause(Arc<Gate>);

#[derive(Debug)]
struct Gate {
    is_over: Mutex<bool>,
    ended: Condvar,
    /// Number of threads that have entered the pause.
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
    pub(super) fn hold(&self) {
        let gate = &*self.0;
        gate.entered.send_modify(|entered| *entered += 1);
        gate.ended
            .wait_while(&mut gate.is_over.lock(), |is_over| !*is_over);
    }

    /// Waits until this number of threads has entered the pause.
    pub(super) async fn entered(&self, threads: usize) {
        let mut entered = self.0.entered.subscribe();
        // This cannot fail, because the sender lives as long as this value.
        let _ = entered.wait_for(|entered| *entered >= threads).await;
    }

    /// Ends the pause.
    pub(super) fn end(&self) {
        *self.0.is_over.lock() = true;
        self.0.ended.notify_all();
    }
}
