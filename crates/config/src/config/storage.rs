//! Log, snapshots, purge.

use crate::error::ConfigError;
use crate::registry::storage as keys;
use crate::settings::Settings;

/// How the transaction log and the snapshots are kept.
#[derive(Debug, Clone, PartialEq)]
pub struct Storage {
    /// How much of a log file is allocated at a time, in KiB; 0 is nothing in advance.
    pub prealloc_kb: u64,
    /// Transactions between snapshots; at least 2.
    pub snap_count: u32,
    /// Bytes of log between snapshots, in KiB; absent is no such limit.
    pub snap_size_limit_kb: Option<u64>,
    /// Size of a log file, in KiB; absent is no limit.
    pub txn_log_size_limit_kb: Option<u64>,
    /// Transactions kept in memory for learners; at least 500.
    pub commit_log_count: u32,
    /// Share of a snapshot's size up to which learners are sent the log instead; absent is never.
    pub snapshot_size_factor: Option<f64>,
    /// How new snapshots are compressed.
    pub snapshot_compression: SnapshotCompression,
    /// Logs without any snapshot are accepted.
    pub snapshot_trust_empty: bool,
    /// A snapshot ends with the last zxid in it.
    pub serialize_last_processed_zxid: bool,
    /// The digest of the tree is kept, logged and checked.
    pub digest_enabled: bool,
    /// What follows when this server holds other data than others.
    pub on_digest_mismatch: OnDigestMismatch,
    /// The end of a session is logged with the ephemerals it deletes.
    pub close_session_txn_enabled: bool,
    /// Duration of an fsync that is reported, in milliseconds.
    pub fsync_warning_threshold_ms: u64,
    /// Writes are on disk before they are acknowledged.
    pub force_sync: bool,
    /// Mode of new files with data, before the umask is applied.
    pub file_mode: u32,
    /// Missing data directories are created.
    pub datadir_autocreate: bool,
    /// An empty data directory is taken for a new database.
    pub db_autocreate: bool,
    /// Time that writes are gathered before they are synced together, in milliseconds.
    pub flush_delay_ms: u64,
    /// Time to wait for a further write to gather, in milliseconds.
    pub max_write_queue_poll_time_ms: u64,
    /// Writes that are synced together at most.
    pub max_batch_size: u32,
}

/// What a server does that holds other data than others.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum OnDigestMismatch {
    /// It logs and counts that.
    #[default]
    Log,
    /// It ends.
    Stop,
    /// A member takes its leader's snapshot if a quorum with the leader agrees; else it ends.
    Repair,
}

/// The compression of new snapshots. All are readable.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum SnapshotCompression {
    /// None.
    #[default]
    None,
    /// gzip; the file name ends in `.gz`.
    Gz,
    /// Snappy; the file name ends in `.snappy`.
    Snappy,
}

/// Which old snapshots and logs are deleted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Purge {
    /// Snapshots that are kept; at least 3.
    pub retain: u32,
    /// Hours between purges, the first at the start; absent is never.
    pub interval_hours: Option<u32>,
}

impl Storage {
    pub(super) fn read(settings: &mut Settings, is_member: bool) -> Result<Self, ConfigError> {
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

fn file_mode(settings: &mut Settings) -> Result<u32, ConfigError> {
    let chosen = settings.choice(&keys::FILE_MODE)?;
    let mode = chosen.and_then(|digits| u32::from_str_radix(digits, 8).ok());
    Ok(mode.unwrap_or(DEFAULT_FILE_MODE))
}

fn on_digest_mismatch(
    settings: &mut Settings,
    is_member: bool,
) -> Result<OnDigestMismatch, ConfigError> {
    let chosen = match settings.choice(&keys::ON_DIGEST_MISMATCH)? {
        Some("stop") => OnDigestMismatch::Stop,
        Some("repair") => OnDigestMismatch::Repair,
        _ => OnDigestMismatch::Log,
    };
    match settings.find(&keys::ON_DIGEST_MISMATCH) {
        Some(found) if chosen == OnDigestMismatch::Repair && !is_member => Err(found
            .refused("a server without an ensemble has no leader to take a snapshot from")
            .hint("use stop, or log")),
        _ => Ok(chosen),
    }
}

/// Negative switches it off; more than a whole snapshot makes no sense.
fn snapshot_size_factor(settings: &mut Settings) -> Result<Option<f64>, ConfigError> {
    let factor = settings.ratio(&keys::SNAPSHOT_SIZE_FACTOR)?;
    let Some(found) = settings
        .find(&keys::SNAPSHOT_SIZE_FACTOR)
        .filter(|_| factor > 1.0)
    else {
        return Ok(Some(factor).filter(|&factor| factor >= 0.0));
    };
    let text = format!("{factor} is more than 1; the default {DEFAULT_SIZE_FACTOR} holds");
    settings.notices.push(found.warning(text));
    Ok(Some(DEFAULT_SIZE_FACTOR))
}

impl Purge {
    pub(super) fn read(settings: &mut Settings) -> Result<Self, ConfigError> {
        Ok(Self {
            retain: settings.int(&keys::SNAP_RETAIN_COUNT)?,
            interval_hours: settings.positive(&keys::PURGE_INTERVAL)?,
        })
    }
}

const DEFAULT_SIZE_FACTOR: f64 = 0.33;
const DEFAULT_FILE_MODE: u32 = 0o640;
