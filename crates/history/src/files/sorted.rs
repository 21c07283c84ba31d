//! Sorted files: entries ordered by key, in compressed pages, written once.
//!
//! ```text
//! page frames...          each: entries (shared varint | rest varint, bytes | value varint, bytes)
//! index frame             each page: offset varint | key length varint | first key
//! index offset u64 | "ZHSF" | version u32                                       16 bytes
//! ```
//!
//! `shared` is the length of the prefix shared with the previous key. A key may occur more than
//! once.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::error::{HistoryError, Result, io_error};
use crate::files::frame;
use crate::limits::PAGE_BYTES;

const MAGIC: &[u8; 4] = b"ZHSF";
const VERSION: u32 = 1;
const TRAILER_BYTES: usize = 16;

/// Writer of a sorted file. The file is unusable without [`finish`](Self::finish).
pub(crate) struct SortedWriter {
    out: BufWriter<File>,
    path: PathBuf,
    offset: u64,
    page: Vec<u8>,
    first_key: Vec<u8>,
    last_key: Vec<u8>,
    index: Vec<u8>,
    frame: Vec<u8>,
    encoder: snap::raw::Encoder,
}

impl SortedWriter {
    pub(crate) fn create(path: PathBuf) -> Result<Self> {
        let file = blocking::files::create(&path).map_err(io_error("create", &path))?;
        Ok(Self {
            out: BufWriter::with_capacity(128 << 10, file),
            path,
            offset: 0,
            page: Vec::new(),
            first_key: Vec::new(),
            last_key: Vec::new(),
            index: Vec::new(),
            frame: Vec::new(),
            encoder: snap::raw::Encoder::new(),
        })
    }

    /// Appends an entry. Its key must not be less than the previous key.
    pub(crate) fn push(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        if self.page.len() + key.len() + value.len() > PAGE_BYTES {
            self.end_page()?;
        }
        let kept = if self.page.is_empty() {
            self.first_key.clear();
            self.first_key.extend_from_slice(key);
            0
        } else {
            shared(&self.last_key, key)
        };
        put_varint(kept as u64, &mut self.page);
        put_varint((key.len() - kept) as u64, &mut self.page);
        self.page.extend_from_slice(&key[kept..]);
        put_varint(value.len() as u64, &mut self.page);
        self.page.extend_from_slice(value);
        self.last_key.truncate(kept);
        self.last_key.extend_from_slice(&key[kept..]);
        Ok(())
    }

    fn end_page(&mut self) -> Result<()> {
        if self.page.is_empty() {
            return Ok(());
        }
        put_varint(self.offset, &mut self.index);
        put_varint(self.first_key.len() as u64, &mut self.index);
        self.index.extend_from_slice(&self.first_key);
        let page = std::mem::take(&mut self.page);
        self.put_frame(&page)?;
        self.page = page;
        self.page.clear();
        Ok(())
    }

    fn put_frame(&mut self, content: &[u8]) -> Result<()> {
        self.frame.clear();
        frame::put_compressed(content, &mut self.frame, &mut self.encoder);
        let written = self.out.write_all(&self.frame);
        written.map_err(io_error("write", &self.path))?;
        self.offset += self.frame.len() as u64;
        Ok(())
    }

    /// Writes the remaining data and syncs the file.
    pub(crate) fn finish(self) -> Result<Arc<SortedFile>> {
        let (file, unsynced) = self.finish_unsynced()?;
        unsynced.sync()?;
        Ok(file)
    }

    /// Writes the remaining data. The file can then be read but is not durable before the returned
    /// [`Unsynced`] is synced.
    pub(crate) fn finish_unsynced(mut self) -> Result<(Arc<SortedFile>, Unsynced)> {
        self.end_page()?;
        let index_at = self.offset;
        let index = std::mem::take(&mut self.index);
        self.put_frame(&index)?;
        let mut trailer = index_at.to_be_bytes().to_vec();
        trailer.extend_from_slice(MAGIC);
        trailer.extend_from_slice(&VERSION.to_be_bytes());
        let failed = || io_error("write", &self.path);
        self.out.write_all(&trailer).map_err(failed())?;
        let out = self.out.into_inner().map_err(|error| error.into_error());
        let unsynced = Unsynced {
            file: out.map_err(failed())?,
            path: self.path.clone(),
        };
        Ok((SortedFile::open(self.path)?, unsynced))
    }
}

/// Handle through which a complete file was written. Its sync also reports earlier write errors.
pub(crate) struct Unsynced {
    file: File,
    path: PathBuf,
}

