//! Preparation of closeSession.

use jute::Str;
use proto::txn::Txn;

use super::Preparation;
use super::length::{AROUND_BODY_BYTES, list_bytes};
use crate::path;

impl Preparation<'_> {
    /// Prepares a closeSession, which deletes the ephemeral znodes that the session owns after the
    /// transactions in flight. The transaction lists their paths if the settings and its length
    /// permit this.
    pub(super) fn close_session(&mut self) -> Txn {
        let paths = self.ephemerals();
        for path in &paths {
            let Some(split) = path::split(path) else {
                continue;
            };
            let parent_path = path::parent_key(path, split.parent);
            if let (Some(node), Some(parent)) = (self.node(path), self.node(&parent_path)) {
                self.note_deleted(path, &node, &parent_path, parent);
            }
        }
        let settings = &self.tree.settings;
        // It must be possible to close any session, so a list that is too long is omitted. Apache
        // ZooKeeper writes the record with the list and then refuses to read it (ZOOKEEPER-4306).
        let bytes = AROUND_BODY_BYTES + list_bytes(paths.iter().map(|path| &**path));
        let is_readable = bytes <= settings.record_bytes_max;
        if !is_readable {
            let session = self.context.session;
            log_limiter::limited!(info, %session, ephemerals = paths.len(), "logging closeSession without its list of ephemerals, which exceeds jute.maxbuffer");
        }
        let is_listed = settings.close_session_paths && is_readable;
        Txn::CloseSession {
            paths: is_listed.then_some(paths),
        }
    }

    fn ephemerals(&self) -> Vec<Str> {
        let session = self.context.session;
        let applied = self.tree.ephemerals_of(session);
        let applied = applied.map(|id| self.tree.path_of(id));
        let in_flight = self.overlay.ephemerals_of(session).cloned();
        let is_owned = |path: &Str| match self.overlay.get(path) {
            Some(Some(node)) => node.stat.ephemeral_owner == session.0,
            Some(None) => false,
            None => true,
        };
        let mut paths: Vec<Str> = applied.chain(in_flight).filter(is_owned).collect();
        paths.sort_unstable();
        paths.dedup();
        paths
    }
}
