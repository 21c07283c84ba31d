//! Configuration of the mesh.

use std::sync::Arc;
use std::time::Duration;

use config::Ensemble;
use proto::Sid;
use transport::SocketOptions;
use transport::tls::{Acceptor, Connector};

use crate::auth::QuorumAuth;

/// Settings for elections and their connections. They do not change while a server runs.
#[derive(Debug, Clone)]
pub(crate) struct MeshSettings {
    /// Id of this server.
    pub(crate) me: Sid,
    /// Time limit for opening a connection (`cnxTimeout`).
    pub(crate) connect_timeout: Duration,
    /// Time limit for a dialer's hello, for the rest of a message after its beginning, and for the
    /// acknowledgement of sent data by the other host (`quorumCnxnTimeoutMs`, or the duration of
    /// `syncLimit`). Apart from these limits, a connection may be silent indefinitely, because
    /// servers send no messages between elections.
    pub(crate) read_timeout: Duration,
    /// Whether the port is bound on all addresses (`quorumListenOnAllIPs`).
    pub(crate) listen_on_all_ips: bool,
    /// Whether servers may have several addresses (`multiAddress.enabled`).
    pub(crate) multi_address: bool,
    /// Number of attempts to bind the port, one second apart. `None` means unlimited
    /// (`electionPortBindRetry`).
    pub(crate) bind_attempts: Option<u32>,
    /// Whether the connections use TCP keep-alive (`tcpKeepAlive`).
    pub(crate) tcp_keep_alive: bool,
    /// Acceptor for incoming connections.
    pub(crate) acceptor: Acceptor,
    /// Connector for outgoing connections.
    pub(crate) connector: Connector,
    /// Rules for logins (`quorum.auth.*`).
    pub(crate) auth: Arc<QuorumAuth>,
}

impl MeshSettings {
    /// Returns the options for connections in either direction. Data that is not acknowledged
    /// within the read timeout breaks the connection, because an election would otherwise wait for
    /// it.
    pub(super) fn socket_options(&self) -> SocketOptions {
        SocketOptions {
            keep_alive: self.tcp_keep_alive,
            unacknowledged_max: Some(self.read_timeout),
        }
    }

    /// Returns the settings of a member. `tick` is `tickTime`.
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
