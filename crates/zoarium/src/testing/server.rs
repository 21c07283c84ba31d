//! One server for a test.

use std::time::Duration;

use server::Faults;
use tempfile::TempDir;

use super::{expiry, ports};
use crate::{Server, ServerBuilder, ServerError};

/// A server that stands alone, with its data in a directory of its own.
///
/// Sessions of 200 ms to 60 s are granted: `tickTime` is 100.
#[derive(Debug)]
pub struct TestServer {
    server: Option<Server>,
    builder: ServerBuilder,
    connect_string: String,
    faults: Faults,
    // Behind the server: it is removed last.
    _directory: TempDir,
}

/// Settings that suit tests.
pub(super) fn of_tests(builder: ServerBuilder) -> ServerBuilder {
    builder
        .setting("tickTime", 100)
        .setting("maxSessionTimeout", 60_000)
        .setting("preAllocSize", 64)
}

pub(super) fn directory() -> Result<TempDir, ServerError> {
    tempfile::tempdir().map_err(|error| ServerError::Test {
        what: "no directory for the data",
        why: error.to_string(),
    })
}

impl TestServer {
    /// Starts a server, which serves when this returns.
    ///
    /// # Errors
    /// As [`ServerBuilder::start`].
    pub async fn start() -> Result<Self, ServerError> {
        Self::start_with(|builder| builder).await
    }

    /// The same, set up by the caller.
    ///
    /// # Errors
    /// As [`ServerBuilder::start`].
    pub async fn start_with(
        set_up: impl FnOnce(ServerBuilder) -> ServerBuilder,
    ) -> Result<Self, ServerError> {
        let directory = directory()?;
        let port = ports::free(1)?.first().map_or(0, |address| address.port());
        let builder = Server::builder().data_dir(directory.path()).port(port);
        let builder = set_up(of_tests(builder));
        let faults = Faults::new();
        let server = builder.clone().faults(faults.clone()).start().await?;
        Ok(Self {
            connect_string: server.connect_string(),
            server: Some(server),
            builder,
            faults,
            _directory: directory,
        })
    }

    /// What clients are given to connect. It stays the same when the server starts again.
    pub fn connect_string(&self) -> &str {
        &self.connect_string
    }

    /// Ends the server as if its process had been killed (docs/EMBEDDING.md says what that is here), and waits until it
    /// is gone. Its data stays.
    pub async fn kill(&mut self) {
        if let Some(server) = self.server.take() {
            self.faults.switch_disk_off();
            server.kill().await;
        }
    }

    /// Starts it again on its data and its port, and waits until it serves; one that runs is stopped before.
    ///
    /// # Errors
    /// As [`ServerBuilder::start`].
    pub async fn restart(&mut self) -> Result<(), ServerError> {
        if let Some(server) = self.server.take() {
            server.stop().await?;
        }
        self.faults = Faults::new();
        let starting = self.builder.clone().faults(self.faults.clone()).start();
        self.server = Some(starting.await?);
        Ok(())
    }

    /// Each sync of its disk takes so much longer; zero to end that.
    pub fn slow(&self, delay: Duration) {
        self.faults.slow_disk_down(delay);
    }

    /// Ends a session: its ephemerals are gone when this returns, and its client is told.
    ///
    /// # Errors
    /// There is no such session, or the server does not run.
    pub async fn expire(&self, session: i64) -> Result<(), ServerError> {
        expiry::expire(&self.connect_string, session).await
    }

    /// Stops it, and waits until nothing of it is left.
    ///
    /// # Errors
    /// It could not go on before.
    pub async fn stop(mut self) -> Result<(), ServerError> {
        match self.server.take() {
            Some(server) => server.stop().await,
            None => Ok(()),
        }
    }
}
