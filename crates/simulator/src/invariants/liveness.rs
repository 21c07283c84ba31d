//! Invariant (liveness): after all faults end, there is one leader, and every server is in sync
//! with it. Every client makes progress, and no session of a connected client expires.

use proto::{SessionId, Zxid};

use super::CheckResult;

pub(crate) const NAME: &str = "liveness";

/// State of one server after all faults have ended.
#[derive(Debug)]
pub(crate) struct FinalState {
    /// Activity of the server, in words.
    pub(crate) doing: String,
    pub(crate) leads: bool,
    pub(crate) serves: bool,
    pub(crate) last: Zxid,
}

/// Checks that the ensemble has recovered by now.
pub(crate) fn is_well(servers: &[FinalState], progress: &[usize], end: Zxid) -> CheckResult {
    let leaders = servers.iter().filter(|server| server.leads).count();
    let has_all = |server: &FinalState| server.serves && server.last == end;
    let get_on = progress.iter().all(|done| *done >= PROGRESS_MIN);
    if leaders == 1 && servers.iter().all(has_all) && get_on {
        return Ok(());
    }
    let doing: Vec<String> = servers
        .iter()
        .map(|server| format!("{} at {}", server.doing, server.last))
        .collect();
    Err(format!(
        "{leaders} leaders; servers: {}; requests of each client: {progress:?}; last committed: {end}",
        doing.join(", ")
    ))
}

/// Number of requests that each client must complete.
pub(crate) const PROGRESS_MIN: usize = 5;

/// Reports a session that expired although its client was connected.
pub(crate) fn expired_in_use(session: SessionId) -> CheckResult {
    Err(format!(
        "session {session} has expired, although its client was always connected"
    ))
}
