//! Values that the tasks of connections use.

use std::net::SocketAddr;
use std::sync::Arc;

use admission::{Ledger, MemoryReservation};
use metrics::{Metrics, ServerStats};
use replica::SessionRules;
use replica::connection::ConnectionRules;
use tokio::sync::Semaphore;

use crate::clock;
use crate::connection::inbox::CoreInbox;
use crate::connection::open::OpenConnections;
use crate::connection::{Connection, Registry};
use crate::greeting::words::WordContext;
use crate::login::failures::{self, LoginFailures};
use crate::requests::answer::AnswerContext;
use crate::settings::Settings;

/// Values that the tasks of connections use, grouped by purpose.
pub struct ConnectionContext {
    pub(crate) connections: OpenConnections,
    pub(crate) words: WordContext,
    pub(crate) requests: RequestContext,
}

impl ConnectionContext {
    /// Reserves memory for a reply of `bytes` to an operator.
    pub async fn reserve_reply(&self, bytes: usize) -> MemoryReservation {
        self.requests.ledger.large_replies.take(bytes).await
    }

    /// Returns the number of free permits for slow reads.
    pub fn free_slow_reads(&self) -> usize {
        self.requests.slow_reads.available_permits()
    }

    /// Records a failed login that did not come from a client. Java does not count these logins.
    pub fn note_failed_login(&self, peer: SocketAddr) {
        failures::note_failed_login(&self.requests.ledger.failures, peer);
    }

    /// Returns whether clients at this address have failed to log in too often.
    pub fn refuses_logins(&self, peer: SocketAddr) -> bool {
        failures::refuses_logins(&self.requests.ledger.failures, peer)
    }
}

/// Values that handshakes and requests use.
pub(crate) struct RequestContext {
    pub(crate) settings: Arc<Settings>,
    pub(crate) answers: Arc<AnswerContext>,
    pub(crate) registry: Arc<Registry>,
    pub(crate) ledger: Arc<Ledger>,
    pub(crate) metrics: Arc<Metrics>,
    /// Counts of packets and latencies.
    pub(crate) stats: Arc<ServerStats>,
    pub(crate) core: Arc<dyn CoreInbox>,
    /// Permits for slow reads: one for every two processors, and at least one. The other threads
    /// remain for all other requests.
    pub(crate) slow_reads: Semaphore,
}

impl RequestContext {
    /// Returns the rules for requests that arrive together on this connection.
    pub(crate) fn connection_rules(
        &self,
        connection: &Connection,
        is_late: bool,
    ) -> ConnectionRules<'_> {
        let Settings {
            config,
            local_sessions,
            upgrades_sessions,
            eager_acl_check,
            ..
        } = &*self.settings;
        ConnectionRules {
            sessions: SessionRules {
                local: *local_sessions,
                upgrades: *upgrades_sessions,
                is_read_only: connection.is_read_only(),
            },
            service: self.registry.service(),
            enforced_schemes: config.auth.enforced_schemes.as_deref(),
            eager_acl_check: *eager_acl_check,
            is_late,
            bounds_resources: self.ledger.bounds_resources(),
            watch_bytes_max: config.limits.watch_bytes_max as usize,
        }
    }

    /// Records that a connection's session has sent a packet. Returns false if the session has
    /// ended or has moved to another server.
    pub(crate) fn touch(&self, connection: &Connection) -> bool {
        self.answers.state.touch(connection, clock::session_ms())
    }

    /// Returns the counts of failed logins.
    pub(crate) fn login_failures(&self) -> LoginFailures<'_> {
        LoginFailures {
            stats: &self.stats,
            by_address: &self.ledger.failures,
        }
    }
}
