//! Change histories in memory, of which some are also in files that the shipped index writes.

use std::fmt;
use std::path::Path;
use std::rc::Rc;

use history::{
    Baseline, HistoryError, HistoryStorage, Index, MaintenanceStep, Origin, Recording, Result,
    SnapshotAt, Znodes,
};
use proto::txn::{TxnHeader, TxnRecord};
use proto::{Acl, StatPersisted, Zxid};

use super::files::{FileCounts, Files};
use super::store::{Base, Memory, Recorded};

/// Storage of one member's history.
#[derive(Debug, Default)]
pub(super) struct Storage {
    memory: Memory,
    files: Option<Rc<Files>>,
}

/// A history in memory, and the same history in files.
pub(super) struct Both {
    pub(super) recorded: Recorded,
    pub(super) stored: Option<Stored>,
}

/// A history in files.
pub(super) struct Stored {
    pub(super) index: Index,
    pub(super) files: Rc<Files>,
    /// Time of the last recorded transaction, ms.
    now_ms: i64,
}

/// Znodes of a snapshot.
pub(super) struct BothZnodes {
    base: Base,
    baseline: Option<Baseline>,
}

impl Storage {
    /// Returns a storage that records the history in a directory also.
    pub(super) fn with_files(dir: &Path, seed: u64, user: String) -> Self {
        Self {
            memory: Memory::default(),
            files: Some(Rc::new(Files::drawn(dir, seed, user))),
        }
    }

    pub(super) fn files(&self) -> Option<&Rc<Files>> {
        self.files.as_ref()
    }

    pub(super) fn get(&self) -> Option<Recorded> {
        self.memory.get()
    }

    /// Ends the process that writes the history. Data that is not durable is lost.
    pub(super) fn close(&self, open: Both) {
        match open.stored {
            None => self.memory.put(open.recorded.at_checkpoint()),
            Some(stored) => {
                stored.files.end(stored.index);
                // The next opening of the files decides which part is lost.
                self.memory.put(open.recorded);
            }
        }
    }

    /// Removes the history.
    pub(super) fn lose(&mut self) {
        self.memory = Memory::default();
        if let Some(files) = &self.files {
            files.remove();
        }
    }

    /// Checks that an error is not a fault of the history in files.
    pub(super) fn must_expect(&self, error: &HistoryError) {
        let is_expected = matches!(error, HistoryError::OtherEnsemble { .. });
        if let Some(files) = &self.files
            && !is_expected
            && !files.is_damaged()
        {
            files.fail(format!(
                "without corruption, the change history reports: {error}"
            ));
        }
    }

    /// Moves an unusable history aside.
    pub(super) fn set_aside(&mut self) {
        self.memory = Memory::default();
        if let Some(files) = &self.files {
            files.set_aside();
        }
    }
}

impl HistoryStorage for Storage {
    type History = Both;

    fn open(&self) -> Result<Both> {
        let Some(files) = &self.files else {
            let recorded = self.memory.open()?;
            let stored = None;
            return Ok(Both { recorded, stored });
        };
        let opened = files.open();
        if let Err(HistoryError::Missing { .. }) = &opened
            && self.memory.get().is_some()
        {
            files.fail("the files of the change history have disappeared".into());
        }
        let index = opened?;
        let recorded = self.memory.open().and_then(|recorded| {
            let at = index.head();
            recorded
                .clone()
                .cut_to(at)
                .or_else(|| {
                    let (durable, last) = (recorded.durable_head(), recorded.last());
                    files.fail(format!(
                        "the change history is opened at {at}, not between {durable} and {last}"
                    ));
                    None
                })
                .ok_or_else(super::missing)
        })?;
        files.synced();
        let is_cut = self
            .memory
            .get()
            .is_some_and(|all| all.last() != recorded.last());
        files.count(FileCounts {
            opened: 1,
            cut: usize::from(is_cut),
            ..FileCounts::default()
        });
        let stored = Some(Stored {
            index,
            files: files.clone(),
            now_ms: 0,
        });
        Ok(Both { recorded, stored })
    }

