//! One server for a test.

use std::time::Duration;

use proto::SessionId;
use tempfile::TempDir;
use testkit::faults::Faults;

use super::{expiry, ports};
use crate::{Server, ServerBuilder, ServerError};

/// A standalone server, with its data in a temporary directory.
///
/// Session timeouts of 200 ms to 60 s are granted, because `tickTime` is 100.
#[derive(Debug)]
#[must_use = "dropping it stops the server"]
pub struct TestServer {
    server: Option<Server>,
    builder: ServerBuilder,
    connect_string: String,
    faults: Faults,
    // Declared after the server, so that it is dropped last.
    _directory: TempDir,
}

/// Prefix for the names of data directories.
const PREFIX: &str = "zoarium-test-server-";

/// Adds settings that suit tests, and refuses unknown settings.
pub(super) fn of_tests(builder: ServerBuilder) -> ServerBuilder {
    builder
        .strict()
        .setting("tickTime", 100)
        .setting("maxSessionTimeout", 60_000)
        .setting("preAllocSize", 64)
}

pub(super) fn directory() -> Result<TempDir, ServerError> {
    let named = tempfile::Builder::new().prefix(PREFIX).tempdir();
    named.map_err(|error| ServerError::Test {
        what: "cannot create a directory for the data",
        why: error.to_string(),
    })
}

impl TestServer {
    /// Starts a server. Returns when it serves.
    ///
    /// # Errors
    /// If [`ServerBuilder::start`] fails.
    pub async fn start() -> Result<Self, ServerError> {
        Self::start_with(|builder| builder).await
    }

    /// Starts a server with additional settings from the caller. Returns when it serves.
    ///
    /// # Errors
    /// If [`ServerBuilder::start`] fails.
    pub async fn start_with(
        set_up: impl FnOnce(ServerBuilder) -> ServerBuilder,
    ) -> Result<Self, ServerError> {
        let directory = directory()?;
        let port = ports::free(1)?.first().map_or(0, |address| address.port());
        let builder = Server::builder().data_dir(directory.path()).port(port);
        let builder = set_up(of_tests(builder));
        let faults = Faults::default();
        let server = builder.clone().faults(faults.clone()).start().await?;
        Ok(Self {
            connect_string: server.connect_string(),
            server: Some(server),
            builder,
            faults,
            _directory: directory,
        })
    }

    /// Returns the connect string for clients. It does not change when the server restarts.
    pub fn connect_string(&self) -> &str {
        &self.connect_string
    }

    /// Ends the server as if its process had been killed (docs/EMBEDDING.md describes the
    /// differences), and waits until it has ended. Its data remains.
    pub async fn kill(&mut self) {
        if let Some(server) = self.server.take() {
            self.faults.switch_disk_off();
            server.kill().await;
        }
    }

    /// Starts the server again with its data and its port, and waits until it serves. A running
    /// server is first stopped.
    ///
    /// # Errors
    /// If the running server has failed, or if [`ServerBuilder::start`] fails.
    pub async fn restart(&mut self) -> Result<(), ServerError> {
        if let Some(server) = self.server.take() {
            server.stop().await?;
        }
        self.faults = Faults::default();
        let starting = self.builder.clone().faults(self.faults.clone()).start();
        self.server = Some(starting.await?);
        Ok(())
    }

    /// Delays each sync of the disk by `delay`. Zero ends the delay.
    pub fn slow(&self, delay: Duration) {
        self.faults.slow_disk_down(delay);
    }

    /// Ends a session. When this method returns, the ephemeral znodes of the session have been
    /// deleted. The client of the session is notified when it reconnects.
    ///
    /// # Errors
    /// If the session does not exist, or if the server does not run.
    pub async fn expire(&self, session: SessionId) -> Result<(), ServerError> {
        expiry::expire(&self.connect_string, session).await
    }

    /// Stops the server, and waits until all its resources are released.
    ///
    /// # Errors
    /// If the server has already failed.
    pub async fn stop(mut self) -> Result<(), ServerError> {
        match self.server.take() {
            Some(server) => server.stop().await,
            None => Ok(()),
        }
    }
}
