//! The `.properties` format, as `java.util.Properties.load` reads it from bytes.
//!
//! Every entry contains its line and its key as written, so that an error can name the place. The
//! order and the duplicates of the file are preserved. The rule that the last duplicate wins
//! belongs to [`Properties::get`], not to the parser.
//!
//! ```text
//! bytes --ISO 8859-1--> natural lines --blank and comment lines dropped, continuations joined-->
//! logical lines --first unescaped '=', ':' or blank--> key, value --escapes--> entry
//! ```
//!
//! A test compares the parser with results of java.util.Properties of JDK 17, which are recorded in
//! `tests/golden/properties.txt`.

use std::fmt::Write;

use thiserror::Error;

/// Largest accepted input, in bytes.
///
/// A configuration has a few kilobytes. The limit prevents a wrong file, such as a log or a device,
/// from being read into memory.
pub const MAX_BYTES: usize = 16 << 20;

/// Error of an invalid properties file.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum PropertiesError {
    /// A `\u` without four hexadecimal digits.
    #[error("Malformed \\uxxxx encoding.")]
    MalformedUnicode {
        /// First line of the entry, from 1.
        line: u32,
        /// Key as written, with its escapes.
        raw_key: String,
    },
    /// The input exceeds [`MAX_BYTES`].
    #[error("the configuration has {len} bytes; the limit is {MAX_BYTES}")]
    TooLong {
        /// Number of bytes of the input.
        len: usize,
    },
}

/// Entry `key = value` of a properties file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// Key, unescaped.
    pub key: String,
    /// Value, unescaped, including blanks at its end.
    pub value: String,
    /// Key as written in the file.
    pub raw_key: String,
    /// First line of the entry, from 1.
    pub line: u32,
    /// Last line of the entry. It is greater than `line` if the entry is continued.
    pub last_line: u32,
}

/// Entries of a properties file, in the order of the file.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Properties {
    entries: Vec<Entry>,
}

impl Properties {
    /// Parses a whole file.
    ///
    /// # Errors
    /// [`PropertiesError::TooLong`] if the input is too large, before anything is copied.
    /// [`PropertiesError::MalformedUnicode`] for the first invalid escape outside of a comment.
    pub fn parse(bytes: &[u8]) -> Result<Self, PropertiesError> {
        if bytes.len() > MAX_BYTES {
            return Err(PropertiesError::TooLong { len: bytes.len() });
        }
        let mut lines = NaturalLines::new(bytes).peekable();
        let mut entries = Vec::new();
        while let Some(first) = lines.next() {
            let text = skip_blanks(first.text);
            if text.is_empty() || text.starts_with(b"#") || text.starts_with(b"!") {
                continue;
            }
            let mut logical = text.to_vec();
            let mut last_line = first.number;
            while is_continued(&logical) {
                logical.pop();
                // While the logical line is empty, the next line starts a new one, which may be a
                // comment.
                if logical.is_empty() && lines.peek().is_some() {
                    break;
                }
                let Some(next) = lines.next() else { break };
                logical.extend_from_slice(skip_blanks(next.text));
                last_line = next.number;
            }
            // At the end of the file, a lone backslash is an entry without key and value. JDK 17
            // skips it only before CRLF.
            if !logical.is_empty() || (lines.peek().is_none() && !bytes.ends_with(b"\r\n")) {
                entries.push(Entry::parse(&logical, first.number, last_line)?);
            }
        }
        Ok(Self { entries })
    }

    /// Returns all entries in the order of the file, including duplicates.
    pub fn entries(&self) -> &[Entry] {
        &self.entries
    }

    /// Returns the effective entry of `key`, which is the last one with this key.
    pub fn get(&self, key: &str) -> Option<&Entry> {
        self.entries.iter().rev().find(|entry| entry.key == key)
    }
}

impl Entry {
    fn parse(logical: &[u8], line: u32, last_line: u32) -> Result<Self, PropertiesError> {
        let key_end = key_end(logical);
        let (raw_key, rest) = logical.split_at(key_end);
        let rest = skip_blanks(rest);
        let rest = match rest.strip_prefix(b"=").or_else(|| rest.strip_prefix(b":")) {
            Some(after_separator) => skip_blanks(after_separator),
            None => rest,
        };
        let malformed = || PropertiesError::MalformedUnicode {
            line,
            raw_key: latin1(raw_key),
        };
        Ok(Self {
            key: unescape(raw_key).ok_or_else(malformed)?,
            value: unescape(rest).ok_or_else(malformed)?,
            raw_key: latin1(raw_key),
            line,
            last_line,
        })
    }
}

