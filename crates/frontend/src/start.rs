//! Construction of the part of a server that serves clients.

use std::num::NonZero;
use std::sync::Arc;
use std::sync::atomic::AtomicI64;

use admission::Ledger;
use executor::sync::AtomicUsize;
use host::ServerState;
use metrics::audit::AuditLog;
use metrics::environment::Environment;
use metrics::role::RoleCell;
use metrics::slow::SlowRequests;
use metrics::traces::Traces;
use metrics::view::DEFAULT_TRACE_MASK;
use metrics::{Metrics, ServerStats};
use replica::session::Passwords;
use tokio::sync::Semaphore;
use transport::tls::Gate;

use crate::connection::Registry;
use crate::connection::inbox::CoreInbox;
use crate::connection::open::OpenConnections;
use crate::connection::service::CurrentService;
use crate::deliver::{Delivery, DeliveryContext};
use crate::greeting::words::WordContext;
use crate::requests::answer::AnswerContext;
use crate::requests::context::{ConnectionContext, RequestContext};
use crate::settings::Settings;
use crate::view::LiveView;
use crate::{clock, limits};

/// Values of a server from which its frontend is constructed.
pub struct FrontendParts {
    /// Settings of connections.
    pub settings: Arc<Settings>,
    /// Tree, watches and sessions.
    pub state: Arc<ServerState>,
    /// Channel to the core.
    pub core: Arc<dyn CoreInbox>,
    /// Metrics of the server.
    pub metrics: Arc<Metrics>,
    /// Counts of packets and latencies.
    pub stats: Arc<ServerStats>,
    /// Current role of the server.
    pub role: Arc<RoleCell>,
    /// Traced writes. `None` without a collector.
    pub traces: Option<Arc<Traces>>,
    /// Audit log. `None` if it is disabled.
    pub audit: Option<Arc<AuditLog>>,
    /// Limit on concurrent TLS handshakes.
    pub tls_handshakes: Arc<Gate>,
}

/// Parts of a server that serve clients, for the different components that use them.
pub struct Frontend {
    /// Values that the tasks of connections use.
    pub context: Arc<ConnectionContext>,
    /// View of the server for operators.
    pub view: Arc<LiveView>,
    /// Current service, which the core changes.
    pub service: Arc<CurrentService>,
    /// All connections.
    pub registry: Arc<Registry>,
}

/// Returns the number of processors that this process may use.
pub fn processors() -> usize {
    std::thread::available_parallelism().map_or(1, NonZero::get)
}

impl Frontend {
    /// Constructs the frontend of a server that does not serve clients yet, and the delivery of
    /// results for its core.
    pub fn new(parts: FrontendParts) -> (Self, Delivery) {
        let config = &parts.settings.config;
        let registry = Arc::new(Registry::with_passwords(Passwords::configured(config)));
        let outstanding_max = parts.settings.outstanding_max;
        let ledger = Arc::new(Ledger::new(config, outstanding_max, clock::monotonic_ms()));
        let slow = SlowRequests::new(config.limits.slow_request_threshold_ms);
        let answers = Arc::new(AnswerContext {
            state: parts.state.clone(),
            field_limits: parts.settings.field_limits,
            slow: Arc::new(slow),
            audit: parts.audit,
            deferred_connections: AtomicUsize::new(0),
        });
        let view = Arc::new(LiveView {
            settings: parts.settings.clone(),
            state: parts.state,
            registry: registry.clone(),
            ledger: ledger.clone(),
            metrics: parts.metrics.clone(),
            stats: parts.stats.clone(),
            closed_usage: Arc::default(),
            slow: answers.slow.clone(),
            environment: Environment::of_this_process(),
            trace_mask: AtomicI64::new(DEFAULT_TRACE_MASK),
            role: parts.role,
            tls_handshakes: parts.tls_handshakes,
        });
        let delivery = Delivery::new(DeliveryContext {
            answers: answers.clone(),
            registry: registry.clone(),
            ledger: ledger.clone(),
            metrics: parts.metrics.clone(),
            stats: parts.stats.clone(),
            traces: parts.traces,
        });
        let connections = OpenConnections {
            registry: registry.clone(),
            ledger: ledger.clone(),
            limits: parts.settings.connection_limits,
            answers: answers.clone(),
            closed_usage: view.closed_usage.clone(),
            core: parts.core.clone(),
        };
        let words = WordContext {
            whitelist: parts.settings.words,
            long_words: Semaphore::new(limits::LONG_WORDS_AT_A_TIME),
            ledger: ledger.clone(),
            stats: parts.stats.clone(),
            view: view.clone(),
        };
        let requests = RequestContext {
            settings: parts.settings,
            answers,
            registry: registry.clone(),
            ledger,
            metrics: parts.metrics,
            stats: parts.stats,
            core: parts.core,
            slow_reads: Semaphore::new((processors() / 2).max(1)),
        };
        let frontend = Self {
            context: Arc::new(ConnectionContext {
                connections,
                words,
                requests,
            }),
            service: Arc::new(CurrentService::new(registry.clone(), view.stats.clone())),
            view,
            registry,
        };
        (frontend, delivery)
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use config::{Config, NoSurroundings, RawConfig, SystemProperties};
    use replica::Service;
    use replica::session::SessionIds;
    use tree::{Tree, TreeSettings};

    use super::*;
    use crate::connection::inbox::ClientMessage;

    /// Core that ignores all messages.
    struct NoCore;

    impl CoreInbox for NoCore {
        fn send(&self, _: ClientMessage) {}

        fn put(&self, _: ClientMessage) {}

        fn run_inline(&self) {}
    }

    /// Returns the frontend of a standalone server with an empty tree.
    pub(crate) fn test_frontend() -> Frontend {
        test_frontend_with("")
    }

    /// Like [`test_frontend`], with these lines of the configuration file.
    pub(crate) fn test_frontend_with(lines: &str) -> Frontend {
        let file = format!("dataDir=data\n{lines}");
        let raw = RawConfig::parse("zoo.cfg".as_ref(), file.as_bytes()).unwrap();
        let config = Config::parse(raw, SystemProperties::new(), &mut NoSurroundings).unwrap();
        let settings = Settings::new(Arc::new(config));
        let tree = Tree::new(Arc::new(TreeSettings::new(settings.field_limits)));
        let session_ids = SessionIds::new(settings.session_server_id, 0);
        let state = ServerState::new(tree, settings.config.tick_time_ms.into(), session_ids);
        let metrics = Arc::<Metrics>::default();
        let now_ms = clock::monotonic_ms();
        let (frontend, _) = Frontend::new(FrontendParts {
            settings: Arc::new(settings),
            state: Arc::new(state),
            core: Arc::new(NoCore),
            stats: Arc::new(ServerStats::new(metrics.clone(), now_ms)),
            role: Arc::new(RoleCell::new(None, metrics.clone(), now_ms)),
            metrics,
            traces: None,
            audit: None,
            tls_handshakes: Gate::new(None),
        });
        frontend.service.begin(Service::Deciding);
        frontend
    }
}
