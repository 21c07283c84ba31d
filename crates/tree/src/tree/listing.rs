//! Listing of ephemeral znodes in parts. A caller locks the tree for one part at a time.

use std::ops::ControlFlow;

use jute::Str;
use proto::SessionId;

use crate::nodes::arena::NodeId;
use crate::tree::Tree;

/// Position in a listing of ephemeral znodes by the session that owns them.
#[derive(Debug, Default)]
pub struct EphemeralOwners {
    /// Sessions that are not listed yet; `None` before the first part.
    sessions: Option<Vec<SessionId>>,
    /// Session being listed, and its ephemeral znodes that are not listed yet.
    current: Option<(SessionId, Vec<NodeId>)>,
}

impl Tree {
    /// Visits each ephemeral znode with its owner, one session after the other, until `visit`
    /// breaks. Returns whether the listing is complete. An ephemeral znode that is created between
    /// two calls may be missing.
    pub fn visit_ephemerals(
        &self,
        at: &mut EphemeralOwners,
        mut visit: impl FnMut(SessionId, Str) -> ControlFlow<()>,
    ) -> bool {
        let sessions = at
            .sessions
            .get_or_insert_with(|| self.ephemerals.keys().copied().collect());
        loop {
            while let Some((session, ids)) = &mut at.current
                && let Some(id) = ids.pop()
            {
                // The slot of a deleted znode may belong to another znode by now.
                let owned = self.ephemerals.get(session);
                if owned.is_some_and(|owned| owned.ids.contains(&id))
                    && visit(*session, self.path_of(id)).is_break()
                {
                    return false;
                }
            }
            let Some(session) = sessions.pop() else {
                return true;
            };
            at.current = Some((session, self.ephemerals_of(session).collect()));
        }
    }
}
