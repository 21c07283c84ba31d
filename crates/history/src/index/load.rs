//! Loader of a history. It reads the rows and compares them with the files.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, VecDeque};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use hashbrown::HashMap;
use parking_lot::{Mutex, RwLock};
use prost::Message;

use super::filling::BlockBuilder;
use super::recent::RecentKeys;
use super::settings::{IndexSettings, ROWS_DIR, base_path, run_path};
use crate::error::{HistoryError, Result, io_error};
use crate::files::rows::{Rows, SledRows, index_exists, keys};
use crate::files::segment::{self, Segment, SegmentWriter};
use crate::files::sorted::SortedFile;
use crate::index::Index;
use crate::limits::FORMAT;
use crate::reading::read::Reader;
use crate::reading::view::{BlockCache, CostLimit, EraView, HistoryView, Run, Shared, View};
use crate::record::{Block, BlockRow, Change, Era, IndexRow, RunRow};
use crate::recording::expand::{Drafts, Ephemerals};
use crate::recording::filter::PathFilter;

/// Content of the rows in a directory.
pub(crate) struct Loaded {
    pub(crate) settings: IndexSettings,
    pub(crate) rows: Box<dyn Rows>,
    pub(crate) state: IndexRow,
    pub(crate) first_block: u64,
    pub(crate) blocks: VecDeque<BlockRow>,
    pub(crate) runs: Vec<Arc<Run>>,
    pub(crate) eras: Vec<EraView>,
    pub(crate) open: Vec<Change>,
    pub(crate) ephemerals: Ephemerals,
}

impl Loaded {
    pub(crate) fn read(mut settings: IndexSettings, use_of: OpenPurpose) -> Result<Self> {
        let dir = settings.dir.clone();
        let rows_dir = dir.join(ROWS_DIR);
        if !index_exists(&rows_dir) {
            return Err(HistoryError::Missing { path: dir });
        }
        let rows: Box<dyn Rows> = Box::new(SledRows::open(&rows_dir)?);
        let Some((_, row)) = rows.scan(keys::INDEX)?.pop() else {
            return Err(HistoryError::Missing { path: dir });
        };
        let state: IndexRow = decode(row, &rows_dir)?;
        if use_of == OpenPurpose::ReadOnly {
            settings.filter = PathFilter::new(state.include.clone(), state.exclude.clone())?;
        }
        check_state(&state, &settings)?;
        let (first_block, blocks) = read_blocks(&*rows, &state, &rows_dir)?;
        let mut loaded = Self {
            open: Vec::new(),
            runs: read_runs(&*rows, &dir, first_block, state.open_block)?,
            eras: read_eras(&state.eras, &dir)?,
            ephemerals: read_ephemerals(&*rows, &rows_dir)?,
            settings,
            rows,
            state,
            first_block,
            blocks,
        };
        if let Some((_, row)) = loaded.rows.scan(keys::OPEN)?.pop() {
            loaded.open = decode::<Block>(row, &rows_dir)?.changes;
        }
        if use_of == OpenPurpose::Write {
            remove_strays(&dir, &loaded.files())?;
        }
        Ok(loaded)
    }

    /// Returns the files to which the rows refer.
    fn files(&self) -> Vec<PathBuf> {
        let dir = &self.settings.dir;
        let mut files = vec![segment::path(dir, self.state.segment), dir.join(ROWS_DIR)];
        files.extend(
            self.blocks
                .iter()
                .map(|row| segment::path(dir, row.segment)),
        );
        files.extend(self.runs.iter().map(|run| run.file.path().to_path_buf()));
        files.extend(self.eras.iter().map(|era| era.base.path().to_path_buf()));
        files.dedup();
        files
    }

    /// Returns the state that is shared with readers.
    fn shared(&mut self) -> Result<Arc<Shared>> {
        let dir = &self.settings.dir;
        let mut segments = BTreeMap::new();
        let named = self.blocks.iter().map(|row| row.segment);
        for number in named.chain([self.state.segment]) {
            if let Entry::Vacant(entry) = segments.entry(number) {
                entry.insert(Segment::open(dir, number)?);
            }
        }
        let view = View {
            first_block: self.first_block,
            blocks: std::mem::take(&mut self.blocks),
            open: BlockBuilder::of(&self.open).bytes().to_vec().into(),
            recent: Arc::default(),
            runs: std::mem::take(&mut self.runs),
            eras: std::mem::take(&mut self.eras),
            segments,
            head: self.state.head,
            head_ms: self.state.head_time_ms,
        };
        let first_recent = view.first_recent();
        let shared = Arc::new(Shared {
            dir: dir.clone(),
            filter: self.settings.filter.clone(),
            view: RwLock::new(view),
            cache: Mutex::new(BlockCache::default()),
        });
        let history_view = HistoryView::new(&shared, &CostLimit::default());
        let mut recent = RecentKeys::default();
        for block in first_recent..=self.state.open_block {
            for change in history_view.block(block)?.0.iter() {
                recent.note(block, change);
            }
        }
        shared.view.write().recent = Arc::new(RwLock::new(recent));
        Ok(shared)
    }

