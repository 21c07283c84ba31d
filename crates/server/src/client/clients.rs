//! What the tasks of connections share, and the core with them.

use std::num::NonZero;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicUsize};

use monitoring::audit::{Caller, line_of_undecodable};
use monitoring::environment::Environment;
use monitoring::role::RoleCell;
use monitoring::view::DEFAULT_TRACE_MASK;
use parking_lot::{Mutex, MutexGuard};
use proto::{ErrorCode, OpCode, SessionId};
use replica::{
    ClientRequest, HandshakeRules, NewSession, Renewal, Service, SyncRequest, SyncStep, UNDECODABLE,
};
use session::SessionIds;
use tokio::sync::Semaphore;
use transport::tls::Gate;
use tree::WatcherId;

use crate::audit::AuditLog;
use crate::client::connection::{Connection, ConnectionState, Queued, Work};
use crate::client::held::HeldBytes;
use crate::client::inbox::{ClientMessage, CoreInbox};
use crate::client::large::LargeRequests;
use crate::client::permits::Permits;
use crate::client::registry::Registry;
use crate::client::request_throttle::RequestThrottle;
use crate::client::room::SharedRoom;
use crate::client::service::ServiceSwitch;
use crate::client::settings::Settings;
use crate::client::throttle::TokenBucket;
use crate::metrics::{Metrics, ServerStats};
use crate::state::ServerState;
use crate::{clock, limits};

/// The clients of a server: their connections and budgets, how they are served at the moment, and
/// their way to the core.
///
/// Locks are taken in this order: `tree`, a connection's state, then `watches` or `sessions`;
/// the registry's lock is held for look-ups only, never while another is taken.
pub(crate) struct Clients {
    pub(crate) settings: Settings,
    pub(crate) state: Arc<ServerState>,
    pub(crate) service: ServiceSwitch,
    pub(crate) registry: Registry,
    pub(crate) permits: Permits,
    pub(crate) request_throttle: RequestThrottle,
    pub(crate) handshakes: Mutex<TokenBucket>,
    pub(crate) large_requests: LargeRequests,
    /// For requests that are read and not handed on.
    pub(crate) large_frames: SharedRoom,
    /// For replies that are made and not written.
    pub(crate) large_replies: SharedRoom,
    /// Turns for reads that take long: half of the processors, so that there are threads left for
    /// all others.
    pub(crate) slow_reads: Semaphore,
    /// What connections hold besides.
    pub(crate) held: Arc<HeldBytes>,
    /// Connections whose tasks have reads to answer that stand in front of all writes.
    pub(crate) left_over: AtomicUsize,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) stats: Arc<ServerStats>,
    pub(crate) environment: Environment,
    pub(crate) trace_mask: AtomicI64,
    pub(crate) role: Arc<RoleCell>,
    /// `None` without an audit log.
    pub(crate) audit: Option<Arc<AuditLog>>,
    session_ids: Mutex<SessionIds>,
    core: CoreInbox,
    /// TLS handshakes that are under way.
    pub(crate) tls_handshakes: Arc<Gate>,
}

fn processors() -> usize {
    std::thread::available_parallelism().map_or(1, NonZero::get)
}

impl Clients {
    pub(crate) fn new(
        settings: Settings,
        state: Arc<ServerState>,
        core: CoreInbox,
        metrics: Arc<Metrics>,
        audit: Option<Arc<AuditLog>>,
        tls_handshakes: Arc<Gate>,
    ) -> Self {
        let permits = Permits::new(settings.outstanding_max);
        let throttle = settings.config.limits.connection_throttle.clone();
        let handshakes = TokenBucket::new(throttle, clock::monotonic_ms());
        let large_requests = LargeRequests::new(&settings.config.limits.large_requests);
        let server_id = settings.session_server_id;
        let role = Arc::new(RoleCell::new(
            settings.config.ensemble.as_ref(),
            metrics.clone(),
            clock::monotonic_ms(),
        ));
        Self {
            state,
            service: ServiceSwitch::new(Service::None),
            registry: Registry::default(),
            permits,
            request_throttle: RequestThrottle::new(&settings.config.limits.request_throttle),
            handshakes: Mutex::new(handshakes),
            large_requests,
            large_frames: SharedRoom::new(limits::LARGE_FRAMES_BYTES),
            large_replies: SharedRoom::new(limits::LARGE_REPLIES_BYTES),
            slow_reads: Semaphore::new((processors() / 2).max(1)),
            held: Arc::default(),
            left_over: AtomicUsize::new(0),
            stats: Arc::new(ServerStats::new(metrics.clone(), clock::monotonic_ms())),
            metrics,
            environment: Environment::of_this_process(),
            trace_mask: AtomicI64::new(DEFAULT_TRACE_MASK),
            role,
            session_ids: Mutex::new(SessionIds::new(server_id, clock::wall_ms())),
            core,
            audit,
            tls_handshakes,
            settings,
        }
    }

