//! Errors in decoding a record.

/// Reason why a record cannot be decoded.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DecodeError {
    /// The bytes end inside a field.
    #[error(
        "record ends early at offset {offset}: needed bytes: {needed}, remaining bytes: {left}"
    )]
    Truncated {
        /// Offset of the field from the start of the reader's bytes.
        offset: usize,
        /// Number of bytes that the field needs.
        needed: usize,
        /// Number of remaining bytes.
        left: usize,
    },
    /// A length is negative (other than -1) or above the limit.
    #[error("unreasonable length {len} at offset {offset}, the limit is {limit} bytes")]
    Length {
        /// Offset of the length field.
        offset: usize,
        /// Length that was read.
        len: i32,
        /// Largest accepted length, in bytes.
        limit: usize,
    },
    /// A value is null, but the record does not permit null.
    #[error("null value at offset {offset}")]
    Null {
        /// Offset of the length field, which is -1.
        offset: usize,
    },
    /// A field has an unknown value.
    #[error("{what} has the unknown value {value}")]
    Value {
        /// Name of the field.
        what: &'static str,
        /// Value of the field.
        value: i64,
    },
}
