//! Reasons to stop: a signal, or the end of the parent process.

use std::io;
use std::time::Duration;

use rustix::process::{Pid, getppid};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::time::{Interval, interval};

/// Time between two checks of the parent process. Linux's signal for the death of a parent is not
/// used, because it is sent as soon as the thread that started this process ends.
const CHECK_INTERVAL: Duration = Duration::from_millis(100);

/// Reasons to stop the servers.
pub(super) struct StopSignals {
    signals: [Signal; 3],
    parent: Option<Pid>,
    checks: Interval,
}

impl StopSignals {
    /// Begins to listen for signals.
    ///
    /// # Errors
    /// If the system refuses a signal handler.
    pub(super) fn listen() -> io::Result<Self> {
        Ok(Self {
            signals: [
                signal(SignalKind::interrupt())?,
                signal(SignalKind::terminate())?,
                signal(SignalKind::hangup())?,
            ],
            parent: getppid(),
            checks: interval(CHECK_INTERVAL),
        })
    }

    /// Waits for a reason to stop.
    pub(super) async fn next(&mut self) {
        let [interrupted, terminated, hung_up] = &mut self.signals;
        loop {
            tokio::select! {
                _ = interrupted.recv() => return,
                _ = terminated.recv() => return,
                _ = hung_up.recv() => return,
                _ = self.checks.tick() => {
                    // If a process has ended, another process adopts its children.
                    if getppid() != self.parent {
                        return;
                    }
                }
            }
        }
    }
}