    /// Hands writes of a connection to the core, in order and at once. The caller has taken a permit
    /// for each, so there is room.
    pub(crate) fn submit(
        &self,
        connection: &Arc<Connection>,
        received_ms: u64,
        requests: Vec<ClientRequest>,
    ) {
        let connection = connection.clone();
        self.tell(ClientMessage::Submit {
            connection,
            received_ms,
            requests,
        });
    }

    fn tell(&self, message: ClientMessage) {
        (self.core)(message);
    }

    /// Hands a `sync` to the core, to be passed on or answered in its place.
    pub(crate) fn forward_sync(&self, connection: &Arc<Connection>, sync: SyncRequest) {
        self.tell(ClientMessage::Sync(connection.clone(), sync));
    }

    /// What becomes of a `sync` of this connection.
    pub(crate) fn sync_step(&self, connection: &Connection) -> SyncStep {
        let is_member = self.settings.config.ensemble.is_some();
        replica::sync_step(self.service.get(), is_member, connection.is_read_only())
    }

    /// Has the leader asked about a session that came to this server.
    pub(crate) fn renew(&self, connection: &Arc<Connection>, renewal: Renewal) {
        self.tell(ClientMessage::Renew(connection.clone(), renewal));
    }

    /// Serves clients from here on.
    pub(crate) fn serve(&self, service: Service) {
        self.stats.begin(clock::monotonic_ms());
        self.service.set(service);
    }

    /// Serves nobody: every connection ends without another answer, those that are being made
    /// too. Whoever reads the tree or looks at the sessions after this finds its connection closed.
    pub(crate) fn stop_serving(&self) {
        self.service.set(Service::None);
        for connection in self.registry.all() {
            connection.close();
        }
    }

    /// What is said to clients that connect now.
    pub(crate) fn handshake_rules(&self) -> HandshakeRules {
        HandshakeRules {
            service: self.service.get(),
            local_sessions: self.settings.local_sessions,
            timeout_min_ms: self.settings.min_session_timeout_ms,
            timeout_max_ms: self.settings.max_session_timeout_ms,
        }
    }

    /// Makes an id for a new session and starts its clock.
    pub(crate) fn new_session(&self, new: NewSession) -> SessionId {
        let next_id = || self.session_ids.lock().next();
        new.begin(&*self.state, clock::session_ms(), next_id)
    }

    /// Notes that a connection's session has sent something. False if it is over.
    pub(crate) fn touch(&self, connection: &Connection) -> bool {
        let now = clock::session_ms();
        self.state
            .sessions
            .lock()
            .touch(connection.session(), connection.timeout_ms(), now)
    }

    /// Audits a request of this connection that is refused because its record does not decode.
    /// It never becomes a transaction here; Java makes one that is an error, and audits that.
    pub(crate) fn audit_refusal(
        &self,
        connection: &Connection,
        state: &ConnectionState,
        (op, err): (OpCode, ErrorCode),
    ) {
        let Some(audit) = self.audit.as_ref().filter(|_| err == UNDECODABLE) else {
            return;
        };
        let caller = Caller {
            session: connection.session(),
            identities: state.identities.clone(),
            ip: connection.peer.ip(),
        };
        audit.write(line_of_undecodable(&caller, op));
    }

    /// The same for all that a connection which has ended will not be told of.
    fn audit_refusals_of(&self, connection: &Connection, state: &ConnectionState) {
        for Queued { asked, work } in &state.queue {
            if let Work::Refuse(err) = work {
                self.audit_refusal(connection, state, (asked.op, *err));
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
        state.clear_queue();
        connection.note_left_over(&state, &self.left_over);
        drop(state);
        self.registry.remove(connection);
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
            tokio::task::spawn_blocking(move || while !remove_some(&state) {});
        }
    }
}
