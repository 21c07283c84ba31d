//! A running server.

use std::net::SocketAddr;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use config::{AuditSettings, Config};
use executor::Queue as _;
use proto::{Sid, Zxid};
use recovery::LogEnd;
use replica::{Input, Service};
use tokio::sync::watch;
use tokio::task::AbortHandle;

use super::core::CoreHandle;
use super::inbox::ToCore;
use super::{report, start};
use crate::client::clients::Clients;
use crate::disk::SnapshotEnd;
use crate::error::StartError;
use crate::failure::Failure;
use crate::faults::Faults;
use crate::limits;
use crate::recorder::Readers;

/// A server that is up. Dropping it without [`Server::stop`] leaves its threads running.
pub struct Server {
    pub(crate) clients: Arc<Clients>,
    pub(crate) failure: Failure,
    pub(crate) core: CoreHandle,
    /// Listeners and timers.
    pub(crate) tasks: Vec<AbortHandle>,
    /// The core, history, log and snapshot threads, in the order in which they end.
    pub(crate) threads: Vec<JoinHandle<()>>,
    pub(crate) snapshot_end: SnapshotEnd,
    pub(crate) started: Started,
    pub(crate) readers: Readers,
    /// Up to where the log is on disk.
    pub(crate) log_end: Arc<LogEnd>,
}

/// What a server found and where it listens.
#[derive(Debug, Clone)]
pub struct Started {
    /// Where clients connect; `None` without a `clientPort`.
    pub client_address: Option<SocketAddr>,
    /// Where they connect with TLS; `None` without a `secureClientPort`.
    pub secure_client_address: Option<SocketAddr>,
    /// This server's id in its ensemble; `None` if it stands alone.
    pub member: Option<Sid>,
    /// Last transaction of the recovered history.
    pub zxid: Zxid,
    /// Znodes, the root and system znodes included.
    pub znodes: usize,
    /// Sessions that live on.
    pub sessions: usize,
    /// Transactions read from the log after the snapshot.
    pub replayed: u64,
}

impl Server {
    /// Recovers the data directory and serves it. Must be called within a tokio runtime.
    ///
    /// # Errors
    /// If the data directory cannot be used or recovered, or an address cannot be bound; nothing
    /// is left running then.
    pub async fn start(config: Arc<Config>) -> Result<Self, StartError> {
        Self::start_with(config, Faults::default()).await
    }

    /// The same with a server that tests may do something to.
    ///
    /// # Errors
    /// As [`Self::start`].
    pub async fn start_with(config: Arc<Config>, faults: Faults) -> Result<Self, StartError> {
        start::start(config, faults).await
    }

    /// What was recovered, and where clients connect.
    pub fn started(&self) -> &Started {
        &self.started
    }

    /// Answers queries about what was changed; `None` without a change history, and while it is not
    /// open.
    pub fn history(&self) -> Option<history::Reader> {
        self.readers.get()
    }

    /// How clients are served, now and from here on. A server that stands alone decides when it has started, a member
    /// takes writes while there is a leader.
    pub fn serving(&self) -> watch::Receiver<Service> {
        self.clients.serving()
    }

    /// Writes to the log what the server does at the moment: its threads, queues and sessions.
    pub async fn log_state(&self) {
        let (clients, inbox) = (self.clients.clone(), self.core.inbox().len());
        let on_disk = self.log_end.get();
        let logging = blocking::run(move || report::log(&clients, inbox, on_disk));
        if let Err(error) = logging.await {
            tracing::error!(err = %error, "cannot say what the server does");
        }
    }

    /// Waits until the server cannot go on (disk full, failed fsync): the exit code.
    pub async fn failed(&self) -> u8 {
        let exit_code = self.failure.reported().await;
        self.clients.metrics.unrecoverable_error_count.inc();
        exit_code
    }

    /// Stops: no new connections, what was proposed is made durable and answered, then all
    /// connections are closed. Sessions live on in the data directory. A snapshot under way gets
    /// some seconds to be finished.
    pub async fn stop(self) {
        if let Some(audit) = &self.clients.audit {
            audit.server_stops();
        }
        for task in &self.tasks {
            task.abort();
        }
        let patience = self.clients.settings.throttle_shutdown_timeout;
        self.clients.request_throttle.stop(patience).await;
        self.core.send(ToCore::Input(Input::Shutdown));
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
        self.clients.registry.close_all();
        log_limiter::report_all_suppressed();
        if let Some(audit) = &self.clients.audit {
            audit.finish();
        }
    }

    /// Ends the threads of a server that is to be gone as if its process had been killed: nobody is answered any more,
    /// nothing is waited for. Its disk must be off ([`Faults::switch_disk_off`]) and its runtime must have ended, which
    /// closes its connections.
    pub fn abandon(self) {
        self.core.send(ToCore::Input(Input::Shutdown));
        drop(self.core);
        self.snapshot_end.wait(Duration::ZERO);
        self.threads.into_iter().for_each(join);
    }

    /// Writes what is left of the audit log of a server that has failed, and is not stopped.
    pub fn end_audit(&self) {
        if let Some(audit) = &self.clients.audit {
            audit.server_stops();
            audit.finish();
        }
    }

    /// Notes in the audit log that the server did not start, by a configuration that was refused.
    ///
    /// # Errors
    /// If the log cannot be opened.
    pub fn audit_refused_start(settings: &AuditSettings) -> Result<(), StartError> {
        start::audit_refusal(settings)
    }
}

fn join(thread: JoinHandle<()>) {
    if thread.join().is_err() {
        tracing::error!("a thread of the server ended by a panic");
    }
}

/// A server without a client port on `data_dir`.
#[cfg(test)]
pub(crate) async fn test_server(data_dir: &std::path::Path) -> Server {
    let text = format!("dataDir={}\nadmin.enableServer=false\n", data_dir.display());
    let raw = config::RawConfig::parse("zoo.cfg".as_ref(), text.as_bytes()).unwrap();
    let flags = config::SystemProperties::new();
    let config = Config::parse(raw, flags, &mut config::Nowhere).unwrap();
    Server::start(Arc::new(config)).await.unwrap()
}
