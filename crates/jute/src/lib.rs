//! The jute encoding: how ZooKeeper writes every record, on the wire and on disk.
//!
//! Everything is big-endian, records are their fields in order with no tags, padding or length.
//! Buffers and strings are an `i32` length and the bytes, vectors an `i32` count and the
//! elements; a length of -1 means null, which is not the same as empty.
//!
//! [`Reader`] hands out slices of the frame it reads from (no copy), checks every length against
//! the bytes that are there and against [`Limits`] before it takes memory, and never panics.
//! Records derive [`Encode`] and [`Decode`]:
//!
//! ```
//! use jute::{Decode, Encode, Reader};
//!
//! #[derive(Debug, PartialEq, jute::EncodeRecord, jute::DecodeRecord)]
//! struct Id {
//!     scheme: jute::Str,
//!     id: Option<jute::Str>,
//! }
//!
//! let id = Id { scheme: "digest".into(), id: None };
//! let bytes = id.to_bytes();
//! assert_eq!(&bytes[..], b"\0\0\0\x06digest\xff\xff\xff\xff");
//! assert_eq!(Id::decode(&mut Reader::new(bytes)).unwrap(), id);
//! ```
//!
//! Source: BinaryInputArchive, BinaryOutputArchive.

mod decode;
mod encode;
mod error;
mod reader;
mod text;

pub use bytestring::ByteString as Str;
pub use decode::Decode;
pub use encode::{Encode, put_buffer, put_len, put_str};
pub use error::DecodeError;
pub use jute_derive::{DecodeRecord, EncodeRecord};
pub use reader::{Limits, Reader};
pub use text::{decode as decode_text, encoded_len as text_len};
