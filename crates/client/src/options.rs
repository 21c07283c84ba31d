//! Settings of a [`crate::Client`].

use std::sync::Arc;
use std::time::Duration;

use transport::tls::Connector;

use crate::chroot::Chroot;
use crate::dial::Dial;
use crate::handshake::{Handshake, Session};
use crate::limits::{FRAME_BYTES_MAX, REQUEST_BYTES_MAX};
use crate::login::Login;

/// Where and how a client connects.
#[derive(Debug, Clone)]
pub struct Options {
    /// `host:port` of each server.
    pub servers: Vec<Arc<str>>,
    /// Whether the servers are put in an order by chance first, so that clients spread over them.
    pub is_shuffled: bool,
    /// Whether a session that is over is followed by a new one.
    pub is_renewed: bool,
    /// Session timeout to ask for; the server clamps it.
    pub session_timeout: Duration,
    /// A session to go on with instead of a new one.
    pub session: Option<Session>,
    /// Whether a server that lost its quorum will do.
    pub read_only: bool,
    /// Time that one server has to accept the session.
    pub connect_timeout: Duration,
    /// Largest reply to accept, bytes.
    pub frame_bytes_max: usize,
    /// Largest request to send, bytes: what is larger fails before it costs the connection.
    pub request_bytes_max: usize,
    /// TLS, if the servers are to be reached by it.
    pub connector: Connector,
    /// As whom each connection logs in by SASL, if it is to.
    pub login: Option<Login>,
    /// What connects to the servers, if that is not TCP.
    pub dialer: Option<Arc<dyn Dial>>,
    /// What chance begins with, for who wants the same again; otherwise the system's.
    pub seed: Option<u64>,
    pub(crate) chroot: Chroot,
}

impl Options {
    /// Defaults for the servers of a connection string like `10.0.0.1:2181,10.0.0.2/app`; the port
    /// is 2181 where none is given. What begins with a slash is the directory that the client takes
    /// for its root; it must exist before anything is created in it.
    ///
    /// ```
    /// use client::Options;
    ///
    /// let options = Options::new("zk1:2181,zk2/app");
    /// assert_eq!(options.chroot(), "/app");
    /// assert_eq!(&*options.servers[1], "zk2:2181");
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
            frame_bytes_max: FRAME_BYTES_MAX,
            request_bytes_max: REQUEST_BYTES_MAX,
            connector: Connector::plain(),
            login: None,
            dialer: None,
            seed: None,
            chroot: Chroot::new(chroot),
        }
    }

    /// The directory that the client takes for its root; empty if that is the root itself.
    pub fn chroot(&self) -> &str {
        self.chroot.as_str()
    }

    /// The same with another directory for the root.
    #[must_use]
    pub fn with_chroot(mut self, chroot: &str) -> Self {
        self.chroot = Chroot::new(chroot);
        self
    }

    /// The same, trying the servers in the order in which they are named.
    #[must_use]
    pub fn in_order(mut self) -> Self {
        self.is_shuffled = false;
        self
    }

    /// The same with a new session whenever a server says that the last one is over.
    ///
    /// The handle goes on: [`State::Expired`](crate::State::Expired) is followed by
    /// [`State::Connected`](crate::State::Connected) with the new session's id. Ephemerals are gone
    /// and watches have ended; credentials are sent again. This is what recipes want.
    #[must_use]
    pub fn with_renewal(mut self) -> Self {
        self.is_renewed = true;
        self
    }

    /// The same with another session timeout.
    #[must_use]
    pub fn with_session_timeout(mut self, session_timeout: Duration) -> Self {
        self.session_timeout = session_timeout;
        self
    }

    /// The same, going on with a session that exists.
    #[must_use]
    pub fn with_session(mut self, session: Session) -> Self {
        self.session = Some(session);
        self
    }

    /// The same over TLS, or whatever the connector speaks.
    #[must_use]
    pub fn with_connector(mut self, connector: Connector) -> Self {
        self.connector = connector;
        self
    }

    /// The same with a login by SASL on each connection, before any request goes.
    #[must_use]
    pub fn with_login(mut self, login: Login) -> Self {
        self.login = Some(login);
        self
    }

    /// The same, reaching the servers by something else than TCP.
    #[must_use]
    pub fn with_dialer(mut self, dialer: Arc<dyn Dial>) -> Self {
        self.dialer = Some(dialer);
        self
    }

    /// The same with chance (the order of servers, pauses, names of protected znodes) that follows
    /// from a number: for simulations. Two clients of one seed give the same names.
    #[must_use]
    pub fn with_seed(mut self, seed: u64) -> Self {
        self.seed = Some(seed);
        self
    }

    pub(crate) fn handshake(&self) -> Handshake {
        Handshake {
            timeout_ms: i32::try_from(self.session_timeout.as_millis()).unwrap_or(i32::MAX),
            session: self.session.clone(),
            read_only: Some(self.read_only),
            frame_bytes_max: self.frame_bytes_max,
            connect_timeout: self.connect_timeout,
            connector: self.connector.clone(),
            login: self.login.clone(),
            dialer: self.dialer.clone(),
            ..Handshake::default()
        }
    }
}

/// ZooKeeper's client port. Source: zoo_sample.cfg.
const DEFAULT_PORT: u16 = 2181;

fn with_port(server: &str) -> Arc<str> {
    // An IPv6 address has its port behind the bracket; its own colons are no ports.
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
