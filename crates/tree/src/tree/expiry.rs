//! Expiry of containers and TTL znodes. Source: ContainerManager.

use jute::Str;

use crate::Tree;
use crate::nodes::arena::NodeId;
use crate::nodes::owner::Owner;

/// Maximum number of candidates in one round. With the default settings, a server deletes fewer
/// znodes than this between two rounds. The limit bounds the memory for the candidates' paths.
const CANDIDATES_MAX: usize = 1 << 16;

impl Tree {
    /// Returns the containers and TTL znodes that should now be deleted, each by a deleteContainer.
    ///
    /// These are childless containers that once had a child, containers that never had a child and
    /// did not change for `container_never_used_ms` (unless it is 0), and childless TTL znodes that
    /// did not change for their TTL. `now_ms` is wall-clock time.
    pub fn expired_candidates(&self, now_ms: i64, container_never_used_ms: i64) -> Vec<Str> {
        let containers = self
            .containers
            .iter()
            .filter(|id| self.is_expired_container(**id, now_ms, container_never_used_ms));
        let ttls = self
            .ttls
            .iter()
            .filter(|id| self.is_expired_ttl(**id, now_ms));
        let expired = containers.chain(ttls).take(CANDIDATES_MAX);
        let mut expired: Vec<NodeId> = expired.copied().collect();
        expired.sort_unstable();
        expired.into_iter().map(|id| self.path_of(id)).collect()
    }

    fn is_expired_container(&self, id: NodeId, now_ms: i64, never_used_ms: i64) -> bool {
        let node = &self.arena[id];
        if node.num_children > 0 {
            return false;
        }
        if node.cversion == 0 {
            let idle_ms = now_ms.saturating_sub(node.mtime);
            return never_used_ms != 0 && idle_ms > never_used_ms;
        }
        node.cversion > 0
    }

    fn is_expired_ttl(&self, id: NodeId, now_ms: i64) -> bool {
        let node = &self.arena[id];
        let owner = self.rules.read(node.body.owner());
        node.num_children == 0 && has_ttl_passed(owner, node.mtime, now_ms)
    }
}

/// Returns whether `owner` is a TTL that has passed since `mtime`, the time of the last data
/// change.
pub(crate) fn has_ttl_passed(owner: Owner, mtime: i64, now_ms: i64) -> bool {
    let Owner::Ttl { ttl_ms } = owner else {
        return false;
    };
    now_ms.saturating_sub(mtime) > ttl_ms
}
