//! Start of a server from its configuration.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::thread::JoinHandle;
use std::time::Duration;

use admin::audit::AuditWriter;
use admin::served::Readers;
use config::{AuditSettings, ClientAddress, Config};
use executor::Executor;
use frontend::{Delivery, Frontend, FrontendParts, Settings, accept_loop, processors};
use host::{
    ReplicaTrace, Runner, Schedule, ScheduleSettings, ServerState, SnapshotWork, StartFiles,
    StartSettings, Started as StartedFiles, Traced,
};
use metrics::Metrics;
use parking_lot::Mutex;
use quorum::{LearnerLinks, MemberPorts};
use recovery::LogEnd;
use replica::MemberStart;
use replica::field_limits;
use replica::members::MemberLists;
use replica::session::SessionIds;
use storage::{DataDirs, Epochs, RealDisk};
use tokio::net::TcpListener;
use transport::Interceptor;

use super::core::{CoreHandle, CoreStart, CoreThread};
use super::host::{HostParts, ServerHost, TracedHost};
use super::inbox::{ClientInbox, CoreMessage, Visitor};
use super::measure::{Figures, Measures};
use super::member::{self, MemberContext, MemberParts};
use super::operators::{Operators, Running};
use super::pauses;
use super::server::{Server, Started};
use super::start_checks;
use super::tls::PortTls;
use crate::disk::members::MembershipFiles;
use crate::disk::recovery::{RecoveredTree, database_load, recover_at_start};
use crate::disk::{
    DeferredSyncSlot, Disk, GroupCommit, LogFile, LogOnDisk, LogThread, SnapshotEnd, SnapshotParts,
    SnapshotRequests, Snapshotter, Synced, SyncedSink, purge, snapshot_settings,
};
use crate::error::StartError;
use crate::failure::Failure;
use crate::inbox::InputSink;
use crate::recorder::{self, Feed, Sources};
use crate::settings::{durable_log_settings, snap_trigger};
use crate::{clock, kerberos, limits};

/// Backlog without `clientPortListenBacklog`; the kernel's maximum also applies. Java's default of
/// 50 loses connections during a connection storm.
const DEFAULT_BACKLOG: i32 = 4096;

/// Data directory, TLS stores and open ports.
struct OpenResources {
    dirs: DataDirs,
    operators: Operators,
    tls: PortTls,
    plain: Option<TcpListener>,
    secure: Option<TcpListener>,
}

/// Reports suppressed log lines even if no further line follows.
async fn report_suppressed_lines() {
    loop {
        tokio::time::sleep(limits::SUPPRESSED_LINES_EVERY).await;
        log_limiter::report_suppressed();
    }
}

/// State shared by the threads and tasks of a server.
struct SharedState {
    config: Arc<Config>,
    opened: OpenResources,
    state: Arc<ServerState>,
    figures: Figures,
    frontend: Frontend,
    failure: Failure,
    /// Groups that the core leaves for its visitors.
    deferred_syncs: Arc<DeferredSyncSlot>,
    core: CoreHandle,
    inputs: InputSink,
    readers: Readers,
    audit: Option<Arc<AuditWriter>>,
}

/// Starts a server with its log and its snapshots on this disk.
pub(crate) async fn start<D: storage::Disk>(
    config: Arc<Config>,
    disk: Arc<D>,
    interceptor: Option<Arc<dyn Interceptor>>,
) -> Result<Server, StartError> {
    let audit = match &config.audit {
        Some(settings) => Some(Arc::new(open_audit(settings)?)),
        None => None,
    };
    let started = start_audited(config, disk, interceptor, audit.clone()).await;
    if let Some(audit) = &audit {
        audit.log().server_started(started.is_err());
        if started.is_err() {
            audit.finish();
        }
    }
    started
}

/// Records a refused configuration in its audit log.
///
/// # Errors
/// If the log cannot be opened.
pub(crate) fn audit_refusal(settings: &AuditSettings) -> Result<(), StartError> {
    let audit = open_audit(settings)?;
    audit.log().server_started(true);
    audit.finish();
    Ok(())
}

fn open_audit(settings: &AuditSettings) -> Result<AuditWriter, StartError> {
    AuditWriter::start(settings, clock::wall_ms).map_err(|source| StartError::Audit {
        file: settings.file.clone(),
        source,
    })
}

