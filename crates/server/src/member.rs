//! What a member of an ensemble is made of when the server starts.

use std::sync::Arc;
use std::time::Duration;

use config::members::HostPort;
use config::{Config, Ensemble};
use crossbeam_channel::Sender;
use proto::Zxid;
use storage::{DataDirs, Empty, Epochs, RealDisk, Recovered};
use tokio::runtime::Handle;

use crate::error::StartError;
use crate::membership::MembershipKeeper;
use crate::mesh::{Mesh, MeshSettings, MeshStart};
use crate::peer::{
    DialSettings, Dialer, EventSink, LearnerPort, LearnerSettings, ListenSettings, PortSettings,
};
use crate::pipeline::{Member, MemberStart, OracleWatch, ToCore, Ways, at_port};
use crate::settings::field_limits;
use crate::shared::Shared;

/// The member, listening for elections; `None` if there is no ensemble.
pub(crate) fn start(
    config: &Config,
    shared: &Arc<Shared>,
    (disk, dirs): (Arc<RealDisk>, DataDirs),
    recovered: &Recovered,
    core: &Sender<ToCore>,
) -> Result<Option<Box<Member>>, StartError> {
    let (Some(ensemble), Some(keeper)) = (&config.ensemble, MembershipKeeper::new(config)) else {
        return Ok(None);
    };
    keeper
        .back_up()
        .map_err(|source| StartError::Backup { source })?;
    let snapshot = recovered.snapshot.as_ref();
    let start = MemberStart {
        epochs: Epochs::load(&*disk, &dirs, recovered.last_zxid)?,
        last_logged: recovered.last_zxid.max(Zxid::ZERO),
        log_whole_from: snapshot.map_or(Zxid::ZERO, |snapshot| snapshot.zxid),
        is_trusted: recovered.empty != Some(Empty::Untrusted),
    };
    let ways = ways(config, ensemble, &keeper, shared, (&dirs, &start), core)?;
    let member = Member::new(config, keeper, ways, (disk, dirs), start);
    Ok(member.map(Box::new))
}

fn ways(
    config: &Config,
    ensemble: &Ensemble,
    keeper: &MembershipKeeper,
    shared: &Arc<Shared>,
    (dirs, start): (&DataDirs, &MemberStart),
    core: &Sender<ToCore>,
) -> Result<Ways, StartError> {
    let tick = Duration::from_millis(config.tick_time_ms.into());
    let ticks = |ticks: u32| tick.saturating_mul(ticks);
    let runtime = Handle::current();
    let told = core.clone();
    // Fails only when the core is gone: the server is ending.
    let peer_sink: EventSink = Arc::new(move |event| {
        let _ = told.send(ToCore::Peer(event));
    });
    let told = core.clone();
    let mesh = Mesh::start(MeshStart {
        settings: MeshSettings::new(ensemble, tick, config.features.reconfig_enabled),
        committed: keeper.committed().clone(),
        proposed: keeper.last_seen().cloned(),
        candidate: start.candidate(),
        metrics: shared.metrics.clone(),
        sink: Box::new(move |event| {
            let _ = told.send(ToCore::Mesh(event));
        }),
    })
    .map_err(|error| StartError::Members(error.to_string()))?;
    let stall = ticks(ensemble.init_limit_ticks);
    let port_settings = PortSettings {
        limits: field_limits(config),
        stall,
        dirs: dirs.clone(),
        snapshot_size_factor: config.storage.snapshot_size_factor,
    };
    let port = LearnerPort::new(
        runtime.clone(),
        shared.clone(),
        ListenSettings {
            addresses: own_addresses(keeper),
            on_all_ips: ensemble.listen_on_all_ips,
        },
        port_settings.clone(),
        peer_sink.clone(),
    );
    let told = core.clone();
    let observer_sink: EventSink = Arc::new(move |event| {
        let _ = told.send(ToCore::Observer(event));
    });
    let observer_port = ensemble.learner.observer_master_port.map(|number| {
        let listen = ListenSettings {
            addresses: at_port(&own_addresses(keeper), number),
            on_all_ips: ensemble.listen_on_all_ips,
        };
        let settings = port_settings.clone();
        LearnerPort::new(
            runtime.clone(),
            shared.clone(),
            listen,
            settings,
            observer_sink,
        )
    });
    let retry_delay = ensemble.learner.connect_retry_delay_ms;
    let learner_settings = LearnerSettings {
        dial: DialSettings {
            retry_delay: Duration::from_millis(retry_delay.into()),
            time_limit: ticks(ensemble.connect_limit_ticks),
        },
        limits: field_limits(config),
        stall,
        tree: shared.tree.read().settings().clone(),
    };
    let oracle = ensemble.oracle_path.clone().map(|path| OracleWatch {
        runtime: runtime.clone(),
        path,
        every: tick / 2,
        core: core.clone(),
    });
    Ok(Ways {
        mesh,
        port,
        dialer: Dialer::new(runtime, learner_settings, peer_sink),
        observer_port,
        oracle,
    })
}

fn own_addresses(keeper: &MembershipKeeper) -> Vec<HostPort> {
    let own = keeper.committed().members.get(&keeper.me());
    own.map(|own| own.quorum_addresses().into_iter().collect())
        .unwrap_or_default()
}
