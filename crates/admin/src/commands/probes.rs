//! Health probes: whether the process answers, and whether it serves clients. Java lacks these
//! probes.

use http::StatusCode;
use metrics::role::RoleView;

use crate::answer::{Answer, Object};

/// Path of the liveness probe. Its status is 200 while the process answers.
pub(crate) const LIVE: &str = "/health/live";

/// Path of the readiness probe. Its status is 200 while clients can read and write, and 503
/// otherwise.
pub(crate) const READY: &str = "/health/ready";

/// Returns the answer to [`READY`]. `role` is `None` while the data is being loaded.
///
/// A read-only server is not ready, because clients cannot write to it.
pub(crate) fn ready(role: Option<&RoleView>) -> Answer {
    let reason = match role.map(|role| (role, role.served_mode())) {
        None => Some("the data is being loaded"),
        Some((role, None)) if role.leader.is_some() => {
            Some("the leader and its followers are not in sync yet")
        }
        Some((_, None)) => Some("no leader is known"),
        Some((_, Some(metrics::role::Mode::ReadOnly))) => {
            Some("no leader is known, so only reads are served")
        }
        Some((_, Some(_))) => None,
    };
    let state = role.map_or("loading", |role| role.mode.name());
    let status = match reason {
        None => StatusCode::OK,
        Some(_) => StatusCode::SERVICE_UNAVAILABLE,
    };
    let object = Object::new()
        .with("ready", reason.is_none())
        .with("state", state)
        .with("reason", reason);
    Answer::json(status, &object)
}
