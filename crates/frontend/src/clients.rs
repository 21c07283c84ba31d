//! State that the tasks of connections share with each other and with the core.

use std::net::SocketAddr;
use std::num::NonZero;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicUsize};

use admission::Ledger;
use host::{ServerState, SharedConnection};
use metrics::audit::{AuditLog, Caller, line_of_undecodable};
use metrics::environment::Environment;
use metrics::role::RoleCell;
use metrics::slow::SlowRequests;
use metrics::traces::Traces;
use metrics::usage::ClosedConnectionUsage;
use metrics::view::DEFAULT_TRACE_MASK;
use metrics::{Metrics, ServerStats};
use parking_lot::MutexGuard;
use proto::{ErrorCode, OpCode};
use replica::connection::{ConnectionRules, Identities, Queued, QueuedWork};
use replica::session::Passwords;
use replica::{
    ClientRequest, HandshakeRules, Renewal, Service, SessionRules, SyncRequest, UNDECODABLE,
};
use tokio::sync::{Semaphore, watch};
use transport::tls::Gate;
use tree::WatcherId;

use crate::connection::inbox::{ClientMessage, CoreInbox};
use crate::connection::{Connection, ConnectionState, Registry};
use crate::settings::Settings;
use crate::{clock, limits};

/// Clients of a server: their connections and budgets, the current service, and the channel to the
/// core.
///
/// Locks are acquired in the order that [`SharedConnection`] describes. The registry's lock is held
/// only for lookups, and no other lock is acquired meanwhile.
pub struct Clients {
    /// Settings of connections.
    pub settings: Settings,
    /// Tree, watches and sessions.
    pub state: Arc<ServerState>,
    /// All connections.
    pub registry: Registry,
    /// Resources that clients use, and the limits on them.
    pub ledger: Ledger,
    /// Permits for slow reads: one for every two processors, and at least one. The other threads
    /// remain for all other requests.
    pub(crate) slow_reads: Semaphore,
    /// Permits for four-letter words and commands with long answers.
    pub(crate) long_words: Arc<Semaphore>,
    /// Number of connections whose tasks have deferred reads to answer before the next write.
    pub deferred_connections: AtomicUsize,
    /// Metrics of the server.
    pub metrics: Arc<Metrics>,
    /// Counts of packets and latencies.
    pub stats: Arc<ServerStats>,
    /// Request counts of connections that have ended.
    pub closed_usage: ClosedConnectionUsage,
    /// Slow requests.
    pub slow: SlowRequests,
    /// Traced writes. `None` without a collector.
    pub traces: Option<Arc<Traces>>,
    pub(crate) environment: Environment,
    pub(crate) trace_mask: AtomicI64,
    /// Current role of the server.
    pub role: Arc<RoleCell>,
    /// Audit log. `None` if it is disabled.
    pub(crate) audit: Option<Arc<AuditLog>>,
    core: Arc<dyn CoreInbox>,
    /// Current service for clients, for tasks that wait for a change.
    serving: watch::Sender<Service>,
    /// Limit on concurrent TLS handshakes.
    pub(crate) tls_handshakes: Arc<Gate>,
}

/// Returns the number of processors that this process may use.
pub fn processors() -> usize {
    std::thread::available_parallelism().map_or(1, NonZero::get)
}

impl Clients {
    /// Records that a client failed to authenticate.
    pub(crate) fn auth_failed(&self, peer: SocketAddr) {
        self.stats.auth_failed();
        self.login_failed(peer);
    }

    /// Records a failed login that did not come from a client. Java does not count these logins.
    pub fn login_failed(&self, peer: SocketAddr) {
        if self.ledger.failures.note(peer.ip(), clock::monotonic_ms()) {
            log_limiter::limited!(warn, %peer, "too many failed logins (auth.maxFailuresPerMinute), refusing connections from this address until the minute ends");
        }
    }

    /// Returns whether clients at this address have failed to log in too often.
    pub fn refuses_logins(&self, peer: SocketAddr) -> bool {
        self.ledger
            .failures
            .is_refused(peer.ip(), clock::monotonic_ms())
    }

