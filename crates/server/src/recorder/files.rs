//! The history from the files: the snapshot that it begins with, and what the log has behind it.

use history::{Baseline, HistoryError, Index, Origin, Settings, SnapshotAt};
use jute::Limits;
use proto::txn::TxnRecord;
use proto::{Acl, SessionId, StatPersisted, Zxid};
use storage::{
    ContentError, DataDirs, RealDisk, SnapshotDigest, SnapshotFile, State, StorageError,
    list_snapshots, read_snapshot, read_txns_from,
};

/// What can go wrong on the way from file to file.
#[derive(Debug, thiserror::Error)]
pub(super) enum FillError {
    #[error("{0}")]
    History(#[from] HistoryError),
    #[error("{0}")]
    Storage(#[from] StorageError),
}

/// Where the server's files are.
pub(super) struct Sources {
    pub(super) dirs: DataDirs,
    pub(super) limits: Limits,
}

/// How reading the log went.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Caught {
    /// Up to the wanted transaction, or as far as the log goes.
    Up,
    /// There is more; it is to be called again.
    Partly,
    /// The log does not reach back to the last one recorded.
    Gap,
}

/// Transactions that are read before other work gets its turn.
const TURN: usize = 65_536;

impl Sources {
    /// Records what the log has behind the last one recorded, up to `upto`.
    pub(super) fn catch_up(&self, index: &mut Index, upto: Zxid) -> Result<Caught, FillError> {
        let head = index.head();
        // The one that is recorded already comes along if it is there: what follows it is then sure
        // to follow it, also over the end of an epoch.
        let mut txns = read_txns_from(&RealDisk, &self.dirs, head, self.limits)?;
        let mut has_head = false;
        for _ in 0..TURN {
            let Some(txn) = txns.next() else {
                return Ok(Caught::Up);
            };
            let record = txn?.record;
            let zxid = record.header.zxid;
            if zxid > upto {
                return Ok(Caught::Up);
            }
            if zxid == head {
                if !index.is_head(&record.header) {
                    return Err(HistoryError::OtherEnsemble { zxid }.into());
                }
                has_head = true;
            } else if zxid > head {
                let begins_log = index.head() == head && !has_head;
                if begins_log && !follows(head, zxid) {
                    return Ok(Caught::Gap);
                }
                index.append(&record, &Origin::default())?;
            }
        }
        Ok(Caught::Partly)
    }

    /// A new history: from the oldest snapshot that the log goes on from.
    pub(super) fn create(
        &self,
        settings: &Settings,
        upto: Zxid,
    ) -> Result<Option<Index>, FillError> {
        let mut files = list_snapshots(&RealDisk, &self.dirs.snap)?;
        files.reverse();
        for file in files.into_iter().filter(|file| file.zxid <= upto) {
            if !self.goes_on_from(&file)? {
                continue;
            }
            match self.baseline(settings, &file, upto) {
                Ok(Some((baseline, at))) => {
                    return Ok(Some(Index::create(settings.clone(), baseline, at)?));
                }
                Ok(None) => {}
                Err(FillError::Storage(error)) => {
                    tracing::warn!(%error, "the history cannot begin with this snapshot");
                }
                Err(other) => return Err(other),
            }
        }
        Ok(None)
    }

    /// Goes on behind a gap, with the oldest snapshot behind it.
    pub(super) fn bridge(
        &self,
        index: &mut Index,
        settings: &Settings,
        upto: Zxid,
    ) -> Result<bool, FillError> {
        let head = index.head();
        let mut files = list_snapshots(&RealDisk, &self.dirs.snap)?;
        files.reverse();
        for file in files
            .into_iter()
            .filter(|file| file.zxid > head && file.zxid <= upto)
        {
            if !self.goes_on_from(&file)? {
                continue;
            }
            if let Some((baseline, at)) = self.baseline(settings, &file, upto)? {
                index.begin_era(baseline, at)?;
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn goes_on_from(&self, file: &SnapshotFile) -> Result<bool, FillError> {
        let mut txns = read_txns_from(&RealDisk, &self.dirs, file.zxid.next(), self.limits)?;
        Ok(match txns.next() {
            None => true,
            Some(Ok(first)) => follows(file.zxid, first.record.header.zxid),
            Some(Err(_)) => false,
        })
    }

    /// `None` if the snapshot holds parts of what is not known to be committed.
    fn baseline(
        &self,
        settings: &Settings,
        file: &SnapshotFile,
        upto: Zxid,
    ) -> Result<Option<(Baseline, SnapshotAt)>, FillError> {
        let mut filling = Filling {
            settings,
            baseline: Baseline::new(settings)?,
            failure: None,
        };
        let info = read_snapshot(&RealDisk, file, self.limits, &mut filling);
        if let Some(failure) = filling.failure {
            return Err(failure.into());
        }
        let covers = info?.covers();
        if covers.is_some_and(|covers| covers > upto) {
            return Ok(None);
        }
        let at = SnapshotAt {
            zxid: file.zxid,
            covers,
        };
        Ok(Some((filling.baseline, at)))
    }
}

/// Whether a log that begins with `next` misses nothing behind `last`. Source: as recovery does.
fn follows(last: Zxid, next: Zxid) -> bool {
    next == last.next() || (next.epoch() > last.epoch() && next.counter() == 1)
}

/// Fills a baseline from a snapshot.
struct Filling<'a> {
    settings: &'a Settings,
    baseline: Baseline,
    failure: Option<HistoryError>,
}

impl Filling<'_> {
    fn note(&mut self, result: Result<(), HistoryError>) -> Result<(), ContentError> {
        result.map_err(|error| {
            let text = error.to_string();
            self.failure = Some(error);
            ContentError::new(text)
        })
    }
}

impl State for Filling<'_> {
    fn begin(&mut self) {
        match Baseline::new(self.settings) {
            Ok(baseline) => self.baseline = baseline,
            Err(error) => self.failure = Some(error),
        }
    }

    fn session(&mut self, _: SessionId, _: i32) {}

    fn acl(&mut self, id: i64, acl: Vec<Acl>) {
        self.baseline.acl(id, &acl);
    }

    fn znode(
        &mut self,
        path: &str,
        data: Option<&[u8]>,
        acl: i64,
        stat: StatPersisted,
    ) -> Result<(), ContentError> {
        let taken = self.baseline.znode(path, data, acl, &stat);
        self.note(taken)
    }

    fn snapshot_loaded(&mut self, _: Zxid, _: Option<SnapshotDigest>) -> Result<(), ContentError> {
        Ok(())
    }

    fn txn(&mut self, _: &TxnRecord) {}
}
