//! Transaction log, snapshots and purge.

use crate::error::ConfigError;
use crate::registry::storage as keys;
use crate::settings::WrittenSettings;

/// Settings of the transaction log and the snapshots.
#[derive(Debug, Clone, PartialEq)]
pub struct Storage {
    /// Size of the allocation steps of a log file, in KiB. 0 disables preallocation.
    pub prealloc_kb: u64,
    /// Maximum number of transactions between snapshots, at least 2.
    pub snap_count: u32,
    /// Size of the log between snapshots, in KiB. Absent if unlimited.
    pub snap_size_limit_kb: Option<u64>,
    /// Size limit of a log file, in KiB. Absent if unlimited.
    pub txn_log_size_limit_kb: Option<u64>,
    /// Number of transactions kept in memory for learners, at least 500.
    pub commit_log_count: u32,
    /// Size of the log, as a fraction of a snapshot's size, up to which learners receive the log
    /// instead of the snapshot. Absent if never.
    pub snapshot_size_factor: Option<f64>,
    /// Compression of new snapshots.
    pub snapshot_compression: SnapshotCompression,
    /// Whether logs without any snapshot are accepted.
    pub snapshot_trust_empty: bool,
    /// Whether a snapshot ends with its last zxid.
    pub serialize_last_processed_zxid: bool,
    /// Whether the digest of the tree is computed, logged and checked.
    pub digest_enabled: bool,
    /// Reaction to a difference between the data of this server and the data of other members.
    pub on_digest_mismatch: OnDigestMismatch,
    /// Whether the end of a session is logged with the ephemerals that it deletes.
    pub close_session_txn_enabled: bool,
    /// Shortest duration of an fsync that is reported, in milliseconds.
    pub fsync_warning_threshold_ms: u64,
    /// Whether writes are acknowledged only after they are on disk.
    pub force_sync: bool,
    /// Mode of new files with data, before the umask is applied.
    pub file_mode: u32,
    /// Whether missing data directories are created.
    pub datadir_autocreate: bool,
    /// Whether an empty data directory is accepted as a new database.
    pub db_autocreate: bool,
    /// Time during which writes are collected before they are synced together, in milliseconds.
    pub flush_delay_ms: u64,
    /// Longest wait for another write to join the batch, in milliseconds.
    pub max_write_queue_poll_time_ms: u64,
    /// Maximum number of writes that are synced together.
    pub max_batch_size: u32,
}

/// Reaction of a server whose data differs from the data of other members.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum OnDigestMismatch {
    /// The server logs and counts the difference.
    #[default]
    Log,
    /// The server stops.
    Stop,
    /// The server loads its leader's snapshot if the leader and a quorum have the same data.
    /// Otherwise the server stops.
    Repair,
}

/// Compression of new snapshots. All formats are readable.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum SnapshotCompression {
    /// Uncompressed.
    #[default]
    None,
    /// gzip. The file name ends in `.gz`.
    Gz,
    /// Snappy. The file name ends in `.snappy`.
    Snappy,
}

/// Deletion of old snapshots and logs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Purge {
    /// Number of snapshots to keep, at least 3.
    pub retain: u32,
    /// Interval between purges in hours. The first purge runs at the start. Absent if never.
    pub interval_hours: Option<u32>,
}