    pub(crate) fn into_index(mut self) -> Result<Index> {
        let dir = &self.settings.dir;
        let writer = SegmentWriter::open(dir, self.state.segment, self.state.segment_bytes)?;
        let shared = self.shared()?;
        let recent = shared.view.read().recent.clone();
        Ok(Index {
            shared,
            recent,
            rows: self.rows,
            settings: self.settings,
            state: self.state,
            writer,
            ephemerals: self.ephemerals,
            known: HashMap::new(),
            filling: BlockBuilder::of(&self.open),
            drafts: Drafts::default(),
            last_acl: None,
            staged: Vec::new(),
            writes: Vec::new(),
            unsynced: Vec::new(),
            obsolete: Vec::new(),
            is_dirty: true,
            task: None,
            looked_at: (u64::MAX, 0),
        })
    }
}

impl Reader {
    /// Opens the history of a server that is not running, in the state of its last checkpoint. An
    /// index that the server abandoned after a failure is first replaced with a copy, as at the
    /// next start of the server.
    ///
    /// # Errors
    /// [`HistoryError::Missing`] if the history does not exist. Other errors if the files are
    /// unusable or cannot be read. The history of a running server cannot be opened, because the
    /// server has locked it.
    pub fn open(dir: &Path) -> Result<Self> {
        let mut loaded = Loaded::read(IndexSettings::new(dir), OpenPurpose::ReadOnly)?;
        Ok(Self::new(loaded.shared()?))
    }
}

/// Purpose for which a history is opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum OpenPurpose {
    /// Writing: unused files are removed, and the patterns must equal the patterns in the settings.
    Write,
    /// Reading: files are not changed, except that an abandoned index is replaced with a copy.
    ReadOnly,
}

fn decode<M: Message + Default>(row: Vec<u8>, path: &Path) -> Result<M> {
    crate::record::decode(row.into(), path)
}

fn check_state(state: &IndexRow, settings: &IndexSettings) -> Result<()> {
    let path = settings.dir.clone();
    if state.format != FORMAT {
        return Err(HistoryError::Version {
            path,
            found: state.format,
            known: FORMAT,
        });
    }
    let filter = &settings.filter;
    if state.include != filter.include() || state.exclude != filter.exclude() {
        let found = format!("include {:?}, exclude {:?}", state.include, state.exclude);
        return Err(HistoryError::OtherPatterns { path, found });
    }
    if state.eras.is_empty() {
        return Err(HistoryError::damaged(&path, "the index has no era"));
    }
    Ok(())
}

/// Reads the rows of blocks, which must be contiguous up to the block that is being filled. Returns
/// the number of the first block, and the rows.
fn read_blocks(
    rows: &dyn Rows,
    state: &IndexRow,
    path: &Path,
) -> Result<(u64, VecDeque<BlockRow>)> {
    let mut blocks = VecDeque::new();
    let mut first = None;
    for (key, row) in rows.scan(keys::BLOCK)? {
        let number = keys::number(&key);
        let first = *first.get_or_insert(number.unwrap_or_default());
        if number != Some(first + blocks.len() as u64) {
            return Err(HistoryError::damaged(path, "rows of blocks are missing"));
        }
        blocks.push_back(decode(row, path)?);
    }
    let first = first.unwrap_or(state.open_block);
    if first + blocks.len() as u64 != state.open_block {
        return Err(HistoryError::damaged(
            path,
            "rows of the last blocks are missing",
        ));
    }
    Ok((first, blocks))
}

