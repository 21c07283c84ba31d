//! Interface to the server for four-letter words and admin commands.

mod admin;
pub(crate) mod configuration;
pub mod usage;

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;

use config::Config;
use proto::{SessionId, Zxid};
use tree::{EphemeralOwners, WatchSummary, WatchedPaths, Watchers};

use crate::counters::{ConnectionFigures, ServerStats};
use crate::process::environment::Environment;
use crate::role::{LeaderFigures, RoleView};
use crate::table::gauges::{NamespaceQuota, ServerGauges};
use crate::table::rows::Metrics;

use configuration::VERSION_DIR;

pub use admin::{AdminView, LastSnapshot, ObserverInfo};
pub use configuration::{Configuration, MemberConfiguration};

/// Server as seen by four-letter words and the admin server. No result holds a lock, so no lock is
/// held while an answer is written.
pub trait View {
    /// Returns the role. While the server does not serve (because it starts, elects or stops),
    /// four-letter words call only this method, [`Self::environment`] and the methods for the trace
    /// mask.
    fn role(&self) -> Arc<RoleView>;

    /// Returns the figures of a leader, or `None` on any other server.
    fn leader_figures(&self) -> Option<LeaderFigures>;

    /// Returns the time of both clocks.
    fn now(&self) -> Now;

    /// Returns the counters that `srvr` shows and `srst` resets.
    fn stats(&self) -> &ServerStats;

    /// Returns all metrics, for `mntr`.
    fn metrics(&self) -> &Metrics;

    /// Returns the current resources of the server.
    fn state(&self) -> ServerGauges;

    /// Returns the zxid of the last applied transaction.
    fn last_zxid(&self) -> Zxid;

    /// Returns the quotas of namespaces and their usage.
    fn quotas(&self) -> Vec<NamespaceQuota>;

    /// Returns the open connections of the port that received the command, including the connection
    /// of the command.
    fn connections(&self) -> Vec<ConnectionInfo>;

    /// Resets the figures of all connections of the port that received the command.
    fn reset_connections(&self);

    /// Resets the sizes of proposals. Does nothing unless this server leads.
    fn reset_proposal_sizes(&self);

    /// Returns the settings that `conf` shows.
    fn configuration(&self) -> Configuration;

    /// Returns the disk usage of the data directories.
    fn directory_sizes(&self) -> DirectorySizes;

    /// Returns the sessions, grouped by expiry time.
    fn sessions(&self) -> Sessions;

    /// Returns the next part of the ephemeral znodes, grouped by owner session, and advances `at`,
    /// which is `None` after the last part. A session with many ephemeral znodes is split over
    /// several parts.
    fn ephemerals(&self, at: &mut Option<EphemeralOwners>) -> Vec<(SessionId, Vec<String>)>;

    /// Returns the connections, grouped by expiry time, or `None` if they are not tracked.
    fn connection_expiry(&self) -> Option<ExpirySets<ConnectionId>>;

    /// Returns the counts of data and exists watches, including persistent watches. Child watches
    /// are not counted, and are also missing in [`Self::watches_by_session`] and
    /// [`Self::watches_by_path`].
    fn watch_summary(&self) -> WatchSummary;

    /// Returns the next part of the watched paths, grouped by session, like [`Self::ephemerals`].
    fn watches_by_session(&self, at: &mut Option<Watchers>) -> Vec<(SessionId, Vec<String>)>;

    /// Returns the next part of the watching sessions, grouped by path, like [`Self::ephemerals`].
    fn watches_by_path(&self, at: &mut Option<WatchedPaths>) -> Vec<(String, Vec<SessionId>)>;

    /// Returns the tree's digest at every 128th zxid, oldest first.
    fn digests(&self) -> Vec<(Zxid, i64)>;

    /// Returns the facts about the process that were read at its start.
    fn environment(&self) -> &Environment;

    /// Returns the bit mask of the packet kinds to trace.
    fn trace_mask(&self) -> i64;

    /// Sets the bit mask of the packet kinds to trace.
    fn set_trace_mask(&self, mask: i64);
}

