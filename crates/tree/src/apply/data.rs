//! Application of setData, reconfig and setACL, and updates of the usage of quotas.

use proto::txn::{SetAclTxn, SetDataTxn};
use proto::{ErrorCode, Stat};

use super::TxnStamp;
use crate::Tree;
use crate::nodes::arena::NodeId;
use crate::quota::{self, Stats, Usage};
use crate::tree::data_len;
use crate::watch::{Firing, ZnodeChange};

impl Tree {
    /// Sets data unconditionally. A replay may temporarily restore an older state of a znode, until
    /// later records are applied.
    pub(super) fn set_data(
        &mut self,
        txn: &SetDataTxn,
        stamp: TxnStamp,
        firing: &mut Firing<'_>,
    ) -> Result<Stat, ErrorCode> {
        let id = self.lookup(&txn.path).ok_or(ErrorCode::NoNode)?;
        let bytes = self.replace_data(id, txn.data.as_deref());
        self.data_size += bytes;
        let node = &mut self.arena[id];
        node.version = txn.version;
        node.mzxid = stamp.zxid.0;
        node.mtime = stamp.time_ms;
        self.rehash(id, &txn.path, txn.data.as_deref());
        self.note_usage(&txn.path, Usage { count: 0, bytes });
        if firing.is_needed() {
            firing.fire(ZnodeChange::DataChanged, &txn.path, self.acl_of(id), None);
        }
        Ok(self.arena[id].stat(self.rules))
    }

    pub(super) fn set_acl(&mut self, txn: &SetAclTxn) -> Result<Stat, ErrorCode> {
        let id = self.lookup(&txn.path).ok_or(ErrorCode::NoNode)?;
        let acl = self.acls.acquire(&txn.acl);
        let replaced = std::mem::replace(&mut self.arena[id].acl, acl);
        self.acls.release(replaced);
        self.change_stat(id, |node| node.aversion = txn.version);
        Ok(self.arena[id].stat(self.rules))
    }

    /// Replaces data without changing the stat or the digest. Returns the change of the length in
    /// bytes.
    pub(super) fn replace_data(&mut self, id: NodeId, data: Option<&[u8]>) -> i64 {
        let node = &mut self.arena[id];
        let change = data_len(data) - data_len(node.body.data());
        node.body.set_data(data);
        change
    }

    /// Adds a change at `path` to the usage of its quota root.
    pub(super) fn note_usage(&mut self, path: &str, change: Usage) {
        let Some(root) = self.quota_roots.deepest(path) else {
            return;
        };
        if let Some(id) = self.lookup(&quota::stats_path(root)) {
            let mut stats = Stats::usage(self.arena[id].body.data());
            stats.add(change);
            self.write_usage(id, &stats);
        }
    }

    /// Recounts the subtree of a quota root.
    pub(crate) fn recount_quota(&mut self, root: &str) {
        let Some(stats) = self.lookup(&quota::stats_path(root)) else {
            return;
        };
        let mut usage = Usage::default();
        if let Some(top) = self.lookup(root) {
            for id in std::iter::once(top).chain(self.descendants(top)) {
                usage.count += 1;
                usage.bytes += data_len(self.arena[id].body.data());
            }
        }
        self.write_usage(stats, &Stats::counted(usage));
    }

    /// Writes the usage of a quota. Does not change the stored stat, the digest (which excludes
    /// everything below `/zookeeper`) or, as in Java, [`Tree::approximate_data_size`].
    fn write_usage(&mut self, id: NodeId, stats: &Stats) {
        self.replace_data(id, Some(stats.text().as_bytes()));
    }
}
