//! From a configuration to a running server.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use config::Config;
use parking_lot::Mutex;
use storage::{
    DataDirs, Empty, LogSettings, LogWriter, OpenOptions, RealDisk, Recovered, SnapTrigger,
    remove_initialize_marker, set_damaged_aside,
};
use tokio::net::TcpListener;
use tree::Tree;

use crate::error::StartError;
use crate::failure::Failure;
use crate::member::{self, MemberContext};
use crate::metrics::Metrics;
use crate::net::listener;
use crate::pipeline::{
    Core, CoreStart, Disk, LogFile, LogThread, ServerHost, SnapshotParts, SnapshotSettings,
    Snapshotter,
};
use crate::recovery::{RecoveredTree, database_load, recover_at_start};
use crate::server::{Server, Started};
use crate::settings::{Settings, field_limits};
use crate::shared::Shared;
use crate::state::ServerState;
use crate::{clock, limits, pauses, timers};

/// The kernel's own maximum applies; what `clientPortListenBacklog=-1` stands for in Java is 50,
/// which loses connections in a storm.
const DEFAULT_BACKLOG: i32 = 4096;

pub(crate) async fn start(config: Arc<Config>) -> Result<Server, StartError> {
    config
        .check_supported()
        .map_err(|refusal| StartError::Unsupported(Box::new(refusal)))?;
    let settings = Settings::new(config.clone());
    let disk = Arc::new(RealDisk);
    let dirs = DataDirs::open(
        &*disk,
        &config.data_dir,
        &config.data_log_dir,
        OpenOptions {
            autocreate: config.storage.datadir_autocreate,
        },
    )?;
    // Bound before the data is loaded: a second server fails at once, and what clients send
    // waits in the kernel meanwhile.
    let listener = client_listener(&config)?;
    let RecoveredTree {
        tree,
        recovered,
        digest_mismatches,
    } = recover_at_start(&config, &dirs)?;
    refuse_unrecognised(&tree)?;
    if config.ensemble.is_none() {
        refuse_untrusted(&config, &recovered)?;
    }
    // What an earlier process wrote and did not sync counts from here on.
    storage::make_durable(&*disk, &dirs, &recovered)?;
    let started = Started {
        client_address: listener
            .as_ref()
            .and_then(|listener| listener.local_addr().ok()),
        member: config.ensemble.as_ref().map(|own| own.my_id),
        zxid: tree.last_zxid(),
        znodes: tree.node_count(),
        sessions: tree.sessions().len(),
        replayed: recovered.txns_replayed,
    };
    // What comes in is bounded where it comes from: clients by permits, members by what their
    // connections may send ahead.
    let (core_sender, inbox) = crossbeam_channel::unbounded();
    let metrics = Arc::new(Metrics::default());
    metrics.digest_mismatches_count.add(digest_mismatches);
    metrics.loaded(&database_load(&recovered));
    let state = Arc::new(ServerState::new(tree, i64::from(config.tick_time_ms)));
    let shared = Arc::new(Shared::new(
        settings,
        state.clone(),
        core_sender.clone(),
        metrics.clone(),
    ));
    let failure = Failure::default();
    let (snapshotter, snapshots, snapshot_end) = Snapshotter::new(
        SnapshotParts {
            state: state.clone(),
            settings: SnapshotSettings::new(&config.storage),
            metrics: metrics.clone(),
            disk: disk.clone(),
            dirs: dirs.clone(),
        },
        failure.clone(),
        core_sender.clone(),
    );
    let is_trusted = recovered.empty != Some(Empty::Untrusted);
    if recovered.snapshot.is_none() && is_trusted {
        // A log without a snapshot does not recover: the first one must be there before it.
        snapshotter.take()?;
        if recovered.has_marker {
            remove_initialize_marker(&*disk, &dirs)?;
        }
    } else if recovered.txns_replayed > 0 {
        set_damaged_aside(&*disk, &dirs, recovered.last_zxid)?;
        snapshots.request();
    }
    let member = member::start(&MemberContext {
        config: &config,
        shared: &shared,
        disk: &disk,
        dirs: &dirs,
        recovered: &recovered,
        core: &core_sender,
        failure: &failure,
    })?;
    let (member_start, ports, member_files) = match member {
        Some(member) => (Some(member.start), Some(member.ports), Some(member.files)),
        None => (None, None, None),
    };
    let (log_sender, log_orders) = crossbeam_channel::bounded(limits::LOG_GROUPS_MAX);
    let log_file = Arc::new(Mutex::new(LogFile {
        config: config.clone(),
        state,
        metrics,
        stats: shared.stats.clone(),
        core: core_sender.clone(),
        writer: LogWriter::new(disk.clone(), &dirs, log_settings(&config)),
        disk: disk.clone(),
        dirs: dirs.clone(),
        log_settings: log_settings(&config),
        trigger: snap_trigger(&config),
        snapshots,
        members: member_files,
        failure: failure.clone(),
    }));
    let commit = shared.settings.group_commit;
    let on_disk = Disk::new(
        log_sender,
        log_file.clone(),
        started.zxid,
        config.ensemble.is_none(),
        commit.flush_delay.is_zero(),
    );
    let log = LogThread {
        orders: log_orders,
        commit,
        file: log_file,
    };
    // A server that stands alone serves when this returns; a member looks for a leader.
    let core = Core::begin(CoreStart {
        shared: shared.clone(),
        inbox,
        host: ServerHost::new(shared.clone(), on_disk, ports),
        replica: replica::Start {
            settings: replica::Settings::new(&config),
            member: member_start,
            seed: clock::seed(),
        },
    })
    .map_err(|error| StartError::Members(error.to_string()))?;
    let threads = vec![
        spawn("core", move || core.run())?,
        spawn("log", move || log.run())?,
        spawn("snapshot", move || snapshotter.run())?,
    ];
    let mut tasks = Vec::new();
    if let Some(every) = purge_interval(&config) {
        let retain = config.purge.retain as usize;
        let purge = timers::purge(disk, dirs, field_limits(&config), retain, every);
        tasks.push(tokio::spawn(purge).abort_handle());
    }
    if let Some(monitor) = config.pause_monitor.clone() {
        tasks.push(tokio::spawn(pauses::watch(monitor, shared.metrics.clone())).abort_handle());
    }
    if let Some(listener) = listener {
        tasks.push(tokio::spawn(listener::accept_loop(shared.clone(), listener)).abort_handle());
    }
    Ok(Server {
        shared,
        failure,
        core: core_sender,
        tasks,
        threads,
        snapshot_end,
        started,
    })
}

