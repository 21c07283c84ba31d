//! Background work in small steps: merging runs, and dropping changes that exceed the limits on age
//! or size.

use std::sync::Arc;

use prost::Message;

use super::postings::{Posting, decode, encode, path_key};
use super::settings::{base_path, run_path};
use crate::error::{HistoryError, Result};
use crate::files::rows::keys;
use crate::files::segment;
use crate::files::sorted::{SortedCursor, SortedFile, SortedWriter};
use crate::files::sorter::{MergedCursor, Sorter};
use crate::index::Index;
use crate::limits::{POSTINGS_CHUNK, STEP_PAGES};
use crate::reading::read::apply;
use crate::reading::view::{EraView, HistoryView, Run};
use crate::record::{Change, Era, Znode};

/// Interval between checks of retention while no new segment begins, ms.
const LOOK_EVERY_MS: u64 = 60_000;

/// Background work in progress.
pub(crate) enum MaintenanceTask {
    Merge(Box<Merge>),
    Trim(Box<Trim>),
}

/// Result of a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MaintenanceStep {
    /// There is nothing to do.
    Idle,
    /// Some work has been done, and more may remain.
    Worked,
}

/// Merge of several runs into one.
pub(crate) struct Merge {
    number: u64,
    inputs: Vec<Arc<Run>>,
    cursor: MergedCursor,
    writer: SortedWriter,
    pending: Pending,
}

/// An entry that is not written yet, because the next input may contain more postings for its key.
///
/// Most keys occur once, and their entries are written as they were read.
#[derive(Default)]
struct Pending {
    key: Vec<u8>,
    /// Encoded value.
    value: Vec<u8>,
    /// Decoded postings, if they are needed. `value` is then out of date.
    postings: Option<Vec<Posting>>,
}

impl Pending {
    fn is_of(&self, key: &[u8]) -> bool {
        self.key == key && (self.postings.is_some() || !self.value.is_empty())
    }

    fn set(&mut self, key: &[u8], value: &[u8]) {
        self.key.clear();
        self.key.extend_from_slice(key);
        self.value.clear();
        self.value.extend_from_slice(value);
        self.postings = None;
    }

    /// Decodes the postings so that they can be changed. Returns `None` if they cannot be decoded.
    fn postings(&mut self) -> Option<&mut Vec<Posting>> {
        if self.postings.is_none() {
            let mut found = Vec::new();
            decode(&self.value, &mut found)?;
            self.postings = Some(found);
        }
        self.postings.as_mut()
    }

    /// Drops postings for blocks before `first_block`. Returns whether the entry could be decoded.
    fn drop_before(&mut self, first_block: u64) -> bool {
        let postings = self.postings();
        let kept = postings.map(|all| all.retain(|posting| posting.block >= first_block));
        kept.is_some()
    }

    /// Adds postings for the same key. Returns whether everything could be decoded.
    fn add(&mut self, value: &[u8], first_block: u64, out: &mut SortedWriter) -> Result<bool> {
        let mut more = Vec::new();
        let is_whole = decode(value, &mut more).is_some();
        let Some(postings) = self.postings().filter(|_| is_whole) else {
            return Ok(false);
        };
        more.retain(|posting| posting.block >= first_block);
        if postings.len() + more.len() <= POSTINGS_CHUNK {
            postings.extend(more);
        } else {
            self.flush(out)?;
            self.postings = Some(more);
        }
        Ok(true)
    }

    fn flush(&mut self, writer: &mut SortedWriter) -> Result<()> {
        if let Some(postings) = self.postings.take() {
            self.value.clear();
            if !postings.is_empty() {
                encode(&postings, &mut self.value);
            }
        }
        if !self.value.is_empty() {
            writer.push(&self.key, &self.value)?;
            self.value.clear();
        }
        Ok(())
    }
}