impl Unsynced {
    /// Syncs the file to the disk.
    pub(crate) fn sync(&self) -> Result<()> {
        blocking::mark("sync the change history");
        let synced = self.file.sync_data();
        synced.map_err(io_error("sync", &self.path))
    }
}

/// A readable sorted file, which stays readable after its removal from the directory.
#[derive(Debug)]
pub(crate) struct SortedFile {
    file: File,
    path: PathBuf,
    pages: Vec<PageAt>,
    bytes: u64,
}

#[derive(Debug)]
struct PageAt {
    first_key: Box<[u8]>,
    offset: u64,
}

impl SortedFile {
    pub(crate) fn open(path: PathBuf) -> Result<Arc<Self>> {
        blocking::mark("open the change history");
        let file = match File::open(&path) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                return Err(HistoryError::damaged(&path, "the file is missing"));
            }
            other => other.map_err(io_error("open", &path))?,
        };
        let bytes = file.metadata().map_err(io_error("check", &path))?.len();
        let damaged = |reason: &str| HistoryError::damaged(&path, reason);
        let mut trailer = [0; TRAILER_BYTES];
        let trailer_at = bytes
            .checked_sub(TRAILER_BYTES as u64)
            .ok_or_else(|| damaged("the file is too short"))?;
        file.read_exact_at(&mut trailer, trailer_at)
            .map_err(io_error("read", &path))?;
        let (index_at, kind) = trailer.split_at(8);
        if kind[..4] != *MAGIC || kind[4..] != VERSION.to_be_bytes() {
            return Err(damaged("the end of the file is invalid"));
        }
        let index_at = u64::from_be_bytes(index_at.try_into().expect("eight bytes"));
        let index_bytes = trailer_at
            .checked_sub(index_at)
            .and_then(|bytes| u32::try_from(bytes).ok())
            .ok_or_else(|| damaged("the index has the wrong position"))?;
        let index = frame::read_compressed(&file, &path, index_at, Some(index_bytes))?;
        let pages = read_index(&index).ok_or_else(|| damaged("cannot decode the index"))?;
        Ok(Arc::new(Self {
            file,
            path,
            pages,
            bytes,
        }))
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    fn page(&self, number: usize) -> Result<Vec<u8>> {
        frame::read_compressed(&self.file, &self.path, self.pages[number].offset, None)
    }

    /// Returns a cursor at the first entry whose key is not less than `key`.
    pub(crate) fn seek(self: &Arc<Self>, key: &[u8]) -> Result<SortedCursor> {
        // Entries with this key may begin in the page before the first page that begins with it.
        let behind = self.pages.partition_point(|page| &*page.first_key < key);
        let mut cursor = SortedCursor {
            file: self.clone(),
            next_page: behind.saturating_sub(1),
            page: Vec::new(),
            at: 0,
            key: Vec::new(),
            value: (0, 0),
            is_over: false,
        };
        cursor.advance()?;
        while !cursor.is_over && *cursor.key < *key {
            cursor.advance()?;
        }
        Ok(cursor)
    }
}

fn read_index(mut index: &[u8]) -> Option<Vec<PageAt>> {
    let mut pages = Vec::new();
    while !index.is_empty() {
        let offset = take_varint(&mut index)?;
        let first_key = take_bytes(&mut index)?.into();
        pages.push(PageAt { first_key, offset });
    }
    Some(pages)
}

/// Iterates over a sorted file.
pub(crate) struct SortedCursor {
    file: Arc<SortedFile>,
    next_page: usize,
    page: Vec<u8>,
    at: usize,
    key: Vec<u8>,
    /// Start and end of the value in the page.
    value: (usize, usize),
    is_over: bool,
}

impl SortedCursor {
    /// Returns the current entry; `None` at the end.
    pub(crate) fn entry(&self) -> Option<(&[u8], &[u8])> {
        let (from, to) = self.value;
        (!self.is_over).then(|| (&*self.key, &self.page[from..to]))
    }

    /// Moves to the next entry. Returns whether a page had to be read.
    pub(crate) fn advance(&mut self) -> Result<bool> {
        let mut has_read = false;
        while self.at == self.page.len() {
            if self.next_page == self.file.pages.len() {
                self.is_over = true;
                return Ok(has_read);
            }
            self.page = self.file.page(self.next_page)?;
            (self.at, self.next_page, has_read) = (0, self.next_page + 1, true);
            self.key.clear();
        }
        let mut rest = &self.page[self.at..];
        let entry = take_entry(&mut rest, &mut self.key);
        let value_bytes = entry.ok_or_else(|| {
            HistoryError::damaged(self.file.path(), "cannot decode an entry of a page")
        })?;
        self.at = self.page.len() - rest.len();
        self.value = (self.at - value_bytes, self.at);
        Ok(has_read)
    }
}

