//! The writer of a history, which collects changes in blocks, and writes the blocks to files and
//! their positions to an index.
//!
//! Nothing is overwritten in place. Files grow at their end or appear as a whole. A *checkpoint*
//! syncs them and then atomically writes all rows that point to new data. After a crash, the
//! history continues from the last checkpoint, and the log contains the later transactions.

pub(crate) mod filling;
pub(crate) mod load;
pub(crate) mod maintain;
pub(crate) mod postings;
pub(crate) mod recent;
pub(crate) mod settings;

use std::collections::VecDeque;
use std::path::PathBuf;
use std::sync::Arc;

use blocking::files;
use bytes::Bytes;
use hashbrown::HashMap;
use parking_lot::RwLock;
use prost::Message;
use proto::Zxid;
use proto::txn::{TxnHeader, TxnRecord};

use self::filling::BlockBuilder;
use self::load::{Loaded, OpenPurpose, remove_strays};
use self::maintain::MaintenanceTask;
use self::postings::encode;
use self::recent::RecentKeys;
use self::settings::{IndexSettings, ROWS_DIR, run_path};
use crate::error::{HistoryError, Result, io_error};
use crate::files::rows::{Rows, SledRows, Writes, keys};
use crate::files::segment::{self, Segment, SegmentWriter};
use crate::files::sorted::{SortedWriter, Unsynced};
use crate::limits::{BLOCK_BYTES, FORMAT, GIVE_WAY_KEYS, INLINE_BYTES, KNOWN_CONTENTS};
use crate::reading::read::Reader;
use crate::reading::view::{Run, Shared};
use crate::record::{BlockRow, Change, Content, IndexRow, Kind, RunRow};
use crate::recording::expand::{
    Draft, Drafts, Ephemerals, Expander, LastAcl, Origin, hash_of, inline,
};

/// A history that is being written. A directory has only one writer at a time. [`Index::reader`]
/// may be called for any number of readers.
///
/// After an error, this instance must no longer be used. When the history is reopened, it has the
/// state of its last checkpoint.
pub struct Index {
    pub(crate) shared: Arc<Shared>,
    pub(crate) rows: Box<dyn Rows>,
    pub(crate) settings: IndexSettings,
    pub(crate) state: IndexRow,
    pub(crate) writer: SegmentWriter,
    pub(crate) ephemerals: Ephemerals,
    /// Offsets of contents in the current segment, by hash.
    pub(crate) known: HashMap<[u8; 16], u64>,
    /// Block that is being filled.
    pub(crate) filling: BlockBuilder,
    pub(crate) drafts: Drafts,
    pub(crate) last_acl: LastAcl,
    /// Recent keys of the view. They may include keys of changes that are not visible to readers
    /// yet. This is harmless, because a reader never reads beyond the last transaction of its view.
    pub(crate) recent: Arc<RwLock<RecentKeys>>,
    /// Blocks and segments that are not visible to readers yet.
    pub(crate) staged: Vec<Staged>,
    /// Rows for the next checkpoint.
    pub(crate) writes: Writes,
    /// Runs that must be on disk before the rows of the next checkpoint, by number.
    pub(crate) unsynced: Vec<(u64, Unsynced)>,
    /// Files that become unused when the next checkpoint is written.
    pub(crate) obsolete: Vec<PathBuf>,
    pub(crate) is_dirty: bool,
    pub(crate) task: Option<MaintenanceTask>,
    /// Number of the newest segment and time (ms) at the last check that found nothing to drop.
    pub(crate) looked_at: (u64, i64),
}

pub(crate) enum Staged {
    Closed(BlockRow),
    Segment(Arc<Segment>),
}

impl Index {
    /// Opens the history in a directory.
    ///
    /// # Errors
    /// [`HistoryError::Missing`] if the history does not exist ([`Index::create`] creates it).
    /// After an error for which [`HistoryError::is_unusable`] is true, call
    /// [`set_aside`](crate::set_aside).
    pub fn open(settings: IndexSettings) -> Result<Self> {
        Loaded::read(settings, OpenPurpose::Write)?.into_index()
    }

    /// Returns the zxid of the last recorded transaction.
    pub fn head(&self) -> Zxid {
        Zxid(self.state.head)
    }

    /// Returns false if `header` has the zxid of [`Index::head`] but belongs to another
    /// transaction. The history then belongs to another ensemble. Returns true if the zxids differ,
    /// or if the transaction at the head is unknown.
    pub fn is_head(&self, header: &TxnHeader) -> bool {
        let state = &self.state;
        let is_known = (state.head_session, state.head_cxid, state.head_time_ms) != (0, 0, 0);
        !is_known
            || header.zxid.0 != state.head
            || (header.session.0, header.cxid, header.time_ms)
                == (state.head_session, state.head_cxid, state.head_time_ms)
    }

    /// Returns a reader for queries, which any number of threads can use.
    pub fn reader(&self) -> Reader {
        Reader::new(self.shared.clone())
    }

    /// Returns the number of changes recorded so far, including changes that are no longer kept.
    pub fn changes(&self) -> u64 {
        self.state.changes
    }

