//! Readable state of a history. A reader has a consistent copy of this state while the history
//! continues.

use std::collections::{BTreeMap, VecDeque};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::Bytes;
use parking_lot::{Mutex, RwLock};
use proto::Zxid;

use crate::error::{HistoryError, Result};
use crate::files::segment::Segment;
use crate::files::sorted::SortedFile;
use crate::index::postings::{Posting, decode};
use crate::index::recent::RecentKeys;
use crate::limits::{CACHED_BLOCKS, PAGE_BLOCKS_MAX};
use crate::record::{Block, BlockRow, Change, Content, Era};
use crate::recording::expand::{hash_of, inline};
use crate::recording::filter::PathFilter;

/// Changes in a block, shared with its readers.
pub(crate) type Changes = Arc<Vec<Change>>;

/// A run and the range of blocks that it covers.
#[derive(Debug)]
pub(crate) struct Run {
    pub(crate) number: u64,
    pub(crate) level: u32,
    pub(crate) first_block: u64,
    pub(crate) last_block: u64,
    pub(crate) file: Arc<SortedFile>,
}

/// An era and its initial znodes.
#[derive(Debug, Clone)]
pub(crate) struct EraView {
    pub(crate) row: Era,
    pub(crate) base: Arc<SortedFile>,
}

/// All state that readers can read. The writer locks the state only briefly to change it.
pub(crate) struct View {
    /// Number of the first block in `blocks`.
    pub(crate) first_block: u64,
    /// Closed blocks.
    pub(crate) blocks: VecDeque<BlockRow>,
    /// Encoded changes in the block that follows `blocks` and is being filled.
    pub(crate) open: Bytes,
    /// Keys of the blocks that are not in a run. When a run is written, a new and empty collection
    /// replaces this one. A [`HistoryView`] without the new run keeps the old collection.
    pub(crate) recent: Arc<RwLock<RecentKeys>>,
    /// Runs, ordered by their blocks.
    pub(crate) runs: Vec<Arc<Run>>,
    /// Eras, oldest first. There is at least one.
    pub(crate) eras: Vec<EraView>,
    pub(crate) segments: BTreeMap<u64, Arc<Segment>>,
    pub(crate) head: i64,
    /// Time of the last recorded transaction, ms since 1970; 0 if it is unknown.
    pub(crate) head_ms: i64,
}

impl View {
    /// Returns the number of the block that is being filled.
    pub(crate) fn open_block(&self) -> u64 {
        self.first_block + self.blocks.len() as u64
    }

    /// Returns the first block that no run covers.
    pub(crate) fn first_recent(&self) -> u64 {
        let last_run = self.runs.last().map(|run| run.last_block + 1);
        last_run.unwrap_or(0).max(self.first_block)
    }

    fn row(&self, block: u64) -> Option<&BlockRow> {
        let at = usize::try_from(block.checked_sub(self.first_block)?).ok()?;
        self.blocks.get(at)
    }
}

/// Limit on the cost of one answer. The next page contains the rest of the answer.
#[derive(Clone, Default)]
pub struct CostLimit {
    /// Callback that returns whether the answer's time is over, and whether its client still waits.
    state: Option<Arc<dyn Fn() -> ClientPatience + Send + Sync>>,
}

/// State of an answer that is being built.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ClientPatience {
    /// The answer may continue.
    Left,
    /// The page must end.
    Spent,
    /// The client no longer waits for the answer.
    Gone,
}

impl CostLimit {
    /// Creates a limit from a callback, which is called often.
    pub fn new(state: impl Fn() -> ClientPatience + Send + Sync + 'static) -> Self {
        Self {
            state: Some(Arc::new(state)),
        }
    }

    fn patience(&self) -> ClientPatience {
        self.state
            .as_ref()
            .map_or(ClientPatience::Left, |state| state())
    }
}

impl std::fmt::Debug for CostLimit {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("CostLimit").finish_non_exhaustive()
    }
}

/// State shared by the writer and the readers.
pub(crate) struct Shared {
    pub(crate) dir: PathBuf,
    pub(crate) filter: PathFilter,
    pub(crate) view: RwLock<View>,
    pub(crate) cache: Mutex<BlockCache>,
}

/// Most recently used decoded blocks.
#[derive(Default)]
pub(crate) struct BlockCache {
    blocks: VecDeque<(u64, Changes)>,
}

impl BlockCache {
    fn get(&mut self, block: u64) -> Option<Changes> {
        let at = self
            .blocks
            .iter()
            .position(|(number, _)| *number == block)?;
        let found = self.blocks.remove(at)?;
        let changes = found.1.clone();
        self.blocks.push_back(found);
        Some(changes)
    }