async fn start_audited<D: storage::Disk>(
    config: Arc<Config>,
    disk: Arc<D>,
    interceptor: Option<Arc<dyn Interceptor>>,
    audit: Option<Arc<AuditWriter>>,
) -> Result<Server, StartError> {
    check_supported(&config)?;
    kerberos::check_keys(&config).await?;
    let readers = Readers::default();
    let metrics = Arc::new(Metrics::default());
    let opened = open(&config, &*disk, interceptor, &metrics, &readers).await?;
    let on_disk = start_files(&config, disk.clone(), opened.dirs.clone());
    let found = recover(&config, &on_disk)?;
    let started = started(&config, &opened, &found);
    // The channel is unbounded because input is bounded at its source: clients by permits, members
    // by their read-ahead.
    let core = CoreHandle::new(Executor::new(executor_settings()));
    metrics.digest_mismatches_count.add(found.digest_mismatches);
    let settings = Settings::new(config.clone());
    let mut files = begin_files(&settings, on_disk, found)?;
    let trace = ReplicaTrace::of_member(&config, &mut files)?;
    metrics.loaded(&database_load(&files.recovered));
    let figures = Figures::new(&config, metrics);
    let (frontend, delivery) = Frontend::new(FrontendParts {
        settings: Arc::new(settings),
        state: files.state.clone(),
        core: Arc::new(ClientInbox(core.clone())),
        metrics: figures.metrics.clone(),
        stats: figures.stats.clone(),
        role: figures.role.clone(),
        traces: figures.traces.clone(),
        audit: audit.as_ref().map(|audit| audit.log().clone()),
        tls_handshakes: opened.tls.client_gate().clone(),
    });
    let common = SharedState {
        config,
        opened,
        state: files.state,
        figures,
        frontend,
        failure: Failure::default(),
        inputs: input_sink(&core),
        deferred_syncs: DeferredSyncSlot::new(synced_sink(&core)),
        core,
        readers,
        audit,
    };
    let (snapshotter, snapshots, snapshot_end) = common.snapshotter(files.snapshots);
    if let Some(first) = &files.first {
        snapshotter.note_written(first);
    }
    snapshots.begin(&files.recovered, files.is_due);
    let member = common.member(files.member)?;
    let (member_start, ports, member_files) = match member {
        Some(member) => (Some(member.start), Some(member.ports), Some(member.files)),
        None => (None, None, None),
    };
    let links = ports.as_ref().map(MemberPorts::links).unwrap_or_default();
    let log_end = files.history.end().clone();
    let (log, disk_queue) = common.log(snapshots.clone(), member_files, Box::new(files.history));
    // After `begin_core`, a standalone server is serving, and a member is looking for a leader.
    let (feed, recorder) = common.recorder(log_end.clone())?.unzip();
    let host = common.host(delivery, disk_queue, ports, feed, snapshots.clone());
    let core = common.begin_core(Traced::new(host, trace), member_start)?;
    // The other threads end when the core is dropped. The core thread starts last, so nothing keeps
    // running if a thread cannot be started.
    let log = spawn("log", move || log.run())?;
    let snapshot = spawn("snapshot", move || snapshotter.run())?;
    let mut threads = vec![common.spawn_core(core)?];
    threads.extend(recorder);
    threads.extend([log, snapshot]);
    common.serve_operators(snapshots, links, log_end.clone());
    Ok(common.into_server(disk, threads, snapshot_end, log_end, started))
}

/// Refuses unsupported settings, and settings that need a feature that this build lacks. A build
/// without TLS fails later, when it loads the stores.
fn check_supported(config: &Config) -> Result<(), StartError> {
    let unsupported = |refusal| StartError::Unsupported(Box::new(refusal));
    config.check_supported().map_err(unsupported)?;
    let has_history = config.history.is_none() || cfg!(feature = "history");
    let has_traces = config.traces.is_none() || cfg!(feature = "traces");
    let not_built_in = |setting, feature| Err(StartError::NotBuiltIn { setting, feature });
    if !has_history {
        return not_built_in("history.enabled", "history");
    }
    if !has_traces {
        return not_built_in("zoarium.traces.endpoint", "traces");
    }
    Ok(())
}

