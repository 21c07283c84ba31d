//! The ports for operators, and their access to the running server.

mod admin_view;

use std::net::SocketAddr;
use std::sync::Arc;

use admin::http::{BindError, Workers};
use admin::ports::exporter::{self, ExporterTask};
use admin::ports::health::{self, HealthTask};
use admin::served::{Operations, Readers, Reservation, Served, TakenSnapshot};
use admin::server::{AdminTask, Parts};
use admin::token::AdminToken;
use config::Config;
use frontend::{ConnectionContext, LiveView, connect_in_process};
use host::ServerState;
use metrics::Metrics;
use metrics::role::RoleCell;
use metrics::traces::Traces;
use proto::Zxid;
use quorum::LearnerLinks;
use recovery::LogEnd;
use replica::State as _;
use replica::field_limits;
use replica::session::Passwords;
use storage::DataDirs;
use tokio::task::AbortHandle;
use transport::tls::Connector;

use self::admin_view::LiveAdminView;
use crate::assemble::core::CoreHandle;
use crate::assemble::inbox::CoreMessage;
use crate::assemble::tls::PortTls;
use crate::disk::SnapshotRequests;
use crate::error::StartError;

/// Ports for operators, and the threads that handle their requests.
pub(super) struct Operators {
    admin: Option<AdminTask>,
    exporter: Option<ExporterTask>,
    health: Option<HealthTask>,
    workers: Workers,
}

/// Parts of a running server that operators use.
pub(super) struct Running {
    pub(super) context: Arc<ConnectionContext>,
    pub(super) view: Arc<LiveView>,
    pub(super) role: Arc<RoleCell>,
    pub(super) snapshots: SnapshotRequests,
    pub(super) core: CoreHandle,
    pub(super) dirs: DataDirs,
    /// Last transaction of the log that is on disk.
    pub(super) log_end: Arc<LogEnd>,
    /// Learners that are connected to this server, by port.
    pub(super) links: Vec<LearnerLinks>,
    /// Connector to the admin ports of other members.
    pub(super) to_admin: Connector,
}

impl Operators {
    /// Opens the configured ports. They answer requests even before the data is loaded.
    ///
    /// # Errors
    /// If the server cannot listen on an address, or if a thread cannot be started.
    pub(super) async fn begin(
        config: &Arc<Config>,
        tls: &PortTls,
        metrics: &Arc<Metrics>,
        readers: &Readers,
    ) -> Result<Self, StartError> {
        let workers = Workers::start().map_err(|source| StartError::Thread {
            name: "admin",
            source,
        })?;
        let health = health::begin(config)
            .await
            .map_err(|BindError { address, source }| StartError::BindHealth { address, source })?;
        let exporter =
            exporter::begin(config, &workers)
                .await
                .map_err(|BindError { address, source }| StartError::BindExporter {
                    address,
                    source,
                })?;
        let parts = Parts {
            config: config.clone(),
            acceptor: tls.of_admin(),
            metrics: metrics.clone(),
            workers: workers.clone(),
            readers: readers.clone(),
            secrets_hash: Passwords::configured(config).fingerprint(),
        };
        let admin = admin::server::begin(parts)
            .await
            .map_err(|BindError { address, source }| StartError::BindAdmin { address, source })?;
        Ok(Self {
            admin,
            exporter,
            health,
            workers,
        })
    }

    /// Connects the ports to the running server.
    pub(super) fn serve(&self, running: Running) {
        if let Some(task) = &self.health {
            task.answers.serve(running.role.clone());
        }
        if let Some(task) = &self.exporter {
            task.answers.serve(running.view.clone());
        }
        if let Some(task) = &self.admin {
            let to_admin = running.to_admin.clone();
            task.answers.serve(served(running));
            task.answers.query_members(to_admin);
        }
    }

    /// Keeps the ports open. Returns the handles that end the tasks for operators.
    pub(super) fn into_tasks(
        self,
        config: &Arc<Config>,
        traces: Option<Arc<Traces>>,
        role: Arc<RoleCell>,
    ) -> Vec<AbortHandle> {
        let token = AdminToken::new(config.clone()).follow(self.workers);
        let mut tasks = vec![tokio::spawn(token).abort_handle()];
        tasks.extend(send_traces(config, traces, role));
        tasks.extend(self.admin.and_then(AdminTask::keep));
        tasks.extend(self.exporter.and_then(ExporterTask::keep));
        tasks.extend(self.health.and_then(HealthTask::keep));
        tasks
    }
}

/// Sends traces of writes, if configured.
#[cfg(feature = "traces")]
fn send_traces(
    config: &Config,
    traces: Option<Arc<Traces>>,
    role: Arc<RoleCell>,
) -> Option<AbortHandle> {
    let sending = admin::traces::send(config, traces, role)?;
    Some(tokio::spawn(sending).abort_handle())
}

/// Does nothing, because a server of this build does not start if traces are configured.
#[cfg(not(feature = "traces"))]
fn send_traces(_: &Config, _: Option<Arc<Traces>>, _: Arc<RoleCell>) -> Option<AbortHandle> {
    None
}

fn served(running: Running) -> Served {
    let (live, snapshots) = (running.view, running.snapshots);
    let state = live.server_state().clone();
    let record_limits = field_limits(live.config());
    let view = LiveAdminView::new(live, snapshots.clone(), running.links);
    Served {
        view: Arc::new(view),
        dirs: running.dirs,
        log_end: running.log_end,
        record_limits,
        operations: operations(state, running.context, snapshots, running.core),
    }
}

fn operations(
    state: Arc<ServerState>,
    context: Arc<ConnectionContext>,
    snapshots: SnapshotRequests,
    core: CoreHandle,
) -> Operations {
    let reserving = context.clone();
    let (counting, refusing) = (context.clone(), context.clone());
    Operations {
        take_snapshot: Box::new(move || {
            let snapshots = snapshots.clone();
            Box::pin(async move {
                let taken = snapshots.take().await;
                taken.map(|taken| TakenSnapshot {
                    zxid: taken.zxid,
                    len: taken.len,
                    file: taken.file,
                })
            })
        }),
        restore: Arc::new(move |order| {
            core.send(CoreMessage::Restore(order));
        }),
        committed: Box::new(move || committed(&state)),
        connect: Box::new(move |peer, subject| connect_in_process(&context, peer, subject)),
        reserve: Box::new(move |bytes| {
            let context = reserving.clone();
            Box::pin(async move { Box::new(context.reserve_reply(bytes).await) as Reservation })
        }),
        refuses_logins: Box::new(move |peer| refusing.refuses_logins(peer)),
        login_failed: Box::new(move |peer: SocketAddr| counting.note_failed_login(peer)),
    }
}

/// Returns the last transaction of the tree; `None` while the tree may contain uncommitted
/// transactions.
fn committed(state: &ServerState) -> Option<Zxid> {
    let tree = state.tree();
    let is_established = state.generation().is_established();
    is_established.then(|| tree.last_zxid())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::assemble::server::test_server;

    /// Between DIFF and UPTODATE, a member's tree and log may contain transactions that will be
    /// truncated.
    #[tokio::test]
    async fn a_backup_excludes_an_unestablished_tree() {
        let dir = tempfile::tempdir().unwrap();
        let server = test_server(dir.path()).await;
        let state = server.frontend.view.server_state().clone();
        assert_eq!(committed(&state), Some(Zxid::ZERO));
        state.begin_unestablished();
        assert_eq!(committed(&state), None);
        state.establish();
        assert_eq!(committed(&state), Some(Zxid::ZERO));
        server.stop().await;
    }
}
