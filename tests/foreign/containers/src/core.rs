//! Images and containers.

use std::marker::PhantomData;
use std::time::Duration;

use crate::server::Server;

/// Condition of a successful start.
#[derive(Debug)]
pub enum WaitFor {
    /// The command of the health check.
    Healthcheck,
}

/// A health check. The stand-in uses a different one: the server answers a four-letter word or,
/// over TLS, accepts a connection.
#[derive(Debug, Default)]
pub struct Healthcheck;

impl Healthcheck {
    /// Ignores the command.
    #[must_use]
    pub fn with_cmd<S>(self, _: impl Iterator<Item = S>) -> Self {
        self
    }

    /// Ignores the interval.
    #[must_use]
    pub fn with_interval(self, _: Duration) -> Self {
        self
    }

    /// Ignores the number of retries.
    #[must_use]
    pub fn with_retries(self, _: u32) -> Self {
        self
    }
}

/// An image. Its tag is ignored: PATH selects the server.
#[derive(Debug, Default)]
pub struct GenericImage {
    flags: String,
}

impl GenericImage {
    /// Returns the image of this name.
    pub fn new(_name: &str, _tag: &str) -> Self {
        Self::default()
    }

    /// Sets a variable. `SERVER_JVMFLAGS` contains the flags of the server.
    #[must_use]
    pub fn with_env_var(mut self, name: &str, value: String) -> Self {
        if name == "SERVER_JVMFLAGS" {
            self.flags = value;
        }
        self
    }

    /// Ignores the health check.
    #[must_use]
    pub fn with_healthcheck(self, _: Healthcheck) -> Self {
        self
    }

    /// Ignores the condition: `run` always waits until the server is healthy.
    #[must_use]
    pub fn with_wait_for(self, _: WaitFor) -> Self {
        self
    }
}

/// An image with the settings of its container.
#[derive(Debug)]
pub struct RunnableImage<I> {
    pub(crate) flags: String,
    /// Paths on this machine and in the container.
    pub(crate) volumes: Vec<(String, String)>,
    pub(crate) has_network_of_host: bool,
    image: PhantomData<I>,
}

impl From<GenericImage> for RunnableImage<GenericImage> {
    fn from(image: GenericImage) -> Self {
        Self {
            flags: image.flags,
            volumes: Vec::new(),
            has_network_of_host: false,
            image: PhantomData,
        }
    }
}

impl<I> RunnableImage<I> {
    /// Adds a file or directory of this machine.
    #[must_use]
    pub fn with_volume(mut self, (here, there): (&str, &str)) -> Self {
        self.volumes.push((here.to_owned(), there.to_owned()));
        self
    }

    /// Selects a network.
    #[must_use]
    pub fn with_network(mut self, name: &str) -> Self {
        self.has_network_of_host = name == "host";
        self
    }
}

/// A process that represents a container. It ends when this value is dropped.
#[derive(Debug)]
pub struct Container<'d, I> {
    server: Server,
    image: PhantomData<(&'d (), I)>,
}

impl<I> Container<'_, I> {
    pub(crate) fn run(image: RunnableImage<I>) -> Self {
        let server = Server::prepare(&image.flags, &image.volumes, image.has_network_of_host);
        server.start();
        Self {
            server,
            image: PhantomData,
        }
    }

    /// Returns the port on this machine.
    pub fn get_host_port(&self, _port: u16) -> u16 {
        self.server.port()
    }

    /// Ends the server.
    pub fn stop(&self) {
        self.server.stop();
    }

    /// Starts the server again.
    pub fn start(&self) {
        self.server.start();
    }

    /// Returns the standard output, from now on.
    pub fn stdout(&self) -> LogStream {
        self.server.log()
    }
}

pub use crate::server::LogStream;