impl Merge {
    /// Processes one entry. Returns `None` at the end, otherwise whether a page was read.
    fn take(&mut self, first_block: u64) -> Result<Option<bool>> {
        let Some((key, value)) = self.cursor.entry() else {
            return Ok(None);
        };
        let has_old = self.inputs[0].first_block < first_block;
        let is_whole = if self.pending.is_of(key) {
            self.pending.add(value, first_block, &mut self.writer)?
        } else {
            self.pending.flush(&mut self.writer)?;
            self.pending.set(key, value);
            !has_old || self.pending.drop_before(first_block)
        };
        if !is_whole {
            let path = self.inputs[0].file.path();
            let reason = "cannot decode a list of blocks";
            return Err(HistoryError::damaged(path, reason));
        }
        self.cursor.advance().map(Some)
    }
}

/// Drop of the blocks before `upto`. Their changes are applied to the initial znodes of the era.
pub(crate) struct Trim {
    upto: u64,
    next: u64,
    history_view: HistoryView,
    /// Era that contains `upto`.
    era: Era,
    old_base: Arc<SortedFile>,
    stage: TrimStage,
}

enum TrimStage {
    /// The changes are sorted by path.
    Sort(Sorter),
    /// The changes are applied to the znodes.
    Fold(Box<Fold>),
    /// All dropped blocks precede the era, so its initial znodes stay unchanged.
    Nothing,
}

/// Application of sorted changes to znodes.
struct Fold {
    base: SortedCursor,
    changes: MergedCursor,
    number: u64,
    writer: SortedWriter,
}

impl Index {
    /// Does several milliseconds of background work: merging runs, and dropping changes that are no
    /// longer kept. `now_ms` is the time since 1970.
    ///
    /// # Errors
    /// If a file cannot be read or written.
    pub fn step(&mut self, now_ms: i64) -> Result<MaintenanceStep> {
        let task = match self.task.take() {
            Some(task) => task,
            None => match self.next_task(now_ms)? {
                Some(task) => task,
                None => return Ok(MaintenanceStep::Idle),
            },
        };
        match task {
            MaintenanceTask::Merge(merge) => self.merge_step(merge)?,
            MaintenanceTask::Trim(trim) => self.trim_step(trim)?,
        }
        Ok(MaintenanceStep::Worked)
    }

    fn next_task(&mut self, now_ms: i64) -> Result<Option<MaintenanceTask>> {
        // Only whole files are dropped. Checking all files at every step or block would cost more
        // than recording changes.
        let is_due = self.looked_at.0 != self.state.segment
            || now_ms.abs_diff(self.looked_at.1) >= LOOK_EVERY_MS;
        if is_due {
            if let Some(upto) = self.trim_upto(now_ms) {
                return self.begin_trim(upto).map(Some);
            }
            self.looked_at = (self.state.segment, now_ms);
        }
        let Some(inputs) = self.runs_to_merge() else {
            return Ok(None);
        };
        let number = self.take_file_number();
        let files: Vec<_> = inputs.iter().map(|run| run.file.clone()).collect();
        Ok(Some(MaintenanceTask::Merge(Box::new(Merge {
            number,
            cursor: MergedCursor::seek(&files, b"")?,
            writer: SortedWriter::create(run_path(&self.settings.dir, number))?,
            inputs,
            pending: Pending::default(),
        }))))
    }

    /// Returns adjacent runs on one level to merge; `None` if every level has too few runs.
    fn runs_to_merge(&self) -> Option<Vec<Arc<Run>>> {
        let view = self.shared.view.read();
        let mut groups = view.runs.chunk_by(|a, b| a.level == b.level);
        let count = self.settings.shape.runs_merged;
        let full = groups.find(|group| group.len() >= count);
        full.map(|group| group[..count].to_vec())
    }

    fn merge_step(&mut self, mut merge: Box<Merge>) -> Result<()> {
        let first_block = self.shared.view.read().first_block;
        let mut pages = 0;
        while pages < STEP_PAGES {
            match merge.take(first_block)? {
                Some(true) => {
                    pages += 1;
                    self.settings.yield_hook.now();
                }
                Some(false) => {}
                None => return self.finish_merge(*merge),
            }
        }
        self.task = Some(MaintenanceTask::Merge(merge));
        Ok(())
    }

