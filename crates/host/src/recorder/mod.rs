//! Input of a member's change history: applied transactions, and transactions that are read from
//! the files.
//!
//! A host passes committed transactions through a queue that may drop transactions. Missing
//! transactions are read from the log. If the log does not reach back far enough, or belongs to
//! another sequence of transactions, a snapshot begins a new era. The host decides which thread
//! does this, and when.

use std::borrow::Borrow;
use std::sync::Arc;

use history::{
    CatchUp, CatchUpResult, HistoryError, HistoryStorage, Origin, Recording, SnapshotAt,
    TakeResult, Znodes, take_applied,
};
use jute::Limits;
use proto::txn::TxnRecord;
use proto::{Acl, SessionId, StatPersisted, Zxid};
use storage::{
    ContentError, DataDirs, Disk, LogCheck, SnapshotDigest, SnapshotFile, State, StorageError,
    check_log, is_log_whole, last_seam, list_snapshots, read_snapshot, read_txns_from,
};

/// Error while the change history is filled from files.
#[derive(Debug, thiserror::Error)]
pub enum FillError {
    /// A file of the change history could not be read or written.
    #[error("{0}")]
    History(#[from] HistoryError),
    /// The log or a snapshot could not be read.
    #[error("{0}")]
    Storage(#[from] StorageError),
}

/// Result of reading the log.
#[derive(Debug, PartialEq, Eq)]
enum LogReading {
    /// The end of the part of the log has been reached. If more was committed meanwhile, the caller
    /// first records the applied transactions.
    Up,
    /// The log contains more transactions. Call again.
    Partly,
    /// The log does not reach back to the last recorded transaction.
    Gap,
}

/// Recorder that fills the change history of a member.
#[derive(Debug)]
pub struct Recorder<D> {
    disk: Arc<D>,
    dirs: DataDirs,
    limits: Limits,
    /// Committed transaction that must be in the log before reading of the log continues.
    awaited: Option<Zxid>,
    /// Part of the log that is being read; `None` after its end.
    part: Option<LogPart>,
    /// Last recorded transaction, and the zxid up to which the log contains no transaction after
    /// it. At the begin of an epoch, an idle leader would otherwise read the log again and again.
    no_more: Option<(Zxid, Zxid)>,
    is_behind: bool,
}

/// Part of the log that is read in turns: first to check that it is continuous, then to record it.
/// A break in the part makes all its transactions before the break uncertain.
#[derive(Debug)]
struct LogPart {
    from: Zxid,
    upto: Zxid,
    /// Transaction up to which the log is known to be continuous.
    whole_until: Zxid,
    is_whole: bool,
}

/// Number of transactions that are read before other work gets its turn.
const TURN: usize = if cfg!(test) { 8 } else { 65_536 };

type ZnodesOf<K> = <<K as HistoryStorage>::History as Recording>::Znodes;

impl<D: Disk> Recorder<D> {
    /// Creates a recorder for the member with these files.
    pub fn new(disk: Arc<D>, dirs: DataDirs, limits: Limits) -> Self {
        Self {
            disk,
            dirs,
            limits,
            awaited: None,
            part: None,
            no_more: None,
            is_behind: false,
        }
    }

    /// Opens the change history or creates one from the files. Everything up to `committed` is
    /// known to be committed. Returns `None` if a suitable first snapshot does not exist yet.
    ///
    /// # Errors
    /// If the change history is unusable, or if files cannot be read.
    pub fn open<K: HistoryStorage>(
        &self,
        keeper: &K,
        committed: Zxid,
    ) -> Result<Option<K::History>, FillError> {
        match keeper.open() {
            Err(HistoryError::Missing { .. }) => {}
            other => return Ok(Some(other?)),
        }
        let begins = self.snapshot(keeper, Zxid(-1), committed)?;
        let begins = begins.map(|(znodes, at)| keeper.create(znodes, at));
        Ok(begins.transpose()?)
    }

    /// Records applied transactions as long as each follows the last recorded one. Transactions
    /// after a gap are read from the log.
    ///
    /// # Errors
    /// If a transaction cannot be recorded or belongs to another ensemble.
    pub fn take<R: Borrow<TxnRecord>, O: Borrow<Origin>>(
        &mut self,
        history: &mut impl Recording,
        txns: impl IntoIterator<Item = (R, O)>,
    ) -> Result<(), FillError> {
        for (record, origin) in txns {
            if take_applied(history, record.borrow(), origin.borrow())? == TakeResult::Missing {
                self.is_behind = true;
                break;
            }
        }
        history.publish()?;
        Ok(())
    }

    /// Returns whether transactions have been left out since the last call and must be read from
    /// the log.
    pub fn is_behind(&mut self) -> bool {
        std::mem::take(&mut self.is_behind)
    }

    /// Reads some of the missing transactions up to `committed`, which is known to be committed, from
    /// the log. The log is written up to `end`. [`Self::is_behind`] then returns whether more
    /// transactions can be read. The caller checks between two calls whether the server ends.
    ///
    /// # Errors
    /// If files cannot be read or written, or the change history belongs to another ensemble.
    pub fn catch_up<K: HistoryStorage>(
        &mut self,
        history: &mut K::History,
        keeper: &K,
        committed: Zxid,
        end: Zxid,
    ) -> Result<(), FillError> {
        if committed > Zxid::ZERO && history.head() > committed {
            let zxid = history.head();
            return Err(HistoryError::OtherEnsemble { zxid }.into());
        }
        let Some(upto) = self.readable(committed, end) else {
            return Ok(());
        };
        while history.head() < upto && self.no_more != Some((history.head(), upto)) {
            let caught = match self.read(history, upto) {
                // Another attempt would not help, so the unreadable part is treated as a gap.
                Err(FillError::Storage(error)) if error.is_damage() => {
                    tracing::warn!(err = %error, "the change history cannot read the rest of the log");
                    LogReading::Gap
                }
                other => other?,
            };
            match caught {
                LogReading::Partly => {
                    history.checkpoint()?;
                    self.is_behind = true;
                    break;
                }
                LogReading::Up => break,
                LogReading::Gap => {
                    let after = history.head();
                    let Some((znodes, at)) = self.snapshot(keeper, after, upto)? else {
                        break;
                    };
                    history.begin_era(znodes, at)?;
                    tracing::warn!(%after, from = %history.head(), "the log begins after the last recorded change, so the change history has a gap");
                }
            }
        }
        history.publish()?;
        Ok(())
    }

    /// Returns the zxid of a committed and written transaction up to which the log can be read.
    /// Returns `None` until this member has written the awaited transaction, which other members
    /// have committed without it.
    fn readable(&mut self, committed: Zxid, end: Zxid) -> Option<Zxid> {
        if end >= committed {
            self.awaited = None;
            return Some(committed);
        }
        // Under load, there is always a transaction that is not written yet, so only one is
        // awaited.
        let awaited = *self.awaited.get_or_insert(committed);
        if end < awaited {
            return None;
        }
        self.awaited.take()
    }

    /// Records the transactions in the log after the last recorded one, up to `upto`, which must be
    /// [readable](Self::readable).
    fn read(&mut self, history: &mut impl Recording, upto: Zxid) -> Result<LogReading, FillError> {
        let (head, part) = (history.head(), self.part.take());
        let (disk, dirs) = (&*self.disk, &self.dirs);
        match last_seam(disk, dirs)?.filter(|seam| *seam > head) {
            // Before the `seam`, the log may contain other breaks at unknown positions.
            Some(seam) if seam > upto => return Ok(LogReading::Up),
            Some(_) => return Ok(LogReading::Gap),
            None => {}
        }
        // Meanwhile, `upto` rises. If the part grew with it, the check would begin again and again.
        let is_current =
            |part: &LogPart| part.from <= head && head < part.upto && part.upto <= upto;
        let mut part = part.filter(is_current).unwrap_or(LogPart {
            from: head,
            upto,
            whole_until: head,
            is_whole: false,
        });
        if !part.is_whole {
            let from = part.whole_until;
            match check_log(disk, dirs, from, part.upto, TURN, self.limits)? {
                LogCheck::Whole => part.is_whole = true,
                LogCheck::WholeUntil(zxid) => {
                    part.whole_until = zxid;
                    self.part = Some(part);
                    return Ok(LogReading::Partly);
                }
                LogCheck::Broken => return Ok(LogReading::Gap),
            }
        }
        let has_snapshot = self.has_snapshot_of(head, part.upto)?;
        let mut catching_up = CatchUp::new(history, part.upto, has_snapshot);
        let mut txns = read_txns_from(disk, dirs, head, self.limits)?;
        for _ in 0..TURN {
            let taken = match txns.next() {
                None => CatchUpResult::End,
                Some(txn) => catching_up.take(history, &txn?.record)?,
            };
            match taken {
                CatchUpResult::More => {}
                CatchUpResult::End => {
                    self.no_more = Some((history.head(), part.upto));
                    return Ok(LogReading::Up);
                }
                CatchUpResult::Gap => return Ok(LogReading::Gap),
            }
        }
        self.part = Some(part);
        Ok(LogReading::Partly)
    }

    /// Returns whether there is a snapshot of the change history's last state from which the log
    /// continues up to `upto`.
    ///
    /// An epoch without a transaction leaves only a snapshot of its beginning. The next leader's
    /// snapshot has a lower zxid and replaces that snapshot. Both contain the same tree: the
    /// beginning of an epoch is recorded only once it is committed, so the next leader has every
    /// earlier transaction.
    fn has_snapshot_of(&self, head: Zxid, upto: Zxid) -> Result<bool, StorageError> {
        let (disk, dirs) = (&*self.disk, &self.dirs);
        let snapshots = list_snapshots(disk, &dirs.snap)?.into_iter();
        let mut zxids = snapshots.map(|snapshot| snapshot.zxid);
        let Some(newest) = zxids.find(|zxid| *zxid <= head) else {
            return Ok(false);
        };
        if newest == head || head.counter() != 0 {
            return Ok(newest == head);
        }
        let seam = last_seam(disk, dirs)?.unwrap_or(Zxid::ZERO);
        Ok(newest >= seam && is_log_whole(disk, dirs, newest, upto, self.limits)?)
    }

    /// Returns the oldest usable snapshot after `after` and up to `upto`. The log must continue
    /// after the snapshot without a gap.
    fn snapshot<K: HistoryStorage>(
        &self,
        keeper: &K,
        after: Zxid,
        upto: Zxid,
    ) -> Result<Option<(ZnodesOf<K>, SnapshotAt)>, FillError> {
        // A snapshot from before the `seam` does not belong to the later log.
        let seam = last_seam(&*self.disk, &self.dirs)?.unwrap_or(Zxid::ZERO);
        let mut files = list_snapshots(&*self.disk, &self.dirs.snap)?;
        files.reverse();
        files.retain(|file| file.zxid > after && file.zxid >= seam && file.zxid <= upto);
        let mut unreadable = None;
        for file in files {
            if !self.continues_log_from(&file)? {
                continue;
            }
            match self.znodes(keeper, &file, upto) {
                Ok(None) => {}
                Err(FillError::Storage(error)) => unreadable = Some(error),
                found => return found,
            }
        }
        unreadable.map_or(Ok(None), |error| Err(error.into()))
    }

    fn continues_log_from(&self, file: &SnapshotFile) -> Result<bool, FillError> {
        let mut txns = read_txns_from(&*self.disk, &self.dirs, file.zxid.next(), self.limits)?;
        Ok(match txns.next() {
            None => true,
            Some(Ok(first)) => file.zxid.is_followed_by(first.record.header.zxid),
            Some(Err(_)) => false,
        })
    }

    /// Reads a snapshot. Returns `None` if it contains parts of transactions that are not known to
    /// be committed.
    fn znodes<K: HistoryStorage>(
        &self,
        keeper: &K,
        file: &SnapshotFile,
        upto: Zxid,
    ) -> Result<Option<(ZnodesOf<K>, SnapshotAt)>, FillError> {
        let mut filling = Filling {
            keeper,
            znodes: keeper.baseline()?,
            failure: None,
        };
        let info = read_snapshot(&*self.disk, file, self.limits, &mut filling);
        if let Some(failure) = filling.failure {
            return Err(failure.into());
        }
        let mut covers = info?.covers();
        if covers.is_some_and(|covers| covers > upto) {
            return Ok(None);
        }
        // A leader continues while it sends its tree. The tree may therefore have arrived with
        // parts of later transactions, but it was consistent before this member served clients.
        if last_seam(&*self.disk, &self.dirs)? == Some(file.zxid) {
            covers = Some(upto);
        }
        let at = SnapshotAt {
            zxid: file.zxid,
            covers,
        };
        Ok(Some((filling.znodes, at)))
    }
}

/// Visitor that collects the znodes of a snapshot.
struct Filling<'a, K: HistoryStorage> {
    keeper: &'a K,
    znodes: ZnodesOf<K>,
    failure: Option<HistoryError>,
}

impl<K: HistoryStorage> State for Filling<'_, K> {
    fn begin(&mut self) {
        match self.keeper.baseline() {
            Ok(znodes) => self.znodes = znodes,
            Err(error) => self.failure = Some(error),
        }
    }

    fn session(&mut self, _: SessionId, _: i32) {}

    fn acl(&mut self, id: i64, acl: Vec<Acl>) {
        self.znodes.acl(id, &acl);
    }

    fn znode(
        &mut self,
        path: &str,
        data: Option<&[u8]>,
        acl: i64,
        stat: StatPersisted,
    ) -> Result<(), ContentError> {
        let taken = self.znodes.znode(path, data, acl, &stat);
        taken.map_err(|error| {
            let text = error.to_string();
            self.failure = Some(error);
            ContentError::new(text)
        })
    }

    fn snapshot_loaded(&mut self, _: Zxid, _: Option<SnapshotDigest>) -> Result<(), ContentError> {
        Ok(())
    }

    fn txn(&mut self, _: &TxnRecord) {}
}

#[cfg(test)]
mod tests;
