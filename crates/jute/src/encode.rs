//! Encoding of records.

use bytes::Bytes;

use crate::{Str, text};

/// Value with a jute encoding.
pub trait Encode {
    /// Appends the encoding to `out`.
    fn encode(&self, out: &mut Vec<u8>);

    /// Returns the encoding in a new buffer.
    fn to_bytes(&self) -> Bytes {
        let mut out = Vec::new();
        self.encode(&mut out);
        out.into()
    }
}

/// Appends a buffer: its length and the bytes, or -1 for null.
///
/// # Panics
/// If the buffer is longer than 2^31-1 bytes, which no reader could have produced.
pub fn put_buffer(buffer: Option<&[u8]>, out: &mut Vec<u8>) {
    match buffer {
        None => (-1i32).encode(out),
        Some(bytes) => {
            put_len(bytes.len(), out);
            out.extend_from_slice(bytes);
        }
    }
}

/// Appends a string: the length of its CESU-8 form and the bytes, or -1 for null.
pub fn put_str(string: Option<&str>, out: &mut Vec<u8>) {
    match string {
        None => (-1i32).encode(out),
        // Most strings are ASCII. These are scanned only once.
        Some(string) if string.is_ascii() => put_buffer(Some(string.as_bytes()), out),
        Some(string) => {
            put_len(text::encoded_len(string), out);
            text::encode(string, out);
        }
    }
}

/// Appends a length or count, which precedes the counted items.
///
/// # Panics
/// If `len` is above 2^31-1, which no reader could have produced.
pub fn put_len(len: usize, out: &mut Vec<u8>) {
    let len = i32::try_from(len).expect("a jute length fits 31 bits");
    len.encode(out);
}

/// Appends a length, and the bytes that `put` appends.
///
/// # Panics
/// If `put` appends more than 2^31-1 bytes, which no reader could have produced.
pub fn put_with_len(out: &mut Vec<u8>, put: impl FnOnce(&mut Vec<u8>)) {
    let start = out.len();
    0i32.encode(out);
    put(out);
    let appended = out.get_mut(start..).unwrap_or_default();
    if let Some((field, bytes)) = appended.split_first_chunk_mut() {
        let len = i32::try_from(bytes.len()).expect("a jute length fits 31 bits");
        *field = len.to_be_bytes();
    }
}

impl Encode for u8 {
    fn encode(&self, out: &mut Vec<u8>) {
        out.push(*self);
    }
}

impl Encode for bool {
    fn encode(&self, out: &mut Vec<u8>) {
        out.push(u8::from(*self));
    }
}

impl Encode for i32 {
    fn encode(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.to_be_bytes());
    }
}

impl Encode for i64 {
    fn encode(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.to_be_bytes());
    }
}

impl Encode for Str {
    fn encode(&self, out: &mut Vec<u8>) {
        put_str(Some(self), out);
    }
}

impl Encode for Option<Str> {
    fn encode(&self, out: &mut Vec<u8>) {
        put_str(self.as_deref(), out);
    }
}

impl Encode for Bytes {
    fn encode(&self, out: &mut Vec<u8>) {
        put_buffer(Some(self), out);
    }
}

impl Encode for Option<Bytes> {
    fn encode(&self, out: &mut Vec<u8>) {
        put_buffer(self.as_deref(), out);
    }
}

impl<T: Encode> Encode for [T] {
    fn encode(&self, out: &mut Vec<u8>) {
        put_len(self.len(), out);
        for item in self {
            item.encode(out);
        }
    }
}

impl<T: Encode> Encode for Vec<T> {
    fn encode(&self, out: &mut Vec<u8>) {
        self.as_slice().encode(out);
    }
}

impl<T: Encode> Encode for Option<Vec<T>> {
    fn encode(&self, out: &mut Vec<u8>) {
        match self {
            None => (-1i32).encode(out),
            Some(items) => items.encode(out),
        }
    }
}
