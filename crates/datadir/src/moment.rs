//! Search of the log for the last transaction up to a moment.
//!
//! Corruption and missing transactions matter only between this transaction and the next one: they
//! may then hide later transactions up to the moment. Everywhere else they are ignored here, and
//! the restored files are checked separately.

use history::Moment;
use jute::Limits;
use proto::Zxid;
use storage::{DataDirs, RealDisk, StorageError, list_logs, list_snapshots, read_txns_of};

use crate::Error;

/// Surroundings of a moment in the log.
#[derive(Default)]
struct Neighbours {
    /// Last transaction up to the moment.
    last: Option<Zxid>,
    /// First transaction after `last`.
    next: Option<Zxid>,
    /// First error between `last` and `next`.
    unreadable: Option<StorageError>,
}

impl Neighbours {
    fn find(source: &DataDirs, at: Moment, limits: Limits) -> Result<Self, Error> {
        let mut found = Self::default();
        for file in list_logs(&RealDisk, &source.log)? {
            for txn in read_txns_of(&RealDisk, file, limits) {
                let header = match txn {
                    Ok(txn) => txn.record.header,
                    Err(error) => {
                        if found.next.is_none() {
                            found.unreadable.get_or_insert(error);
                        }
                        continue;
                    }
                };
                let is_before = match at {
                    Moment::Zxid(zxid) => header.zxid <= zxid,
                    Moment::Time(ms) => header.time_ms <= ms,
                };
                if is_before {
                    found = Self {
                        last: Some(header.zxid),
                        ..Self::default()
                    };
                } else if found.next.is_none() {
                    found.next = Some(header.zxid);
                }
                if matches!(at, Moment::Zxid(zxid) if header.zxid >= zxid) {
                    return Ok(found);
                }
            }
        }
        Ok(found)
    }

    /// Returns the first snapshot after `last`, unless `next` precedes it. Its transaction is not in
    /// the log.
    fn unlogged_snapshot(&self, source: &DataDirs) -> Result<Option<Zxid>, Error> {
        let zxids = list_snapshots(&RealDisk, &source.snap)?;
        let zxids = zxids.into_iter().map(|file| file.zxid);
        let is_between = |zxid: &Zxid| {
            self.last.is_none_or(|last| last < *zxid) && self.next.is_none_or(|next| *zxid < next)
        };
        Ok(zxids.filter(is_between).min())
    }
}

/// Returns the last transaction up to a moment. A zxid must be in the log or in the name of a
/// snapshot, and a time must not be before the first transaction of the log.
///
/// # Errors
/// If the files do not contain the moment, or if transactions up to the moment may be missing or
/// unreadable.
pub(crate) fn last_txn_until(source: &DataDirs, at: Moment, limits: Limits) -> Result<Zxid, Error> {
    let mut found = Neighbours::find(source, at, limits)?;
    if let Moment::Zxid(zxid) = at {
        let snapshots = list_snapshots(&RealDisk, &source.snap)?;
        if found.last == Some(zxid) || snapshots.iter().any(|file| file.zxid == zxid) {
            return Ok(zxid);
        }
    }
    if let Some(error) = found.unreadable.take() {
        return Err(error.into());
    }
    let snapshot = found.unlogged_snapshot(source)?;
    if let Some(last) = found.last {
        let has_gap = found
            .next
            .is_some_and(|next| next > last && !last.is_followed_by(next));
        let after_gap = snapshot.or(found.next.filter(|_| has_gap));
        if let Some(after_gap) = after_gap {
            return Err(gap_error(last, after_gap, snapshot));
        }
    }
    match (at, found.last) {
        (Moment::Time(_), Some(last)) => Ok(last),
        (Moment::Time(_), None) => Err(Error::Usage(
            "the oldest transaction of the log is newer than the moment of --at".to_owned(),
        )),
        (Moment::Zxid(zxid), last) => Err(Error::Usage(match (last, found.next) {
            (None, Some(next)) => {
                format!("the log does not contain transaction {zxid}; the log begins with {next}")
            }
            (last, _) => format!(
                "the log does not contain transaction {zxid}; the log ends at {}",
                last.unwrap_or(Zxid::ZERO)
            ),
        })),
    }
}

/// Returns the error for a moment between two transactions between which others are missing.
fn gap_error(last: Zxid, next: Zxid, snapshot: Option<Zxid>) -> Error {
    let later = snapshot.map(|zxid| format!(", or --at {zxid} for a later state"));
    Error::Usage(format!(
        "the log does not contain the transactions between {last} and {next}, so the state at the moment of --at is unknown; use --at {last} for an earlier state{}",
        later.unwrap_or_default()
    ))
}