    /// Creates the state of a server that does not serve clients yet.
    pub fn new(
        settings: Settings,
        state: Arc<ServerState>,
        core: Arc<dyn CoreInbox>,
        metrics: Arc<Metrics>,
        audit: Option<Arc<AuditLog>>,
        tls_handshakes: Arc<Gate>,
    ) -> Self {
        let (config, outstanding_max) = (&settings.config, settings.outstanding_max);
        let ledger = Ledger::new(config, outstanding_max, clock::monotonic_ms());
        let traces = settings.config.traces.as_ref();
        let role = Arc::new(RoleCell::new(
            settings.config.ensemble.as_ref(),
            metrics.clone(),
            clock::monotonic_ms(),
        ));
        Self {
            state,
            registry: Registry::with_passwords(Passwords::configured(&settings.config)),
            ledger,
            long_words: Arc::new(Semaphore::new(limits::LONG_WORDS_AT_A_TIME)),
            slow_reads: Semaphore::new((processors() / 2).max(1)),
            deferred_connections: AtomicUsize::new(0),
            stats: Arc::new(ServerStats::new(metrics.clone(), clock::monotonic_ms())),
            metrics,
            closed_usage: ClosedConnectionUsage::default(),
            traces: traces.map(|traces| Arc::new(Traces::new(traces.every))),
            slow: SlowRequests::new(settings.config.limits.slow_request_threshold_ms),
            environment: Environment::of_this_process(),
            trace_mask: AtomicI64::new(DEFAULT_TRACE_MASK),
            role,
            core,
            serving: watch::Sender::new(Service::None),
            audit,
            tls_handshakes,
            settings,
        }
    }

    /// Sends writes of a connection to the core, in order. The caller holds a permit for each, so
    /// the queue has space. [`Clients::run_core_inline`] must follow soon.
    pub(crate) fn submit(
        &self,
        connection: &Arc<Connection>,
        received_ms: u64,
        requests: Vec<ClientRequest>,
    ) {
        let connection = connection.clone();
        self.core.put(ClientMessage::Submit {
            connection,
            received_ms,
            requests,
        });
    }

    fn send_to_core(&self, message: ClientMessage) {
        self.core.send(message);
    }

    /// Runs the core on the submitted requests. No locks may be held.
    pub(crate) fn run_core_inline(&self) {
        self.core.run_inline();
    }