/// Opens the ports before the data is loaded. A second server then fails immediately, and the
/// requests of clients wait in the kernel meanwhile.
async fn open(
    config: &Arc<Config>,
    disk: &impl storage::Disk,
    interceptor: Option<Arc<dyn Interceptor>>,
    metrics: &Arc<Metrics>,
    readers: &Readers,
) -> Result<OpenResources, StartError> {
    blocking::files::set_mode(config.storage.file_mode);
    let options = start_checks::open_options(config);
    let tls = PortTls::load(config, interceptor)?;
    let dirs = DataDirs::open(disk, &config.data_dir, &config.data_log_dir, options)?;
    let operators = Operators::begin(config, &tls, metrics, readers).await?;
    let (plain, secure) = (&config.client.plain, &config.client.secure);
    Ok(OpenResources {
        dirs,
        operators,
        tls,
        plain: client_listener(config, "clientPort", plain.as_ref())?,
        secure: client_listener(config, "secureClientPort", secure.as_ref())?,
    })
}

fn recover<D: storage::Disk>(
    config: &Config,
    files: &StartFiles<D>,
) -> Result<RecoveredTree, StartError> {
    let found = recover_at_start(config, files)?;
    start_checks::refuse(
        config,
        found.tree.unrecognised_ttls(),
        found.recovered.empty,
    )?;
    if config.ensemble.is_some() {
        // This check must come before anything is written.
        Epochs::inspect(&*files.disk, &files.dirs, found.recovered.last_zxid)?;
    }
    Ok(found)
}

fn start_files<D: storage::Disk>(config: &Config, disk: Arc<D>, dirs: DataDirs) -> StartFiles<D> {
    StartFiles {
        disk,
        dirs,
        history: durable_log_settings(config),
        snapshots: snapshot_settings(&config.storage),
    }
}

fn begin_files<D: storage::Disk>(
    settings: &Settings,
    files: StartFiles<D>,
    found: RecoveredTree,
) -> Result<StartedFiles<D>, StartError> {
    let config = &settings.config;
    let first_ids = getrandom::u64()
        .map_err(|error| StartError::Random(io::Error::other(error.to_string())))?;
    let start = StartSettings {
        tick_ms: i64::from(config.tick_time_ms),
        session_ids: SessionIds::new(settings.session_server_id, first_ids),
        lists: MemberLists::new(config),
    };
    let trigger = || snap_trigger(config);
    Ok(files.begin(found, start, trigger, clock::session_ms)?)
}

fn started(config: &Config, opened: &OpenResources, found: &RecoveredTree) -> Started {
    let address = |listener: &Option<TcpListener>| listener.as_ref()?.local_addr().ok();
    Started {
        client_address: address(&opened.plain),
        secure_client_address: address(&opened.secure),
        member: config.ensemble.as_ref().map(|own| own.my_id),
        zxid: found.tree.last_zxid(),
        znodes: found.tree.node_count(),
        sessions: found.tree.sessions().len(),
        replayed: found.recovered.txns_replayed,
    }
}

impl SharedState {
    fn host(
        &self,
        delivery: Delivery,
        disk: Disk,
        ports: Option<MemberPorts>,
        history: Option<Feed>,
        snapshots: SnapshotRequests,
    ) -> ServerHost {
        let figures = &self.figures;
        ServerHost::new(HostParts {
            service: self.frontend.service.clone(),
            registry: self.frontend.registry.clone(),
            disk,
            schedule: Schedule::new(schedule_settings(&self.config)),
            ports,
            delivery,
            history,
            audit: self.audit.as_ref().map(|audit| audit.log().clone()),
            measures: Measures::new(figures.metrics.clone(), figures.role.clone()),
            failure: self.failure.clone(),
            snapshots,
        })
    }

    /// Starts the replica with `host`. A standalone server is serving when this returns.
    fn begin_core(
        &self,
        host: TracedHost,
        member: Option<MemberStart>,
    ) -> Result<CoreThread, StartError> {
        let replica = replica::Start {
            settings: replica::ReplicaSettings::new(&self.config),
            member,
            seed: clock::seed(),
        };
        let start = CoreStart {
            state: self.state.clone(),
            metrics: self.figures.metrics.clone(),
            inbox: self.core.inbox().clone(),
            host,
            replica,
        };
        CoreThread::begin(start).map_err(|error| StartError::Members(error.to_string()))
    }

