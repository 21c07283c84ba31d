//! Permissions of a feed's reader, looked up once per znode instead of once per change.

use hashbrown::HashMap;
use proto::position::Position;

use crate::error::Result;
use crate::index::postings::{kinds, kinds_of};
use crate::limits::{MEMORY_BLOCKS_MAX, MEMORY_PATHS_MAX};
use crate::reading::view::HistoryView;
use crate::reading::viewer::{PastAcl, ViewerPermissions, position_then};
use crate::record::Change;

/// Known permissions of one reader, kept from page to page of a feed. Another reader must begin
/// with an empty value.
#[derive(Debug, Default)]
pub struct FeedMemory {
    /// End of the previous page.
    position: Option<Position>,
    /// Whether the reader could read a znode after its last visited change, by path.
    then: HashMap<String, bool>,
    /// Whether the reader may read a znode at the end of the history, by path.
    now: HashMap<String, bool>,
    /// End of the history for which `now` is valid: its zxid, and the number of its era's base.
    end: (i64, u64),
}

impl FeedMemory {
    /// Records the end of the current page.
    pub(super) fn set_page_end(&mut self, position: Position) {
        self.position = Some(position);
    }

    /// Removes the remembered permission for a znode if a change, which does not match the query,
    /// may alter the permission.
    pub(super) fn note_unmatched(&mut self, change: &Change) {
        if changes_permission(change) {
            self.then.remove(&change.path);
        }
    }
}

/// Returns whether the change may alter the permission to read the znode.
fn changes_permission(change: &Change) -> bool {
    kinds_of(change) & (kinds::CREATES | kinds::SETS_ACL | kinds::DELETES) != 0
}

fn put(known: &mut HashMap<String, bool>, path: &str, may_read: bool) -> bool {
    if known.len() >= MEMORY_PATHS_MAX {
        known.clear();
    }
    known.insert(path.to_owned(), may_read);
    may_read
}

impl HistoryView {
    /// Discards permissions that are not valid for a page that begins at `after`.
    pub(super) fn refresh(&self, memory: &mut FeedMemory, after: Position) -> Result<()> {
        if memory.position.take() != Some(after) {
            memory.then.clear();
        }
        let base = self.eras.last().map_or(0, |era| era.row.base);
        let (head, known_base) = std::mem::replace(&mut memory.end, (self.head.0, base));
        if memory.now.is_empty() || head == self.head.0 && base == known_base {
            return Ok(());
        }
        let first = self.first_block_from(head);
        if base != known_base || self.open_block.saturating_sub(first) > MEMORY_BLOCKS_MAX {
            memory.now.clear();
            return Ok(());
        }
        for block in first..=self.open_block {
            let (changes, _) = self.block(block)?;
            let since = changes.iter().filter(|change| change.zxid > head);
            for change in since.filter(|change| changes_permission(change)) {
                memory.now.remove(&change.path);
            }
        }
        Ok(())
    }

    /// Returns whether the reader may see a change, by the ACL after it (or before a deletion) and
    /// by the current ACL. The change must contain its contents.
    ///
    /// # Errors
    /// If the ACL at that time is unknown and the viewer may not see everything.
    /// [`crate::HistoryError::is_unknown_moment`] is then true for the error.
    pub(super) fn may_see_fed(
        &self,
        change: &Change,
        permissions: &ViewerPermissions<'_>,
        memory: &mut FeedMemory,
    ) -> Result<bool> {
        let path = &change.path;
        if permissions.sees_secrets {
            return Ok(true);
        }
        let changes = changes_permission(change);
        let known = if changes && change.is_delete() {
            memory.then.remove(path)
        } else if changes {
            None
        } else {
            memory.then.get(path).copied()
        };
        let might_read = match known {
            Some(known) => known,
            None => {
                let then = self.acl_then(change)?;
                let found = permissions.permits(&then);
                if then == PastAcl::Unknown && !found {
                    // This fails if the moment is unknown. The feed then stops instead of omitting
                    // the change.
                    self.znode(path, position_then(change))?;
                }
                if change.is_delete() {
                    found
                } else {
                    put(&mut memory.then, path, found)
                }
            }
        };
        if !might_read {
            return Ok(false);
        }
        if let Some(known) = memory.now.get(path) {
            return Ok(*known);
        }
        let may_read = self.may_see_now(path, permissions)?;
        Ok(put(&mut memory.now, path, may_read))
    }
}
