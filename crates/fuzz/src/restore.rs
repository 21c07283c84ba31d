//! A tree that recovery fills, as a server's is.

use std::sync::Arc;

use proto::txn::TxnRecord;
use proto::{Acl, SessionId, StatPersisted, Zxid};
use storage::{ContentError, SnapshotDigest, State};
use tree::{Tree, TreeLoader, TreeSettings, Watches};

/// Builds a tree out of a snapshot and transactions.
pub(crate) struct Restore {
    settings: Arc<TreeSettings>,
    loader: Option<TreeLoader>,
    tree: Tree,
    watches: Watches,
}

impl Restore {
    pub(crate) fn new() -> Self {
        let settings = settings();
        Self {
            loader: None,
            tree: Tree::new(settings.clone()),
            watches: Watches::new(),
            settings,
        }
    }

    /// Ends a snapshot's body, behind which nothing says so.
    pub(crate) fn finish(&mut self, zxid: Zxid) {
        let finished = self.snapshot_loaded(zxid, None);
        finished.expect("the body makes a tree");
    }

    pub(crate) fn tree(&self) -> &Tree {
        &self.tree
    }
}

/// Everything that can be switched on.
pub(crate) fn settings() -> Arc<TreeSettings> {
    Arc::new(TreeSettings {
        extended_types: true,
        enforce_quota: true,
        reconfig_enabled: true,
        ..TreeSettings::default()
    })
}

fn refused(error: impl ToString) -> ContentError {
    ContentError::new(error.to_string())
}

impl State for Restore {
    fn begin(&mut self) {
        self.loader = Some(TreeLoader::new(self.settings.clone()));
        self.tree = Tree::new(self.settings.clone());
    }

    fn session(&mut self, id: SessionId, timeout_ms: i32) {
        if let Some(loader) = &mut self.loader {
            loader.session(id, timeout_ms);
        }
    }

    fn acl(&mut self, id: i64, acl: Vec<Acl>) {
        if let Some(loader) = &mut self.loader {
            loader.acl(id, &acl);
        }
    }

    fn znode(
        &mut self,
        path: &str,
        data: Option<&[u8]>,
        acl: i64,
        stat: StatPersisted,
    ) -> Result<(), ContentError> {
        match &mut self.loader {
            Some(loader) => loader.znode(path, data, acl, stat).map_err(refused),
            None => Err(refused("a znode outside of a snapshot")),
        }
    }

    fn snapshot_loaded(
        &mut self,
        zxid: Zxid,
        _: Option<SnapshotDigest>,
    ) -> Result<(), ContentError> {
        let loader = self.loader.take().ok_or_else(|| refused("no snapshot"))?;
        self.tree = loader.finish(zxid).map_err(refused)?;
        Ok(())
    }

    fn txn(&mut self, record: &TxnRecord) {
        self.tree.apply(record, &mut self.watches, &mut Vec::new());
    }
}