    fn baseline(&self) -> Result<BothZnodes> {
        let settings = self.files.as_ref().map(|files| &files.settings);
        Ok(BothZnodes {
            base: self.memory.baseline()?,
            baseline: settings.map(HistoryStorage::baseline).transpose()?,
        })
    }

    fn create(&self, znodes: BothZnodes, at: SnapshotAt) -> Result<Both> {
        let recorded = self.memory.create(znodes.base, at)?;
        let stored = match (&self.files, znodes.baseline) {
            (Some(files), Some(baseline)) => {
                let index = files.settings.create(baseline, at)?;
                files.synced();
                Some(Stored {
                    index,
                    files: files.clone(),
                    now_ms: 0,
                })
            }
            _ => None,
        };
        Ok(Both { recorded, stored })
    }
}

impl Both {
    /// Does some background work of the history in files.
    pub(super) fn maintain(&mut self, is_idle: bool) -> Result<()> {
        let Some(stored) = &mut self.stored else {
            return Ok(());
        };
        loop {
            let before = stored.index.reader().extent();
            let step = stored.index.step(stored.now_ms)?;
            if stored.index.reader().extent() != before {
                // Dropping changes ends with a checkpoint.
                stored.files.synced();
                self.recorded.make_durable();
            }
            if step == MaintenanceStep::Idle || !is_idle {
                return Ok(());
            }
        }
    }

    /// Makes the history durable.
    pub(super) fn make_durable(&mut self) -> Result<()> {
        if let Some(stored) = &mut self.stored {
            stored.index.checkpoint()?;
            stored.files.synced();
        }
        self.recorded.make_durable();
        Ok(())
    }

    fn compare_heads(&self) {
        let Some(stored) = &self.stored else { return };
        let (found, wanted) = (stored.index.head(), self.recorded.last());
        if found != wanted {
            stored.files.fail(format!(
                "the change history ends at {found} instead of {wanted}"
            ));
        }
    }
}

impl Recording for Both {
    type Znodes = BothZnodes;

    fn head(&self) -> Zxid {
        self.compare_heads();
        self.recorded.head()
    }

    fn is_head(&self, header: &TxnHeader) -> bool {
        let wanted = self.recorded.is_head(header);
        if let Some(stored) = &self.stored
            && stored.index.is_head(header) != wanted
        {
            let zxid = header.zxid;
            stored.files.fail(format!(
                "the change history does not recognise its last transaction {zxid}"
            ));
        }
        wanted
    }

    fn append(&mut self, record: &TxnRecord, origin: &Origin) -> Result<()> {
        self.recorded.append(record, origin)?;
        if let Some(stored) = &mut self.stored {
            stored.index.append(record, origin)?;
            stored.now_ms = stored.now_ms.max(record.header.time_ms);
            stored.files.note_time(record.header.time_ms);
        }
        self.compare_heads();
        Ok(())
    }

    fn begin_era(&mut self, znodes: BothZnodes, at: SnapshotAt) -> Result<()> {
        self.recorded.begin_era(znodes.base, at)?;
        if let (Some(stored), Some(baseline)) = (&mut self.stored, znodes.baseline) {
            stored.index.begin_era(baseline, at)?;
            stored.files.synced();
        }
        Ok(())
    }

    fn publish(&mut self) -> Result<()> {
        match &mut self.stored {
            Some(stored) => stored.index.publish(),
            None => Ok(()),
        }
    }

    fn checkpoint(&mut self) -> Result<()> {
        self.make_durable()
    }
}

impl Znodes for BothZnodes {
    fn acl(&mut self, id: i64, acl: &[Acl]) {
        if let Some(baseline) = &mut self.baseline {
            baseline.acl(id, acl);
        }
    }

    fn znode(
        &mut self,
        path: &str,
        data: Option<&[u8]>,
        acl: i64,
        stat: &StatPersisted,
    ) -> Result<()> {
        if let Some(baseline) = &mut self.baseline {
            baseline.znode(path, data, acl, stat)?;
        }
        self.base.znode(path, data, acl, stat)
    }
}

impl fmt::Debug for Both {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.recorded.fmt(f)
    }
}