    fn finish_merge(&mut self, mut merge: Merge) -> Result<()> {
        merge.pending.flush(&mut merge.writer)?;
        let ends = merge.inputs.first().zip(merge.inputs.last());
        let (first, last) = ends.expect("a merge has inputs");
        let (file, unsynced) = merge.writer.finish_unsynced()?;
        let run = Run {
            number: merge.number,
            level: first.level + 1,
            first_block: first.first_block,
            last_block: last.last_block,
            file,
        };
        self.unsynced.push((run.number, unsynced));
        self.note_run(&run);
        self.forget_runs(&merge.inputs);
        let mut view = self.shared.view.write();
        let is_input = |other: &Arc<Run>| merge.inputs.iter().any(|run| run.number == other.number);
        let at = view
            .runs
            .partition_point(|other| other.first_block < run.first_block);
        view.runs.retain(|other| !is_input(other));
        view.runs.insert(at, Arc::new(run));
        self.is_dirty = true;
        Ok(())
    }

    fn forget_runs(&mut self, runs: &[Arc<Run>]) {
        for run in runs {
            self.writes
                .push((keys::numbered(keys::RUN, run.number), None));
            self.obsolete.push(run.file.path().to_path_buf());
            // A run that is removed before a row on disk refers to it need not be synced.
            self.unsynced.retain(|(number, _)| *number != run.number);
        }
    }

    /// Returns the first block to keep if there are blocks to drop. Only whole files are dropped,
    /// and never the newest file.
    fn trim_upto(&self, now_ms: i64) -> Option<u64> {
        let mut excess = match self.settings.bytes_max {
            0 => 0,
            max => match self.bytes_on_disk() {
                bytes if bytes <= max => 0,
                // Slightly more than required is dropped, so that not every new file causes another
                // trim.
                bytes => bytes - (max - max / 10),
            },
        };
        let too_old = match self.settings.age_ms_max {
            0 => i64::MIN,
            age => now_ms.saturating_sub(age),
        };
        let view = self.shared.view.read();
        let mut upto = view.first_block;
        for segment in view.segments.values() {
            if segment.number == self.state.segment {
                break;
            }
            let rows = view
                .blocks
                .range(usize::try_from(upto - view.first_block).ok()?..);
            let of_file = rows.take_while(|row| row.segment == segment.number);
            let (mut count, mut newest) = (0, i64::MIN);
            for row in of_file {
                (count, newest) = (count + 1, newest.max(row.max_time_ms));
            }
            if excess == 0 && newest >= too_old {
                break;
            }
            excess = excess.saturating_sub(segment.bytes());
            upto += count;
        }
        (upto > view.first_block).then_some(upto)
    }

    fn begin_trim(&mut self, upto: u64) -> Result<MaintenanceTask> {
        let history_view = self.reader().history_view();
        let eras = history_view.eras.iter().rev();
        let mut eras = eras.filter(|era| era.row.first_block <= upto);
        let era = eras
            .next()
            .or(history_view.eras.first())
            .ok_or_else(|| HistoryError::damaged(&self.settings.dir, "the index has no era"))?;
        let next = era.row.first_block.max(history_view.first_block);
        let stage = if next < upto {
            TrimStage::Sort(Sorter::new(&self.settings.dir, "sort.trim"))
        } else {
            TrimStage::Nothing
        };
        Ok(MaintenanceTask::Trim(Box::new(Trim {
            upto,
            next,
            era: era.row,
            old_base: era.base.clone(),
            history_view,
            stage,
        })))
    }

    fn trim_step(&mut self, mut trim: Box<Trim>) -> Result<()> {
        let is_done = match &mut trim.stage {
            TrimStage::Nothing => true,
            TrimStage::Sort(sorter) if trim.next < trim.upto => {
                let (changes, segment) = trim.history_view.block(trim.next)?;
                for change in changes.iter() {
                    let mut change = change.clone();
                    for content in [&mut change.data, &mut change.acl].into_iter().flatten() {
                        *content = trim.history_view.content(content, segment.as_ref())?;
                    }
                    sorter.push(path_key(&change.path), change.encode_to_vec())?;
                }
                trim.next += 1;
                false
            }
            TrimStage::Sort(_) => {
                self.begin_fold(&mut trim)?;
                false
            }
            TrimStage::Fold(fold) => fold.step(&trim.history_view.shared.dir)?,
        };
        if is_done {
            return self.finish_trim(*trim);
        }
        self.task = Some(MaintenanceTask::Trim(trim));
        Ok(())
    }

