//! closeSession.

use jute::Str;

use super::Stamp;
use crate::Tree;
use crate::watch::Firing;

impl Tree {
    /// Ends a session: the listed paths go, whoever owns them now, then what is left of its
    /// ephemerals. Source: DataTree.killSession.
    pub(super) fn close_session(
        &mut self,
        paths: Option<&[Str]>,
        stamp: Stamp,
        firing: &mut Firing<'_>,
    ) {
        for path in paths.unwrap_or_default() {
            // Gone already, when records are replayed.
            let _ = self.delete(path, stamp, firing);
        }
        let left = self.ephemerals.get(&stamp.session);
        let mut left: Vec<_> = left.into_iter().flatten().copied().collect();
        left.sort_unstable();
        for id in left {
            // A znode deleted with the one above it, which only a replay does, is gone.
            if self.arena[id].is_alive() {
                let path = self.path_of(id);
                let _ = self.delete(&path, stamp, firing);
            }
        }
        self.sessions.remove(&stamp.session);
    }
}