    fn put(&mut self, block: u64, changes: Changes) {
        if self.blocks.len() == CACHED_BLOCKS {
            self.blocks.pop_front();
        }
        self.blocks.push_back((block, changes));
    }
}

/// The history at one moment. Later changes are not visible. Blocks that are dropped in the
/// meantime can no longer be read, but removed runs and bases can.
#[derive(Clone)]
pub(crate) struct HistoryView {
    pub(crate) shared: Arc<Shared>,
    pub(crate) head: Zxid,
    pub(crate) head_ms: i64,
    pub(crate) eras: Vec<EraView>,
    pub(crate) first_block: u64,
    /// Number of the block that was being filled. This block can also be read.
    pub(crate) open_block: u64,
    runs: Vec<Arc<Run>>,
    recent: Arc<RwLock<RecentKeys>>,
    effort: CostLimit,
    /// Number of blocks read for this answer.
    blocks_read: Arc<AtomicUsize>,
}

/// A query's copy of the keys of blocks that are not in a run, with their postings.
pub(crate) type RecentCopy = Vec<(Vec<u8>, Vec<Posting>)>;

impl HistoryView {
    pub(crate) fn new(shared: &Arc<Shared>, effort: &CostLimit) -> Self {
        let view = shared.view.read();
        Self {
            shared: shared.clone(),
            head: Zxid(view.head),
            head_ms: view.head_ms,
            eras: view.eras.clone(),
            first_block: view.first_block,
            open_block: view.open_block(),
            runs: view.runs.clone(),
            recent: view.recent.clone(),
            effort: effort.clone(),
            blocks_read: Arc::default(),
        }
    }

    /// Returns whether the page ends here, because it has read the maximum number of blocks or
    /// because its time is over.
    ///
    /// # Errors
    /// [`HistoryError::Abandoned`] if the client no longer waits.
    pub(crate) fn is_spent(&self) -> Result<bool> {
        match self.effort.patience() {
            ClientPatience::Gone => Err(HistoryError::Abandoned),
            ClientPatience::Spent => Ok(true),
            ClientPatience::Left => Ok(self.blocks_read.load(Ordering::Relaxed) >= PAGE_BLOCKS_MAX),
        }
    }

    fn files_replaced(&self) -> HistoryError {
        HistoryError::NotKept {
            wanted: self.head,
            oldest: Zxid(
                self.shared
                    .view
                    .read()
                    .eras
                    .first()
                    .map_or(0, |era| era.row.known_from),
            ),
        }
    }

    /// Returns the row of a closed block; `None` for the block that is being filled or if the block
    /// was dropped.
    pub(crate) fn row(&self, block: u64) -> Option<BlockRow> {
        self.shared.view.read().row(block).copied()
    }

    /// Returns the blocks that may contain changes by a transaction.
    pub(crate) fn blocks_of(&self, zxid: Zxid) -> Vec<u64> {
        let view = self.shared.view.read();
        let first = view.blocks.partition_point(|row| row.last_zxid < zxid.0);
        let rows = view.blocks.iter().skip(first);
        let closed = rows.take_while(|row| row.first_zxid <= zxid.0).count();
        let last = if first + closed == view.blocks.len() {
            view.open_block() + 1
        } else {
            view.first_block + (first + closed) as u64
        };
        (view.first_block + first as u64..last).collect()
    }

    /// Returns the changes in a block and the file with their contents.
    ///
    /// # Errors
    /// [`HistoryError::NotKept`] if the block was dropped in the meantime.
    pub(crate) fn block(&self, block: u64) -> Result<(Changes, Option<Arc<Segment>>)> {
        self.blocks_read.fetch_add(1, Ordering::Relaxed);
        let (row, segment) = {
            let view = self.shared.view.read();
            if block == view.open_block() {
                let last = view.segments.last_key_value();
                let segment = last.map(|(_, segment)| segment.clone());
                let open = view.open.clone();
                drop(view);
                let open: Block = crate::record::decode(open, &self.shared.dir)?;
                return Ok((Arc::new(open.changes), segment));
            }
            let row = view.row(block).copied();
            let segment = row.as_ref().and_then(|row| view.segments.get(&row.segment));
            (row, segment.cloned())
        };
        let (Some(row), Some(segment)) = (row, segment) else {
            return Err(self.files_replaced());
        };
        if let Some(changes) = self.shared.cache.lock().get(block) {
            return Ok((changes, Some(segment)));
        }
        let content = segment.read(row.offset, Some(row.bytes))?;
        let decoded: Block = crate::record::decode(content.into(), segment.path())?;
        if decoded.changes.len() != row.changes as usize {
            let reason = "a block and its row have different numbers of changes";
            return Err(HistoryError::damaged(segment.path(), reason));
        }
        let changes = Arc::new(decoded.changes);
        self.shared.cache.lock().put(block, changes.clone());
        Ok((changes, Some(segment)))
    }