/// Escapes a key so that parsing returns it. The result contains only ASCII.
pub fn escape_key(key: &str) -> String {
    escape(key, true)
}

/// Escapes a value so that parsing returns it. The result contains only ASCII.
pub fn escape_value(value: &str) -> String {
    escape(value, false)
}

pub(crate) struct NaturalLine<'a> {
    pub(crate) number: u32,
    pub(crate) text: &'a [u8],
}

/// Lines that end with LF, CR, CRLF or at the end of the input. A line terminator at the end of the
/// input does not start another line.
pub(crate) struct NaturalLines<'a> {
    rest: &'a [u8],
    number: u32,
}

impl<'a> NaturalLines<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Self {
            rest: bytes,
            number: 0,
        }
    }
}

impl<'a> Iterator for NaturalLines<'a> {
    type Item = NaturalLine<'a>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.rest.is_empty() {
            return None;
        }
        let end = self
            .rest
            .iter()
            .position(|byte| matches!(byte, b'\n' | b'\r'));
        let (text, rest) = self.rest.split_at(end.unwrap_or(self.rest.len()));
        self.rest = match rest {
            [b'\r', b'\n', after @ ..] | [_, after @ ..] => after,
            [] => rest,
        };
        self.number += 1;
        Some(NaturalLine {
            number: self.number,
            text,
        })
    }
}

fn is_blank(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\x0c')
}

fn skip_blanks(text: &[u8]) -> &[u8] {
    let start = text
        .iter()
        .position(|&byte| !is_blank(byte))
        .unwrap_or(text.len());
    text.split_at(start).1
}

/// Returns whether the line continues. An even number of backslashes are escaped backslashes.
fn is_continued(line: &[u8]) -> bool {
    line.iter().rev().take_while(|&&byte| byte == b'\\').count() % 2 == 1
}

fn key_end(line: &[u8]) -> usize {
    let mut is_escaped = false;
    for (index, &byte) in line.iter().enumerate() {
        if !is_escaped && (is_blank(byte) || matches!(byte, b'=' | b':')) {
            return index;
        }
        is_escaped = byte == b'\\' && !is_escaped;
    }
    line.len()
}

fn latin1(text: &[u8]) -> String {
    text.iter().copied().map(char::from).collect()
}

/// Unescapes a key or value. Returns `None` for a malformed `\u`. An unpaired surrogate becomes
/// U+FFFD, because a string cannot contain it.
fn unescape(text: &[u8]) -> Option<String> {
    let mut units: Vec<u16> = Vec::with_capacity(text.len());
    let mut bytes = text.iter().copied();
    while let Some(byte) = bytes.next() {
        let unit = match byte {
            b'\\' => match bytes.next() {
                Some(b'u') => {
                    let mut unit = 0;
                    for _ in 0..4 {
                        unit = unit << 4 | char::from(bytes.next()?).to_digit(16)?;
                    }
                    u16::try_from(unit).ok()?
                }
                Some(b't') => 0x09,
                Some(b'n') => 0x0a,
                Some(b'f') => 0x0c,
                Some(b'r') => 0x0d,
                Some(other) => u16::from(other),
                None => break,
            },
            plain => u16::from(plain),
        };
        units.push(unit);
    }
    Some(String::from_utf16_lossy(&units))
}

fn escape(text: &str, is_key: bool) -> String {
    let mut out = String::with_capacity(text.len());
    for (index, c) in text.chars().enumerate() {
        match c {
            '\t' => out.push_str("\\t"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\x0c' => out.push_str("\\f"),
            '\\' => out.push_str("\\\\"),
            // In a value, only a blank, '=' or ':' at the start could be parsed as the separator.
            ' ' | '=' | ':' | '#' | '!' if is_key || index == 0 => {
                out.push('\\');
                out.push(c);
            }
            ' '..='~' => out.push(c),
            _ => {
                for unit in c.encode_utf16(&mut [0; 2]) {
                    // Writing to a string cannot fail.
                    let _ = write!(out, "\\u{unit:04X}");
                }
            }
        }
    }
    out
}

#[cfg(test)]
mod tests;
