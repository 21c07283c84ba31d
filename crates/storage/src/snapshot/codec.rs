//! Compression of snapshots: gzip, and the stream format of snappy-java.
//!
//! ```text
//! 82 "SNAPPY" 00 | version i32 = 1 | compatible version i32 = 1 | { length i32 | raw snappy block }
//! ```
//!
//! A block contains 32 KiB of input. A [`DiskFile`] is read in large pieces.

use std::io::{self, Read, Write};

use flate2::bufread::GzDecoder;
use flate2::write::GzEncoder;

use super::Compression;
use crate::disk::DiskFile;

/// Magic bytes at the start of a snappy stream.
pub(crate) const SNAPPY_MAGIC: [u8; 8] = [0x82, b'S', b'N', b'A', b'P', b'P', b'Y', 0];
/// Magic bytes at the start of a gzip stream.
pub(crate) const GZIP_MAGIC: [u8; 2] = [0x1f, 0x8b];
/// Uncompressed length of a snappy block, bytes.
const SNAPPY_BLOCK_BYTES: usize = 32 << 10;
/// Maximum accepted uncompressed length of a block, bytes. Other writers may use larger blocks than
/// Zoarium.
const SNAPPY_BLOCK_BYTES_MAX: usize = 4 << 20;
/// Number of bytes per read or write of the file.
const FILE_BUFFER_BYTES: usize = 1 << 20;
/// Length above which a file is not kept in the page cache, bytes.
const CACHED_BYTES_MAX: u64 = 256 << 20;

/// Buffered reader of a file, from its start.
#[derive(Debug)]
pub(crate) struct FileInput<F> {
    file: F,
    at: u64,
    buffer: Box<[u8]>,
    start: usize,
    end: usize,
}

impl<F: DiskFile> FileInput<F> {
    fn new(file: F) -> Self {
        Self {
            file,
            at: 0,
            buffer: vec![0; FILE_BUFFER_BYTES].into(),
            start: 0,
            end: 0,
        }
    }
}

impl<F: DiskFile> io::BufRead for FileInput<F> {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        if self.start >= self.end {
            self.end = self.file.read_at(self.at, &mut self.buffer)?;
            self.at += self.end as u64;
            self.start = 0;
        }
        Ok(self.buffer.get(self.start..self.end).unwrap_or_default())
    }

    fn consume(&mut self, count: usize) {
        self.start += count;
    }
}

impl<F: DiskFile> Read for FileInput<F> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        // Large reads bypass the buffer.
        if self.start >= self.end && buf.len() >= FILE_BUFFER_BYTES {
            let read = self.file.read_at(self.at, buf)?;
            self.at += read as u64;
            return Ok(read);
        }
        let mut available = io::BufRead::fill_buf(self)?;
        let count = available.read(buf)?;
        io::BufRead::consume(self, count);
        Ok(count)
    }
}

/// Reader of the uncompressed bytes of a file.
#[derive(Debug)]
pub(crate) enum Decompressed<F: DiskFile> {
    Plain(FileInput<F>),
    Gzip(Box<GzDecoder<FileInput<F>>>),
    Snappy(Box<SnappyInput<F>>),
}

impl<F: DiskFile> Decompressed<F> {
    pub(crate) fn new(file: F, compression: Compression) -> Self {
        let input = FileInput::new(file);
        match compression {
            Compression::None => Self::Plain(input),
            Compression::Gzip => Self::Gzip(Box::new(GzDecoder::new(input))),
            Compression::Snappy => Self::Snappy(Box::new(SnappyInput::new(input))),
        }
    }
}

impl<F: DiskFile> Read for Decompressed<F> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Plain(input) => input.read(buf),
            Self::Gzip(input) => input.read(buf),
            Self::Snappy(input) => input.read(buf),
        }
    }
}

/// Reader of a snappy-java stream.
#[derive(Debug)]
pub(crate) struct SnappyInput<F> {
    input: FileInput<F>,
    has_begun: bool,
    block: Vec<u8>,
    start: usize,
    compressed: Vec<u8>,
}

impl<F: DiskFile> SnappyInput<F> {
    fn new(input: FileInput<F>) -> Self {
        Self {
            input,
            has_begun: false,
            block: Vec::new(),
            start: 0,
            compressed: Vec::new(),
        }
    }

