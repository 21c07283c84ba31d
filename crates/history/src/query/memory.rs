//! What the reader of a feed may see: looked up once for each znode, not for each of its changes.

use hashbrown::HashMap;
use proto::position::Position;

use crate::error::Result;
use crate::limits::{MEMORY_BLOCKS_MAX, MEMORY_PATHS_MAX};
use crate::postings::{kinds, kinds_of};
use crate::record::Change;
use crate::view::Look;
use crate::viewer::{PastAcl, Sight, position_then};

/// What one reader is known to be permitted, from page to page of a feed. It is of that reader alone:
/// another one begins with an empty one.
#[derive(Debug, Default)]
pub struct FeedMemory {
    /// The pages so far end here.
    position: Option<Position>,
    /// Whether a znode might be read after the last change that went by, by its path.
    then: HashMap<String, bool>,
    /// Whether it may be read as it was at the end of the history when that was looked up.
    now: HashMap<String, bool>,
    /// That end, and the base of its era.
    end: (i64, u64),
}

impl FeedMemory {
    /// The page that was read ends here.
    pub(super) fn ends_at(&mut self, position: Position) {
        self.position = Some(position);
    }

    /// A change goes by that nobody asked for.
    pub(super) fn pass(&mut self, change: &Change) {
        if changes_permission(change) {
            self.then.remove(&change.path);
        }
    }
}

/// Whether another one may be permitted to read the znode behind it.
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

impl Look {
    /// Forgets what does not hold for a page that begins at `after`.
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

    /// By the ACL after a change that holds its contents, or before it if the znode was deleted, and
    /// by that of now.
    ///
    /// # Errors
    /// What [`crate::HistoryError::is_unknown_moment`] knows, if the ACL of then is not known and the viewer
    /// may not see everything.
    pub(super) fn may_see_fed(
        &self,
        change: &Change,
        sight: &Sight<'_>,
        memory: &mut FeedMemory,
    ) -> Result<bool> {
        let path = &change.path;
        if sight.sees_secrets {
            return Ok(true);
        }
        let known = match changes_permission(change) {
            true if change.is_delete() => memory.then.remove(path),
            true => None,
            false => memory.then.get(path).copied(),
        };
        let might_read = match known {
            Some(known) => known,
            None => {
                let then = self.acl_then(change)?;
                let found = sight.permits(&then);
                if then == PastAcl::Unknown && !found {
                    // Where the moment is not known, the feed breaks off instead of leaving it out.
                    self.znode(path, position_then(change))?;
                }
                match change.is_delete() {
                    true => found,
                    false => put(&mut memory.then, path, found),
                }
            }
        };
        if !might_read {
            return Ok(false);
        }
        if let Some(known) = memory.now.get(path) {
            return Ok(*known);
        }
        let may_read = self.may_see_now(path, sight)?;
        Ok(put(&mut memory.now, path, may_read))
    }
}
