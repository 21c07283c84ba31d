//! What is there to be read, and a look at it that stays as it is while the history goes on.

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
use crate::filter::PathFilter;
use crate::limits::{CACHED_BLOCKS, PAGE_BLOCKS_MAX};
use crate::postings::{Posting, decode};
use crate::recent::RecentKeys;
use crate::record::{Block, BlockRow, Change, Content, Era};

/// Changes of a block, shared with whoever reads them.
pub(crate) type Changes = Arc<Vec<Change>>;

/// A run and the blocks that it covers.
#[derive(Debug)]
pub(crate) struct Run {
    pub(crate) number: u64,
    pub(crate) level: u32,
    pub(crate) first_block: u64,
    pub(crate) last_block: u64,
    pub(crate) file: Arc<SortedFile>,
}

/// An era and the znodes that it began with.
#[derive(Debug, Clone)]
pub(crate) struct EraView {
    pub(crate) row: Era,
    pub(crate) base: Arc<SortedFile>,
}

/// All that can be read. The writer changes it under its lock, for moments.
pub(crate) struct View {
    /// The number of the first of `blocks`.
    pub(crate) first_block: u64,
    /// Closed blocks.
    pub(crate) blocks: VecDeque<BlockRow>,
    /// The block behind them, as far as it is filled.
    pub(crate) open: Bytes,
    /// Keys of the blocks that are in no run. When they are, others take their place: a look that
    /// knows nothing of that run keeps these.
    pub(crate) recent: Arc<RwLock<RecentKeys>>,
    /// By their blocks.
    pub(crate) runs: Vec<Arc<Run>>,
    /// Oldest first; at least one.
    pub(crate) eras: Vec<EraView>,
    pub(crate) segments: BTreeMap<u64, Arc<Segment>>,
    pub(crate) head: i64,
    /// The time of the last change.
    pub(crate) head_ms: i64,
}

impl View {
    /// The number of the block that is being filled.
    pub(crate) fn open_block(&self) -> u64 {
        self.first_block + self.blocks.len() as u64
    }

    /// The first block that no run covers.
    pub(crate) fn first_recent(&self) -> u64 {
        let last_run = self.runs.last().map(|run| run.last_block + 1);
        last_run.unwrap_or(0).max(self.first_block)
    }

    fn row(&self, block: u64) -> Option<&BlockRow> {
        let at = usize::try_from(block.checked_sub(self.first_block)?).ok()?;
        self.blocks.get(at)
    }
}

/// What one answer may cost. Whatever is left out then is for the next page.
#[derive(Clone, Default)]
pub struct Effort {
    /// Whether the time of the answer is over, and whether anybody still waits for it.
    state: Option<Arc<dyn Fn() -> Patience + Send + Sync>>,
}

/// Whether an answer is to go on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Patience {
    /// It is.
    Left,
    /// The page ends here.
    Spent,
    /// Nobody waits for it any more.
    Gone,
}

impl Effort {
    /// An answer that goes on for as long as `state` says so. It is called often.
    pub fn new(state: impl Fn() -> Patience + Send + Sync + 'static) -> Self {
        Self {
            state: Some(Arc::new(state)),
        }
    }

    fn patience(&self) -> Patience {
        self.state.as_ref().map_or(Patience::Left, |state| state())
    }
}

impl std::fmt::Debug for Effort {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Effort").finish_non_exhaustive()
    }
}

/// What writer and readers have in common.
pub(crate) struct Shared {
    pub(crate) dir: PathBuf,
    pub(crate) filter: PathFilter,
    pub(crate) view: RwLock<View>,
    pub(crate) cache: Mutex<BlockCache>,
}

/// The blocks that were decoded last.
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

/// The history as it was when it was looked at: what comes later is not seen, and files that are
/// removed meanwhile stay readable.
#[derive(Clone)]
pub(crate) struct Look {
    pub(crate) shared: Arc<Shared>,
    pub(crate) head: Zxid,
    pub(crate) head_ms: i64,
    pub(crate) eras: Vec<EraView>,
    pub(crate) first_block: u64,
    /// The block that was being filled; it can be read, too.
    pub(crate) open_block: u64,
    runs: Vec<Arc<Run>>,
    recent: Arc<RwLock<RecentKeys>>,
    effort: Effort,
    /// Blocks that were read for this answer.
    blocks_read: Arc<AtomicUsize>,
}

/// Keys of blocks that are in no run, as a query found them.
pub(crate) type RecentCopy = Vec<(Vec<u8>, Vec<Posting>)>;