/// Collects all parts of a listing. Successive entries with the same key are merged.
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

/// Trace mask of a new server: client requests, packets from the leader, sessions, warnings.
/// Source: ZooTrace.
pub const DEFAULT_TRACE_MASK: i64 = 2 | 16 | 32 | 256;

/// Both clocks at one time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Now {
    /// Time by the clock for session expiry, ms.
    pub monotonic_ms: u64,
    /// Wall-clock time, ms since 1970.
    pub wall_ms: i64,
}

impl Now {
    /// Converts a monotonic time to wall-clock time.
    pub(crate) fn wall_ms_at(self, monotonic_ms: u64) -> i64 {
        let ahead = i128::from(monotonic_ms) - i128::from(self.monotonic_ms);
        i64::try_from(i128::from(self.wall_ms) + ahead).unwrap_or(i64::MAX)
    }
}

/// An open connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ConnectionInfo {
    /// Address of the client.
    pub peer: SocketAddr,
    /// Events for which the connection waits.
    pub interest: Interest,
    /// Number of requests in progress.
    pub queued: u64,
    /// Session of the connection; [`SessionId::NONE`] before the handshake and for a four-letter
    /// word.
    pub session: SessionId,
    /// Negotiated session timeout.
    pub timeout_ms: i32,
    /// Counters of the connection.
    pub figures: ConnectionFigures,
}

/// Events for which a connection waits, shown as `[n]` by `stat` and `cons`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Interest {
    /// Whether the server waits for bytes from the client. False while the connection is throttled
    /// or executes a four-letter word.
    pub read: bool,
    /// Whether the server waits for space to write.
    pub write: bool,
}

impl Interest {
    /// Returns the events as a bit set. Source: SelectionKey.
    pub fn bits(self) -> u8 {
        u8::from(self.read) | u8::from(self.write) << 2
    }
}

/// A connection in the output of `dump`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ConnectionId {
    /// Address of the client.
    pub peer: SocketAddr,
    /// Session of the connection.
    pub session: SessionId,
}

/// Items grouped by expiry time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExpirySets<T> {
    /// Expiry times on a monotonic clock in ms, ascending, each with the items that expire then. A
    /// set may be empty.
    pub sets: Vec<(u64, Vec<T>)>,
}

/// Width of the buckets in which connections expire, ten seconds. Source: NIOServerCnxnFactory.
const CONNECTION_BUCKET_MS: u64 = 10_000;

impl ExpirySets<ConnectionId> {
    /// Groups connections, each given with its timeout in ms, by their expiry buckets. Assumes that
    /// all of them are silent from `now_ms` on, by the monotonic clock.
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

/// Sessions that are known in the current role.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sessions {
    /// Sessions that only this server knows, if local sessions are enabled.
    pub local: Option<ExpirySets<SessionId>>,
    /// Sessions that the ensemble knows.
    pub global: GlobalSessions,
}

/// Sessions that the ensemble knows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum GlobalSessions {
    /// This server expires the sessions, because it is standalone or leads.
    Expired(ExpirySets<SessionId>),
    /// The leader expires the sessions. Contains their ids in ascending order, with their timeouts
    /// in ms.
    Known(Vec<(SessionId, i32)>),
}

/// Disk usage of the data directories.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DirectorySizes {
    /// Size of snapshots, bytes.
    pub data: u64,
    /// Size of transaction logs, bytes.
    pub log: u64,
}

impl DirectorySizes {
    /// Measures the directories in `config`.
    pub fn measure(config: &Config) -> Self {
        Self {
            data: size_of_files(&config.data_dir.join(VERSION_DIR)),
            log: size_of_files(&config.data_log_dir.join(VERSION_DIR)),
        }
    }
}

/// Returns the total size of the files in a directory. Ignores unreadable files.
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

#[cfg(test)]
mod tests {
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
        // A timeout that means "never" saturates at the maximum time.
        let sets = ExpirySets::of_connections(5_000, [(id(1), u64::MAX)]).sets;
        assert!(sets[0].0 > u64::MAX - CONNECTION_BUCKET_MS, "{sets:?}");
    }
}
