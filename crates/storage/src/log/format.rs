//! The format of a log file.

use crate::checksum::Checksum;

/// Magic bytes at the start of a log.
pub(crate) const MAGIC: [u8; 4] = *b"ZKLG";
/// The only version that exists. Readers do not check it.
const VERSION: i32 = 2;
/// Length of the file header in bytes.
pub const HEADER_LEN: usize = 16;
/// Length of the file header as a file offset.
pub(crate) const HEADER_BYTES: u64 = HEADER_LEN as u64;
/// Length of the checksum and the length field before a payload.
pub const PREFIX_BYTES: usize = 12;
/// Byte that ends a record.
pub(crate) const END_BYTE: u8 = b'B';
/// Maximum number of bytes that are written before they are synced, unless a single record is
/// longer. A crash or a failed sync can only corrupt this many bytes at the end of the newest file.
pub const UNSYNCED_BYTES_MAX: usize = 8 << 20;
/// Length of a record without its payload, bytes.
pub const FRAME_BYTES: usize = PREFIX_BYTES + 1;
/// Length of the shortest payload, which is a bare transaction header.
pub(crate) const PAYLOAD_BYTES_MIN: usize = 32;

/// Returns the 16-byte header of a log file.
pub fn file_header() -> [u8; HEADER_LEN] {
    let mut header = [0; HEADER_LEN];
    header[..4].copy_from_slice(&MAGIC);
    header[4..8].copy_from_slice(&VERSION.to_be_bytes());
    header
}

/// Appends a record, which consists of the frame and the encoded transaction.
///
/// # Panics
/// If the payload is longer than 2^31-1 bytes. No transaction is that long.
pub fn put_record(payload: &[u8], out: &mut Vec<u8>) {
    let len = i32::try_from(payload.len()).expect("a transaction fits 31 bits of length");
    out.reserve(payload.len() + FRAME_BYTES);
    out.extend_from_slice(&u64::from(Checksum::of(payload)).to_be_bytes());
    out.extend_from_slice(&len.to_be_bytes());
    out.extend_from_slice(payload);
    out.push(END_BYTE);
}
