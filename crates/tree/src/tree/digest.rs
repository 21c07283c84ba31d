//! The tree's digest, which is the sum of one CRC-32 per znode.
//!
//! A znode's CRC covers its path (empty for the root), its data, then 60 bytes of its stat. CRC-32
//! is linear, so the effect of a changed stat depends only on the changed bits. A znode therefore
//! stores only the complete CRC, and 60 bytes are hashed when the stat changes. When the data
//! changes, the path, the data and the stat are hashed, because the path is known then. Znodes
//! below `/zookeeper/` are not included. Source: DigestCalculator.

use std::collections::VecDeque;

use proto::txn::{TxnDigest, TxnRecord};
use proto::{StatPersisted, Zxid};

use crate::{Tree, path};

/// Distance in zxids between two entries in the history.
const HISTORY_STEP: i64 = 128;
/// Maximum number of entries in the history.
const HISTORY_LEN: usize = 1024;

/// Length of the hashed stat, bytes.
const STAT_BYTES: usize = 60;

/// Extends a CRC with `bytes`.
fn extend(crc: u32, bytes: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new_with_initial(crc);
    hasher.update(bytes);
    hasher.finalize()
}

/// Returns a znode's part in the digest.
pub(crate) fn node(path: &str, data: Option<&[u8]>, stat: &StatPersisted) -> u32 {
    let path = if path == path::ROOT { "" } else { path };
    let path_crc = extend(0, path.as_bytes());
    let content_crc = data.map_or(path_crc, |data| extend(path_crc, data));
    extend(content_crc, &stat_bytes(stat))
}

/// Returns a znode's part in the digest after its stat has changed from `old` to `new`.
pub(crate) fn with_stat(digest: u32, old: &StatPersisted, new: &StatPersisted) -> u32 {
    let mut changed = stat_bytes(old);
    for (byte, new) in changed.iter_mut().zip(stat_bytes(new)) {
        *byte ^= new;
    }
    // The register of a CRC starts and ends inverted, so the changed bits are hashed from a
    // register of 0.
    digest ^ !extend(u32::MAX, &changed)
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

/// Difference between the digest in a transaction and the digest of the tree after the transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DigestMismatch {
    /// Digest in the transaction.
    pub recorded: u64,
    /// Digest of the tree.
    pub computed: u64,
}

impl Tree {
    /// Compares the digest in a transaction with the digest of this tree, to which the transaction
    /// was applied last. Returns `None` if they are equal or cannot be compared. They cannot be
    /// compared if digests are off, or if the transaction lacks a digest or has a digest of another
    /// version. Source: DataTree.compareDigest.
    pub fn digest_mismatch(&self, record: &TxnRecord) -> Option<DigestMismatch> {
        let recorded = record.digest?;
        let computed = self.digest();
        let differs = recorded.digest != computed.cast_signed()
            && recorded.version == TxnDigest::VERSION
            && self.settings.digest_enabled;
        differs.then_some(DigestMismatch {
            recorded: recorded.digest.cast_unsigned(),
            computed,
        })
    }
}

/// Digests at every 128th zxid, for the `hash` command.
#[derive(Debug, Default)]
pub(crate) struct RecentDigests {
    entries: VecDeque<(Zxid, u64)>,
}

impl RecentDigests {
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

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn stat() -> impl Strategy<Value = StatPersisted> {
        (any::<[i64; 6]>(), any::<[i32; 3]>()).prop_map(|(longs, ints)| StatPersisted {
            czxid: longs[0],
            mzxid: longs[1],
            ctime: longs[2],
            mtime: longs[3],
            version: ints[0],
            cversion: ints[1],
            aversion: ints[2],
            ephemeral_owner: longs[4],
            pzxid: longs[5],
        })
    }

    proptest! {
        #[test]
        fn the_digest_of_a_changed_stat_equals_a_fresh_one(
            path in "(/[a-z]{1,9}){1,3}",
            data in proptest::option::of(proptest::collection::vec(any::<u8>(), 0..200)),
            old in stat(),
            new in stat(),
        ) {
            let data = data.as_deref();
            let changed = with_stat(node(&path, data, &old), &old, &new);
            prop_assert_eq!(changed, node(&path, data, &new));
        }
    }
}
