//! Invariant: digests are equal at equal zxids on all servers that serve.

use std::collections::{BTreeMap, BTreeSet};

use proto::txn::TxnRecord;
use proto::{Sid, Zxid};
use tree::Tree;

use crate::invariants::CheckResult;

/// Digest after each transaction, and the first server that reported it.
#[derive(Debug, Default)]
pub(crate) struct Digests {
    known: BTreeMap<Zxid, (Sid, u64)>,
    /// Servers whose tree was corrupted by a script and is not repaired yet.
    damaged: BTreeSet<Sid>,
    /// Whether a script has corrupted a tree. A transaction may then contain a wrong digest.
    was_damaged: bool,
    /// Whether the trees that servers receive from others are also corrupt.
    copies_are_damaged: bool,
    /// Servers that have counted a mismatch.
    noticed: BTreeSet<Sid>,
}

impl Digests {
    pub(crate) const NAME: &str = "equal digests at equal zxids";

    /// Records that a script changes the tree of this server without a transaction.
    pub(crate) fn damage(&mut self, sid: Sid) {
        self.was_damaged = true;
        self.damaged.insert(sid);
    }

    /// Records that the tree of this server was replaced.
    pub(crate) fn replaced(&mut self, sid: Sid) {
        if self.copies_are_damaged {
            self.damaged.insert(sid)
        } else {
            self.damaged.remove(&sid)
        };
    }

    /// Records that servers receive copies of a corrupt tree from now on.
    pub(crate) fn damage_copies(&mut self) {
        self.copies_are_damaged = true;
    }

    /// Records that servers no longer receive corrupt copies.
    pub(crate) fn end_damage_of_copies(&mut self) {
        self.copies_are_damaged = false;
    }

    pub(crate) fn is_damaged(&self, sid: Sid) -> bool {
        self.damaged.contains(&sid)
    }

    /// Records that this server has counted a mismatch.
    pub(crate) fn notice(&mut self, sid: Sid) {
        self.noticed.insert(sid);
    }

    pub(crate) fn has_noticed(&self, sid: Sid) -> bool {
        self.noticed.contains(&sid)
    }

    /// Checks the digest of a serving server after `zxid`.
    pub(crate) fn compare(&mut self, sid: Sid, zxid: Zxid, digest: u64) -> CheckResult {
        if self.is_damaged(sid) {
            return Ok(());
        }
        let (other, known) = *self.known.entry(zxid).or_insert((sid, digest));
        if known != digest {
            return Err(format!(
                "the digest at {zxid} is {known:#x} on server {other} and {digest:#x} on server {sid}"
            ));
        }
        Ok(())
    }

    /// Checks a transaction that a serving server has applied.
    pub(crate) fn applied(&mut self, sid: Sid, txn: &TxnRecord, tree: &Tree) -> CheckResult {
        let predicted = txn.digest.map(|digest| digest.digest.cast_unsigned());
        let is_other = predicted.is_some_and(|predicted| predicted != tree.digest());
        if is_other && !self.was_damaged {
            let zxid = txn.header.zxid;
            return Err(format!(
                "the digest on server {sid} differs from the digest in {zxid}"
            ));
        }
        self.compare(sid, txn.header.zxid, tree.digest())
    }
}