impl Storage {
    pub(super) fn read(
        settings: &mut WrittenSettings,
        is_member: bool,
    ) -> Result<Self, ConfigError> {
        let flush_delay_ms: u64 = settings.int(&keys::FLUSH_DELAY)?;
        let poll_time = settings.number(&keys::MAX_WRITE_QUEUE_POLL_TIME)?;
        let poll_time = poll_time.and_then(|time| u64::try_from(time).ok());
        Ok(Self {
            prealloc_kb: settings.int(&keys::PRE_ALLOC_SIZE)?,
            snap_count: settings.int(&keys::SNAP_COUNT)?,
            snap_size_limit_kb: settings.positive(&keys::SNAP_SIZE_LIMIT)?,
            txn_log_size_limit_kb: settings.positive(&keys::TXN_LOG_SIZE_LIMIT)?,
            commit_log_count: settings.int(&keys::COMMIT_LOG_COUNT)?,
            snapshot_size_factor: snapshot_size_factor(settings)?,
            snapshot_compression: match settings.choice(&keys::SNAPSHOT_COMPRESSION)? {
                Some("gz") => SnapshotCompression::Gz,
                Some("snappy") => SnapshotCompression::Snappy,
                _ => SnapshotCompression::None,
            },
            snapshot_trust_empty: settings.flag(&keys::SNAPSHOT_TRUST_EMPTY)?,
            serialize_last_processed_zxid: settings.flag(&keys::SERIALIZE_LAST_PROCESSED_ZXID)?,
            digest_enabled: settings.flag(&keys::DIGEST_ENABLED)?,
            on_digest_mismatch: on_digest_mismatch(settings, is_member)?,
            close_session_txn_enabled: settings.flag(&keys::CLOSE_SESSION_TXN_ENABLED)?,
            fsync_warning_threshold_ms: settings.int(&keys::FSYNC_WARNING_THRESHOLD)?,
            force_sync: !settings.is_special(&keys::FORCE_SYNC),
            file_mode: file_mode(settings)?,
            datadir_autocreate: settings.flag(&keys::DATADIR_AUTOCREATE)?,
            db_autocreate: settings.flag(&keys::DB_AUTOCREATE)?,
            flush_delay_ms,
            max_write_queue_poll_time_ms: poll_time.unwrap_or(flush_delay_ms / 3),
            max_batch_size: settings.int(&keys::MAX_BATCH_SIZE)?,
        })
    }
}

fn file_mode(settings: &mut WrittenSettings) -> Result<u32, ConfigError> {
    let chosen = settings.choice(&keys::FILE_MODE)?;
    let mode = chosen.and_then(|digits| u32::from_str_radix(digits, 8).ok());
    Ok(mode.unwrap_or(DEFAULT_FILE_MODE))
}

fn on_digest_mismatch(
    settings: &mut WrittenSettings,
    is_member: bool,
) -> Result<OnDigestMismatch, ConfigError> {
    let chosen = match settings.choice(&keys::ON_DIGEST_MISMATCH)? {
        Some("stop") => OnDigestMismatch::Stop,
        Some("repair") => OnDigestMismatch::Repair,
        _ => OnDigestMismatch::Log,
    };
    match settings.find(&keys::ON_DIGEST_MISMATCH) {
        Some(found) if chosen == OnDigestMismatch::Repair && !is_member => Err(found
            .refused("a standalone server cannot receive a snapshot from a leader")
            .hint("use stop or log")),
        _ => Ok(chosen),
    }
}

/// Reads the fraction. Returns `None` for a negative value. The default replaces values above 1,
/// which are useless.
fn snapshot_size_factor(settings: &mut WrittenSettings) -> Result<Option<f64>, ConfigError> {
    let factor = settings.ratio(&keys::SNAPSHOT_SIZE_FACTOR)?;
    let Some(found) = settings
        .find(&keys::SNAPSHOT_SIZE_FACTOR)
        .filter(|_| factor > 1.0)
    else {
        return Ok(Some(factor).filter(|&factor| factor >= 0.0));
    };
    let text = format!("{factor} is more than 1; the default {DEFAULT_SIZE_FACTOR} is used");
    settings.notices.push(found.warning(text));
    Ok(Some(DEFAULT_SIZE_FACTOR))
}

impl Purge {
    pub(super) fn read(settings: &mut WrittenSettings) -> Result<Self, ConfigError> {
        Ok(Self {
            retain: settings.int(&keys::SNAP_RETAIN_COUNT)?,
            interval_hours: settings.positive(&keys::PURGE_INTERVAL)?,
        })
    }
}

const DEFAULT_SIZE_FACTOR: f64 = 0.33;
const DEFAULT_FILE_MODE: u32 = 0o640;
