//! External sorting: sorted pieces are written to files and merged while they are read.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::error::Result;
use crate::files::segment;
use crate::files::sorted::{SortedCursor, SortedFile, SortedWriter};
use crate::limits::SORT_BYTES;

/// Sorter of entries that are added in any order. Entries with the same key keep their order.
pub(crate) struct Sorter {
    dir: PathBuf,
    name: String,
    entries: Vec<(Vec<u8>, Vec<u8>)>,
    bytes: usize,
    pieces: Vec<Arc<SortedFile>>,
}

impl Sorter {
    /// Creates a sorter. Its pieces are files in `dir` with names that begin with `name`.
    pub(crate) fn new(dir: &Path, name: &str) -> Self {
        Self {
            dir: dir.to_path_buf(),
            name: name.to_owned(),
            entries: Vec::new(),
            bytes: 0,
            pieces: Vec::new(),
        }
    }

    pub(crate) fn push(&mut self, key: Vec<u8>, value: Vec<u8>) -> Result<()> {
        // The two vectors have an overhead of about 64 bytes.
        self.bytes += key.len() + value.len() + 64;
        self.entries.push((key, value));
        if self.bytes >= SORT_BYTES {
            self.spill()?;
        }
        Ok(())
    }

    fn spill(&mut self) -> Result<()> {
        if self.entries.is_empty() {
            return Ok(());
        }
        let number = self.pieces.len();
        let path = self.dir.join(format!("{}.{number:x}", self.name));
        let mut writer = SortedWriter::create(path)?;
        self.entries.sort_by(|a, b| a.0.cmp(&b.0));
        for (key, value) in self.entries.drain(..) {
            writer.push(&key, &value)?;
        }
        self.bytes = 0;
        // The piece is not needed after a crash, so it is never synced.
        let (piece, _) = writer.finish_unsynced()?;
        // The removed file stays readable through its descriptor. After a crash, it does not remain
        // on disk.
        segment::remove(piece.path());
        self.pieces.push(piece);
        Ok(())
    }

    /// Returns a cursor over all entries, ordered by key.
    pub(crate) fn finish(mut self) -> Result<MergedCursor> {
        self.spill()?;
        MergedCursor::seek(&self.pieces, b"")
    }
}

/// Iterates over several sorted files. Among equal keys, the entry from the first file comes first.
pub(crate) struct MergedCursor {
    inputs: Vec<SortedCursor>,
    /// Inputs that are not at their end, ordered by their next entries in descending order. The
    /// next entry therefore belongs to the last input.
    order: Vec<usize>,
}

impl MergedCursor {
    pub(crate) fn seek(files: &[Arc<SortedFile>], key: &[u8]) -> Result<Self> {
        let inputs: Result<_> = files.iter().map(|file| file.seek(key)).collect();
        let mut cursor = Self {
            inputs: inputs?,
            order: Vec::with_capacity(files.len()),
        };
        for number in 0..files.len() {
            cursor.put(number);
        }
        Ok(cursor)
    }

    /// Inserts an input into `order` by its next entry. The search usually ends soon, because
    /// consecutive entries of one file are often consecutive in the merged order, too.
    fn put(&mut self, number: usize) {
        let key_of = |input: usize| self.inputs[input].entry().map(|(key, _)| key);
        let Some(key) = key_of(number) else {
            return;
        };
        let comes_before =
            |other: &&usize| key_of(**other).is_some_and(|at| (at, **other) < (key, number));
        let behind = self.order.iter().rev().take_while(comes_before);
        let at = self.order.len() - behind.count();
        self.order.insert(at, number);
    }

    /// Returns the next entry; `None` at the end.
    pub(crate) fn entry(&self) -> Option<(&[u8], &[u8])> {
        self.inputs[*self.order.last()?].entry()
    }

    /// Moves to the next entry. Returns whether a page had to be read.
    pub(crate) fn advance(&mut self) -> Result<bool> {
        let Some(number) = self.order.pop() else {
            return Ok(false);
        };
        let has_read = self.inputs[number].advance()?;
        self.put(number);
        Ok(has_read)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_beyond_memory_are_sorted_stably() {
        let dir = tempfile::tempdir().unwrap();
        let mut sorter = Sorter::new(dir.path(), "sort");
        let mut random = fastrand::Rng::with_seed(7);
        let count = 40_000_u32;
        for n in 0..count {
            let key = random.u16(..1000).to_be_bytes().to_vec();
            let mut value = n.to_be_bytes().to_vec();
            value.resize(600, 1);
            sorter.push(key, value).unwrap();
        }
        assert!(sorter.pieces.len() > 2, "it did fit");
        let mut cursor = sorter.finish().unwrap();
        let mut found = Vec::new();
        while let Some((key, value)) = cursor.entry() {
            found.push((key.to_vec(), value[..4].to_vec()));
            cursor.advance().unwrap();
        }
        assert_eq!(found.len(), count as usize);
        assert!(found.is_sorted());
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
    }
}
