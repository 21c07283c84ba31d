//! Jute encoding of ZooKeeper's records, on the wire and on disk.
//!
//! All numbers are big-endian. A record consists of its fields in order, without tags, padding or
//! length. A buffer or string consists of an `i32` length and the bytes, and a vector of an `i32`
//! count and the elements. A length of -1 means null, which differs from empty.
//!
//! [`Reader`] returns slices of the frame that it reads, without copying. It checks each length
//! against the available bytes and against [`Limits`] before it allocates memory, and never panics.
//! Records derive [`Encode`] and [`Decode`]:
//!
//! ```
//! use zoarium_jute as jute;
//! use zoarium_jute::{Decode, Encode, Reader};
//!
//! #[derive(Debug, PartialEq, zoarium_jute::EncodeRecord, zoarium_jute::DecodeRecord)]
//! struct Id {
//!     scheme: zoarium_jute::Str,
//!     id: Option<zoarium_jute::Str>,
//! }
//!
//! let id = Id { scheme: "digest".into(), id: None };
//! let bytes = id.to_bytes();
//! assert_eq!(&bytes[..], b"\0\0\0\x06digest\xff\xff\xff\xff");
//! assert_eq!(Id::decode(&mut Reader::new(bytes)).unwrap(), id);
//! ```
//!
//! Source: BinaryInputArchive, BinaryOutputArchive.

// The bytes come from other processes and from files, so no length in them may cause a panic.
#![warn(clippy::indexing_slicing)]

mod decode;
mod encode;
mod error;
mod reader;
mod text;

pub use bytestring::ByteString as Str;
pub use decode::Decode;
pub use encode::{Encode, put_buffer, put_len, put_str, put_with_len};
pub use error::DecodeError;
pub use jute_derive::{DecodeRecord, EncodeRecord};
pub use reader::{Limits, Reader};
pub use text::{decode as decode_text, encoded_len as text_len};
