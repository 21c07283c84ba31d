//! Settings of a [`crate::Client`].

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use transport::Connector;

use crate::chroot::Chroot;
use crate::dial::Dial;
use crate::handshake::{Handshake, Session};
use crate::limits::{FRAME_BYTES_MAX, REQUEST_BYTES_MAX};
#[cfg(feature = "sasl")]
use crate::login::Login;

/// Clock that replaces the system clock, for simulations. Recipes read it for the times that they
/// store in znodes.
pub trait WallClock: fmt::Debug + Send + Sync {
    /// Returns the current time.
    fn now(&self) -> SystemTime;
}

/// Settings of a client and its connections.
#[derive(Debug, Clone)]
#[must_use = "it only contains settings, and `Client::connect` uses them"]
pub struct Options {
    /// `host:port` of each server.
    pub(crate) servers: Vec<Arc<str>>,
    /// Whether to shuffle the servers first to spread clients over them.
    pub(crate) is_shuffled: bool,
    /// Whether a new session replaces an expired one.
    pub(crate) is_renewed: bool,
    /// Requested session timeout. The server clamps it.
    pub(crate) session_timeout: Duration,
    /// Session to continue, instead of a new one.
    pub(crate) session: Option<Session>,
    /// Whether to accept a server without a quorum.
    pub(crate) read_only: bool,
    /// Time limit for the connection to one server, including the handshake and the login.
    pub(crate) connect_timeout: Duration,
    /// Time for which [`Client::connect`](crate::Client::connect) keeps trying all servers if none
    /// of them accepts the session. Zero means one attempt for each server.
    pub(crate) wait: Duration,
    /// Size limit of a reply, in bytes.
    pub(crate) frame_bytes_max: usize,
    /// Size limit of a request, in bytes. A larger request fails before it is sent, and does not
    /// break the connection.
    pub(crate) request_bytes_max: usize,
    /// TLS settings, if the servers require TLS.
    pub(crate) connector: Connector,
    /// Credentials of the SASL login on each connection, if any.
    #[cfg(feature = "sasl")]
    pub(crate) login: Option<Login>,
    /// Dialer that replaces TCP, if any.
    pub(crate) dialer: Option<Arc<dyn Dial>>,
    /// Seed of all random decisions, for reproducible runs. With `None`, the system provides a
    /// random seed.
    pub(crate) seed: Option<u64>,
    /// Clock that replaces the system clock, if any.
    pub(crate) wall_clock: Option<Arc<dyn WallClock>>,
    pub(crate) chroot: Chroot,
}

impl Options {
    /// Returns the defaults for a connection string such as `10.0.0.1:2181,10.0.0.2/app`. The
    /// default port is 2181. The part from the first slash on is the root directory of the client.
    /// The root must exist before the client creates znodes in it.
    ///
    /// ```
    /// use zoarium_client::Options;
    ///
    /// let options = Options::new("zk1:2181,zk2/app");
    /// assert_eq!(options.chroot(), "/app");
    /// assert_eq!(&*options.servers()[1], "zk2:2181");
    /// ```
    pub fn new(servers: &str) -> Self {
        let slash = servers.find('/').unwrap_or(servers.len());
        let (servers, chroot) = servers.split_at(slash);
        let named = servers
            .split(',')
            .map(str::trim)
            .filter(|server| !server.is_empty());
        Self {
            servers: named.map(with_port).collect(),
            is_shuffled: true,
            is_renewed: false,
            session_timeout: Duration::from_secs(30),
            session: None,
            read_only: false,
            connect_timeout: Duration::from_secs(5),
            wait: Duration::ZERO,
            frame_bytes_max: FRAME_BYTES_MAX,
            request_bytes_max: REQUEST_BYTES_MAX,
            connector: Connector::plain(),
            #[cfg(feature = "sasl")]
            login: None,
            dialer: None,
            seed: None,
            wall_clock: None,
            chroot: Chroot::new(chroot),
        }
    }

    /// Returns `host:port` of each server.
    pub fn servers(&self) -> &[Arc<str>] {
        &self.servers
    }

    /// Returns the TLS connector.
    pub fn connector(&self) -> &Connector {
        &self.connector
    }

    /// Returns the root directory of the client. The root directory is empty if the client uses the
    /// root of the tree.
    pub fn chroot(&self) -> &str {
        self.chroot.as_str()
    }

    /// Sets the root directory.
    pub fn with_chroot(mut self, chroot: &str) -> Self {
        self.chroot = Chroot::new(chroot);
        self
    }

