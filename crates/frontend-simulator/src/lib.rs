//! Simulation of the client connections of a server, in one thread and from one seed.
//!
//! The shipped crate `frontend` runs on a runtime with one thread, whose clock moves only while all
//! tasks wait. Its core is the shipped replica of a standalone server. The seed draws the
//! configuration, the delays of the core and of the disk, and the behaviour of the clients: their
//! requests, the speed at which they read and write, the bytes after which they stop, and their
//! ends.
//!
//! * [`run`] runs one seed.
//! * `client` contains the clients. They check each reply and each event.
//! * `checks` contains the invariants about permits and memory, which hold at each moment at which
//!   all tasks wait, and the invariants at the end.
//! * `history` contains the committed transactions.

mod checks;
mod client;
mod core;
mod history;
mod server;
mod settings;
mod world;

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Once};
use std::time::Duration;

use frontend::{AuditTrail, Frontend, FrontendParts, Settings as FrontendSettings, clock};
use host::{Schedule, ServerState};
use metrics::audit::AuditLog;
use metrics::role::RoleCell;
use metrics::{Metrics, ServerStats};
use parking_lot::Mutex;
use proto::multi::request_acl;
use proto::request::{CreateRequest, WriteRequest, flags};
use proto::{Acl, OpCode, SessionId, Zxid};
use replica::ReplicaSettings;
use replica::session::SessionIds;
use testkit::Random;
use tokio::runtime::Builder;
use tokio::sync::mpsc;
use tokio::time::{sleep, timeout};
use transport::tls::Gate;
use tree::{Overlay, PrepareContext, SessionKind, Tree, TreeSettings, Watches};

use crate::core::Core;
use crate::history::History;
use crate::server::{ServerParts, SimServer, run_disk};
use crate::settings::Settings;
pub use crate::world::Violation;
use crate::world::{World, violation};

/// Results of a run.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Report {
    /// Number of replies to requests.
    pub replies: usize,
    /// Number of replies that needed a memory reservation.
    pub long_replies: usize,
    /// Number of events of watches.
    pub events: usize,
    /// Number of handshakes that succeeded.
    pub sessions: usize,
    /// Number of clients that stopped for the rest of the run.
    pub stuck: usize,
    /// Number of answers to four-letter words.
    pub words: usize,
    /// Number of connections that the server ended.
    pub lost: usize,
    /// First violated invariant, if any.
    pub violation: Option<Violation>,
}

/// Time after which the run has failed, in simulated time.
const RUN_MAX: Duration = Duration::from_secs(48 * 3600);

/// Number of panics in this process. A runtime catches the panics of its tasks.
static PANICS: AtomicUsize = AtomicUsize::new(0);

/// Counts panics, and prints them as before.
fn count_panics() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let print = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            PANICS.fetch_add(1, Ordering::Relaxed);
            print(info);
        }));
    });
}

/// Runs one seed.
pub fn run(seed: u64) -> Report {
    count_panics();
    let panics = PANICS.load(Ordering::Relaxed);
    // The clock begins before the runtime's clock is stopped.
    let _ = clock::monotonic_ms();
    let runtime = Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .expect("a runtime");
    let mut report = runtime.block_on(simulate(seed));
    runtime.shutdown_timeout(Duration::from_secs(10));
    // Another thread may run another seed, so either of them may have failed.
    if PANICS.load(Ordering::Relaxed) > panics {
        report.violation = Some(violation("no task panics", "see the message of the panic"));
    }
    report
}

async fn simulate(seed: u64) -> Report {
    let mut random = Random::new(seed);
    let settings = Settings::draw(&mut random);
    let world = Arc::new(begin(settings, &mut random));
    let clients = world.settings.clients;
    world.active.store(clients, Ordering::Relaxed);
    let mut tasks = tokio::task::JoinSet::new();
    for number in 0..clients {
        let random = Random::new(random.any());
        tasks.spawn(client::run(world.clone(), number, random));
    }
    let watching = tokio::spawn(checks::watch(world.clone(), Random::new(random.any())));
    let done = async {
        while world.active.load(Ordering::Relaxed) > 0 && world.found().is_none() {
            sleep(Duration::from_millis(100)).await;
        }
        // The server must serve further clients, whatever the others do.
        if world.found().is_none() {
            client::probe(&world, clients, Random::new(random.any())).await;
        }
        world.end.send_replace(true);
        while world.found().is_none() && tasks.join_next().await.is_some() {}
        tasks.abort_all();
        if world.found().is_none() {
            checks::at_end(&world).await;
        }
    };
    if timeout(RUN_MAX, done).await.is_err() {
        world.report(violation(checks::LIVENESS, "the run does not end"));
    }
    watching.abort();
    let counts = &world.counts;
    let number = |of: &AtomicUsize| of.load(Ordering::Relaxed);
    Report {
        replies: number(&counts.replies),
        long_replies: number(&counts.long_replies),
        events: number(&counts.events),
        sessions: number(&counts.sessions),
        stuck: number(&counts.stuck),
        words: number(&counts.words),
        lost: number(&counts.lost),
        violation: world.found(),
    }
}

