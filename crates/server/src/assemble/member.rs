//! Construction of a member of an ensemble at the start of the server.

use std::sync::Arc;
use std::time::Duration;

use config::{Config, Ensemble};
use replica::{MemberStart, Port};
use storage::DataDirs;
use tokio::runtime::Handle;
use tokio::sync::Mutex;
use transport::Patience;

use super::core::CoreHandle;
use super::inbox::{ToCore, Visitor};
use super::tls::PortTls;
use crate::client::clients::Clients;
use crate::disk::Errands;
use crate::disk::members::MembershipFiles;
use crate::error::StartError;
use crate::failure::Failure;
use crate::inbox::InputSink;
use crate::quorum::auth::QuorumAuth;
use crate::quorum::mesh::{Mesh, MeshSettings, OracleFile};
use crate::quorum::peer::{
    Dialer, EventSink, LearnerPort, LearnerSettings, LeftWork, PortSettings,
};
use crate::quorum::ports::{MemberPorts, OracleWatch};
use crate::settings::field_limits;

/// The parts of a member that listens for elections.
pub(crate) struct MemberParts {
    pub(crate) start: MemberStart,
    pub(crate) ports: MemberPorts,
    pub(crate) files: MembershipFiles,
}

/// Context for the construction of a member.
pub(crate) struct MemberContext<'a> {
    pub(crate) config: &'a Config,
    pub(crate) clients: &'a Arc<Clients>,
    pub(crate) dirs: &'a DataDirs,
    pub(crate) core: &'a CoreHandle,
    pub(crate) errands: &'a Arc<Errands>,
    pub(crate) inputs: &'a InputSink,
    pub(crate) failure: &'a Failure,
    pub(crate) tls: &'a PortTls,
}

/// Constructs the member; `None` without an ensemble.
pub(crate) fn start(
    context: &MemberContext<'_>,
    start: MemberStart,
) -> Result<Option<MemberParts>, StartError> {
    let config = context.config;
    let Some(ensemble) = &config.ensemble else {
        return Ok(None);
    };
    let files = MembershipFiles::new(config.source.clone(), ensemble.dynamic_file.is_some());
    if config.features.reconfig_enabled {
        // The first installed list moves the members out of zoo.cfg.
        files
            .back_up()
            .map_err(|source| StartError::Backup { source })?;
    }
    if let Some(check) = context.tls.member_check() {
        check.set_hosts(start.lists.hosts());
    }
    let ports = ports(context, ensemble);
    Ok(Some(MemberParts {
        start,
        ports,
        files,
    }))
}

fn ports(context: &MemberContext<'_>, ensemble: &Ensemble) -> MemberPorts {
    let (config, clients) = (context.config, context.clients);
    let tick = Duration::from_millis(config.tick_time_ms.into());
    let ticks = |ticks: u32| tick.saturating_mul(ticks);
    let runtime = Handle::current();
    let sink = |visitor| sink(context.core, visitor);
    let stall = ticks(ensemble.init_limit_ticks);
    let auth = Arc::new(QuorumAuth::new(ensemble, &config.auth.sasl));
    let port_settings = PortSettings {
        auth: auth.clone(),
        limits: field_limits(config),
        stall,
        dirs: context.dirs.clone(),
        snapshot_size_factor: config.storage.snapshot_size_factor,
        metrics: clients.metrics.clone(),
        acceptor: context.tls.of_members(),
        port: Port::Learners,
    };
    let port = |settings| {
        let (runtime, state) = (runtime.clone(), clients.state.clone());
        LearnerPort::new(runtime, state, settings, sink(Visitor::Passing))
    };
    let retry_delay = ensemble.learner.connect_retry_delay_ms;
    let auth_of_mesh = auth.clone();
    let learner_settings = LearnerSettings {
        auth,
        dial: Patience {
            retry_delay: Duration::from_millis(retry_delay.into()),
            time_limit: ticks(ensemble.connect_limit_ticks),
        },
        limits: field_limits(config),
        stall,
        tree: clients.state.tree.read().settings().clone(),
        connector: context.tls.to_members(),
        left_work: left_work(context.errands),
    };
    let oracle = ensemble.oracle_path.clone().map(|path| OracleWatch {
        runtime: runtime.clone(),
        file: Arc::new(Mutex::new(OracleFile::new(path))),
        core: context.inputs.clone(),
    });
    let observers = ensemble.learner.observer_master_port.map(|_| {
        let settings = PortSettings {
            port: Port::Observers,
            ..port_settings.clone()
        };
        port(settings)
    });
    MemberPorts {
        mesh: mesh(context, ensemble, tick, auth_of_mesh),
        learners: port(port_settings),
        observers,
        dialer: Dialer::new(runtime.clone(), learner_settings, sink(Visitor::CanSync)),
        leader: None,
        read_ahead: Vec::new(),
        observers_ahead: Vec::new(),
        elections_ahead: Vec::new(),
        oracle,
        listen_on_all_ips: ensemble.listen_on_all_ips,
        member_check: context.tls.member_check(),
        failure: context.failure.clone(),
    }
}

fn mesh(
    context: &MemberContext<'_>,
    ensemble: &Ensemble,
    tick: Duration,
    auth: Arc<QuorumAuth>,
) -> Mesh {
    let told = context.core.clone();
    let sink = Box::new(move |event| {
        told.send(ToCore::Mesh(event));
    });
    let (acceptor, connector) = (context.tls.of_members(), context.tls.to_members());
    let settings = MeshSettings::new(ensemble, tick, acceptor, connector, auth);
    Mesh::start(settings, sink)
}

/// Returns the access to the group that the core leaves for the task that delivers the leader's
/// packets.
fn left_work(errands: &Arc<Errands>) -> LeftWork {
    let errands = errands.clone();
    Arc::new(move || Some(Box::new(errands.take()?)))
}

/// Returns a sink that passes events to the core. The task that delivers packets visits the core.
fn sink(core: &CoreHandle, visitor: Visitor) -> EventSink {
    let told = core.clone();
    Arc::new(move |event| {
        let is_packets = event.is_packets();
        told.put(ToCore::Peer(event));
        // The task that reads packets does not hold locks.
        if is_packets {
            told.run_inline(visitor)
        } else {
            told.wake()
        }
    })
}