    /// Passes a `sync` to the core, which forwards it or answers it in order.
    pub(crate) fn forward_sync(&self, connection: &Arc<Connection>, sync: SyncRequest) {
        self.send_to_core(ClientMessage::Sync(connection.clone(), sync));
    }

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
        } = &self.settings;
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

    /// Makes the core query the leader about a session that a client renews on this server.
    pub(crate) fn renew(&self, connection: &Arc<Connection>, renewal: Renewal) {
        self.send_to_core(ClientMessage::Renew(connection.clone(), renewal));
    }

    /// Starts serving clients.
    pub fn serve(&self, service: Service) {
        self.stats.begin(clock::monotonic_ms());
        self.registry.serve(service);
        self.serving.send_replace(service);
    }

    /// Stops serving clients, and ends their connections.
    pub fn stop_serving(&self) {
        self.serving.send_replace(Service::None);
        self.registry.stop_serving();
    }

    /// Returns a receiver for the current service.
    pub fn serving(&self) -> watch::Receiver<Service> {
        self.serving.subscribe()
    }

    /// Returns the rules for the handshakes of clients that connect now.
    pub(crate) fn handshake_rules(&self) -> HandshakeRules {
        HandshakeRules {
            service: self.registry.service(),
            local_sessions: self.settings.local_sessions,
            timeout_min_ms: self.settings.min_session_timeout_ms,
            timeout_max_ms: self.settings.max_session_timeout_ms,
        }
    }

    /// Records that a connection's session has sent a packet. Returns false if the session has
    /// ended or has moved to another server.
    pub(crate) fn touch(&self, connection: &Connection) -> bool {
        self.state.touch(connection, clock::session_ms())
    }

    /// Audits a request of this connection that is refused because its record cannot be decoded.
    /// Such a request never becomes a transaction in Zoarium. Java creates an error transaction and
    /// audits it.
    pub(crate) fn audit_refusal(
        &self,
        connection: &Connection,
        identities: &Identities,
        op: OpCode,
        err: ErrorCode,
    ) {
        let Some(audit) = self.audit.as_ref().filter(|_| err == UNDECODABLE) else {
            return;
        };
        let caller = Caller {
            session: connection.session(),
            identities: identities.clone(),
            ip: connection.peer.ip(),
        };
        audit.write(line_of_undecodable(&caller, op));
    }

    /// Audits the queued refusals of a connection that has ended, because their replies will not be
    /// sent.
    fn audit_refusals_of(&self, connection: &Connection, state: &ConnectionState) {
        for Queued { head, work } in state.client.requests() {
            if let QueuedWork::Refuse(err) = work {
                let identities = &state.client.identities;
                self.audit_refusal(connection, identities, head.op, *err);
            }
        }
    }

    /// Removes a connection that has ended. Its session stays alive.
    pub(crate) fn forget(&self, connection: &Arc<Connection>) {
        connection.close();
        // A thread that already holds the state's lock is treated as preceding the end of the
        // connection. A thread that acquires the lock later finds an empty queue, so no watches can
        // be added for the removed connection.
        let mut state = connection.lock();
        self.audit_refusals_of(connection, &state);
        state.drop_requests();
        connection.count_deferred(&state, &self.deferred_connections);
        if let Some(connection_budgets) = state.connection_budgets.take() {
            // The session may exist for its timeout, plus the time until a server notices that it
            // has expired.
            let timeout_ms = u64::try_from(connection.timeout_ms()).unwrap_or(0);
            let until_ms = clock::monotonic_ms().saturating_add(2 * timeout_ms);
            connection_budgets.end(connection.session(), until_ms);
        }
        let (address, figures) = (connection.peer.ip(), connection.stats.get());
        let identities = state.client.identities.clone();
        drop(state);
        self.closed_usage.note(address, &identities, &figures);
        if self.registry.remove(connection) {
            self.ledger.connections.leave(address.to_canonical());
        }
        self.remove_watches(connection.id);
        self.send_to_core(ClientMessage::Gone(connection.ticket()));
    }

    /// Removes the watches of a connection in small groups, because all other connections wait for
    /// the watch table.
    fn remove_watches(&self, watcher: WatcherId) {
        let remove_some = move |state: &ServerState| {
            let mut watches = state.watches.lock();
            let is_done = watches.remove_some(watcher, limits::WATCHES_REMOVED_AT_ONCE);
            MutexGuard::unlock_fair(watches);
            is_done
        };
        if !remove_some(&self.state) {
            let state = self.state.clone();
            // The remaining work must not run on a thread that serves other connections.
            blocking::run(move || while !remove_some(&state) {});
        }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use config::{Config, NoSurroundings, RawConfig, SystemProperties};
    use replica::session::SessionIds;
    use tree::{Tree, TreeSettings};

    use super::*;

    /// Core that ignores all messages.
    struct NoCore;

    impl CoreInbox for NoCore {
        fn send(&self, _: ClientMessage) {}

        fn put(&self, _: ClientMessage) {}

        fn run_inline(&self) {}
    }

    /// Returns the clients of a standalone server with an empty tree.
    pub(crate) fn test_clients() -> Arc<Clients> {
        let raw = RawConfig::parse("zoo.cfg".as_ref(), b"dataDir=data\n").unwrap();
        let config = Config::parse(raw, SystemProperties::new(), &mut NoSurroundings).unwrap();
        let settings = Settings::new(Arc::new(config));
        let tree = Tree::new(Arc::new(TreeSettings::new(settings.field_limits)));
        let session_ids = SessionIds::new(settings.session_server_id, 0);
        let state = ServerState::new(tree, settings.config.tick_time_ms.into(), session_ids);
        let clients = Clients::new(
            settings,
            Arc::new(state),
            Arc::new(NoCore),
            Arc::default(),
            None,
            Gate::new(None),
        );
        clients.serve(Service::Deciding);
        Arc::new(clients)
    }
}