    /// Reads the header. Versions are not checked, as in Java.
    fn read_header(&mut self) -> io::Result<()> {
        let mut header = [0; 16];
        self.input.read_exact(&mut header)?;
        if header[..8] != SNAPPY_MAGIC {
            return Err(invalid("the snappy header is missing".into()));
        }
        self.has_begun = true;
        Ok(())
    }

    /// Reads the next block. Returns `false` at the end.
    fn next_block(&mut self) -> io::Result<bool> {
        let mut len = [0; 4];
        let first = self.input.read(&mut len[..1])?;
        if first == 0 {
            return Ok(false);
        }
        self.input.read_exact(&mut len[1..])?;
        let len = i32::from_be_bytes(len);
        let max = snap::raw::max_compress_len(SNAPPY_BLOCK_BYTES_MAX);
        let len = usize::try_from(len)
            .ok()
            .filter(|len| (1..=max).contains(len))
            .ok_or_else(|| invalid(format!("a snappy block has the invalid length {len}")))?;
        self.compressed.resize(len, 0);
        self.input.read_exact(&mut self.compressed)?;
        let broken = |error: snap::Error| invalid(error.to_string());
        let size = snap::raw::decompress_len(&self.compressed).map_err(broken)?;
        if size > SNAPPY_BLOCK_BYTES_MAX {
            return Err(invalid(format!(
                "a snappy block has {size} bytes, the limit is {SNAPPY_BLOCK_BYTES_MAX}"
            )));
        }
        self.block.resize(size, 0);
        let filled = snap::raw::Decoder::new()
            .decompress(&self.compressed, &mut self.block)
            .map_err(broken)?;
        self.block.truncate(filled);
        self.start = 0;
        Ok(true)
    }
}

impl<F: DiskFile> Read for SnappyInput<F> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        if !self.has_begun {
            self.read_header()?;
        }
        while self.start >= self.block.len() {
            if !self.next_block()? {
                return Ok(0);
            }
        }
        let mut available = self.block.get(self.start..).unwrap_or_default();
        let count = available.read(buf)?;
        self.start += count;
        Ok(count)
    }
}

fn invalid(reason: String) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, reason)
}

/// Writer that compresses into a buffered file.
#[derive(Debug)]
pub(crate) enum Compressor<F: DiskFile> {
    Plain(FileOutput<F>),
    Gzip(Box<GzEncoder<FileOutput<F>>>),
    Snappy(SnappyOutput<F>),
}

impl<F: DiskFile> Compressor<F> {
    pub(crate) fn new(file: F, compression: Compression, sync_every: u64) -> io::Result<Self> {
        let output = FileOutput::new(file, sync_every);
        Ok(match compression {
            Compression::None => Self::Plain(output),
            Compression::Gzip => Self::Gzip(Box::new(GzEncoder::new(
                output,
                flate2::Compression::default(),
            ))),
            Compression::Snappy => Self::Snappy(SnappyOutput::new(output)?),
        })
    }

    /// Writes everything that is still buffered. Returns the file.
    pub(crate) fn finish(self) -> io::Result<F> {
        match self {
            Self::Plain(output) => output.finish(),
            Self::Gzip(output) => output.finish()?.finish(),
            Self::Snappy(output) => output.finish(),
        }
    }
}

impl<F: DiskFile> Write for Compressor<F> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Plain(output) => output.write(bytes),
            Self::Gzip(output) => output.write(bytes),
            Self::Snappy(output) => output.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Buffered writer of a file, from its start.
#[derive(Debug)]
pub(crate) struct FileOutput<F> {
    file: F,
    at: u64,
    buffer: Vec<u8>,
    sync_every: u64,
    unsynced: u64,
    /// Length of the prefix that was removed from the page cache.
    forgotten: u64,
}

impl<F: DiskFile> FileOutput<F> {
    fn new(file: F, sync_every: u64) -> Self {
        Self {
            file,
            at: 0,
            buffer: Vec::with_capacity(FILE_BUFFER_BYTES),
            sync_every,
            unsynced: 0,
            forgotten: 0,
        }
    }

    fn write_out(&mut self) -> io::Result<()> {
        self.file.write_all_at(self.at, &self.buffer)?;
        let written = self.buffer.len() as u64;
        self.at += written;
        self.unsynced += written;
        self.buffer.clear();
        if self.sync_every > 0 && self.unsynced >= self.sync_every {
            self.file.sync_data()?;
            self.unsynced = 0;
            self.forget_if_long();
        }
        Ok(())
    }

