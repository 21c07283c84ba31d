//! A running server inside another program.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::JoinHandle;

use config::Config;
use server::Started;
use testkit::faults::Faults;
use tokio::sync::{mpsc, oneshot, watch};

use super::builder::ServerBuilder;
use super::error::ServerError;
use super::host::{Host, PAUSED_THREADS, RequestedEnd, State};
use super::pause::Pause;

/// A server inside this program.
///
/// Dropping it stops the server like [`Server::stop`] and blocks the calling thread until the
/// server has stopped. This takes several milliseconds, or longer with a slow disk. A process may
/// contain several servers.
#[derive(Debug)]
#[must_use = "dropping it stops the server"]
pub struct Server {
    started: Started,
    data_dir: PathBuf,
    running: Running,
}

/// Guard that stops the server when it is dropped, and waits until all its resources are released.
#[derive(Debug)]
struct Running {
    thread: Option<JoinHandle<()>>,
    stop: Option<oneshot::Sender<RequestedEnd>>,
    pauses: mpsc::UnboundedSender<Pause>,
    /// Current pause; `None` if the server is not paused.
    pause: Option<Pause>,
    state: watch::Receiver<State>,
}

impl Server {
    /// Returns a builder for a server.
    pub fn builder() -> ServerBuilder {
        ServerBuilder::new()
    }

    pub(super) async fn host(
        config: Arc<Config>,
        faults: Option<Faults>,
    ) -> Result<Self, ServerError> {
        let data_dir = config.data_dir.clone();
        let host = Host::spawn(config, faults).map_err(ServerError::Threads)?;
        let running = Running {
            thread: Some(host.thread),
            stop: Some(host.stop),
            pauses: host.pauses,
            pause: None,
            state: host.state,
        };
        match host.started.await {
            Ok(started) => Ok(Self {
                started: started?,
                data_dir,
                running,
            }),
            // The server's thread has ended with a panic.
            Err(_) => Err(ServerError::Stopped),
        }
    }

    /// Returns the address for clients, or `None` without a client port.
    pub fn client_address(&self) -> Option<SocketAddr> {
        self.started.client_address
    }

    /// Returns the address for clients with TLS, or `None` without a `secureClientPort`.
    pub fn secure_client_address(&self) -> Option<SocketAddr> {
        self.started.secure_client_address
    }

    /// Returns the connect string for clients without TLS, for example `127.0.0.1:2181`. It is
    /// empty without such a port.
    pub fn connect_string(&self) -> String {
        let address = self.started.client_address;
        address.map(|at| at.to_string()).unwrap_or_default()
    }

    /// Returns the data directory.
    pub fn data_dir(&self) -> &Path {
        &self.data_dir
    }

    /// Returns whether the server currently accepts reads and writes.
    pub fn is_serving(&self) -> bool {
        matches!(*self.running.state.borrow(), State::Serving { .. })
    }

    /// Returns whether the server accepts reads and writes, and leads an ensemble or is standalone.
    pub fn is_leading(&self) -> bool {
        *self.running.state.borrow() == State::Serving { leads: true }
    }

    /// Waits until the server accepts reads and writes. A member of an ensemble needs a leader for
    /// this.
    ///
    /// # Errors
    /// If the server fails.
    pub async fn wait_until_serving(&self) -> Result<(), ServerError> {
        let mut state = self.running.state.clone();
        let found = state.wait_for(|state| *state != State::Waiting).await;
        match found.map(|state| *state) {
            Ok(State::Ended(exit_code)) => Err(ended(exit_code)),
            Ok(_) => Ok(()),
            Err(_) => Err(ServerError::Stopped),
        }
    }

    /// Returns the reason why the server ended, or `None` while it runs.
    pub(crate) fn failure(&self) -> Option<ServerError> {
        match *self.running.state.borrow() {
            State::Ended(exit_code) => Some(ended(exit_code)),
            State::Waiting | State::Serving { .. } => None,
        }
    }

    /// Waits until the server has failed and stopped, for example because its disk is full or a
    /// sync failed. The process of `zoarium server` would then end.
    pub async fn failed(&self) -> ServerError {
        self.running
            .ended()
            .await
            .err()
            .unwrap_or(ServerError::Stopped)
    }

    /// Stops the server and waits until all its resources are released: threads, sockets, and the
    /// lock on its directory. Pending proposals are first made durable and answered. Sessions
    /// persist in the data.
    ///
    /// # Errors
    /// [`ServerError::Failed`] if the server has already failed.
    pub async fn stop(mut self) -> Result<(), ServerError> {
        self.running.request_end(RequestedEnd::Stop);
        self.running.ended().await
    }

    /// Requests that the server stop. Dropping the server waits until it has stopped.
    pub(crate) fn request_stop(&mut self) {
        self.running.request_end(RequestedEnd::Stop);
    }

    /// Pauses the server, as SIGSTOP pauses a process, and waits until it is paused. Its connections
    /// stay open. [`Self::resume`], or the end of the server, ends the pause.
    pub(crate) async fn pause(&mut self) {
        self.running.pause().await;
    }

    /// Ends the pause, if the server is paused.
    pub(crate) fn resume(&mut self) {
        self.running.resume();
    }

    /// Returns whether the server is paused.
    pub(crate) fn is_paused(&self) -> bool {
        self.running.pause.is_some()
    }

    /// Ends the server as if its process had been killed, and waits until all its resources are
    /// released.
    pub(crate) async fn kill(mut self) {
        self.running.request_end(RequestedEnd::Kill);
        // An earlier failure no longer matters.
        let _ = self.running.ended().await;
    }
}

impl Running {
    async fn pause(&mut self) {
        if self.pause.is_some() {
            return;
        }
        let pause = self.pause.insert(Pause::default()).clone();
        // This fails only if the server has already ended.
        if self.pauses.send(pause.clone()).is_ok() {
            tokio::select! {
                () = pause.entered(PAUSED_THREADS) => {}
                _ = self.ended() => {}
            }
        }
    }

    fn resume(&mut self) {
        if let Some(pause) = self.pause.take() {
            pause.end();
        }
    }

    fn request_end(&mut self, requested_end: RequestedEnd) {
        // A paused server could not stop.
        self.resume();
        // This fails only if the server has already ended.
        let _ = self.stop.take().map(|stop| stop.send(requested_end));
    }

    async fn ended(&self) -> Result<(), ServerError> {
        let mut state = self.state.clone();
        let found = state.wait_for(|state| matches!(state, State::Ended(_)));
        match found.await.map(|state| *state) {
            Ok(State::Ended(Some(exit_code))) => Err(ended(Some(exit_code))),
            Ok(_) => Ok(()),
            Err(_) => Err(ServerError::Stopped),
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.request_end(RequestedEnd::Stop);
        if self
            .thread
            .take()
            .is_some_and(|thread| thread.join().is_err())
        {
            tracing::error!("the thread of a server panicked");
        }
    }
}

fn ended(exit_code: Option<u8>) -> ServerError {
    match exit_code {
        Some(exit_code) => ServerError::Failed { exit_code },
        None => ServerError::Stopped,
    }
}
