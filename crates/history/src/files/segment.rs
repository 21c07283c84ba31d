//! Segments, which are files of changes. A segment is a sequence of frames, each a block or a
//! content, written once.

use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use blocking::files;

use crate::error::{HistoryError, Result, io_error};
use crate::files::frame;

/// Returns the path of a segment.
pub(crate) fn path(dir: &Path, number: u64) -> PathBuf {
    dir.join(format!("changes.{number:x}"))
}

/// A readable file of changes, which stays readable after its removal from the directory.
#[derive(Debug)]
pub(crate) struct Segment {
    file: File,
    path: PathBuf,
    pub(crate) number: u64,
}

impl Segment {
    pub(crate) fn open(dir: &Path, number: u64) -> Result<Arc<Self>> {
        blocking::mark("open the change history");
        let path = path(dir, number);
        let file = match File::open(&path) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                return Err(HistoryError::damaged(&path, "the file is missing"));
            }
            other => other.map_err(io_error("open", &path))?,
        };
        Ok(Arc::new(Self { file, path, number }))
    }

    pub(crate) fn read(&self, offset: u64, bytes: Option<u32>) -> Result<Vec<u8>> {
        frame::read_compressed(&self.file, &self.path, offset, bytes)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the length of the file, bytes.
    pub(crate) fn bytes(&self) -> u64 {
        self.file.metadata().map_or(0, |meta| meta.len())
    }
}

/// Writer that appends to a segment.
pub(crate) struct SegmentWriter {
    file: File,
    path: PathBuf,
    end: u64,
    /// Bytes that are not written yet.
    waiting: Vec<u8>,
    is_synced: bool,
    encoder: snap::raw::Encoder,
}

/// Number of bytes that are collected for one write.
const WRITE_BYTES: usize = 256 << 10;

impl SegmentWriter {
    /// Opens a segment to append at `end`. Bytes after `end` were never valid and are removed.
    pub(crate) fn open(dir: &Path, number: u64, end: u64) -> Result<Self> {
        let path = path(dir, number);
        let opened = files::options()
            .write(true)
            .create(true)
            .truncate(false)
            .open(&path);
        let file = opened.map_err(io_error("open", &path))?;
        let len = file.metadata().map_err(io_error("check", &path))?.len();
        if len < end {
            return Err(HistoryError::damaged(
                &path,
                "the file is shorter than its recorded length",
            ));
        }
        file.set_len(end).map_err(io_error("truncate", &path))?;
        Ok(Self {
            file,
            path,
            end,
            waiting: Vec::new(),
            is_synced: false,
            encoder: snap::raw::Encoder::new(),
        })
    }

    /// Appends a frame. Returns its offset and its length.
    pub(crate) fn append(&mut self, content: &[u8]) -> Result<(u64, u32)> {
        let at = self.waiting.len();
        frame::put_compressed(content, &mut self.waiting, &mut self.encoder);
        let offset = self.end + at as u64;
        let bytes =
            u32::try_from(self.waiting.len() - at).expect("a frame is shorter than 2^32 bytes");
        if self.waiting.len() >= WRITE_BYTES {
            self.write()?;
        }
        Ok((offset, bytes))
    }

    /// Writes all bytes to the operating system, so that readers can read them.
    pub(crate) fn write(&mut self) -> Result<()> {
        blocking::mark("write the change history");
        if self.waiting.is_empty() {
            return Ok(());
        }
        let written = self.file.write_all_at(&self.waiting, self.end);
        written.map_err(io_error("write", &self.path))?;
        self.end += self.waiting.len() as u64;
        self.waiting.clear();
        self.is_synced = false;
        Ok(())
    }

    /// Syncs all bytes to the disk.
    pub(crate) fn sync(&mut self) -> Result<()> {
        self.write()?;
        if !self.is_synced {
            self.file
                .sync_data()
                .map_err(io_error("sync", &self.path))?;
            self.is_synced = true;
        }
        Ok(())
    }

    /// Returns the offset of the next frame.
    pub(crate) fn end(&self) -> u64 {
        self.end + self.waiting.len() as u64
    }
}

/// Removes an unused file. If that fails, the next start removes it.
pub(crate) fn remove(path: &Path) {
    if let Err(error) = fs::remove_file(path)
        && error.kind() != std::io::ErrorKind::NotFound
    {
        tracing::warn!(file = %path.display(), %error, "cannot remove a file of the change history");
    }
}
