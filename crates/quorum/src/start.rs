//! Start of the connections of a member.

use std::sync::Arc;
use std::time::Duration;

use config::{Config, Ensemble};
use host::ServerState;
use jute::Limits;
use metrics::Metrics;
use replica::Port;
use storage::DataDirs;
use tokio::runtime::Handle;
use tokio::sync::Mutex;
use transport::DialRetries;
use transport::tls::{Acceptor, Connector, MemberCheck};

use crate::auth::QuorumAuth;
use crate::mesh::{Mesh, MeshSettings, MeshSink, OracleFile};
use crate::peer::{DeferredWork, Dialer, LearnerPort, LearnerSettings, PeerSink, PortSettings};
use crate::ports::{MemberPorts, OracleWatch};

/// Parts of a server that the connections of a member use.
pub struct PortsStart<'a> {
    /// Configuration of the server.
    pub config: &'a Config,
    /// Ensemble in the configuration.
    pub ensemble: &'a Ensemble,
    /// Maximum size of a string or buffer in a packet or snapshot, in bytes.
    pub limits: Limits,
    /// Tree, which is sent to learners.
    pub state: Arc<ServerState>,
    /// Metrics of the learners' queues.
    pub metrics: Arc<Metrics>,
    /// Directories of the log and the snapshots.
    pub dirs: DataDirs,
    /// Acceptor for connections from other members.
    pub acceptor: Acceptor,
    /// Connector for connections to other members.
    pub connector: Connector,
    /// Check that distinguishes members from other peers with a trusted certificate. `None` without
    /// TLS.
    pub member_check: Option<Arc<MemberCheck>>,
    /// Source of work for the tasks that deliver the leader's packets.
    pub deferred_work: DeferredWork,
    /// Receiver of events of the election connections.
    pub of_elections: MeshSink,
    /// Receiver of events of learners, and of the oracle's answers.
    pub of_learners: PeerSink,
    /// Receiver of events of the connection to the leader.
    pub of_leader: PeerSink,
}

impl MemberPorts {
    /// Starts the election connections. The other ports are closed until the replica opens them.
    /// Must be called within a tokio runtime.
    pub fn start(start: PortsStart<'_>) -> Self {
        let (config, ensemble) = (start.config, start.ensemble);
        let runtime = Handle::current();
        let tick = Duration::from_millis(config.tick_time_ms.into());
        let stall = tick.saturating_mul(ensemble.init_limit_ticks);
        let auth = Arc::new(QuorumAuth::new(ensemble, &config.auth.sasl));
        let port_settings = PortSettings {
            auth: auth.clone(),
            limits: start.limits,
            stall,
            dirs: start.dirs,
            snapshot_size_factor: config.storage.snapshot_size_factor,
            metrics: start.metrics,
            acceptor: start.acceptor.clone(),
            port: Port::Learners,
        };
        let learner_settings = LearnerSettings {
            auth: auth.clone(),
            dial: DialRetries {
                retry_delay: Duration::from_millis(ensemble.learner.connect_retry_delay_ms.into()),
                time_limit: tick.saturating_mul(ensemble.connect_limit_ticks),
            },
            limits: start.limits,
            stall,
            tree: start.state.tree.read().settings().clone(),
            connector: start.connector.clone(),
            deferred_work: start.deferred_work,
        };
        let mesh_settings =
            MeshSettings::new(ensemble, tick, start.acceptor, start.connector, auth);
        let oracle = ensemble.oracle_path.clone().map(|path| OracleWatch {
            runtime: runtime.clone(),
            file: Arc::new(Mutex::new(OracleFile::new(path))),
            core: start.of_learners.clone(),
        });
        let port = |settings| {
            let (runtime, state) = (runtime.clone(), start.state.clone());
            LearnerPort::new(runtime, state, settings, start.of_learners.clone())
        };
        let observers = ensemble.learner.observer_master_port.map(|_| {
            port(PortSettings {
                port: Port::Observers,
                ..port_settings.clone()
            })
        });
        Self {
            mesh: Mesh::start(mesh_settings, start.of_elections),
            learners: port(port_settings),
            observers,
            dialer: Dialer::new(runtime.clone(), learner_settings, start.of_leader),
            leader: None,
            read_ahead: Vec::new(),
            observers_ahead: Vec::new(),
            elections_ahead: Vec::new(),
            oracle,
            listen_on_all_ips: ensemble.listen_on_all_ips,
            member_check: start.member_check,
        }
    }
}
