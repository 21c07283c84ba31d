//! What the mesh needs of the configuration.

use std::sync::Arc;
use std::time::Duration;

use config::Ensemble;
use proto::Sid;
use transport::SocketOptions;
use transport::tls::{Acceptor, Connector};

use crate::quorum::auth::QuorumAuth;

/// Settings of elections and their connections; fixed while a server runs.
#[derive(Debug, Clone)]
pub(crate) struct MeshSettings {
    /// This server.
    pub(crate) me: Sid,
    /// Time to open a connection (`cnxTimeout`).
    pub(crate) connect_timeout: Duration,
    /// Time in which a dialer must say who it is, the rest of a message must follow its
    /// beginning, and what was sent must be acknowledged by the other host
    /// (`quorumCnxnTimeoutMs`, or that of `syncLimit`). A connection may be silent for ever
    /// otherwise: there is nothing to say between elections.
    pub(crate) read_timeout: Duration,
    /// The port is bound on every address (`quorumListenOnAllIPs`).
    pub(crate) listen_on_all_ips: bool,
    /// Servers may have several addresses (`multiAddress.enabled`).
    pub(crate) multi_address: bool,
    /// Attempts to bind the port, a second apart; absent is for ever (`electionPortBindRetry`).
    pub(crate) bind_attempts: Option<u32>,
    /// TCP keep-alive on the connections (`tcpKeepAlive`).
    pub(crate) tcp_keep_alive: bool,
    /// What is made of a connection that comes.
    pub(crate) acceptor: Acceptor,
    /// What is made of one that is opened.
    pub(crate) connector: Connector,
    /// Who must log in (`quorum.auth.*`).
    pub(crate) auth: Arc<QuorumAuth>,
}

impl MeshSettings {
    /// Options of a connection, from whichever side. What is not acknowledged for the read timeout
    /// breaks it: an election would wait for it.
    pub(super) fn socket_options(&self) -> SocketOptions {
        SocketOptions {
            keep_alive: self.tcp_keep_alive,
            unacknowledged_max: Some(self.read_timeout),
        }
    }

    /// The settings of a member. `tick` is `tickTime`.
    pub(crate) fn new(
        ensemble: &Ensemble,
        tick: Duration,
        acceptor: Acceptor,
        connector: Connector,
        auth: Arc<QuorumAuth>,
    ) -> Self {
        let given = &ensemble.election;
        let millis = |ms: u32| Duration::from_millis(ms.into());
        let sync_limit = tick.saturating_mul(ensemble.sync_limit_ticks);
        Self {
            me: ensemble.my_id,
            connect_timeout: millis(given.connect_timeout_ms),
            read_timeout: given.read_timeout_ms.map_or(sync_limit, millis),
            listen_on_all_ips: ensemble.listen_on_all_ips,
            multi_address: ensemble.multi_address.is_enabled,
            bind_attempts: given.bind_attempts,
            tcp_keep_alive: given.tcp_keep_alive,
            acceptor,
            connector,
            auth,
        }
    }
}
