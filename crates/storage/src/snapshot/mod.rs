//! Snapshots: their format, reading and writing.
//!
//! ```text
//! "ZKSN" | version i32 = 2 | dbid i64 = -1
//! sessions   count i32 | { id i64 | timeout i32 }
//! ACL table  count i32 | { id i64 | list of ACL }
//! znodes     { path | data | ACL id i64 | StatPersisted } root first, its path empty; ends with "/"
//! seal       Adler-32 of everything before it, as i64 | "/"
//! digest     zxid i64 | version i32 | digest i64 | seal                     since 3.6, optional
//! last zxid  i64 | seal                                                     since 3.9, optional
//! ```
//!
//! The checksums cover the uncompressed stream. Source: FileSnap, DataTree.serialize, SnapStream.

mod codec;
mod input;
mod pieces;
pub mod read;
pub(crate) mod trigger;
pub(crate) mod valid;
pub mod write;

use proto::Zxid;

/// Magic bytes at the start of a snapshot.
pub(crate) const MAGIC: [u8; 4] = *b"ZKSN";
const VERSION: i32 = 2;
const DBID: i64 = -1;
/// String that ends the znodes and each seal.
pub(crate) const END_PATH: &str = "/";
/// Encoded string "/", with which each plain snapshot ends.
pub(crate) const END_MARK: [u8; 5] = [0, 0, 0, 1, b'/'];
/// Length of a seal, which consists of a checksum and the string "/".
pub(crate) const SEAL_BYTES: usize = 13;

/// Compression of a snapshot. Readers derive it from the suffix of the name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Hash, PartialOrd, Ord)]
pub enum Compression {
    /// No compression.
    #[default]
    None,
    /// Compression by gzip, with the suffix `.gz`.
    Gzip,
    /// Compression by snappy in the stream format of snappy-java, with the suffix `.snappy`.
    Snappy,
}

impl Compression {
    /// Returns the suffix of the file name, including the dot.
    pub fn suffix(self) -> &'static str {
        match self {
            Self::None => "",
            Self::Gzip => ".gz",
            Self::Snappy => ".snappy",
        }
    }

    /// Returns the compression of a file with this name. An unknown suffix means no compression.
    pub fn of_name(name: &str) -> Self {
        if name.ends_with(".gz") {
            Self::Gzip
        } else if name.ends_with(".snappy") {
            Self::Snappy
        } else {
            Self::None
        }
    }

    /// Returns the compression for a value of `snapshot.compression.method`; `None` if the value is
    /// unknown.
    pub fn by_name(method: &str) -> Option<Self> {
        match method {
            "" => Some(Self::None),
            "gz" => Some(Self::Gzip),
            "snappy" => Some(Self::Snappy),
            _ => None,
        }
    }
}

/// Sections written after the znodes. Both describe the state at the end of writing. The (fuzzy)
/// snapshot contains nothing newer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SnapshotTrailer {
    /// Zxid and value of the tree's digest, which are zero until a transaction is applied. `None`
    /// omits the section, which is correct only for servers with digests disabled (because Java
    /// reads by position).
    pub digest: Option<(Zxid, i64)>,
    /// Last transaction applied. `None` omits the section (`serializeLastProcessedZxid.enabled`).
    pub last_zxid: Option<Zxid>,
}

impl SnapshotTrailer {
    /// Creates a trailer with these sections.
    pub fn new(digest: Option<(Zxid, i64)>, last_zxid: Option<Zxid>) -> Self {
        Self { digest, last_zxid }
    }
}
