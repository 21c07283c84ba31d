//! What words and admin commands need to know of the server.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;

use config::{ClientAddress, Config};
use proto::{SessionId, Zxid};
use tree::{EphemeralOwners, WatchSummary, WatchedPaths, Watchers};

use crate::environment::Environment;
use crate::metrics::{ConnectionFigures, Metrics, NamespaceQuota, ServerStats, State};
use crate::role::{LeaderFigures, RoleView};

/// The server as four-letter words (and the admin server) see it. Everything is handed over as
/// plain values: no lock is held while an answer is written.
pub trait View {
    /// The role. While it does not serve (the server starts, elects or stops), the other methods
    /// that describe the service are not asked.
    fn role(&self) -> Arc<RoleView>;

    /// What a leader knows; `None` of another server.
    fn leader_figures(&self) -> Option<LeaderFigures>;

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

    /// The next ephemeral znodes by the session that owns them. The position is `None` after the last
    /// part. A session with many ephemerals is in several parts.
    fn ephemerals(&self, at: &mut Option<EphemeralOwners>) -> Vec<(SessionId, Vec<String>)>;

    /// Connections by the time they expire; `None` if they are not kept by it.
    fn connection_expiry(&self) -> Option<ExpirySets<ConnectionId>>;

    /// Counts of the watches on data and existence, persistent ones included; those on children
    /// are left out, as they are in [`Self::watches_by_session`] and [`Self::watches_by_path`].
    fn watch_summary(&self) -> WatchSummary;

    /// The next paths by the session that watches them, in parts like [`Self::ephemerals`].
    fn watches_by_session(&self, at: &mut Option<Watchers>) -> Vec<(SessionId, Vec<String>)>;

    /// The next sessions by the path they watch. The position is `None` after the last part.
    fn watches_by_path(&self, at: &mut Option<WatchedPaths>) -> Vec<(String, Vec<SessionId>)>;

    /// The tree's digest at every 128th zxid, oldest first.
    fn digests(&self) -> Vec<(Zxid, i64)>;

    /// What was found out about the process when it started.
    fn environment(&self) -> &Environment;

    /// Which kinds of packets are traced.
    fn trace_mask(&self) -> i64;

    /// Changes which kinds of packets are traced.
    fn set_trace_mask(&self, mask: i64);
}

