//! End of the process after a thread has failed.

use std::sync::Arc;
use std::sync::atomic::{AtomicI32, Ordering};

use tokio::sync::Notify;

/// First failure that must end the server, with its exit code.
#[derive(Debug, Clone, Default)]
pub(crate) struct Failure {
    inner: Arc<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    /// Exit code; 0 without a failure.
    exit_code: AtomicI32,
    reported: Notify,
}

impl Failure {
    /// Reports a failure that ends the server with `exit_code`, but at least 1. Only the first
    /// report counts.
    pub(crate) fn report(&self, exit_code: u8) {
        let code = i32::from(exit_code.max(1));
        let _ = self
            .inner
            .exit_code
            .compare_exchange(0, code, Ordering::AcqRel, Ordering::Acquire);
        self.inner.reported.notify_one();
    }

    /// Returns the exit code; `None` if no failure was reported.
    pub(crate) fn get(&self) -> Option<u8> {
        match self.inner.exit_code.load(Ordering::Acquire) {
            0 => None,
            code => u8::try_from(code).ok(),
        }
    }

    /// Waits for a failure. Returns its exit code.
    pub(crate) async fn reported(&self) -> u8 {
        loop {
            if let Some(code) = self.get() {
                return code;
            }
            self.inner.reported.notified().await;
        }
    }
}