    fn snapshotter<D: storage::Disk>(
        &self,
        work: SnapshotWork<D>,
    ) -> (Snapshotter<D>, SnapshotRequests, SnapshotEnd) {
        let parts = SnapshotParts {
            state: self.state.clone(),
            metrics: self.figures.metrics.clone(),
            work,
        };
        Snapshotter::new(parts, self.failure.clone(), self.inputs.clone())
    }

    /// Starts the history thread and returns its feed if a change history is configured. The thread
    /// ends with the core.
    fn recorder(&self, log_end: Arc<LogEnd>) -> Result<Option<(Feed, JoinHandle<()>)>, StartError> {
        let Some(keys) = &self.config.history else {
            return Ok(None);
        };
        let (dirs, limits) = (self.opened.dirs.clone(), field_limits(&self.config));
        // The thread only reads the member's files, so it uses the real disk.
        let sources = Sources::new(Arc::new(RealDisk), dirs, limits);
        let started = recorder::start(keys, sources, log_end, self.readers.clone());
        let (feed, thread) = started.map_err(|error| StartError::History(error.to_string()))?;
        Ok(Some((feed, thread)))
    }

    fn member(&self, start: Option<MemberStart>) -> Result<Option<MemberParts>, StartError> {
        let context = MemberContext {
            config: &self.config,
            state: &self.state,
            metrics: &self.figures.metrics,
            dirs: &self.opened.dirs,
            core: &self.core,
            deferred_syncs: &self.deferred_syncs,
            tls: &self.opened.tls,
        };
        start.map_or(Ok(None), |start| member::start(&context, start))
    }

    fn log(
        &self,
        snapshots: SnapshotRequests,
        members: Option<MembershipFiles>,
        history: Box<dyn LogOnDisk>,
    ) -> (LogThread, Disk) {
        let (config, end) = (&self.config, history.appended());
        let figures = &self.figures;
        let file = Arc::new(Mutex::new(LogFile {
            state: self.state.clone(),
            metrics: figures.metrics.clone(),
            stats: figures.stats.clone(),
            core: self.inputs.clone(),
            history,
            snapshots,
            members,
            failure: self.failure.clone(),
            traces: figures.traces.clone(),
        }));
        let (sender, orders) = crossbeam_channel::bounded(limits::LOG_GROUPS_MAX);
        let (release, spent) = crossbeam_channel::bounded(limits::LOG_GROUPS_KEPT);
        let commit = GroupCommit::new(&config.storage);
        let orders_under_way = Arc::new(AtomicUsize::new(0));
        let on_disk = Disk::new(
            sender,
            release.clone(),
            spent,
            file.clone(),
            orders_under_way.clone(),
            self.deferred_syncs.clone(),
            end,
        );
        let thread = LogThread {
            orders,
            spent: release,
            commit,
            file,
            orders_under_way,
            synced: synced_sink(&self.core),
        };
        (thread, on_disk)
    }

    fn spawn_core(&self, core: CoreThread) -> Result<JoinHandle<()>, StartError> {
        let executor = self.core.clone();
        // If the thread cannot be started, this drops the core.
        spawn("core", move || {
            executor.begin(core);
            executor.run();
        })
    }

    /// Connects the ports for operators to the running server.
    fn serve_operators(
        &self,
        snapshots: SnapshotRequests,
        links: Vec<LearnerLinks>,
        log_end: Arc<LogEnd>,
    ) {
        self.opened.operators.serve(Running {
            context: self.frontend.context.clone(),
            view: self.frontend.view.clone(),
            role: self.figures.role.clone(),
            snapshots,
            core: self.core.clone(),
            dirs: self.opened.dirs.clone(),
            log_end,
            links,
            to_admin: self.opened.tls.to_admin(),
        });
    }

