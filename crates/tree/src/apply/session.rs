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
        let left = self.ephemerals.get(&stamp.session).into_iter().flatten();
        let mut left: Vec<Str> = left.map(|id| self.path_of(*id)).collect();
        left.sort_unstable();
        for path in &left {
            let _ = self.delete(path, stamp, firing);
        }
        self.sessions.remove(&stamp.session);
    }
}
