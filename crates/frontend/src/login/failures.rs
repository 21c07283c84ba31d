//! Failed logins of clients.

use std::net::SocketAddr;

use admission::AuthFailures;
use metrics::ServerStats;

use crate::clock;

/// Counts of the failed logins of clients.
#[derive(Clone, Copy)]
pub(crate) struct LoginFailures<'a> {
    pub(crate) stats: &'a ServerStats,
    pub(crate) by_address: &'a AuthFailures,
}

impl LoginFailures<'_> {
    /// Records that a client failed to authenticate.
    pub(crate) fn note(self, peer: SocketAddr) {
        self.stats.auth_failed();
        note_failed_login(self.by_address, peer);
    }
}

/// Records a failed login from the peer's address.
pub(crate) fn note_failed_login(failures: &AuthFailures, peer: SocketAddr) {
    if failures.note(peer.ip(), clock::monotonic_ms()) {
        log_limiter::limited!(warn, %peer, "too many failed logins (auth.maxFailuresPerMinute), refusing connections from this address until the minute ends");
    }
}

/// Returns whether clients at this address have failed to log in too often.
pub(crate) fn refuses_logins(failures: &AuthFailures, peer: SocketAddr) -> bool {
    failures.is_refused(peer.ip(), clock::monotonic_ms())
}