    fn into_server(
        self,
        disk: Arc<impl storage::Disk>,
        threads: Vec<JoinHandle<()>>,
        snapshot_end: SnapshotEnd,
        log_end: Arc<LogEnd>,
        started: Started,
    ) -> Server {
        let config = &self.config;
        let OpenResources {
            dirs,
            tls,
            plain,
            secure,
            operators,
        } = self.opened;
        let figures = self.figures;
        let mut tasks = vec![tokio::spawn(report_suppressed_lines()).abort_handle()];
        if let Some(every) = purge_interval(config) {
            let retain = config.purge.retain as usize;
            let limits = field_limits(config);
            let purge = purge::purge(disk, dirs, limits, retain, every);
            tasks.push(tokio::spawn(purge).abort_handle());
        }
        if let Some(monitor) = config.pause_monitor.clone() {
            let watch = pauses::watch(monitor, figures.metrics.clone());
            tasks.push(tokio::spawn(watch).abort_handle());
        }
        tasks.extend(tls.watch());
        let secure = secure.zip(tls.of_secure_clients());
        let plain = plain.map(|plain| (plain, tls.of_clients()));
        for (listener, acceptor) in plain.into_iter().chain(secure) {
            let accepting = accept_loop(self.frontend.context.clone(), listener, acceptor);
            tasks.push(tokio::spawn(accepting).abort_handle());
        }
        tasks.extend(operators.into_tasks(config, figures.traces, figures.role));
        Server {
            frontend: self.frontend,
            metrics: figures.metrics,
            failure: self.failure,
            core: self.core,
            tasks,
            threads,
            snapshot_end,
            started,
            readers: self.readers,
            audit: self.audit,
            log_end,
        }
    }
}

fn executor_settings() -> executor::Settings {
    executor::Settings {
        inline_turns_max: limits::INLINE_TURNS_MAX,
        yields_before_park: limits::YIELDS_BEFORE_PARK,
        now_ms: clock::session_ms,
    }
}

/// Returns the settings of the schedule for this machine and this configuration.
fn schedule_settings(config: &Config) -> ScheduleSettings {
    ScheduleSettings {
        processors: processors(),
        visitors: tokio::runtime::Handle::current().metrics().num_workers(),
        has_members: config.ensemble.is_some(),
        syncs_at_once: config.storage.flush_delay_ms == 0,
    }
}

/// Returns a sink that passes the inputs of the disk threads to the core.
fn input_sink(core: &CoreHandle) -> InputSink {
    let core = core.clone();
    Arc::new(move |input| {
        core.send(CoreMessage::Input(input));
    })
}

/// Returns a sink that reports syncs to the core. After a small group, the log thread runs the core
/// itself. It holds no locks at that time.
fn synced_sink(core: &CoreHandle) -> SyncedSink {
    let core = core.clone();
    Arc::new(move |synced: Synced| {
        let runner = Schedule::runner_after_sync(synced.txns);
        core.put(CoreMessage::Synced(synced));
        match runner {
            Runner::LogThread => core.run_inline_always(Visitor::Passing),
            Runner::OwnThread | Runner::VisitingThread => core.wake(),
        }
    })
}

fn purge_interval(config: &Config) -> Option<Duration> {
    let hours = config.purge.interval_hours?;
    Some(Duration::from_secs(u64::from(hours) * 3600))
}

fn client_listener(
    config: &Config,
    key: &'static str,
    at: Option<&ClientAddress>,
) -> Result<Option<TcpListener>, StartError> {
    let Some(at) = at else {
        return Ok(None);
    };
    let backlog = config.client.backlog;
    let backlog = backlog.and_then(|backlog| i32::try_from(backlog).ok());
    let backlog = backlog.unwrap_or(DEFAULT_BACKLOG);
    let address = SocketAddr::new(at.ip, at.port);
    transport::bind_ip(at.ip, at.port, backlog)
        .map(Some)
        .map_err(|source| StartError::Bind {
            key,
            address,
            source,
        })
}

fn spawn(
    name: &'static str,
    run: impl FnOnce() + Send + 'static,
) -> Result<JoinHandle<()>, StartError> {
    // A simulated clock applies only within the context of its runtime.
    let runtime = tokio::runtime::Handle::current();
    std::thread::Builder::new()
        .name(name.to_owned())
        .spawn(move || {
            let _context = runtime.enter();
            run();
        })
        .map_err(|source| StartError::Thread { name, source })
}