    /// Removes a long file from the page cache. The server keeps the tree itself in memory. A copy
    /// of each long snapshot in the page cache would displace the data of other processes, and
    /// allocating its pages would take most of the time of a write. A short snapshot stays cached
    /// while there is free memory, so the next start need not read it from the disk.
    fn forget_if_long(&mut self) {
        if self.at > CACHED_BYTES_MAX {
            self.file.forget(self.forgotten, self.at - self.forgotten);
            self.forgotten = self.at;
        }
    }

    fn finish(mut self) -> io::Result<F> {
        self.write_out()?;
        Ok(self.file)
    }
}

impl<F: DiskFile> Write for FileOutput<F> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let room = FILE_BUFFER_BYTES.saturating_sub(self.buffer.len());
        let fitting = bytes.get(..room).unwrap_or(bytes);
        self.buffer.extend_from_slice(fitting);
        if self.buffer.len() >= FILE_BUFFER_BYTES {
            self.write_out()?;
        }
        Ok(fitting.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Writer of a snappy-java stream.
#[derive(Debug)]
pub(crate) struct SnappyOutput<F> {
    output: FileOutput<F>,
    block: Vec<u8>,
    compressed: Vec<u8>,
}

impl<F: DiskFile> SnappyOutput<F> {
    fn new(mut output: FileOutput<F>) -> io::Result<Self> {
        output.write_all(&SNAPPY_MAGIC)?;
        for version in [1i32; 2] {
            output.write_all(&version.to_be_bytes())?;
        }
        Ok(Self {
            output,
            block: Vec::with_capacity(SNAPPY_BLOCK_BYTES),
            compressed: vec![0; snap::raw::max_compress_len(SNAPPY_BLOCK_BYTES)],
        })
    }

    fn write_block(&mut self) -> io::Result<()> {
        if self.block.is_empty() {
            return Ok(());
        }
        let len = snap::raw::Encoder::new()
            .compress(&self.block, &mut self.compressed)
            .map_err(|error| invalid(error.to_string()))?;
        let prefix = i32::try_from(len).map_err(|error| invalid(error.to_string()))?;
        self.output.write_all(&prefix.to_be_bytes())?;
        self.output
            .write_all(self.compressed.get(..len).unwrap_or_default())?;
        self.block.clear();
        Ok(())
    }

    fn finish(mut self) -> io::Result<F> {
        self.write_block()?;
        self.output.finish()
    }
}

impl<F: DiskFile> Write for SnappyOutput<F> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let room = SNAPPY_BLOCK_BYTES.saturating_sub(self.block.len());
        let fitting = bytes.get(..room).unwrap_or(bytes);
        self.block.extend_from_slice(fitting);
        if self.block.len() >= SNAPPY_BLOCK_BYTES {
            self.write_block()?;
        }
        Ok(fitting.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Fake file that records the `forget` calls and ignores all others.
    #[derive(Debug, Default)]
    struct RecordingFile(std::sync::Mutex<Vec<(u64, u64)>>);

    impl DiskFile for RecordingFile {
        fn len(&self) -> io::Result<u64> {
            Ok(0)
        }

        fn read_at(&self, _: u64, _: &mut [u8]) -> io::Result<usize> {
            Ok(0)
        }

        fn write_all_at(&self, _: u64, _: &[u8]) -> io::Result<()> {
            Ok(())
        }

        fn sync_data(&self) -> io::Result<()> {
            Ok(())
        }

        fn forget(&self, offset: u64, len: u64) {
            self.0.lock().unwrap().push((offset, len));
        }

        fn set_len(&self, _: u64) -> io::Result<()> {
            Ok(())
        }
    }

    fn forgotten(mib: u64) -> Vec<(u64, u64)> {
        const SYNC_EVERY: u64 = 16 << 20;
        let mut output = FileOutput::new(RecordingFile::default(), SYNC_EVERY);
        let piece = vec![0; 1 << 20];
        for _ in 0..mib {
            output.write_all(&piece).unwrap();
        }
        output.finish().unwrap().0.into_inner().unwrap()
    }

    #[test]
    fn a_long_file_leaves_no_copy_in_the_page_cache_and_a_short_one_does() {
        let cached_mib = CACHED_BYTES_MAX >> 20;
        assert_eq!(forgotten(cached_mib), []);
        let (first, next) = (CACHED_BYTES_MAX + (16 << 20), 16 << 20);
        assert_eq!(forgotten(cached_mib + 32), [(0, first), (first, next)]);
    }
}