/// Starts the server.
fn begin(settings: Settings, random: &mut Random) -> World {
    let config = settings.config();
    let frontend_settings = FrontendSettings::new(config.clone());
    let history = Arc::<Mutex<History>>::default();
    let limits = replica::field_limits(&config);
    let mut tree = Tree::new(Arc::new(TreeSettings::new(limits)));
    fill(&mut tree, &mut history.lock(), &settings);
    let session_ids = SessionIds::new(frontend_settings.session_server_id, 0);
    let state = ServerState::new(tree, config.tick_time_ms.into(), session_ids);
    let state = Arc::new(state);
    let metrics = Arc::<Metrics>::default();
    let now_ms = clock::monotonic_ms();
    let core = Arc::new(Core::new(settings.core, Random::new(random.any())));
    let audit_settings = config.audit.as_ref().filter(|_| settings.is_audited);
    let audit =
        audit_settings.map(|audit| Arc::new(AuditLog::new(audit, "server", clock::wall_ms)));
    let (frontend, delivery) = Frontend::new(FrontendParts {
        settings: Arc::new(frontend_settings),
        state: state.clone(),
        core: core.clone(),
        stats: Arc::new(ServerStats::new(metrics.clone(), now_ms)),
        role: Arc::new(RoleCell::new(None, metrics.clone(), now_ms)),
        metrics,
        traces: None,
        audit: audit.clone(),
        tls_handshakes: Gate::new(None),
    });
    let (disk, groups) = mpsc::unbounded_channel();
    tokio::spawn(run_disk(
        core.clone(),
        groups,
        settings.core,
        Random::new(random.any()),
    ));
    let server = SimServer::new(ServerParts {
        schedule: Schedule::new(settings.schedule),
        service: frontend.service.clone(),
        registry: frontend.registry.clone(),
        delivery,
        trail: audit.map(AuditTrail::new),
        keeps_origins: settings.keeps_origins,
        history: history.clone(),
        core: core.clone(),
        disk,
    });
    let start = replica::Start {
        settings: ReplicaSettings::new(&config),
        member: None,
        seed: random.any(),
    };
    core.begin(server, state.clone(), start);
    tokio::spawn(core.clone().run());
    World::new(settings, frontend, state, core, history)
}

/// Creates the znodes that exist at the start.
fn fill(tree: &mut Tree, history: &mut History, settings: &Settings) {
    let long = settings.long_bytes;
    let mut znodes = vec![
        ("/a".to_owned(), 10),
        ("/b".to_owned(), 3000),
        ("/c".to_owned(), 70_000),
        ("/medium".to_owned(), 50_000),
        ("/long".to_owned(), long),
        ("/longer".to_owned(), 3 * long),
        ("/many".to_owned(), 0),
    ];
    for number in 0..40 {
        znodes.push((format!("/many/{number:0>2000}"), 0));
    }
    for (zxid, (path, len)) in (1..).zip(znodes) {
        let request = WriteRequest::Create {
            op: OpCode::Create,
            request: CreateRequest {
                path: Some(path.as_str().into()),
                data: Some(vec![7; len].into()),
                acl: request_acl([Acl::open()]),
                flags: flags::PERSISTENT,
            },
            ttl: -1,
        };
        let context = PrepareContext {
            session: SessionId(1),
            cxid: 1,
            zxid: Zxid(zxid),
            time_ms: 0,
            identities: &[],
            session_check: Ok(SessionKind::Global),
        };
        let record = Overlay::new(tree).prepare(tree, &request, &context);
        tree.apply(&record, &mut Watches::default(), &mut Vec::new());
        history.applied(&record);
    }
}