    /// Records a committed transaction. The caller must ensure that the transaction directly
    /// follows the previous one. Readers see the transaction after [`Index::publish`].
    ///
    /// # Errors
    /// [`HistoryError::OutOfTurn`] if the zxid is not above the last one. Other errors if a file
    /// cannot be written.
    pub fn append(&mut self, record: &TxnRecord, origin: &Origin) -> Result<()> {
        let header = &record.header;
        if header.zxid.0 <= self.state.head {
            return Err(HistoryError::OutOfTurn {
                got: header.zxid,
                head: self.head(),
            });
        }
        let mut drafts = std::mem::take(&mut self.drafts);
        Expander {
            filter: &self.shared.filter,
            ephemerals: &self.ephemerals,
            origin,
            out: &mut drafts,
            index: 0,
            last_acl: &mut self.last_acl,
        }
        .expand(record);
        for draft in drafts.iter_mut() {
            self.put(draft)?;
        }
        drafts.clear();
        self.drafts = drafts;
        self.state.head = header.zxid.0;
        self.state.head_session = header.session.0;
        self.state.head_cxid = header.cxid;
        self.state.head_time_ms = header.time_ms;
        self.is_dirty = true;
        Ok(())
    }

    fn put(&mut self, draft: &mut Draft) -> Result<()> {
        let (data, acl) = (draft.data.take(), draft.acl.take());
        let change = &mut draft.change;
        self.note_ephemeral(change);
        if !draft.is_recorded {
            return Ok(());
        }
        change.data = data.map(|bytes| self.store(bytes)).transpose()?;
        change.acl = acl.map(|bytes| self.store(bytes)).transpose()?;
        self.filling.push(change);
        self.recent.write().note(self.state.open_block, change);
        self.state.changes += 1;
        if self.filling.changes() >= self.settings.shape.block_changes
            || self.filling.bytes().len() >= BLOCK_BYTES
        {
            self.close_block()?;
        }
        Ok(())
    }

    fn note_ephemeral(&mut self, change: &Change) {
        if change.is_delete() {
            if self.ephemerals.remove(&change.path) {
                self.writes.push((keys::ephemeral(&change.path), None));
            }
        } else if change.kind() == Kind::Ephemeral && change.sets_data() && change.sets_acl() {
            self.ephemerals.insert(change.path.clone(), change.session);
            let session = change.session.to_be_bytes().to_vec();
            self.writes
                .push((keys::ephemeral(&change.path), Some(session)));
        }
    }

    /// Converts bytes to a content. Stores the bytes in the segment above [`INLINE_BYTES`], and
    /// omits them above `content_bytes_max`.
    fn store(&mut self, bytes: Bytes) -> Result<Content> {
        if bytes.len() <= INLINE_BYTES {
            return Ok(inline(bytes));
        }
        let hash = hash_of(&bytes);
        let mut content = Content {
            size: bytes.len() as u64,
            hash: Bytes::copy_from_slice(&hash),
            ..Content::default()
        };
        if bytes.len() > self.settings.content_bytes_max {
            content.is_omitted = true;
            return Ok(content);
        }
        let offset = match self.known.get(&hash) {
            Some(offset) => *offset,
            None => {
                let (offset, _) = self.writer.append(&bytes)?;
                if self.known.len() >= KNOWN_CONTENTS {
                    self.known.clear();
                }
                self.known.insert(hash, offset);
                offset
            }
        };
        content.offset = Some(offset);
        Ok(content)
    }

    fn close_block(&mut self) -> Result<()> {
        let (offset, bytes) = self.writer.append(self.filling.bytes())?;
        let row = BlockRow {
            segment: self.state.segment,
            offset,
            bytes,
            ..self.filling.row()
        };
        self.filling.clear();
        let key = keys::numbered(keys::BLOCK, self.state.open_block);
        self.writes.push((key, Some(row.encode_to_vec())));
        self.staged.push(Staged::Closed(row));
        self.state.open_block += 1;
        if self.writer.end() >= self.settings.segment_bytes() {
            self.begin_segment()?;
        }
        if self.state.open_block - self.first_recent() >= self.settings.shape.run_blocks {
            self.publish()?;
            self.make_run()?;
        }
        Ok(())
    }

    /// Closes the block that is being filled, before another era begins, and publishes all changes.
    pub(crate) fn close_open_block(&mut self) -> Result<()> {
        if self.filling.changes() > 0 {
            self.close_block()?;
        }
        self.publish()
    }

    /// Forgets all ephemeral znodes. The next era begins with its own list of them.
    pub(crate) fn forget_ephemerals(&mut self) {
        let gone = std::mem::take(&mut self.ephemerals);
        let removed = gone.paths().map(|path| (keys::ephemeral(path), None));
        self.writes.extend(removed);
    }

    /// Begins a segment. Contents are in the same file as their block, so a file ends with a block.
    fn begin_segment(&mut self) -> Result<()> {
        self.writer.sync()?;
        self.state.segment = self.take_file_number();
        self.writer = SegmentWriter::open(&self.settings.dir, self.state.segment, 0)?;
        self.known.clear();
        let segment = Segment::open(&self.settings.dir, self.state.segment)?;
        self.staged.push(Staged::Segment(segment));
        Ok(())
    }

