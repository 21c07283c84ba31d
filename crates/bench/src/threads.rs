//! Threads that run until the process ends.

use std::thread;

use super::error::{BenchError, Result};

/// Starts a thread that lives as long as the process.
pub(crate) fn spawn(name: &str, work: impl FnOnce() + Send + 'static) -> Result<()> {
    let spawned = thread::Builder::new().name(name.to_owned()).spawn(work);
    spawned.map(drop).map_err(BenchError::io("start a thread"))
}
