//! Cursor over the bytes of one frame or file.

use bytes::Bytes;

use crate::{DecodeError, Str, text};

/// Maximum size of a string or buffer. There is no default, because readers of sockets and files
/// use the limits of the configuration (`jute.maxbuffer`) or their own limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Maximum length of one string or buffer in bytes, inclusive.
    pub field_bytes_max: usize,
}

impl Limits {
    /// Returns the limits for a value of `jute.maxbuffer` and an extra size, both in bytes.
    ///
    /// The sum saturates at 2^31-1. Source: BinaryInputArchive.checkLength.
    pub fn from_max_buffer(max_buffer: usize, extra: usize) -> Self {
        let field_bytes_max = max_buffer.saturating_add(extra).min(i32::MAX as usize);
        Self { field_bytes_max }
    }
}

/// Cursor that decodes jute fields and shares the bytes that it reads instead of copying them.
///
/// Every method that decodes fails if the bytes end early, or if a length exceeds the limit or is
/// negative (other than -1, for null).
#[derive(Debug, Clone)]
pub struct Reader {
    bytes: Bytes,
    at: usize,
    limits: Limits,
}

#[expect(
    clippy::missing_errors_doc,
    reason = "the errors are above, once for all methods"
)]
impl Reader {
    /// Constructs a reader at the start of `bytes` that accepts all fields that fit into them.
    ///
    /// Use this constructor for a frame, packet or record in memory whose length was checked
    /// against the configured [`Limits`] when it was read.
    pub fn new(bytes: impl Into<Bytes>) -> Self {
        let limits = Limits {
            field_bytes_max: usize::MAX,
        };
        Self::with_limits(bytes, limits)
    }

    /// Constructs a reader at the start of `bytes` that refuses fields longer than `limits`.
    pub fn with_limits(bytes: impl Into<Bytes>, limits: Limits) -> Self {
        Self {
            bytes: bytes.into(),
            at: 0,
            limits,
        }
    }

    /// Returns the offset of the next byte.
    pub fn position(&self) -> usize {
        self.at
    }

    /// Returns the number of bytes that have not been read.
    pub fn remaining(&self) -> usize {
        self.bytes.len() - self.at
    }

    /// Returns whether all bytes have been read.
    pub fn is_empty(&self) -> bool {
        self.remaining() == 0
    }

    /// Returns all bytes that have not been read, without copying them.
    pub fn rest(&self) -> Bytes {
        self.bytes.slice(self.at..)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], DecodeError> {
        match self
            .bytes
            .get(self.at..)
            .and_then(|rest| rest.first_chunk::<N>())
        {
            Some(chunk) => {
                self.at += N;
                Ok(*chunk)
            }
            None => Err(self.truncated(N)),
        }
    }

    fn truncated(&self, needed: usize) -> DecodeError {
        DecodeError::Truncated {
            offset: self.at,
            needed,
            left: self.remaining(),
        }
    }

    /// Reads a byte.
    pub fn u8(&mut self) -> Result<u8, DecodeError> {
        self.array().map(|[byte]: [u8; 1]| byte)
    }

    /// Reads a boolean: 0 is false, any other byte is true.
    pub fn bool(&mut self) -> Result<bool, DecodeError> {
        self.u8().map(|byte| byte != 0)
    }

    /// Reads a 32-bit integer.
    pub fn i32(&mut self) -> Result<i32, DecodeError> {
        self.array().map(i32::from_be_bytes)
    }

    /// Reads a 64-bit integer.
    pub fn i64(&mut self) -> Result<i64, DecodeError> {
        self.array().map(i64::from_be_bytes)
    }

    /// Reads the next `len` bytes without copying them.
    pub fn take(&mut self, len: usize) -> Result<Bytes, DecodeError> {
        if len > self.remaining() {
            return Err(self.truncated(len));
        }
        let slice = self.bytes.slice(self.at..self.at + len);
        self.at += len;
        Ok(slice)
    }

    /// Reads a length-prefixed buffer. Null becomes `None`.
    pub fn buffer(&mut self) -> Result<Option<Bytes>, DecodeError> {
        let offset = self.at;
        let len = self.i32()?;
        if len == -1 {
            return Ok(None);
        }
        let limit = self.limits.field_bytes_max;
        match usize::try_from(len) {
            Ok(wanted) if wanted <= limit => self.take(wanted).map(Some),
            _ => Err(DecodeError::Length { offset, len, limit }),
        }
    }

    /// Reads a string. Null becomes `None`. Malformed UTF-8 is not an error, but becomes U+FFFD.
    pub fn string(&mut self) -> Result<Option<Str>, DecodeError> {
        Ok(self.buffer()?.map(text::decode))
    }

    /// Works like [`Self::string`], for a string that is likely to be `expected`. If the string is
    /// `expected`, the result is the static text and does not share the bytes.
    pub fn string_likely(&mut self, expected: &'static str) -> Result<Option<Str>, DecodeError> {
        let is_expected = expected.len() <= self.limits.field_bytes_max
            && self
                .bytes
                .get(self.at..)
                .and_then(<[u8]>::split_first_chunk)
                .is_some_and(|(len, text)| {
                    usize::try_from(i32::from_be_bytes(*len)) == Ok(expected.len())
                        && text.starts_with(expected.as_bytes())
                });
        if !is_expected {
            return self.string();
        }
        self.at += 4 + expected.len();
        Ok(Some(Str::from_static(expected)))
    }

    /// Reads the count of a vector. -1 becomes `None`, and other negative counts become 0.
    ///
    /// Source: experiment on 3.9.5.
    pub fn count(&mut self) -> Result<Option<usize>, DecodeError> {
        Ok(match self.i32()? {
            -1 => None,
            count => Some(usize::try_from(count).unwrap_or(0)),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_likely_string_reads_as_any_other() {
        let cases: [&[u8]; 8] = [
            b"\0\0\0\x05world!",
            b"\0\0\0\x05worle!",
            b"\0\0\0\x06world!",
            b"\0\0\0\x04world!",
            b"\0\0\0\x05worl",
            b"\xff\xff\xff\xff",
            b"\xff\xff\xff\xfe",
            b"\0\0\0",
        ];
        for bytes in cases {
            for field_bytes_max in [4, 100] {
                let limits = Limits { field_bytes_max };
                let mut plain = Reader::with_limits(bytes, limits);
                let mut likely = plain.clone();
                assert_eq!(likely.string_likely("world"), plain.string(), "{bytes:?}");
                assert_eq!(likely.position(), plain.position(), "{bytes:?}");
            }
        }
    }
}
