//! A running server and its public interface.

use std::net::SocketAddr;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use admin::audit::AuditWriter;
use admin::served::Readers;
use config::{AuditSettings, Config};
use executor::{Queue as _, WaitingThread};
use frontend::{Frontend, log_state};
use metrics::Metrics;
use proto::{Sid, Zxid};
use recovery::LogEnd;
use replica::{Input, Service};
use storage::{Disk, RealDisk};
use tokio::sync::watch;
use tokio::task::AbortHandle;
use transport::Interceptor;

use super::core::CoreHandle;
use super::inbox::CoreMessage;
use super::start;
use crate::disk::SnapshotEnd;
use crate::error::StartError;
use crate::failure::Failure;
use crate::limits;

/// A running server. Dropping it without [`Server::stop`] leaves its threads running.
pub struct Server {
    pub(crate) frontend: Frontend,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) failure: Failure,
    pub(crate) core: CoreHandle,
    /// Tasks of listeners and timers.
    pub(crate) tasks: Vec<AbortHandle>,
    /// The core, history, log and snapshot threads, in the order in which they end.
    pub(crate) threads: Vec<JoinHandle<()>>,
    pub(crate) snapshot_end: SnapshotEnd,
    pub(crate) started: Started,
    #[cfg_attr(
        not(feature = "history"),
        allow(dead_code, reason = "there is no history to read")
    )]
    pub(crate) readers: Readers,
    /// Audit log; `None` without one.
    pub(crate) audit: Option<Arc<AuditWriter>>,
    /// Last transaction of the log that is on disk.
    pub(crate) log_end: Arc<LogEnd>,
}

/// Recovered data and addresses of a server.
#[derive(Debug, Clone)]
pub struct Started {
    /// Address for clients; `None` without a `clientPort`.
    pub client_address: Option<SocketAddr>,
    /// Address for clients with TLS; `None` without a `secureClientPort`.
    pub secure_client_address: Option<SocketAddr>,
    /// Id of this member; `None` without an ensemble.
    pub member: Option<Sid>,
    /// Last transaction of the recovered tree.
    pub zxid: Zxid,
    /// Number of znodes, including the root and system znodes.
    pub znodes: usize,
    /// Number of live sessions.
    pub sessions: usize,
    /// Number of transactions read from the log after the snapshot.
    pub replayed: u64,
}

impl Server {
    /// Recovers the data directory and serves it. Must be called within a tokio runtime.
    ///
    /// # Errors
    /// If the server cannot start (see [`StartError`]). In that case nothing keeps running.
    pub async fn start(config: Arc<Config>) -> Result<Self, StartError> {
        start::start(config, Arc::new(RealDisk), None).await
    }

    /// Starts a server with another disk for its log and its snapshots, and with an interceptor of
    /// its connections to other members. Tests inject faults with them.
    ///
    /// # Errors
    /// If [`Self::start`] would fail.
    pub async fn start_with<D: Disk>(
        config: Arc<Config>,
        disk: D,
        interceptor: Arc<dyn Interceptor>,
    ) -> Result<Self, StartError> {
        start::start(config, Arc::new(disk), Some(interceptor)).await
    }

    /// Returns the recovered data and the addresses of this server.
    pub fn started(&self) -> &Started {
        &self.started
    }

    /// Returns the reader of the change history (feature `history`); `None` without a change
    /// history or while it is not open.
    #[cfg(feature = "history")]
    pub fn history(&self) -> Option<history::Reader> {
        self.readers.get()
    }

    /// Returns a receiver of the current service for clients and its changes. A standalone server
    /// orders requests after its start. A member serves writes while there is a leader.
    pub fn serving(&self) -> watch::Receiver<Service> {
        self.frontend.service.subscribe()
    }

    /// Logs the current state of the server: its threads, queues and sessions.
    pub async fn log_state(&self) {
        let (view, inbox) = (self.frontend.view.clone(), self.core.inbox().len());
        let on_disk = self.log_end.get();
        let logging = blocking::run(move || log_state(&view, inbox, on_disk));
        if let Err(error) = logging.await {
            tracing::error!(err = %error, "cannot log the state of the server");
        }
    }

    /// Waits until the server cannot continue, for example because of a full disk or a failed
    /// fsync. Returns the exit code.
    pub async fn failed(&self) -> u8 {
        let exit_code = self.failure.reported().await;
        self.metrics.unrecoverable_error_count.inc();
        exit_code
    }

    /// Stops the server. Refuses new connections, makes proposals durable and answers them, then
    /// closes all connections. Sessions remain in the data directory. A snapshot in progress has
    /// several seconds to finish.
    pub async fn stop(self) {
        if let Some(audit) = &self.audit {
            audit.log().server_stops();
        }
        for task in &self.tasks {
            task.abort();
        }
        self.frontend.context.stop_admitting().await;
        self.core.send(CoreMessage::Input(Input::Shutdown));
        let (mut threads, snapshot_end) = (self.threads, self.snapshot_end);
        drop(self.core);
        let ended = blocking::run(move || {
            let snapshot = threads.pop();
            threads.into_iter().for_each(join);
            snapshot_end.wait(limits::STOP_SNAPSHOT_GRACE);
            snapshot.into_iter().for_each(join);
        });
        if let Err(error) = ended.await {
            tracing::error!(err = %error, "cannot wait for the server's threads");
        }
        self.frontend.registry.close_all();
        log_limiter::report_all_suppressed();
        if let Some(audit) = &self.audit {
            audit.finish();
        }
    }

    /// Blocks the core for the duration of `wait`, so that a test can pause the server. All workers
    /// of the runtime must already be blocked, so that none of them runs the core.
    pub fn block_core(&self, wait: impl FnOnce() + Send + 'static) {
        self.core.send(CoreMessage::Block(Box::new(wait)));
    }

    /// Returns the core's thread, for a simulated clock.
    pub fn core_thread(&self) -> Arc<dyn WaitingThread> {
        self.core.clone()
    }

    /// Ends the threads of a server as if its process had been killed, without answering clients or
    /// waiting for a snapshot. Its disk ([`Self::start_with`]) must refuse all changes, and its
    /// runtime must have ended, which closes its connections.
    pub fn abandon(self) {
        self.core.send(CoreMessage::Input(Input::Shutdown));
        drop(self.core);
        self.snapshot_end.wait(Duration::ZERO);
        self.threads.into_iter().for_each(join);
    }

    /// Writes the rest of the audit log of a server that has failed and is not stopped.
    pub fn end_audit(&self) {
        if let Some(audit) = &self.audit {
            audit.log().server_stops();
            audit.finish();
        }
    }

    /// Records in the audit log that the server did not start because its configuration was
    /// refused.
    ///
    /// # Errors
    /// If the log cannot be opened.
    pub fn audit_refused_start(settings: &AuditSettings) -> Result<(), StartError> {
        start::audit_refusal(settings)
    }
}

fn join(thread: JoinHandle<()>) {
    if thread.join().is_err() {
        tracing::error!("a thread of the server panicked");
    }
}

/// Starts a server without a client port on `data_dir`.
#[cfg(test)]
pub(crate) async fn test_server(data_dir: &std::path::Path) -> Server {
    let text = format!("dataDir={}\nadmin.enableServer=false\n", data_dir.display());
    let raw = config::RawConfig::parse("zoo.cfg".as_ref(), text.as_bytes()).unwrap();
    let flags = config::SystemProperties::new();
    let config = Config::parse(raw, flags, &mut config::NoSurroundings).unwrap();
    Server::start(Arc::new(config)).await.unwrap()
}