/// Decodes the next entry. Replaces the previous key in `key` with the entry's key, and moves
/// `rest` past the value. Returns the value's length, or `None` if the entry is invalid.
fn take_entry(rest: &mut &[u8], key: &mut Vec<u8>) -> Option<usize> {
    let shared = usize::try_from(take_varint(rest)?).ok()?;
    let own = take_bytes(rest)?;
    if shared > key.len() {
        return None;
    }
    key.truncate(shared);
    key.extend_from_slice(own);
    Some(take_bytes(rest)?.len())
}

/// Appends a number in groups of seven bits per byte, lowest first.
pub(crate) fn put_varint(number: u64, out: &mut Vec<u8>) {
    prost::encoding::encode_varint(number, out);
}

/// Removes and returns a number at the front.
pub(crate) fn take_varint(input: &mut &[u8]) -> Option<u64> {
    prost::encoding::decode_varint(input).ok()
}

fn take_bytes<'a>(input: &mut &'a [u8]) -> Option<&'a [u8]> {
    let len = usize::try_from(take_varint(input)?).ok()?;
    let (bytes, rest) = input.split_at_checked(len)?;
    *input = rest;
    Some(bytes)
}

/// Returns the length of the common prefix, bytes.
pub(crate) fn shared(a: &[u8], b: &[u8]) -> usize {
    const STEP: usize = 8;
    let steps = a.chunks_exact(STEP).zip(b.chunks_exact(STEP));
    let whole = STEP * steps.take_while(|(a, b)| a == b).count();
    let rest = a[whole..].iter().zip(&b[whole..]);
    whole + rest.take_while(|(a, b)| a == b).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_are_found_by_key_and_come_in_order() {
        let dir = tempfile::tempdir().unwrap();
        let mut writer = SortedWriter::create(dir.path().join("x")).unwrap();
        let key = |n: u32| format!("/a/node-{n:06}").into_bytes();
        for n in 0..5000_u32 {
            for copy in 0..=(n % 3) {
                writer
                    .push(&key(n * 2), &[copy.to_be_bytes()[3]; 40])
                    .unwrap();
            }
        }
        let file = writer.finish().unwrap();
        assert!(file.pages.len() > 10);
        for n in [0_u32, 1, 77, 4000, 9998] {
            let mut cursor = file.seek(&key(n)).unwrap();
            let wanted = n.div_ceil(2);
            for copy in 0..=(wanted % 3) {
                let (found, value) = cursor.entry().unwrap();
                assert_eq!(
                    (found, value[0]),
                    (&*key(wanted * 2), copy.to_be_bytes()[3])
                );
                cursor.advance().unwrap();
            }
        }
        assert!(file.seek(&key(9999)).unwrap().entry().is_none());
        assert!(file.seek(b"").unwrap().entry().is_some());
    }

    #[test]
    fn an_empty_file_has_no_entries() {
        let dir = tempfile::tempdir().unwrap();
        let writer = SortedWriter::create(dir.path().join("x")).unwrap();
        let file = writer.finish().unwrap();
        assert!(file.seek(b"").unwrap().entry().is_none());
    }

    #[test]
    fn corruption_of_any_byte_is_detected() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("x");
        let mut writer = SortedWriter::create(path.clone()).unwrap();
        for n in 0..300_u32 {
            writer.push(format!("{n:05}").as_bytes(), b"value").unwrap();
        }
        drop(writer.finish().unwrap());
        let good = std::fs::read(&path).unwrap();
        for at in 0..good.len() {
            let mut bad = good.clone();
            bad[at] ^= 0x41;
            std::fs::write(&path, &bad).unwrap();
            let read = SortedFile::open(path.clone()).and_then(|file| {
                let mut cursor = file.seek(b"")?;
                let mut count = 0;
                while cursor.entry().is_some() {
                    count += 1;
                    cursor.advance()?;
                }
                Ok(count)
            });
            assert!(
                matches!(read, Err(HistoryError::Damaged { .. })),
                "byte {at}: {read:?}"
            );
        }
    }

    #[test]
    fn common_prefixes_are_counted_in_bytes() {
        let long = [7; 40];
        for at in 0..40 {
            let mut other = long;
            other[at] = 8;
            assert_eq!(shared(&long, &other), at);
            assert_eq!(shared(&long[..at], &long), at);
        }
        assert_eq!(shared(&long, &long), 40);
    }
}
