//! What the words need to know of the server.

use std::net::SocketAddr;

use proto::{SessionId, Zxid};

use super::environment::Environment;
use crate::metrics::{ConnectionFigures, Metrics, Mode, NamespaceQuota, ServerStats, State};

/// The server as four-letter words (and the admin server) see it. Everything is handed over as
/// plain values: no lock is held while an answer is written.
pub trait View {
    /// The role; `None` while the server does not serve (it starts, elects or stops). The other
    /// methods that describe the service are asked only while it serves.
    fn mode(&self) -> Option<Mode>;

    /// The clocks.
    fn now(&self) -> Now;

    /// What the server counted, for `srvr`; `srst` resets it.
    fn stats(&self) -> &ServerStats;

    /// All metrics, for `mntr`.
    fn metrics(&self) -> &Metrics;

    /// What the server holds.
    fn state(&self) -> State;

    /// The zxid of the last applied transaction.
    fn last_zxid(&self) -> Zxid;

    /// Quotas of namespaces and their use.
    fn quotas(&self) -> Vec<NamespaceQuota>;

    /// Open connections of the port that was asked, the asking one included.
    fn connections(&self) -> Vec<ConnectionInfo>;

    /// Resets the figures of all connections of that port.
    fn reset_connections(&self);

    /// Forgets the sizes of proposals; does nothing unless this server leads.
    fn reset_proposal_sizes(&self);

    /// The settings that `conf` shows.
    fn configuration(&self) -> Configuration;

    /// Bytes on disk.
    fn directory_sizes(&self) -> DirectorySizes;

    /// Sessions by the time they expire.
    fn sessions(&self) -> Sessions;

    /// Ephemeral znodes by the session that owns them.
    fn ephemerals(&self) -> Vec<(SessionId, Vec<String>)>;

    /// Connections by the time they expire; `None` if they are not kept by it.
    fn connection_expiry(&self) -> Option<ExpirySets<ConnectionId>>;

    /// Counts of the watches on data and existence, persistent ones included; those on children
    /// are left out, as they are in [`Self::watches_by_session`] and [`Self::watches_by_path`].
    fn watch_summary(&self) -> WatchSummary;

    /// Paths by the session that watches them.
    fn watches_by_session(&self) -> Vec<(SessionId, Vec<String>)>;

    /// Sessions by the path they watch.
    fn watches_by_path(&self) -> Vec<(String, Vec<SessionId>)>;

    /// The tree's digest at every 128th zxid, oldest first.
    fn digests(&self) -> Vec<(Zxid, i64)>;

    /// What was found out about the process when it started.
    fn environment(&self) -> &Environment;

    /// Which kinds of packets are traced.
    fn trace_mask(&self) -> i64;

    /// Changes which kinds of packets are traced.
    fn set_trace_mask(&self, mask: i64);
}

/// The trace mask of a new server: client requests, packets from the leader, sessions, warnings.
/// Source: ZooTrace.
pub const DEFAULT_TRACE_MASK: i64 = 2 | 16 | 32 | 256;

/// Both clocks at one moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Now {
    /// Milliseconds of the clock that sessions expire by.
    pub monotonic_ms: u64,
    /// Milliseconds since 1970.
    pub wall_ms: i64,
}

impl Now {
    /// The wall clock at `monotonic_ms`.
    pub(super) fn wall_ms_at(self, monotonic_ms: u64) -> i64 {
        let ahead = i128::from(monotonic_ms) - i128::from(self.monotonic_ms);
        i64::try_from(i128::from(self.wall_ms) + ahead).unwrap_or(i64::MAX)
    }
}

/// An open connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ConnectionInfo {
    /// The client's end.
    pub peer: SocketAddr,
    /// What the connection waits for.
    pub interest: Interest,
    /// Requests under way.
    pub queued: u64,
    /// [`SessionId::NONE`] before the handshake, and of one that asks a four-letter word.
    pub session: SessionId,
    /// The negotiated timeout.
    pub timeout_ms: i32,
    /// What it counted.
    pub figures: ConnectionFigures,
}

/// What a connection waits for: the `[n]` of `stat` and `cons`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Interest {
    /// For bytes of the client. Not while it is throttled or asks a four-letter word.
    pub read: bool,
    /// For room to write.
    pub write: bool,
}

impl Interest {
    /// As a bit set. Source: SelectionKey.
    pub fn bits(self) -> u8 {
        u8::from(self.read) | u8::from(self.write) << 2
    }
}

/// A connection in `dump`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ConnectionId {
    /// The client's end.
    pub peer: SocketAddr,
    /// Its session.
    pub session: SessionId,
}

/// Things by the time they expire.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExpirySets<T> {
    /// Monotonic milliseconds, rising, and what expires then; a set may be empty.
    pub sets: Vec<(u64, Vec<T>)>,
}

/// Sessions as the role knows them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sessions {
    /// Sessions only this server knows, where local sessions are enabled.
    pub local: Option<ExpirySets<SessionId>>,
    /// Sessions the ensemble knows.
    pub global: GlobalSessions,
}

/// Sessions the ensemble knows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum GlobalSessions {
    /// Expired by this server: it is alone or leads.
    Expired(ExpirySets<SessionId>),
    /// Expired by the leader: the ids in rising order, with their timeout in ms.
    Known(Vec<(SessionId, i32)>),
}

/// Counts of watches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WatchSummary {
    /// Connections that watch.
    pub connections: u64,
    /// Paths that are watched.
    pub paths: u64,
    /// Watches: pairs of the two.
    pub total: u64,
}

/// Bytes on disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DirectorySizes {
    /// Of snapshots.
    pub data: u64,
    /// Of transaction logs.
    pub log: u64,
}

/// What `conf` shows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Configuration {
    /// -1 if there is none.
    pub client_port: i32,
    /// -1 if there is none.
    pub secure_client_port: i32,
    /// Directory of snapshots: its `version-2` below.
    pub data_dir: String,
    /// Directory of transaction logs, likewise.
    pub data_log_dir: String,
    /// Milliseconds.
    pub tick_time_ms: i32,
    /// From one address; 0 for any number.
    pub max_client_cnxns: i32,
    /// Milliseconds.
    pub min_session_timeout_ms: i32,
    /// Milliseconds.
    pub max_session_timeout_ms: i32,
    /// -1 if the system decides.
    pub listen_backlog: i32,
    /// `myid`; 0 of a standalone server.
    pub server_id: i64,
    /// Of a member of an ensemble.
    pub member: Option<MemberConfiguration>,
}

/// What `conf` shows of a member of an ensemble.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MemberConfiguration {
    /// Ticks.
    pub init_limit: i32,
    /// Ticks.
    pub sync_limit: i32,
    /// Always 3 by now.
    pub election_alg: i32,
    /// Of every address of this server.
    pub election_ports: Vec<u16>,
    /// Of every address of this server.
    pub quorum_ports: Vec<u16>,
    /// Whether this server has no vote by its type.
    pub observer: bool,
    /// The current configuration: `server.N=...` lines, then `version=<hex>` without a line
    /// end.
    pub membership: String,
}
