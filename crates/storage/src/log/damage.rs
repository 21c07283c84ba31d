//! Corruption of records.

use std::fmt;

use proto::Zxid;

/// Corruption of a record that cannot be the result of a crash. `Display` describes it.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Damage {
    /// The payload does not match the checksum in the record.
    Checksum {
        /// Checksum in the record.
        stored: i64,
        /// Checksum of the payload.
        computed: u32,
    },
    /// The length is impossible for a record.
    Length {
        /// Content of the length field.
        found: i32,
        /// Largest accepted length.
        limit: usize,
    },
    /// The length field is wrong, but the correct length is known.
    WrongLength {
        /// Content of the length field.
        found: i32,
        /// Length with which the checksum and the end byte are correct.
        actual: u32,
    },
    /// The end byte is wrong although the record was written completely.
    EndByte {
        /// Content of the end byte.
        found: u8,
    },
    /// A complete record follows this incomplete one.
    Followed {
        /// Offset of the complete record.
        offset: u64,
        /// Zxid of the complete record.
        zxid: Zxid,
    },
    /// The bytes are not a record.
    Junk {
        /// Offset of the last nonzero byte.
        offset: u64,
    },
    /// Framing and checksum are correct, but the payload cannot be decoded.
    Undecodable {
        /// Reason why decoding failed.
        reason: String,
    },
}

impl fmt::Display for Damage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Checksum { stored, computed } => write!(
                f,
                "the stored checksum is {stored:#x}, but the record has checksum {computed:#x}"
            ),
            Self::Length { found, limit } => write!(
                f,
                "the record's length {found} is out of range (limit {limit})"
            ),
            Self::WrongLength { found, actual } => write!(
                f,
                "the record's length is {found}, but its checksum matches a record of {actual} \
                 bytes"
            ),
            Self::EndByte { found } => write!(
                f,
                "the record's end byte is {found:#04x} instead of 0x42, although more records \
                 follow or the checksum is correct"
            ),
            Self::Followed { offset, zxid } => write!(
                f,
                "the record is incomplete, but a complete record with zxid {zxid} follows at \
                 offset {offset}"
            ),
            Self::Junk { offset } => {
                write!(
                    f,
                    "no record begins at this offset, but bytes follow up to offset {offset}"
                )
            }
            Self::Undecodable { reason } => {
                write!(
                    f,
                    "the record's checksum is correct, but the record cannot be decoded: {reason}"
                )
            }
        }
    }
}