/// All parts of a listing as one.
pub fn whole<At: Default, K: PartialEq, V>(
    mut part: impl FnMut(&mut Option<At>) -> Vec<(K, Vec<V>)>,
) -> Vec<(K, Vec<V>)> {
    let mut whole: Vec<(K, Vec<V>)> = Vec::new();
    let mut at = Some(At::default());
    while at.is_some() {
        for (key, mut values) in part(&mut at) {
            match whole.last_mut().filter(|(last, _)| *last == key) {
                Some((_, all)) => all.append(&mut values),
                None => whole.push((key, values)),
            }
        }
    }
    whole
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
    pub(crate) fn wall_ms_at(self, monotonic_ms: u64) -> i64 {
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

/// Connections expire in buckets of ten seconds. Source: NIOServerCnxnFactory.
const CONNECTION_BUCKET_MS: u64 = 10_000;

impl ExpirySets<ConnectionId> {
    /// Connections by the bucket they expire in, if nothing is heard of them from `now_ms` of the
    /// monotonic clock on; each comes with its timeout in ms.
    pub fn of_connections(
        now_ms: u64,
        connections: impl IntoIterator<Item = (ConnectionId, u64)>,
    ) -> Self {
        let mut sets = BTreeMap::<u64, Vec<ConnectionId>>::new();
        for (id, timeout_ms) in connections {
            let bucket = now_ms.saturating_add(timeout_ms) / CONNECTION_BUCKET_MS + 1;
            let expires_ms = bucket.saturating_mul(CONNECTION_BUCKET_MS);
            sets.entry(expires_ms).or_default().push(id);
        }
        Self {
            sets: sets.into_iter().collect(),
        }
    }
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

/// Bytes on disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DirectorySizes {
    /// Of snapshots.
    pub data: u64,
    /// Of transaction logs.
    pub log: u64,
}

/// Where the files of a data directory are.
const VERSION_DIR: &str = "version-2";

impl DirectorySizes {
    /// Of the directories that `config` names, at the moment.
    pub fn measure(config: &Config) -> Self {
        Self {
            data: size_of_files(&config.data_dir.join(VERSION_DIR)),
            log: size_of_files(&config.data_log_dir.join(VERSION_DIR)),
        }
    }
}

/// Bytes of the files of a directory; what cannot be read counts as nothing.
fn size_of_files(dir: &Path) -> u64 {
    blocking::mark("list a data directory");
    let Ok(entries) = std::fs::read_dir(dir) else {
        return 0;
    };
    let lengths = entries.flatten().filter_map(|entry| entry.metadata().ok());
    lengths
        .filter(std::fs::Metadata::is_file)
        .map(|file| file.len())
        .sum()
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

impl Configuration {
    /// Of a server that was started with `config`; a member's part changes with its role.
    pub fn new(config: &Config, member: Option<MemberConfiguration>) -> Self {
        let port = |address: &Option<ClientAddress>| {
            address
                .as_ref()
                .map_or(-1, |address| i32::from(address.port))
        };
        let version_dir = |dir: &Path| dir.join(VERSION_DIR).display().to_string();
        let number = |value: u32| i32::try_from(value).unwrap_or(i32::MAX);
        Self {
            client_port: port(&config.client.plain),
            secure_client_port: port(&config.client.secure),
            data_dir: version_dir(&config.data_dir),
            data_log_dir: version_dir(&config.data_log_dir),
            tick_time_ms: number(config.tick_time_ms),
            max_client_cnxns: config.limits.max_client_cnxns.map_or(0, number),
            min_session_timeout_ms: number(config.sessions.min_timeout_ms),
            max_session_timeout_ms: number(config.sessions.max_timeout_ms),
            listen_backlog: config.client.backlog.map_or(-1, number),
            server_id: config.ensemble.as_ref().map_or(0, |own| own.my_id.0),
            member,
        }
    }
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

#[cfg(test)]
mod tests {
    use config::{Nowhere, RawConfig, SystemProperties};

    use super::*;

    #[test]
    fn connections_expire_at_the_end_of_their_ten_seconds() {
        let id = |session| ConnectionId {
            peer: SocketAddr::from(([127, 0, 0, 1], 2181)),
            session: SessionId(session),
        };
        let timeouts = [(id(1), 30_000), (id(2), 4_999), (id(3), 5_000), (id(4), 0)];
        let sets = ExpirySets::of_connections(5_000, timeouts).sets;
        assert_eq!(
            sets,
            [
                (10_000, vec![id(2), id(4)]),
                (20_000, vec![id(3)]),
                (40_000, vec![id(1)]),
            ]
        );
        // A timeout that means "never" is as late as there is a time.
        let sets = ExpirySets::of_connections(5_000, [(id(1), u64::MAX)]).sets;
        assert!(sets[0].0 > u64::MAX - CONNECTION_BUCKET_MS, "{sets:?}");
    }

    #[test]
    fn what_the_configuration_leaves_out_is_shown_as_java_does() {
        let configuration = |text: &str| {
            let raw = RawConfig::parse("zoo.cfg".as_ref(), text.as_bytes()).unwrap();
            let config = Config::parse(raw, SystemProperties::new(), &mut Nowhere).unwrap();
            Configuration::new(&config, None)
        };
        let least = configuration("dataDir=/data\nmaxClientCnxns=0\n");
        assert_eq!((least.client_port, least.secure_client_port), (-1, -1));
        assert_eq!(
            (&*least.data_dir, &*least.data_log_dir),
            ("/data/version-2", "/data/version-2")
        );
        assert_eq!((least.max_client_cnxns, least.listen_backlog), (0, -1));
        assert_eq!((least.server_id, least.member), (0, None));

        let text = "dataDir=/data\ndataLogDir=/log\nclientPort=2181\ntickTime=1500\n\
                    maxClientCnxns=7\nclientPortListenBacklog=40\n";
        let more = configuration(text);
        assert_eq!((more.client_port, more.listen_backlog), (2181, 40));
        assert_eq!(
            (&*more.data_log_dir, more.max_client_cnxns),
            ("/log/version-2", 7)
        );
        assert_eq!(
            (
                more.tick_time_ms,
                more.min_session_timeout_ms,
                more.max_session_timeout_ms
            ),
            (1500, 3000, 30_000)
        );
    }
}