/// Reads the runs, which must be contiguous from the first block on, without overlap.
fn read_runs(rows: &dyn Rows, dir: &Path, first: u64, open: u64) -> Result<Vec<Arc<Run>>> {
    let mut runs = Vec::new();
    for (key, row) in rows.scan(keys::RUN)? {
        let number = keys::number(&key).unwrap_or_default();
        let row: RunRow = decode(row, dir)?;
        runs.push(Arc::new(Run {
            number,
            level: row.level,
            first_block: row.first_block,
            last_block: row.last_block,
            file: SortedFile::open(run_path(dir, number))?,
        }));
    }
    runs.sort_by_key(|run| run.first_block);
    let follow = runs
        .windows(2)
        .all(|pair| pair[0].last_block + 1 == pair[1].first_block);
    let covers_first = runs.first().is_none_or(|run| run.first_block <= first);
    let ends = runs.last().is_none_or(|run| run.last_block < open);
    if !(follow && covers_first && ends) {
        return Err(HistoryError::damaged(dir, "runs are missing"));
    }
    Ok(runs)
}

fn read_eras(rows: &[Era], dir: &Path) -> Result<Vec<EraView>> {
    let eras = rows.iter().map(|row| {
        Ok(EraView {
            row: *row,
            base: SortedFile::open(base_path(dir, row.base))?,
        })
    });
    eras.collect()
}

fn read_ephemerals(rows: &dyn Rows, path: &Path) -> Result<Ephemerals> {
    let mut ephemerals = Ephemerals::default();
    for (key, value) in rows.scan(keys::EPHEMERAL)? {
        let of = std::str::from_utf8(&key[1..]).ok();
        let session = value.as_slice().try_into().ok().map(i64::from_be_bytes);
        let (Some(of), Some(session)) = (of, session) else {
            return Err(HistoryError::damaged(
                path,
                "cannot decode the row of an ephemeral",
            ));
        };
        ephemerals.insert(of.to_owned(), session);
    }
    Ok(ephemerals)
}

/// Removes files of the history that are not in `named`. A crash may have left such files.
pub(crate) fn remove_strays(dir: &Path, named: &[PathBuf]) -> Result<()> {
    let entries = fs::read_dir(dir).map_err(io_error("list", dir))?;
    for entry in entries.flatten() {
        let path = entry.path();
        let name = entry.file_name();
        let name = name.to_string_lossy();
        let is_ours = ["changes.", "run.", "base.", "sort."]
            .iter()
            .any(|kind| name.starts_with(kind));
        if is_ours && !named.contains(&path) {
            segment::remove(&path);
        }
    }
    Ok(())
}

/// Moves an unusable history aside within its parent directory and returns its new path. Replaces a
/// history that was moved aside earlier.
///
/// # Errors
/// If the history cannot be moved.
pub fn set_aside(dir: &Path) -> Result<PathBuf> {
    let mut name = dir.file_name().unwrap_or_default().to_os_string();
    name.push(".aside");
    let aside = dir.with_file_name(name);
    if let Err(error) = fs::remove_dir_all(&aside)
        && error.kind() != std::io::ErrorKind::NotFound
    {
        return Err(io_error("remove", &aside)(error));
    }
    fs::rename(dir, &aside).map_err(io_error("move aside", dir))?;
    Ok(aside)
}

#[cfg(test)]
mod tests {
    use proto::StatPersisted;

    use super::*;
    use crate::{Baseline, SnapshotAt};

    /// A history in another build's format is recognised by its version number, so that it can be
    /// rebuilt.
    #[test]
    fn another_format_version_is_unusable() {
        for found in [FORMAT - 1, FORMAT + 1] {
            let dir = tempfile::tempdir().unwrap();
            let settings = IndexSettings::new(dir.path());
            let mut baseline = Baseline::new(&settings).unwrap();
            let stat = StatPersisted::default();
            baseline.znode("/", None, -1, &stat).unwrap();
            let at = SnapshotAt {
                zxid: proto::Zxid(1),
                covers: None,
            };
            drop(Index::create(settings.clone(), baseline, at).unwrap());
            let rows = SledRows::open(&dir.path().join(ROWS_DIR)).unwrap();
            let (key, row) = rows.scan(keys::INDEX).unwrap().pop().unwrap();
            let mut state: IndexRow = decode(row, dir.path()).unwrap();
            state.format = found;
            rows.write(vec![(key, Some(state.encode_to_vec()))])
                .unwrap();
            rows.sync().unwrap();
            drop(rows);
            let error = Index::open(settings).err().unwrap();
            assert!(error.is_unusable(), "{error}");
            assert!(
                error.to_string().contains(&format!("format {found}")),
                "{error}"
            );
        }
    }
}
