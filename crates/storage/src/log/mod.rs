//! The transaction log: its format, and how the end of a file is understood.
//!
//! ```text
//! file    "ZKLG" | version i32 = 2 | dbid i64 = 0                                  16 bytes
//! record  Adler-32 of the payload, as i64 | length i32 | payload | 0x42       13 + length bytes
//! ...     then zeros to the preallocated size
//! ```
//!
//! The checksum covers neither the length nor the end byte, so Java takes a flipped bit in either
//! for the end of the file and drops what follows without a word. Here the bytes after the last
//! good record decide (see [`judge`]):
//!
//! * zeros or nothing: the end;
//! * the beginning of one record, cut or filled up with zeros: torn by a crash, so never
//!   acknowledged; recovered without a question;
//! * anything else: damage, refused.
//!
//! Source: FileTxnLog.

pub mod chain;
pub mod judge;
mod padding;
mod pages;
pub mod scan;
pub mod whole;
mod writer;

pub(crate) use chain::zxid_of;
pub use padding::Padding;
pub use pages::{LogCursor, LogPages, Payload, Unusable};
pub use writer::{Committed, LogSettings, LogWriter};

use crate::checksum::Checksum;

/// "ZKLG".
pub(crate) const MAGIC: [u8; 4] = *b"ZKLG";
/// The only version there has been. Readers do not check it.
const VERSION: i32 = 2;
/// Bytes of the file header.
pub const HEADER_LEN: usize = 16;
/// The same, as an offset in a file.
pub(crate) const HEADER_BYTES: u64 = HEADER_LEN as u64;
/// Checksum and length in front of a payload.
pub(crate) const PREFIX_BYTES: usize = 12;
/// Closes a record.
pub(crate) const END_BYTE: u8 = b'B';
/// Bytes that are written without a sync behind them, unless a single record is longer: so much at
/// the end of the newest file a crash or a failed sync may touch.
pub const UNSYNCED_BYTES_MAX: usize = 8 << 20;
/// Bytes that a record takes beyond its payload.
pub(crate) const FRAME_BYTES: usize = PREFIX_BYTES + 1;
/// The shortest payload: a transaction header.
pub(crate) const PAYLOAD_BYTES_MIN: usize = 32;

/// The 16 bytes a log begins with.
pub fn file_header() -> [u8; HEADER_LEN] {
    let mut header = [0; HEADER_LEN];
    header[..4].copy_from_slice(&MAGIC);
    header[4..8].copy_from_slice(&VERSION.to_be_bytes());
    header
}

/// Appends a record: a transaction as its bytes, in its frame.
///
/// # Panics
/// If the payload is longer than 2^31-1 bytes; no transaction can be.
pub fn put_record(payload: &[u8], out: &mut Vec<u8>) {
    let len = i32::try_from(payload.len()).expect("a transaction fits 31 bits of length");
    out.reserve(payload.len() + FRAME_BYTES);
    out.extend_from_slice(&u64::from(Checksum::of(payload)).to_be_bytes());
    out.extend_from_slice(&len.to_be_bytes());
    out.extend_from_slice(payload);
    out.push(END_BYTE);
}
