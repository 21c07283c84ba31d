//! The tree's digest: the sum of one CRC-32 per znode.
//!
//! A znode's CRC runs over its path (the root's is empty), its data, then 60 bytes of its stat.
//! CRC-32 goes on from any point, so a znode keeps the value after its path and after its data:
//! a child's path goes on from its parent's, and a change of the stat hashes the 60 bytes only.
//! Znodes below `/zookeeper/` do not count. Source: DigestCalculator.

use std::collections::VecDeque;

use proto::{StatPersisted, Zxid};

/// Zxids between two entries of the history.
const HISTORY_STEP: i64 = 128;
/// Entries in the history.
const HISTORY_LEN: usize = 1024;

/// Bytes of the stat that are hashed.
const STAT_BYTES: usize = 60;

/// The CRC of what `crc` covers followed by `bytes`.
pub(crate) fn extend(crc: u32, bytes: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new_with_initial(crc);
    hasher.update(bytes);
    hasher.finalize()
}

/// The CRC of a child's path.
pub(crate) fn child_path(parent_path_crc: u32, name: &[u8]) -> u32 {
    extend(extend(parent_path_crc, b"/"), name)
}

/// The CRC of path and data.
pub(crate) fn content(path_crc: u32, data: Option<&[u8]>) -> u32 {
    data.map_or(path_crc, |data| extend(path_crc, data))
}

/// A znode's part of the digest.
pub(crate) fn node(content_crc: u32, stat: &StatPersisted) -> u32 {
    extend(content_crc, &stat_bytes(stat))
}

fn stat_bytes(stat: &StatPersisted) -> [u8; STAT_BYTES] {
    let mut bytes = [0; STAT_BYTES];
    let longs = [stat.czxid, stat.mzxid, stat.pzxid, stat.ctime, stat.mtime];
    let ints = [stat.version, stat.cversion, stat.aversion];
    for (chunk, long) in bytes[..40].chunks_exact_mut(8).zip(longs) {
        chunk.copy_from_slice(&long.to_be_bytes());
    }
    for (chunk, int) in bytes[40..52].chunks_exact_mut(4).zip(ints) {
        chunk.copy_from_slice(&int.to_be_bytes());
    }
    bytes[52..].copy_from_slice(&stat.ephemeral_owner.to_be_bytes());
    bytes
}

/// Digests at every 128th zxid, for the `hash` command.
#[derive(Debug, Default)]
pub(crate) struct History {
    entries: VecDeque<(Zxid, u64)>,
}

impl History {
    pub(crate) fn note(&mut self, zxid: Zxid, digest: u64) {
        if zxid.0 % HISTORY_STEP != 0 {
            return;
        }
        if self.entries.len() == HISTORY_LEN {
            self.entries.pop_front();
        }
        self.entries.push_back((zxid, digest));
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (Zxid, u64)> {
        self.entries.iter().copied()
    }
}