/// Java takes such znodes for ephemerals of sessions that are gone: it deletes them at once and
/// leaves their children without a parent.
fn refuse_unrecognised(tree: &Tree) -> Result<(), StartError> {
    match tree.unrecognised_ttls() {
        0 => Ok(()),
        count => Err(StartError::UnrecognisedTtls { count }),
    }
}

/// Java's standalone server goes on, with a snapshot of zxid -1 that no server can load.
fn refuse_untrusted(config: &Config, recovered: &Recovered) -> Result<(), StartError> {
    match recovered.empty {
        Some(Empty::Untrusted) => Err(StartError::EmptyUntrusted {
            data_dir: config.data_dir.clone(),
            marker: config.data_log_dir.join("initialize"),
        }),
        Some(Empty::Trusted) | None => Ok(()),
    }
}

fn log_settings(config: &Config) -> LogSettings {
    let storage = &config.storage;
    LogSettings {
        prealloc_bytes: storage.prealloc_kb * 1024,
        force_sync: storage.force_sync,
        fsync_warning: Duration::from_millis(storage.fsync_warning_threshold_ms),
        log_bytes_max: storage.txn_log_size_limit_kb.map_or(0, |kb| kb * 1024),
        limits: field_limits(config),
    }
}

fn snap_trigger(config: &Config) -> SnapTrigger {
    let size_limit = config.storage.snap_size_limit_kb.map_or(0, |kb| kb * 1024);
    SnapTrigger::new(config.storage.snap_count.into(), size_limit, clock::seed())
}

fn purge_interval(config: &Config) -> Option<Duration> {
    config
        .purge
        .interval_hours
        .map(|hours| Duration::from_secs(u64::from(hours) * 3600))
}

fn client_listener(config: &Config) -> Result<Option<TcpListener>, StartError> {
    let Some(plain) = &config.client.plain else {
        return Ok(None);
    };
    let backlog = config
        .client
        .backlog
        .and_then(|backlog| i32::try_from(backlog).ok());
    let backlog = backlog.unwrap_or(DEFAULT_BACKLOG);
    let bound = match plain.ip {
        IpAddr::V4(Ipv4Addr::UNSPECIFIED) => listener::bind_everywhere(plain.port, backlog),
        ip => listener::bind(SocketAddr::new(ip, plain.port), backlog),
    };
    let address = SocketAddr::new(plain.ip, plain.port);
    bound
        .map(Some)
        .map_err(|source| StartError::Bind { address, source })
}

fn spawn(
    name: &'static str,
    run: impl FnOnce() + Send + 'static,
) -> Result<JoinHandle<()>, StartError> {
    std::thread::Builder::new()
        .name(name.to_owned())
        .spawn(run)
        .map_err(|source| StartError::Thread { name, source })
}
