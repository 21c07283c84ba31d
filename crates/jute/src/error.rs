//! What can be wrong with bytes that should hold a record.

/// Why a record could not be decoded.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DecodeError {
    /// The bytes end inside a field.
    #[error("record ends early: {needed} bytes needed at offset {offset}, {left} left")]
    Truncated {
        /// Offset of the field from the start of the reader's bytes.
        offset: usize,
        /// Bytes the field needs.
        needed: usize,
        /// Bytes that are left.
        left: usize,
    },
    /// A length is negative (other than -1) or above the limit.
    #[error("unreasonable length {len} at offset {offset}, the limit is {limit} bytes")]
    Length {
        /// Offset of the length field.
        offset: usize,
        /// The length as read.
        len: i32,
        /// Largest length accepted, in bytes.
        limit: usize,
    },
    /// Null where the record must have a value.
    #[error("null value at offset {offset}")]
    Null {
        /// Offset of the length field that is -1.
        offset: usize,
    },
    /// A field holds a value that the record does not know.
    #[error("{what} has the unknown value {value}")]
    Value {
        /// The field's name.
        what: &'static str,
        /// What it holds.
        value: i64,
    },
}
