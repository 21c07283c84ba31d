//! What a member of an ensemble changes in the tree without a transaction.

use proto::{ConfigVersion, ErrorCode, Zxid};

use crate::{Tree, path};

impl Tree {
    /// A new epoch begins: the last zxid is its counter 0, which no transaction has.
    ///
    /// Source: Leader.startZkServer.
    pub fn begin_epoch(&mut self, start: Zxid) {
        self.last_zxid = self.last_zxid.max(start);
    }

    /// The version of the member list that this history knew last: that of the last reconfiguration, or
    /// what a server's files said ([`Tree::set_config`]). 0 if there was none.
    pub fn config_version(&self) -> ConfigVersion {
        let id = self.lookup(path::CONFIG);
        ConfigVersion(id.map_or(0, |id| self.arena[id].mzxid))
    }

    /// Puts the member list in force into the config znode, as each server does by itself.
    /// `version` is the list's, and the znode's mzxid. Fires nothing.
    ///
    /// # Errors
    /// `NoNode` if the history has lost the config znode.
    ///
    /// Source: ZKDatabase.initConfigInZKDatabase.
    pub fn set_config(
        &mut self,
        data: &[u8],
        version: Zxid,
        time_ms: i64,
    ) -> Result<(), ErrorCode> {
        let id = self.lookup(path::CONFIG).ok_or(ErrorCode::NoNode)?;
        let bytes = self.replace_data(id, Some(data));
        self.data_size += bytes;
        let node = &mut self.arena[id];
        node.version = -1;
        node.mzxid = version.0;
        node.mtime = time_ms;
        self.rehash(id, path::CONFIG, Some(data));
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::TreeSettings;

    #[test]
    fn neither_changes_the_digest() {
        let mut tree = Tree::new(Arc::new(TreeSettings::new(testkit::LIMITS)));
        let before = tree.digest();
        tree.set_config(b"version=0", Zxid(0), 7).unwrap();
        assert_eq!(tree.config_version(), ConfigVersion(0));
        tree.begin_epoch(Zxid(3 << 32));
        assert_eq!((tree.digest(), tree.last_zxid()), (before, Zxid(3 << 32)));
        tree.begin_epoch(Zxid(1 << 32));
        assert_eq!(tree.last_zxid(), Zxid(3 << 32));
    }
}
