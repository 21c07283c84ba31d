//! What the tasks of connections share, and the core with them.

use std::net::SocketAddr;
use std::num::NonZero;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicUsize};

use hosting::{Connected, ServerState};
use monitoring::audit::{Caller, line_of_undecodable};
use monitoring::environment::Environment;
use monitoring::role::RoleCell;
use monitoring::slow::SlowRequests;
use monitoring::traces::Traces;
use monitoring::usage::Departed;
use monitoring::view::DEFAULT_TRACE_MASK;
use parking_lot::{Mutex, MutexGuard};
use proto::{ErrorCode, OpCode};
use replica::connection::{ConnectionRules, Identities, Queued, Work};
use replica::{
    ClientRequest, HandshakeRules, Renewal, Service, SessionRules, SyncRequest, UNDECODABLE,
};
use tokio::sync::{Semaphore, watch};
use transport::tls::Gate;
use tree::WatcherId;

use crate::audit::AuditLog;
use crate::client::budgets::Budgets;
use crate::client::connection::{Connection, ConnectionState};
use crate::client::failures::AuthFailures;
use crate::client::held::HeldBytes;
use crate::client::inbox::{ClientMessage, CoreInbox};
use crate::client::large::LargeRequests;
use crate::client::permits::Permits;
use crate::client::registry::{Admissions, Registry};
use crate::client::request_throttle::RequestThrottle;
use crate::client::room::SharedRoom;
use crate::client::settings::Settings;
use crate::client::throttle::TokenBucket;
use crate::metrics::{Metrics, ServerStats};
use crate::settings::passwords;
use crate::{clock, limits};

/// The clients of a server: their connections and budgets, how they are served at the moment, and
/// their way to the core.
///
/// Locks are taken in the order of [`Connected`]; the registry's lock is held for look-ups only, never
/// while another is taken.
pub(crate) struct Clients {
    pub(crate) settings: Settings,
    pub(crate) state: Arc<ServerState>,
    pub(crate) registry: Registry,
    pub(crate) admissions: Admissions,
    pub(crate) permits: Permits,
    pub(crate) request_throttle: RequestThrottle,
    /// `None` without any.
    pub(crate) budgets: Option<Budgets>,
    pub(crate) handshakes: Mutex<TokenBucket>,
    pub(crate) large_requests: LargeRequests,
    /// For requests that are read and not handed on.
    pub(crate) large_frames: SharedRoom,
    /// For replies that are made and not written.
    pub(crate) large_replies: SharedRoom,
    /// Turns for reads that take long: half of the processors, so that there are threads left for
    /// all others.
    pub(crate) slow_reads: Semaphore,
    /// Turns of four-letter words and commands whose answers may be long.
    pub(crate) long_words: Arc<Semaphore>,
    /// What connections hold besides.
    pub(crate) held: Arc<HeldBytes>,
    /// Connections whose tasks have reads to answer that stand in front of all writes.
    pub(crate) left_over: AtomicUsize,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) stats: Arc<ServerStats>,
    /// What connections had asked for that have ended.
    pub(crate) departed: Departed,
    /// Requests that took long.
    pub(crate) slow: SlowRequests,
    /// Writes that are traced; `None` without a collector.
    pub(crate) traces: Option<Arc<Traces>>,
    auth_failures: AuthFailures,
    pub(crate) environment: Environment,
    pub(crate) trace_mask: AtomicI64,
    pub(crate) role: Arc<RoleCell>,
    /// `None` without an audit log.
    pub(crate) audit: Option<Arc<AuditLog>>,
    core: Arc<dyn CoreInbox>,
    /// How clients are served: for who waits for that.
    serving: watch::Sender<Service>,
    /// TLS handshakes that are under way.
    pub(crate) tls_handshakes: Arc<Gate>,
}

/// Processors that this process may use.
pub(crate) fn processors() -> usize {
    std::thread::available_parallelism().map_or(1, NonZero::get)
}

impl Clients {
    /// A client could not say who it is.
    pub(crate) fn auth_failed(&self, peer: SocketAddr) {
        self.stats.auth_failed();
        self.login_failed(peer);
    }

    /// The same of somebody who is no client, and whom Java counts nowhere.
    pub(crate) fn login_failed(&self, peer: SocketAddr) {
        if self.auth_failures.note(peer.ip(), clock::monotonic_ms()) {
            log_limiter::limited!(warn, %peer, "too many failed logins (auth.maxFailuresPerMinute): connections from this address are refused until the minute is over");
        }
    }

    /// Whether clients of this address have failed too often.
    pub(crate) fn refuses_logins(&self, peer: SocketAddr) -> bool {
        self.auth_failures
            .is_spent(peer.ip(), clock::monotonic_ms())
    }

