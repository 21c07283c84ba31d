//! The transaction log: its format, and the rules that find the end of a file.
//!
//! ```text
//! file    "ZKLG" | version i32 = 2 | dbid i64 = 0                                  16 bytes
//! record  Adler-32 of the payload, as i64 | length i32 | payload | 0x42       13 + length bytes
//! ...     then zeros to the preallocated size
//! ```
//!
//! The checksum covers neither the length nor the end byte. If a bit in one of them flips, Java
//! treats the record as the end of the file and silently drops the following records. Zoarium
//! decides by the bytes after the last intact record (see [`judge`]):
//!
//! * zeros or nothing: the end of the log;
//! * the beginning of one record, cut or filled up with zeros: torn by a crash, so never
//!   acknowledged, and dropped during recovery;
//! * all other bytes: corruption, and the start is refused.
//!
//! Source: FileTxnLog.

pub mod chain;
pub(crate) mod damage;
pub(crate) mod format;
pub mod judge;
mod padding;
mod pages;
pub mod scan;
pub mod whole;
mod writer;

pub use format::{
    FRAME_BYTES, HEADER_LEN, PREFIX_BYTES, UNSYNCED_BYTES_MAX, file_header, put_record,
};
pub use padding::Padding;
pub use pages::{LogCursor, LogPages, LogUnusable, Payload};
pub use writer::{Committed, LogSettings, LogWriter};
