//! Application of closeSession.

use jute::Str;

use super::{Outcome, TxnStamp};
use crate::Tree;
use crate::watch::Firing;

impl Tree {
    /// Closes a session: deletes the listed paths, regardless of their current owner, then the
    /// session's remaining ephemeral znodes. Source: DataTree.killSession.
    pub(super) fn close_session(
        &mut self,
        paths: Option<&[Str]>,
        stamp: TxnStamp,
        firing: &mut Firing<'_>,
    ) -> Outcome {
        let mut missing = Vec::new();
        for path in paths.unwrap_or_default() {
            // During a replay the znode may already be deleted.
            if self.delete(path, stamp, firing).is_err() {
                missing.push(path.clone());
            }
        }
        let left = self.ephemerals_of(stamp.session);
        let mut unlisted: Vec<Str> = left.map(|id| self.path_of(id)).collect();
        unlisted.sort_unstable();
        for path in &unlisted {
            let _ = self.delete(path, stamp, firing);
        }
        self.sessions.remove(&stamp.session);
        Outcome::Closed { missing, unlisted }
    }
}
