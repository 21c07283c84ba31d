//! Liveness: once everything is mended there is one leader, everybody is in sync with it, every
//! client gets on, and no session expires whose client is there.

use proto::{SessionId, Zxid};

use super::Held;

pub(crate) const NAME: &str = "liveness";

/// How one server is after the weather has been fine for long.
#[derive(Debug)]
pub(crate) struct Standing {
    /// What it does, in words.
    pub(crate) doing: String,
    pub(crate) leads: bool,
    pub(crate) serves: bool,
    pub(crate) last: Zxid,
}

/// Whether all is as it should be by now.
pub(crate) fn is_well(servers: &[Standing], progress: &[usize], end: Zxid) -> Held {
    let leaders = servers.iter().filter(|server| server.leads).count();
    let has_all = |server: &Standing| server.serves && server.last == end;
    let get_on = progress.iter().all(|done| *done >= PROGRESS_MIN);
    if leaders == 1 && servers.iter().all(has_all) && get_on {
        return Ok(());
    }
    let doing: Vec<String> = servers
        .iter()
        .map(|server| format!("{} at {}", server.doing, server.last))
        .collect();
    Err(format!(
        "{leaders} leaders; servers: {}; requests of each client: {progress:?}; committed is {end}",
        doing.join(", ")
    ))
}

/// Requests that each client must get done.
pub(crate) const PROGRESS_MIN: usize = 5;

/// A session has expired that was in use.
pub(crate) fn expired_in_use(session: SessionId) -> Held {
    Err(format!(
        "session {session} has expired, its client was there all the time"
    ))
}