    pub(crate) fn new(
        settings: Settings,
        state: Arc<ServerState>,
        core: Arc<dyn CoreInbox>,
        metrics: Arc<Metrics>,
        audit: Option<Arc<AuditLog>>,
        tls_handshakes: Arc<Gate>,
    ) -> Self {
        let permits = Permits::new(settings.outstanding_max);
        let throttle = settings.config.limits.connection_throttle.clone();
        let handshakes = TokenBucket::new(throttle, clock::monotonic_ms());
        let large_requests = LargeRequests::new(&settings.config.limits.large_requests);
        let traces = settings.config.traces.as_ref();
        let role = Arc::new(RoleCell::new(
            settings.config.ensemble.as_ref(),
            metrics.clone(),
            clock::monotonic_ms(),
        ));
        Self {
            state,
            registry: Registry::with_passwords(passwords(&settings.config)),
            admissions: Admissions::default(),
            permits,
            request_throttle: RequestThrottle::new(&settings.config.limits.request_throttle),
            budgets: Budgets::new(&settings.config.limits.budgets),
            handshakes: Mutex::new(handshakes),
            large_requests,
            large_frames: SharedRoom::new(limits::LARGE_FRAMES_BYTES),
            large_replies: SharedRoom::new(limits::LARGE_REPLIES_BYTES),
            long_words: Arc::new(Semaphore::new(limits::LONG_WORDS_AT_A_TIME)),
            slow_reads: Semaphore::new((processors() / 2).max(1)),
            held: Arc::default(),
            left_over: AtomicUsize::new(0),
            stats: Arc::new(ServerStats::new(metrics.clone(), clock::monotonic_ms())),
            metrics,
            departed: Departed::default(),
            traces: traces.map(|traces| Arc::new(Traces::new(traces.every))),
            slow: SlowRequests::new(settings.config.limits.slow_request_threshold_ms),
            environment: Environment::of_this_process(),
            trace_mask: AtomicI64::new(DEFAULT_TRACE_MASK),
            auth_failures: AuthFailures::new(settings.config.auth.failures_per_minute_max),
            role,
            core,
            serving: watch::Sender::new(Service::None),
            audit,
            tls_handshakes,
            settings,
        }
    }

    /// Leaves writes of a connection for the core, in order. The caller has taken a permit for each, so there
    /// is room. [`Clients::run_core_inline`] must follow soon.
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

    fn tell(&self, message: ClientMessage) {
        self.core.send(message);
    }

    /// Lets the core work on what was submitted. No lock may be held.
    pub(crate) fn run_core_inline(&self) {
        self.core.run_inline();
    }

    /// Hands a `sync` to the core, to be passed on or answered in its place.
    pub(crate) fn forward_sync(&self, connection: &Arc<Connection>, sync: SyncRequest) {
        self.tell(ClientMessage::Sync(connection.clone(), sync));
    }

    /// What holds for requests of this connection that come together.
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
            bounds_holding: self.budgets.as_ref().is_some_and(Budgets::bounds_holding),
            watch_bytes_max: config.limits.watch_bytes_max as usize,
        }
    }

    /// Has the leader asked about a session that came to this server.
    pub(crate) fn renew(&self, connection: &Arc<Connection>, renewal: Renewal) {
        self.tell(ClientMessage::Renew(connection.clone(), renewal));
    }

    /// Serves clients from here on.
    pub(crate) fn serve(&self, service: Service) {
        self.stats.begin(clock::monotonic_ms());
        self.registry.serve(service);
        self.serving.send_replace(service);
    }

    /// Serves nobody: connections end.
    pub(crate) fn stop_serving(&self) {
        self.serving.send_replace(Service::None);
        self.registry.stop_serving();
    }

    /// Follows how clients are served.
    pub(crate) fn serving(&self) -> watch::Receiver<Service> {
        self.serving.subscribe()
    }

    /// What is said to clients that connect now.
    pub(crate) fn handshake_rules(&self) -> HandshakeRules {
        HandshakeRules {
            service: self.registry.service(),
            local_sessions: self.settings.local_sessions,
            timeout_min_ms: self.settings.min_session_timeout_ms,
            timeout_max_ms: self.settings.max_session_timeout_ms,
        }
    }

    /// Notes that a connection's session has sent something. False if the session is over or has moved
    /// to another server.
    pub(crate) fn touch(&self, connection: &Connection) -> bool {
        self.state.touch(connection, clock::session_ms())
    }

    /// Audits a request of this connection that is refused because its record does not decode.
    /// It never becomes a transaction here; Java makes one that is an error, and audits that.
    pub(crate) fn audit_refusal(
        &self,
        connection: &Connection,
        identities: &Identities,
        (op, err): (OpCode, ErrorCode),
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

    /// The same for all that a connection which has ended will not be told of.
    fn audit_refusals_of(&self, connection: &Connection, state: &ConnectionState) {
        for Queued { asked, work } in state.client.requests() {
            if let Work::Refuse(err) = work {
                let identities = &state.client.identities;
                self.audit_refusal(connection, identities, (asked.op, *err));
            }
        }
    }

    /// Forgets a connection that has ended; its session lives on.
    pub(crate) fn forget(&self, connection: &Arc<Connection>) {
        connection.close();
        // Whoever holds the state's lock now still counts as before the end; whoever takes it
        // later finds the queue empty, so no watch is left for a connection that is gone.
        let mut state = connection.lock();
        self.audit_refusals_of(connection, &state);
        state.drop_requests();
        connection.note_left_over(&state, &self.left_over);
        if let Some(obeyed) = state.obeyed.take() {
            obeyed.end(connection);
        }
        let (address, figures) = (connection.peer.ip(), connection.stats.get());
        let identities = state.client.identities.clone();
        drop(state);
        self.departed.note(address, &identities, &figures);
        self.admissions.remove(&self.registry, connection);
        self.remove_watches(connection.id);
        self.tell(ClientMessage::Gone(connection.ticket()));
    }

    /// Removes the watches of a connection, a few at a time: all others wait for that table.
    fn remove_watches(&self, watcher: WatcherId) {
        let remove_some = move |state: &ServerState| {
            let mut watches = state.watches.lock();
            let is_done = watches.remove_some(watcher, limits::WATCHES_REMOVED_AT_ONCE);
            MutexGuard::unlock_fair(watches);
            is_done
        };
        if !remove_some(&self.state) {
            let state = self.state.clone();
            // Not on a thread that serves other connections.
            blocking::run(move || while !remove_some(&state) {});
        }
    }
}