    /// Makes the client try the servers in the given order.
    pub fn in_order(mut self) -> Self {
        self.is_shuffled = false;
        self
    }

    /// Makes the client open a new session whenever a server reports the end of the previous
    /// session.
    ///
    /// The handle continues: [`State::Connected`](crate::State::Connected) with the new session's
    /// id follows [`State::Expired`](crate::State::Expired). Ephemerals and watches of the old
    /// session have ended. The client sends its credentials again. Recipes need this option.
    ///
    /// If no server grants a new session for a whole session timeout, calls fail with
    /// [`Error::Unreachable`](crate::Error::Unreachable), and the client continues its attempts.
    pub fn with_renewal(mut self) -> Self {
        self.is_renewed = true;
        self
    }

    /// Sets the session timeout.
    pub fn with_session_timeout(mut self, session_timeout: Duration) -> Self {
        self.session_timeout = session_timeout;
        self
    }

    /// Makes [`Client::connect`](crate::Client::connect) wait for servers that are not reachable
    /// yet. It keeps trying all servers until this time has passed.
    ///
    /// ```no_run
    /// # use std::time::Duration;
    /// # use zoarium_client::{Client, Options};
    /// # async fn example() -> zoarium_client::Result<()> {
    /// let options = Options::new("zk1:2181,zk2:2181").with_wait(Duration::from_secs(30));
    /// let client = Client::connect(options).await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn with_wait(mut self, wait: Duration) -> Self {
        self.wait = wait;
        self
    }

    /// Accepts servers without a quorum, which only serve reads.
    pub fn with_read_only(mut self) -> Self {
        self.read_only = true;
        self
    }

    /// Sets the time limit for the connection to one server, including the handshake and the login.
    pub fn with_connect_timeout(mut self, connect_timeout: Duration) -> Self {
        self.connect_timeout = connect_timeout;
        self
    }

    /// Sets the size limits of a reply and of a request, in bytes.
    pub fn with_byte_limits(mut self, reply: usize, request: usize) -> Self {
        self.frame_bytes_max = reply;
        self.request_bytes_max = request;
        self
    }

    /// Sets an existing session to continue.
    pub fn with_session(mut self, session: Session) -> Self {
        self.session = Some(session);
        self
    }

    /// Sets the TLS connector.
    pub fn with_connector(mut self, connector: Connector) -> Self {
        self.connector = connector;
        self
    }

    /// Sets a SASL login, executed on each connection before the first request.
    #[cfg(feature = "sasl")]
    pub fn with_login(mut self, login: Login) -> Self {
        self.login = Some(login);
        self
    }

    /// Sets a dialer that replaces TCP.
    pub fn with_dialer(mut self, dialer: Arc<dyn Dial>) -> Self {
        self.dialer = Some(dialer);
        self
    }

    /// Sets the seed of all random decisions (order of servers, pauses, names of protected znodes),
    /// for simulations. Two clients with the same seed generate equal names.
    pub fn with_seed(mut self, seed: u64) -> Self {
        self.seed = Some(seed);
        self
    }

    /// Sets a clock that replaces the system clock, for simulations.
    pub fn with_wall_clock(mut self, wall_clock: Arc<dyn WallClock>) -> Self {
        self.wall_clock = Some(wall_clock);
        self
    }

    pub(crate) fn handshake(&self) -> Handshake {
        Handshake {
            session_timeout: self.session_timeout,
            session: self.session.clone(),
            read_only: Some(self.read_only),
            frame_bytes_max: self.frame_bytes_max,
            connect_timeout: self.connect_timeout,
            connector: self.connector.clone(),
            #[cfg(feature = "sasl")]
            login: self.login.clone(),
            dialer: self.dialer.clone(),
            ..Handshake::default()
        }
    }
}

/// ZooKeeper's client port. Source: zoo_sample.cfg.
const DEFAULT_PORT: u16 = 2181;

pub(crate) fn with_port(server: &str) -> Arc<str> {
    // In an IPv6 address, the port follows the bracket. Colons inside the brackets belong to the
    // address.
    let host_end = server.rfind(']').unwrap_or(0);
    match server.get(host_end..) {
        Some(tail) if tail.contains(':') => server.into(),
        _ => format!("{server}:{DEFAULT_PORT}").into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_connection_string_names_servers() {
        let options = Options::new("a:1, b ,,[::1],[::1]:3");
        let servers: Vec<&str> = options.servers.iter().map(|server| &**server).collect();
        assert_eq!(servers, ["a:1", "b:2181", "[::1]:2181", "[::1]:3"]);
        assert!(Options::new(" ,").servers.is_empty());
    }
}
