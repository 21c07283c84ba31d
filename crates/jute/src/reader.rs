//! A cursor over the bytes of one frame or file.

use bytes::Bytes;

use crate::{DecodeError, Str, text};

/// Largest string or buffer that is accepted. There is no default: whoever reads from a socket or a
/// file takes the limits from the configuration (`jute.maxbuffer`) or states a bound of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Bytes in one string or buffer, inclusive.
    pub field_bytes_max: usize,
}

impl Limits {
    /// The limit that goes with a `jute.maxbuffer` and its extra size.
    ///
    /// The sum saturates at 2^31-1. Source: BinaryInputArchive.checkLength.
    pub fn from_max_buffer(max_buffer: usize, extra: usize) -> Self {
        let field_bytes_max = max_buffer.saturating_add(extra).min(i32::MAX as usize);
        Self { field_bytes_max }
    }
}

/// A cursor that decodes jute fields, sharing (not copying) the bytes it reads from.
#[derive(Debug, Clone)]
pub struct Reader {
    bytes: Bytes,
    at: usize,
    limits: Limits,
}

impl Reader {
    /// A reader at the start of `bytes` that accepts each field which fits into them.
    ///
    /// This is for a frame, packet or record that is in memory: its length was checked against the
    /// configured [`Limits`] when it was read.
    pub fn new(bytes: impl Into<Bytes>) -> Self {
        let limits = Limits {
            field_bytes_max: usize::MAX,
        };
        Self::with_limits(bytes, limits)
    }

    /// A reader at the start of `bytes` that refuses longer fields than `limits` allow.
    pub fn with_limits(bytes: impl Into<Bytes>, limits: Limits) -> Self {
        Self {
            bytes: bytes.into(),
            at: 0,
            limits,
        }
    }

    /// Offset of the next byte.
    pub fn position(&self) -> usize {
        self.at
    }

    /// Bytes not yet read.
    pub fn remaining(&self) -> usize {
        self.bytes.len() - self.at
    }

    /// Whether every byte was read.
    pub fn is_empty(&self) -> bool {
        self.remaining() == 0
    }

    /// All bytes not yet read, shared.
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

    /// One byte.
    pub fn u8(&mut self) -> Result<u8, DecodeError> {
        self.array().map(|[byte]: [u8; 1]| byte)
    }

    /// A boolean: 0 is false, any other byte is true.
    pub fn bool(&mut self) -> Result<bool, DecodeError> {
        self.u8().map(|byte| byte != 0)
    }

    /// A 32-bit integer.
    pub fn i32(&mut self) -> Result<i32, DecodeError> {
        self.array().map(i32::from_be_bytes)
    }

    /// A 64-bit integer.
    pub fn i64(&mut self) -> Result<i64, DecodeError> {
        self.array().map(i64::from_be_bytes)
    }

    /// The next `len` bytes, shared.
    pub fn take(&mut self, len: usize) -> Result<Bytes, DecodeError> {
        if len > self.remaining() {
            return Err(self.truncated(len));
        }
        let slice = self.bytes.slice(self.at..self.at + len);
        self.at += len;
        Ok(slice)
    }

    /// A length-prefixed buffer, `None` for null.
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

    /// A string, `None` for null. Malformed UTF-8 becomes U+FFFD, it is not an error.
    pub fn string(&mut self) -> Result<Option<Str>, DecodeError> {
        Ok(self.buffer()?.map(text::decode))
    }

    /// A string as by [`Self::string`] that is likely to be `expected`: if it is, it holds no share
    /// of the bytes.
    pub fn string_likely(&mut self, expected: &'static str) -> Result<Option<Str>, DecodeError> {
        let is_expected = expected.len() <= self.limits.field_bytes_max
            && self.bytes.get(self.at..).is_some_and(|rest| {
                rest.first_chunk().is_some_and(|len| {
                    usize::try_from(i32::from_be_bytes(*len)) == Ok(expected.len())
                        && rest[4..].starts_with(expected.as_bytes())
                })
            });
        if !is_expected {
            return self.string();
        }
        self.at += 4 + expected.len();
        Ok(Some(Str::from_static(expected)))
    }

    /// The count in front of a vector: `None` for -1, 0 for other negative counts.
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
