//! Changes of the tree that an ensemble's member makes without a transaction.

use proto::{ConfigVersion, Zxid};

use crate::{Tree, path};

impl Tree {
    /// Begins an epoch by raising the last zxid to `start`, the epoch's zxid with counter 0. A
    /// transaction never has this zxid.
    ///
    /// Source: Leader.startZkServer.
    pub fn begin_epoch(&mut self, start: Zxid) {
        if start > self.last_zxid {
            self.last_zxid = start;
            self.epoch_begin = Some(start);
        }
    }

    /// Returns the version of the member list in the config znode. It is the zxid of the last
    /// reconfiguration or the version passed to [`Tree::set_config`]. Returns 0 if there was
    /// neither.
    pub fn config_version(&self) -> ConfigVersion {
        let id = self.lookup(path::CONFIG);
        ConfigVersion(id.map_or(0, |id| self.arena[id].mzxid))
    }

    /// Writes the active member list into the config znode, as each member does itself. Adds the
    /// znode if it is missing. `version` is the list's version and becomes the znode's mzxid. Does
    /// not fire watches.
    ///
    /// Source: ZKDatabase.initConfigInZKDatabase.
    pub fn set_config(&mut self, data: &[u8], version: Zxid, time_ms: i64) {
        let id = self.find_or_add_config();
        let bytes = self.replace_data(id, Some(data));
        self.data_size += bytes;
        let node = &mut self.arena[id];
        node.version = -1;
        node.mzxid = version.0;
        node.mtime = time_ms;
        self.rehash(id, path::CONFIG, Some(data));
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use proto::{Acl, StatPersisted};

    use crate::TreeSettings;

    #[test]
    fn only_a_member_creates_a_missing_config_znode() {
        let settings = Arc::new(TreeSettings::new(testkit::LIMITS));
        let mut load = crate::TreeLoader::new(settings);
        load.acl(1, &[Acl::new(31, "world", "anyone")]);
        load.znode("", Some(&[]), 1, StatPersisted::default())
            .unwrap();
        let mut tree = load.finish(Zxid(7)).unwrap();
        assert!(tree.lookup(path::CONFIG).is_none());
        assert_eq!(tree.node_count(), 4);
        let digest = tree.digest();
        tree.set_config(b"version=0", Zxid(0), 7);
        let id = tree.lookup(path::CONFIG).unwrap();
        assert_eq!(tree.arena[id].aversion, -1);
        assert_eq!(tree.digest(), digest);
    }

    #[test]
    fn neither_changes_the_digest() {
        let mut tree = Tree::new(Arc::new(TreeSettings::new(testkit::LIMITS)));
        let before = tree.digest();
        tree.set_config(b"version=0", Zxid(0), 7);
        assert_eq!(tree.config_version(), ConfigVersion(0));
        tree.begin_epoch(Zxid(3 << 32));
        assert_eq!((tree.digest(), tree.last_zxid()), (before, Zxid(3 << 32)));
        tree.begin_epoch(Zxid(1 << 32));
        assert_eq!(tree.last_zxid(), Zxid(3 << 32));
    }
}
