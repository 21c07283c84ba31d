//! Frames, which consist of bytes with their length and checksum.
//!
//! ```text
//! length u32 | crc32 of the bytes u32 | bytes
//! ```
//!
//! All numbers are big-endian. The writer compresses the bytes (snappy).

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;

use crate::error::{HistoryError, Result, io_error};
use crate::limits::FRAME_BYTES_MAX;

/// Length of a frame's header, bytes.
pub(crate) const HEADER_BYTES: usize = 8;

/// Compresses `content` and appends it as a frame.
pub(crate) fn put_compressed(content: &[u8], out: &mut Vec<u8>, encoder: &mut snap::raw::Encoder) {
    let header_at = out.len();
    let content_at = header_at + HEADER_BYTES;
    out.resize(content_at + snap::raw::max_compress_len(content.len()), 0);
    let bytes = encoder
        .compress(content, &mut out[content_at..])
        .expect("the buffer has space for the longest result");
    out.truncate(content_at + bytes);
    let crc = crc32fast::hash(&out[content_at..]);
    let len = u32::try_from(bytes).expect("the content of a frame is shorter than 2^32 bytes");
    out[header_at..header_at + 4].copy_from_slice(&len.to_be_bytes());
    out[header_at + 4..content_at].copy_from_slice(&crc.to_be_bytes());
}

/// Reads the frame at `offset` and decompresses it. `bytes` is its length including the header, if
/// it is known from elsewhere.
pub(crate) fn read_compressed(
    file: &File,
    path: &Path,
    offset: u64,
    bytes: Option<u32>,
) -> Result<Vec<u8>> {
    blocking::mark("read the change history");
    let damaged = |reason: &str| HistoryError::damaged(path, format!("offset {offset}: {reason}"));
    let read = |at: u64, out: &mut [u8]| match file.read_exact_at(out, at) {
        Err(error) if error.kind() == std::io::ErrorKind::UnexpectedEof => {
            Err(damaged("the file ends within a frame"))
        }
        other => other.map_err(io_error("read", path)),
    };
    let mut header = [0; HEADER_BYTES];
    read(offset, &mut header)?;
    let [l0, l1, l2, l3, c0, c1, c2, c3] = header;
    let len = u32::from_be_bytes([l0, l1, l2, l3]) as usize;
    let crc = u32::from_be_bytes([c0, c1, c2, c3]);
    if len > FRAME_BYTES_MAX || bytes.is_some_and(|bytes| bytes as usize != len + HEADER_BYTES) {
        return Err(damaged("the length of a frame is wrong"));
    }
    let mut content = vec![0; len];
    read(offset + HEADER_BYTES as u64, &mut content)?;
    if crc32fast::hash(&content) != crc {
        return Err(damaged("the checksum of a frame is wrong"));
    }
    let expanded = snap::raw::decompress_len(&content)
        .map_err(|_| damaged("the content of a frame is not snappy data"))?;
    if expanded > FRAME_BYTES_MAX {
        return Err(damaged("a frame is too long"));
    }
    let decoded = snap::raw::Decoder::new().decompress_vec(&content);
    decoded.map_err(|error| damaged(&error.to_string()))
}
