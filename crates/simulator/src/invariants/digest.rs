//! Equal digest at equal zxid, on all servers that serve.

use std::collections::BTreeMap;

use proto::txn::TxnRecord;
use proto::{Sid, Zxid};
use tree::Tree;

use super::Held;

/// The digest after each transaction, from the first server that had it.
#[derive(Debug, Default)]
pub(crate) struct Digests(BTreeMap<Zxid, (Sid, u64)>);

impl Digests {
    pub(crate) const NAME: &str = "equal digest at equal zxid";

    /// A server that serves has a tree with this digest after `zxid`.
    pub(crate) fn compare(&mut self, sid: Sid, zxid: Zxid, digest: u64) -> Held {
        let (other, known) = *self.0.entry(zxid).or_insert((sid, digest));
        if known != digest {
            return Err(format!(
                "the digest at {zxid} is {known:#x} on server {other} and {digest:#x} on server {sid}"
            ));
        }
        Ok(())
    }

    /// A server that serves has applied this.
    pub(crate) fn applied(&mut self, sid: Sid, txn: &TxnRecord, tree: &Tree) -> Held {
        let predicted = txn.digest.map(|digest| digest.digest.cast_unsigned());
        if predicted.is_some_and(|predicted| predicted != tree.digest()) {
            let zxid = txn.header.zxid;
            return Err(format!(
                "the digest on server {sid} is not what {zxid} says"
            ));
        }
        self.compare(sid, txn.header.zxid, tree.digest())
    }
}
