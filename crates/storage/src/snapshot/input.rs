//! Reading of jute fields from a stream, with a running checksum of everything read.

use std::io::{self, Read};

use bytes::Bytes;
use jute::{Limits, Str};

use crate::checksum::Checksum;
use crate::log::scan::limits_of_existing;

/// Number of bytes per read of the stream. The buffer grows for larger fields, up to the field
/// limit.
const BUFFER_BYTES: usize = 256 << 10;

/// Reason why a stream cannot be read further.
#[derive(Debug, thiserror::Error)]
pub(crate) enum InputError {
    #[error("the snapshot ends early")]
    Ends,
    #[error("unreasonable length {len} (limit {limit} bytes, see jute.maxbuffer)")]
    Length { len: i32, limit: usize },
    #[error("{0}")]
    Content(String),
    #[error("{0}")]
    Stream(io::Error),
}

/// A buffered stream of fields.
///
/// It uses one buffer of 256 KiB or of the length of the longest field, whichever is larger. A
/// field is read in steps of 256 KiB, so a wrong length does not allocate memory for bytes that do
/// not exist.
#[derive(Debug)]
pub(crate) struct FieldInput<R> {
    stream: R,
    limits: Limits,
    buffer: Vec<u8>,
    /// Position of the next byte to be read from the buffer.
    start: usize,
    /// Position after the last byte received from the stream.
    end: usize,
    /// Position up to which the buffer is included in the checksum.
    hashed: usize,
    /// Stream offset of the buffer's first byte.
    base: u64,
    checksum: Checksum,
}

impl<R: Read> FieldInput<R> {
    pub(crate) fn new(stream: R, limits: Limits) -> Self {
        Self {
            stream,
            limits: limits_of_existing(limits),
            buffer: vec![0; BUFFER_BYTES],
            start: 0,
            end: 0,
            hashed: 0,
            base: 0,
            checksum: Checksum::new(),
        }
    }

    /// Returns the offset of the next byte.
    pub(crate) fn position(&self) -> u64 {
        self.base + self.start as u64
    }

    /// Returns the Adler-32 of everything read so far.
    pub(crate) fn checksum(&mut self) -> u32 {
        self.hash();
        self.checksum.value()
    }

    fn hash(&mut self) {
        if let Some(new) = self.buffer.get(self.hashed..self.start) {
            self.checksum.write(new);
        }
        self.hashed = self.start;
    }

    /// Fills the buffer until it contains `count` unread bytes. Returns `false` if the stream ends
    /// first.
    fn fill(&mut self, count: usize) -> Result<bool, io::Error> {
        if self.end - self.start >= count {
            return Ok(true);
        }
        self.hash();
        self.buffer.copy_within(self.start..self.end, 0);
        self.base += self.start as u64;
        self.end -= self.start;
        (self.start, self.hashed) = (0, 0);
        while self.end < count {
            if self.end == self.buffer.len() {
                self.buffer.resize(self.end + BUFFER_BYTES, 0);
            }
            let free = self.buffer.get_mut(self.end..).unwrap_or_default();
            match self.stream.read(free) {
                Ok(0) => return Ok(false),
                Ok(read) => self.end += read,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(true)
    }

    /// Returns the next `count` bytes.
    pub(crate) fn take(&mut self, count: usize) -> Result<&[u8], InputError> {
        match self.fill(count) {
            Ok(true) => {}
            Ok(false) => return Err(InputError::Ends),
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
                return Err(InputError::Ends);
            }
            Err(error) => return Err(InputError::Stream(error)),
        }
        let from = self.start;
        self.start += count;
        self.buffer.get(from..self.start).ok_or(InputError::Ends)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], InputError> {
        let bytes = self.take(N)?;
        bytes.first_chunk().copied().ok_or(InputError::Ends)
    }

    pub(crate) fn i32(&mut self) -> Result<i32, InputError> {
        self.array().map(i32::from_be_bytes)
    }

    pub(crate) fn i64(&mut self) -> Result<i64, InputError> {
        self.array().map(i64::from_be_bytes)
    }

    /// Reads a length field; `None` means null.
    pub(crate) fn len(&mut self) -> Result<Option<usize>, InputError> {
        let len = self.i32()?;
        if len == -1 {
            return Ok(None);
        }
        let limit = self.limits.field_bytes_max;
        match usize::try_from(len) {
            Ok(wanted) if wanted <= limit => Ok(Some(wanted)),
            _ => Err(InputError::Length { len, limit }),
        }
    }

    /// Reads a string that is not null. Malformed UTF-8 is replaced as in Java.
    pub(crate) fn string(&mut self) -> Result<Str, InputError> {
        let mut text = String::new();
        self.string_into(&mut text)?;
        Ok(text.into())
    }

    /// Reads a string like [`string`](Self::string), into a reused buffer.
    pub(crate) fn string_into(&mut self, text: &mut String) -> Result<(), InputError> {
        text.clear();
        let len = self
            .len()?
            .ok_or_else(|| InputError::Content("a required string is null".into()))?;
        let bytes = self.take(len)?;
        if let Ok(valid) = std::str::from_utf8(bytes) {
            text.push_str(valid);
            return Ok(());
        }
        text.push_str(&jute::decode_text(Bytes::copy_from_slice(bytes)));
        Ok(())
    }

    /// Returns the number of remaining bytes, at most `most`. An error of the stream counts as its
    /// end and is returned with the number.
    pub(crate) fn remaining(&mut self, most: usize) -> (usize, Option<io::Error>) {
        let error = self.fill(most).err();
        ((self.end - self.start).min(most), error)
    }
}
