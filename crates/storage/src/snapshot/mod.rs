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
//! The checksums run over the uncompressed stream. Source: FileSnap,
//! DataTree.serialize, SnapStream.

mod codec;
mod input;
mod pieces;
pub mod read;
pub(crate) mod valid;
pub mod write;

use proto::Zxid;

/// "ZKSN".
pub(crate) const MAGIC: [u8; 4] = *b"ZKSN";
const VERSION: i32 = 2;
const DBID: i64 = -1;
/// Closes the znodes and every seal.
pub(crate) const END_PATH: &str = "/";
/// The string "/" as bytes: what every plain snapshot ends with.
pub(crate) const END_MARK: [u8; 5] = [0, 0, 0, 1, b'/'];
/// A checksum and the string "/".
pub(crate) const SEAL_BYTES: usize = 13;

/// How a snapshot is compressed; readers go by the name's suffix.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Hash, PartialOrd, Ord)]
pub enum Compression {
    /// Not at all.
    #[default]
    None,
    /// `.gz`
    Gzip,
    /// `.snappy`, in the stream format of snappy-java.
    Snappy,
}

impl Compression {
    /// What the name ends with, dot included.
    pub fn suffix(self) -> &'static str {
        match self {
            Self::None => "",
            Self::Gzip => ".gz",
            Self::Snappy => ".snappy",
        }
    }

    /// How a file of this name is read. Unknown suffixes mean no compression.
    pub fn of_name(name: &str) -> Self {
        if name.ends_with(".gz") {
            Self::Gzip
        } else if name.ends_with(".snappy") {
            Self::Snappy
        } else {
            Self::None
        }
    }

    /// By the value of `snapshot.compression.method`; `None` if it is unknown.
    pub fn by_name(method: &str) -> Option<Self> {
        match method {
            "" => Some(Self::None),
            "gz" => Some(Self::Gzip),
            "snappy" => Some(Self::Snappy),
            _ => None,
        }
    }
}

/// What is written behind the znodes. Both are the state at the end of writing, after which the
/// (fuzzy) snapshot holds nothing newer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SnapshotTrailer {
    /// Zxid and value of the tree's digest; zeros as long as no transaction was applied. `None`
    /// leaves the section out, which only servers with digests off should do (Java reads by
    /// position).
    pub digest: Option<(Zxid, i64)>,
    /// The last transaction applied. `None` leaves the section out
    /// (`serializeLastProcessedZxid.enabled`).
    pub last_zxid: Option<Zxid>,
}