    pub(crate) fn take_file_number(&mut self) -> u64 {
        self.state.next_file += 1;
        self.state.next_file
    }

    fn first_recent(&self) -> u64 {
        self.shared.view.read().first_recent()
    }

    /// Makes appended changes visible to readers.
    ///
    /// # Errors
    /// If the changes cannot be written.
    pub fn publish(&mut self) -> Result<()> {
        self.writer.write()?;
        let mut view = self.shared.view.write();
        for staged in self.staged.drain(..) {
            match staged {
                Staged::Closed(row) => view.blocks.push_back(row),
                Staged::Segment(segment) => {
                    view.segments.insert(segment.number, segment);
                }
            }
        }
        view.open = Bytes::copy_from_slice(self.filling.bytes());
        view.head = self.state.head;
        view.head_ms = self.state.head_time_ms;
        Ok(())
    }

    /// Writes the keys in memory to a run. The block that is being filled must be empty.
    fn make_run(&mut self) -> Result<()> {
        let first_block = self.first_recent();
        let last_block = self.state.open_block - 1;
        let number = self.take_file_number();
        let mut writer = SortedWriter::create(run_path(&self.settings.dir, number))?;
        let mut value = Vec::new();
        let recent = self.recent.read();
        let mut sorted = recent.sorted(&self.settings.yield_hook);
        let mut written = 0_usize;
        while let Some((key, postings)) = sorted.next() {
            value.clear();
            encode(postings, &mut value);
            writer.push(key, &value)?;
            written += 1;
            if written.is_multiple_of(GIVE_WAY_KEYS) {
                self.settings.yield_hook.now();
            }
        }
        drop(sorted);
        drop(recent);
        let (file, unsynced) = writer.finish_unsynced()?;
        let run = Run {
            number,
            level: 0,
            first_block,
            last_block,
            file,
        };
        self.unsynced.push((number, unsynced));
        self.note_run(&run);
        let mut view = self.shared.view.write();
        view.runs.push(Arc::new(run));
        let emptied = self.recent.read().emptied();
        self.recent = Arc::new(RwLock::new(emptied));
        view.recent = self.recent.clone();
        Ok(())
    }

    pub(crate) fn note_run(&mut self, run: &Run) {
        let row = RunRow {
            level: run.level,
            first_block: run.first_block,
            last_block: run.last_block,
        };
        let key = keys::numbered(keys::RUN, run.number);
        self.writes.push((key, Some(row.encode_to_vec())));
    }

    /// Makes appended changes durable and visible to readers.
    ///
    /// # Errors
    /// If the changes cannot be written.
    pub fn checkpoint(&mut self) -> Result<()> {
        self.publish()?;
        if !self.is_dirty {
            return Ok(());
        }
        self.writer.sync()?;
        self.state.segment_bytes = self.writer.end();
        for (_, run) in &self.unsynced {
            run.sync()?;
        }
        self.unsynced.clear();
        let mut writes = std::mem::take(&mut self.writes);
        writes.push((vec![keys::OPEN], Some(self.filling.bytes().to_vec())));
        writes.push((vec![keys::INDEX], Some(self.state.encode_to_vec())));
        self.rows.write(writes)?;
        self.rows.sync()?;
        for path in self.obsolete.drain(..) {
            segment::remove(&path);
        }
        self.is_dirty = false;
        Ok(())
    }

    /// Returns the disk usage of the history, bytes.
    pub fn bytes_on_disk(&self) -> u64 {
        let view = self.shared.view.read();
        let segments: u64 = view.segments.values().map(|segment| segment.bytes()).sum();
        let runs: u64 = view.runs.iter().map(|run| run.file.bytes()).sum();
        let bases: u64 = view.eras.iter().map(|era| era.base.bytes()).sum();
        segments + runs + bases + self.rows.bytes_on_disk()
    }

    /// Creates a history that contains only `state`. The caller adds its first era.
    pub(crate) fn create_empty(settings: IndexSettings) -> Result<Self> {
        let dir = &settings.dir;
        files::create_dir_all(dir).map_err(io_error("create", dir))?;
        let rows = SledRows::open(&dir.join(ROWS_DIR))?;
        if !rows.scan(keys::INDEX)?.is_empty() {
            return Err(HistoryError::damaged(
                dir,
                "the directory already contains a history",
            ));
        }
        let state = IndexRow {
            format: FORMAT,
            segment: 1,
            next_file: 1,
            include: settings.filter.include().to_vec(),
            exclude: settings.filter.exclude().to_vec(),
            ..IndexRow::default()
        };
        remove_strays(dir, &[])?;
        drop(SegmentWriter::open(dir, state.segment, 0)?);
        let loaded = Loaded {
            settings,
            rows: Box::new(rows),
            state,
            blocks: VecDeque::new(),
            first_block: 0,
            runs: Vec::new(),
            eras: Vec::new(),
            open: Vec::new(),
            ephemerals: Ephemerals::default(),
        };
        loaded.into_index()
    }
}