impl Look {
    pub(crate) fn new(shared: &Arc<Shared>, effort: &Effort) -> Self {
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

    /// Whether the page ends here: it has read enough, or its time is over.
    ///
    /// # Errors
    /// [`HistoryError::Abandoned`] if nobody waits for it.
    pub(crate) fn is_spent(&self) -> Result<bool> {
        match self.effort.patience() {
            Patience::Gone => Err(HistoryError::Abandoned),
            Patience::Spent => Ok(true),
            Patience::Left => Ok(self.blocks_read.load(Ordering::Relaxed) >= PAGE_BLOCKS_MAX),
        }
    }

    fn gone(&self) -> HistoryError {
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

    /// Where a closed block lies; `None` for the one that is being filled.
    pub(crate) fn row(&self, block: u64) -> Option<BlockRow> {
        self.shared.view.read().row(block).cloned()
    }

    /// Changes of a block, and the file that their contents lie in.
    ///
    /// # Errors
    /// [`HistoryError::NotKept`] if the block was dropped meanwhile.
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
            let row = view.row(block).cloned();
            let segment = row.as_ref().and_then(|row| view.segments.get(&row.segment));
            (row, segment.cloned())
        };
        let (Some(row), Some(segment)) = (row, segment) else {
            return Err(self.gone());
        };
        if let Some(changes) = self.shared.cache.lock().get(block) {
            return Ok((changes, Some(segment)));
        }
        let content = segment.read(row.offset, Some(row.bytes))?;
        let decoded: Block = crate::record::decode(content.into(), segment.path())?;
        if decoded.changes.len() != row.changes as usize {
            let reason = "a block has another number of changes than its row";
            return Err(HistoryError::damaged(segment.path(), reason));
        }
        let changes = Arc::new(decoded.changes);
        self.shared.cache.lock().put(block, changes.clone());
        Ok((changes, Some(segment)))
    }

    /// The blocks that hold the key, in order.
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
        let damaged = || HistoryError::damaged(run.file.path(), "a list of blocks does not decode");
        decode(value, out).ok_or_else(damaged)
    }

    fn append_recent(&self, recent: &[Posting], out: &mut Vec<Posting>) {
        let seen = recent
            .iter()
            .filter(|posting| posting.block <= self.open_block);
        out.extend(seen);
    }

    /// Keys between `from` and `to` (excluded) and their blocks.
    pub(crate) fn keys(&self, from: &[u8], to: &[u8]) -> Result<KeyCursor> {
        let recent: RecentCopy = self.recent.read().between(from, to);
        let runs = self.runs.iter().cloned();
        let runs = runs.map(|run| Ok((run.file.seek(from)?, run)));
        let bases = self.eras.iter().map(|era| era.base.seek(from));
        Ok(KeyCursor {
            look: self.clone(),
            to: to.to_vec(),
            runs: runs.collect::<Result<_>>()?,
            bases: bases.collect::<Result<_>>()?,
            recent: recent.into(),
        })
    }

    /// The bytes of a content.
    pub(crate) fn content(
        &self,
        content: &Content,
        segment: Option<&Arc<Segment>>,
    ) -> Result<Content> {
        let Some(offset) = content.offset else {
            return Ok(content.clone());
        };
        let segment = segment.ok_or_else(|| self.gone())?;
        let bytes = segment.read(offset, None)?;
        if bytes.len() as u64 != content.size || crate::expand::hash_of(&bytes)[..] != content.hash
        {
            let reason = "a content is not the one that its change names";
            return Err(HistoryError::damaged(segment.path(), reason));
        }
        Ok(Content {
            inline: Some(bytes.into()),
            offset: None,
            ..content.clone()
        })
    }
}

/// Walks over keys: those of runs, of memory and of the znodes that an era began with.
pub(crate) struct KeyCursor {
    look: Look,
    to: Vec<u8>,
    runs: Vec<(crate::files::sorted::SortedCursor, Arc<Run>)>,
    bases: Vec<crate::files::sorted::SortedCursor>,
    recent: VecDeque<(Vec<u8>, Vec<Posting>)>,
}

impl KeyCursor {
    /// The next key and its blocks; there may be none, if it is only in an era's beginning.
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
                self.look.decode_postings(run, value, &mut postings)?;
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
            self.look.append_recent(&recent, &mut postings);
        }
        postings.retain(|posting| posting.block >= self.look.first_block);
        Ok(Some((key, postings)))
    }
}