    /// Returns the postings of a key, ordered by block.
    pub(crate) fn postings(&self, key: &[u8]) -> Result<Vec<Posting>> {
        let mut found = Vec::new();
        for run in &self.runs {
            let mut cursor = run.file.seek(key)?;
            while let Some((at, value)) = cursor.entry()
                && at == key
            {
                self.decode_postings(run, value, &mut found)?;
                cursor.advance()?;
            }
        }
        let recent = self.recent.read().get(key);
        self.append_recent(&recent, &mut found);
        found.retain(|posting| posting.block >= self.first_block);
        Ok(found)
    }

    fn decode_postings(&self, run: &Run, value: &[u8], out: &mut Vec<Posting>) -> Result<()> {
        let damaged = || HistoryError::damaged(run.file.path(), "cannot decode a list of blocks");
        decode(value, out).ok_or_else(damaged)
    }

    fn append_recent(&self, recent: &[Posting], out: &mut Vec<Posting>) {
        let seen = recent
            .iter()
            .filter(|posting| posting.block <= self.open_block);
        out.extend(seen);
    }

    /// Returns a cursor over the keys from `from` to `to` (excluded) and their postings.
    pub(crate) fn keys(&self, from: &[u8], to: &[u8]) -> Result<KeyCursor> {
        let recent: RecentCopy = self.recent.read().between(from, to);
        let runs = self.runs.iter().cloned();
        let runs = runs.map(|run| Ok((run.file.seek(from)?, run)));
        let bases = self.eras.iter().map(|era| era.base.seek(from));
        Ok(KeyCursor {
            history_view: self.clone(),
            to: to.to_vec(),
            runs: runs.collect::<Result<_>>()?,
            bases: bases.collect::<Result<_>>()?,
            recent: recent.into(),
        })
    }

    /// Returns a content with its bytes inline, unless they were omitted.
    pub(crate) fn content(
        &self,
        content: &Content,
        segment: Option<&Arc<Segment>>,
    ) -> Result<Content> {
        let Some(offset) = content.offset else {
            return Ok(content.clone());
        };
        let segment = segment.ok_or_else(|| self.files_replaced())?;
        let bytes = segment.read(offset, None)?;
        if bytes.len() as u64 != content.size || hash_of(&bytes)[..] != content.hash {
            let reason = "a stored content does not match its change";
            return Err(HistoryError::damaged(segment.path(), reason));
        }
        Ok(inline(bytes.into()))
    }
}

/// Iterates over the keys in runs, in memory and in the initial znodes of eras.
pub(crate) struct KeyCursor {
    history_view: HistoryView,
    to: Vec<u8>,
    runs: Vec<(crate::files::sorted::SortedCursor, Arc<Run>)>,
    bases: Vec<crate::files::sorted::SortedCursor>,
    recent: VecDeque<(Vec<u8>, Vec<Posting>)>,
}

impl KeyCursor {
    /// Returns the next key and its postings. A key that occurs only in the initial znodes of an
    /// era does not have postings.
    pub(crate) fn next(&mut self) -> Result<Option<(Vec<u8>, Vec<Posting>)>> {
        let in_runs = self.runs.iter().filter_map(|(run, _)| Some(run.entry()?.0));
        let in_bases = self.bases.iter().filter_map(|base| Some(base.entry()?.0));
        let in_recent = self.recent.front().map(|(key, _)| &**key);
        let smallest = in_runs.chain(in_bases).chain(in_recent).min();
        let Some(key) = smallest.filter(|key| **key < *self.to).map(<[u8]>::to_vec) else {
            return Ok(None);
        };
        let mut postings = Vec::new();
        for (cursor, run) in &mut self.runs {
            while let Some((at, value)) = cursor.entry()
                && at == key
            {
                self.history_view
                    .decode_postings(run, value, &mut postings)?;
                cursor.advance()?;
            }
        }
        for base in &mut self.bases {
            while base.entry().is_some_and(|(at, _)| at == key) {
                base.advance()?;
            }
        }
        let is_recent = self.recent.front().is_some_and(|(at, _)| *at == key);
        if is_recent && let Some((_, recent)) = self.recent.pop_front() {
            self.history_view.append_recent(&recent, &mut postings);
        }
        postings.retain(|posting| posting.block >= self.history_view.first_block);
        Ok(Some((key, postings)))
    }
}
