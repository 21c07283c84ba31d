//! Search for znodes by name and data, in parts: a caller locks the tree for one part at a time.
//!
//! Parts follow the order of the storage's slots, so a position stays valid while the tree changes.
//! A znode that is created during a search may be missing from the results.

use jute::Str;
use proto::Id;

use crate::Tree;
use crate::nodes::arena::NodeId;

/// Maximum number of slots that a part visits.
const PART_SLOTS: u32 = 1_000;

/// Total size of searched data and of found paths above which a part ends, bytes.
const PART_BYTES: usize = 1 << 20;

/// Search for a string.
#[derive(Debug, Clone, Copy)]
pub struct Search<'a> {
    /// Path of the subtree that is searched.
    pub below: &'a str,
    /// String that a name or the data must contain. The case of ASCII letters is ignored.
    pub text: &'a str,
    /// Whether data is searched as well.
    pub includes_data: bool,
    /// Number of results after which a part ends.
    pub results_max: usize,
    /// Identities of the client. A znode is a result only if the client may read the znode and its
    /// parent.
    pub identities: &'a [Id],
}

/// Position of a search, which is the next slot.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SearchPosition(pub u32);

/// Result of a search.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Found {
    /// Path of the znode.
    pub path: Str,
    /// Whether the name contains the string. If not, the data does.
    pub is_name: bool,
}

/// Results of a part of a search.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SearchPart {
    /// Found znodes, in unspecified order.
    pub found: Vec<Found>,
    /// Position of the next part; `None` after the last part.
    pub next: Option<SearchPosition>,
}

impl Tree {
    /// Executes the part of a search that begins at `at`.
    pub fn search(&self, search: &Search<'_>, at: SearchPosition) -> SearchPart {
        let mut found = Vec::new();
        let mut bytes = 0;
        let top = self.lookup(search.below);
        let slots = self.arena.len();
        let mut slot = at.0;
        let end = slot.saturating_add(PART_SLOTS).min(slots);
        while slot < end && bytes < PART_BYTES && found.len() < search.results_max {
            let id = NodeId(slot);
            slot += 1;
            let body = &self.arena[id].body;
            // The names of free slots and of the root are empty.
            if body.name_bytes().is_empty() {
                continue;
            }
            let is_name = contains(body.name_bytes(), search.text.as_bytes());
            let is_match = is_name
                || search.includes_data && {
                    let data = body.data().unwrap_or_default();
                    bytes += data.len();
                    contains(data, search.text.as_bytes())
                };
            if is_match && top.is_some_and(|top| self.is_visible_below(top, id, search.identities))
            {
                let path = self.path_of(id);
                bytes += path.len();
                found.push(Found { path, is_name });
            }
        }
        SearchPart {
            found,
            next: (slot < slots && top.is_some()).then_some(SearchPosition(slot)),
        }
    }

    /// Returns whether a znode is below `top`, and these identities may read both the znode and its
    /// parent.
    fn is_visible_below(&self, top: NodeId, id: NodeId, identities: &[Id]) -> bool {
        let parent_of = |id: &NodeId| self.arena[*id].parent.get();
        let parent = parent_of(&id);
        let mut above = std::iter::successors(parent, parent_of);
        let may_read = |id: NodeId| self.may_see(self.acl_of(id).map(|acl| &**acl), identities);
        above.any(|above| above == top) && may_read(id) && parent.is_some_and(may_read)
    }
}

/// Returns whether a string contains `wanted`. Returns `false` if `wanted` is empty. The case of
/// ASCII letters is ignored.
fn contains(text: &[u8], wanted: &[u8]) -> bool {
    let Some(first) = wanted.first() else {
        return false;
    };
    let starts = |part: &[u8]| {
        part.first()
            .is_some_and(|start| start.eq_ignore_ascii_case(first))
    };
    let mut parts = text.windows(wanted.len());
    parts.any(|part| starts(part) && part.eq_ignore_ascii_case(wanted))
}
