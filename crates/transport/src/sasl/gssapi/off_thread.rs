//! Steps of logins on threads that may block.

use std::sync::{Arc, LazyLock};

use tokio::sync::Semaphore;

use super::refusal::GssapiRefusal;

/// Maximum number of concurrent steps of all logins in this process. Each step uses a thread, which
/// waits for a disk or, in a login by this process, for the KDC.
const STEPS_AT_A_TIME: usize = 16;

/// Limit on concurrent steps. A step keeps its thread and its permit until it ends, even if the
/// connection has ended.
static STEPS: LazyLock<Arc<Semaphore>> =
    LazyLock::new(|| Arc::new(Semaphore::new(STEPS_AT_A_TIME)));

/// Runs a step that reads files or queries the KDC on a thread that may block.
///
/// # Errors
/// If the step fails, or if the process is stopping.
pub async fn off_thread<T: Send + 'static>(
    step: impl FnOnce() -> Result<T, GssapiRefusal> + Send + 'static,
) -> Result<T, GssapiRefusal> {
    let ended = || GssapiRefusal::Library {
        doing: "log in",
        reason: "the server is stopping".to_owned(),
    };
    // The semaphore is never closed.
    let turn = STEPS.clone().acquire_owned().await.map_err(|_| ended())?;
    let worked = blocking::run(move || {
        let stepped = step();
        drop(turn);
        stepped
    });
    worked.await.map_err(|_| ended())?
}