    fn begin_fold(&mut self, trim: &mut Trim) -> Result<()> {
        let number = self.take_file_number();
        let between = std::mem::replace(&mut trim.stage, TrimStage::Nothing);
        if let TrimStage::Sort(sorter) = between {
            trim.stage = TrimStage::Fold(Box::new(Fold {
                base: trim.old_base.seek(b"")?,
                changes: sorter.finish()?,
                number,
                writer: SortedWriter::create(base_path(&self.settings.dir, number))?,
            }));
        }
        Ok(())
    }

    fn finish_trim(&mut self, trim: Trim) -> Result<()> {
        let mut oldest = EraView {
            row: trim.era,
            base: trim.old_base,
        };
        if let TrimStage::Fold(fold) = trim.stage {
            self.obsolete.push(oldest.base.path().to_path_buf());
            oldest.base = fold.writer.finish()?;
            oldest.row.base = fold.number;
        }
        if let Some(last) = trim.history_view.row(trim.upto - 1)
            && trim.era.first_block < trim.upto
        {
            oldest.row.recorded_after = last.last_zxid;
            if oldest.row.known_from < last.last_zxid {
                oldest.row.known_from = last.last_zxid;
                oldest.row.known_from_ms = last.max_time_ms;
            }
            oldest.row.first_block = trim.upto;
        }
        let shared = self.shared.clone();
        let mut view = shared.view.write();
        let at = view
            .eras
            .iter()
            .position(|era| era.row.base == trim.era.base);
        for era in view.eras.drain(..at.unwrap_or_default()) {
            self.obsolete.push(era.base.path().to_path_buf());
        }
        view.eras[0] = oldest;
        self.state.eras = view.eras.iter().map(|era| era.row).collect();
        while view.first_block < trim.upto {
            view.blocks.pop_front();
            let key = keys::numbered(keys::BLOCK, view.first_block);
            self.writes.push((key, None));
            view.first_block += 1;
        }
        let first = view
            .blocks
            .front()
            .map_or(self.state.segment, |row| row.segment);
        let kept = view.segments.split_off(&first);
        for number in std::mem::replace(&mut view.segments, kept).keys() {
            self.obsolete.push(segment::path(&shared.dir, *number));
        }
        let (gone, runs) = std::mem::take(&mut view.runs)
            .into_iter()
            .partition::<Vec<_>, _>(|run| run.last_block < trim.upto);
        view.runs = runs;
        drop(view);
        self.forget_runs(&gone);
        self.is_dirty = true;
        // The checkpoint removes the dropped files from the disk.
        self.checkpoint()
    }
}

impl Fold {
    /// Reads a limited number of pages. Returns whether all znodes have been written.
    fn step(&mut self, dir: &std::path::Path) -> Result<bool> {
        let mut pages = 0;
        while pages < STEP_PAGES {
            let in_base = self.base.entry().map(|(key, _)| key);
            let in_changes = self.changes.entry().map(|(key, _)| key);
            let smallest = in_base.into_iter().chain(in_changes).min();
            let Some(key) = smallest.map(<[u8]>::to_vec) else {
                return Ok(true);
            };
            let mut znode: Option<Znode> = None;
            if let Some((at, value)) = self.base.entry()
                && at == key
            {
                if self
                    .changes
                    .entry()
                    .is_none_or(|(changed, _)| changed != key)
                {
                    self.writer.push(&key, value)?;
                    pages += usize::from(self.base.advance()?);
                    continue;
                }
                znode = Some(crate::record::decode(value.to_vec().into(), dir)?);
                pages += usize::from(self.base.advance()?);
            }
            while let Some((at, value)) = self.changes.entry()
                && at == key
            {
                let change: Change = crate::record::decode(value.to_vec().into(), dir)?;
                apply(&mut znode, &change);
                pages += usize::from(self.changes.advance()?);
            }
            if let Some(znode) = znode {
                self.writer.push(&key, &znode.encode_to_vec())?;
            }
        }
        Ok(false)
    }
}
