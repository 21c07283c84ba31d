//! The feed, which returns changes in order, from a position up to the last recorded change.

use prost::Message;
use proto::position::Position;

use crate::error::{HistoryError, Result};
use crate::limits::{FEED_BLOCKS_MAX, FEED_BYTES_MAX, FORMAT, PAGE_RESULTS_MAX};
use crate::query::list::HistoryQuery;
use crate::query::memory::FeedMemory;
use crate::reading::read::Reader;
use crate::reading::view::HistoryView;
use crate::reading::viewer::{Viewer, ViewerPermissions};
use crate::record::{Change, ExportedChange};
use crate::recording::filter;

/// A page of a feed.
#[derive(Debug, Clone)]
pub struct FeedPage {
    /// Matching changes, in order.
    pub results: Vec<ExportedChange>,
    /// Position up to which this page or a previous one has visited every change.
    pub position: Position,
    /// Number of matching changes that are omitted because the viewer may not see them.
    pub hidden: u64,
    /// Whether more changes already exist.
    pub has_more: bool,
    /// Last recorded transaction.
    pub head: proto::Zxid,
}

impl Reader {
    /// Returns the changes after `after` that match the query, oldest first. The `limit` and order
    /// of the query are ignored. Its `after` must be `None`.
    ///
    /// A page visits a limited number of changes, whether they match or not, and does not cross a
    /// hole. At the last position before a hole, the result is [`HistoryError::Hole`]. The result
    /// is also an error if the visibility of the next change is unknown, because ACLs are unknown
    /// at some positions after a snapshot.
    ///
    /// # Errors
    /// [`HistoryError::NotKept`] if changes after `after` are no longer kept,
    /// [`HistoryError::Hole`] if the following changes are unknown, and an error for a path that is
    /// invalid or not recorded.
    pub fn feed(
        &self,
        query: &HistoryQuery,
        after: Position,
        viewer: &Viewer<'_>,
    ) -> Result<FeedPage> {
        self.feed_with_memory(query, after, viewer, &mut FeedMemory::default())
    }

    /// Returns a page like [`feed`](Self::feed), for a reader that requests successive pages with
    /// one query. `memory` contains the reader's permissions from the previous pages.
    ///
    /// # Errors
    /// If [`feed`](Self::feed) would fail.
    pub fn feed_with_memory(
        &self,
        query: &HistoryQuery,
        after: Position,
        viewer: &Viewer<'_>,
        memory: &mut FeedMemory,
    ) -> Result<FeedPage> {
        let history_view = self.history_view();
        filter::check(&query.path)?;
        query.check_origin(viewer)?;
        if !query.recursive {
            history_view.check_path(&query.path)?;
        }
        let upto = history_view.feed_end(after)?;
        history_view.refresh(memory, after)?;
        let page =
            history_view.feed_page(query, after, upto, &ViewerPermissions::new(viewer), memory)?;
        memory.set_page_end(page.position);
        Ok(page)
    }
}

impl HistoryView {
    fn feed_page(
        &self,
        query: &HistoryQuery,
        after: Position,
        upto: proto::Zxid,
        permissions: &ViewerPermissions<'_>,
        memory: &mut FeedMemory,
    ) -> Result<FeedPage> {
        let history_view = self;
        let mut page = FeedPage {
            results: Vec::new(),
            position: after,
            hidden: 0,
            has_more: false,
            head: history_view.head,
        };
        let (mut bytes, mut blocks) = (0, 0);
        'blocks: for block in history_view.first_block_from(after.zxid.0)..=history_view.open_block
        {
            // A page passes at least one change. Changes of the same transaction before `after` may
            // fill many blocks.
            if blocks >= FEED_BLOCKS_MAX && page.position > after {
                page.has_more = true;
                return Ok(page);
            }
            blocks += 1;
            let (changes, segment) = history_view.block(block)?;
            let first = changes.partition_point(|change| change.position() <= after);
            for change in &changes[first..] {
                if change.zxid > upto.0 {
                    break 'blocks;
                }
                let is_begun = page.position > after;
                let is_full = bytes >= FEED_BYTES_MAX || page.hidden >= PAGE_RESULTS_MAX as u64;
                if is_full || is_begun && history_view.is_spent()? {
                    page.has_more = true;
                    return Ok(page);
                }
                let position = change.position();
                if !query.matches(change) {
                    memory.note_unmatched(change);
                    page.position = position;
                    continue;
                }
                let change = history_view.with_contents(change, segment.as_ref())?;
                let is_seen = match history_view.may_see_fed(&change, permissions, memory) {
                    // It is unknown whether the reader may see the change, so the page ends before
                    // the change, as before a hole.
                    Err(error) if error.is_unknown_moment() && page.position > after => {
                        page.has_more = true;
                        return Ok(page);
                    }
                    is_seen => is_seen?,
                };
                page.position = position;
                let found = if !is_seen {
                    None
                } else if query.with_states {
                    history_view.exported(change, true, permissions)?
                } else {
                    Some(permissions.mask(without_states(change)))
                };
                match found {
                    Some(result) => {
                        bytes += result.encoded_len();
                        page.results.push(result);
                    }
                    None => page.hidden += 1,
                }
            }
        }
        // All recorded transactions were visited, including transactions without a change.
        page.position = page.position.max(Position::after(upto));
        Ok(page)
    }

    /// Returns the end of a page that begins at `after`, which is the next hole or the last
    /// recorded transaction.
    fn feed_end(&self, after: Position) -> Result<proto::Zxid> {
        let extent = self.extent();
        if after < Position::after(extent.recorded_after) {
            return Err(HistoryError::NotKept {
                wanted: after.zxid,
                oldest: extent.recorded_after,
            });
        }
        for hole in &extent.holes {
            if after >= Position::after(hole.recorded_after) {
                continue;
            }
            if after >= Position::after(hole.after) {
                return Err(HistoryError::Hole {
                    from: hole.after,
                    to: hole.recorded_after,
                });
            }
            return Ok(hole.after);
        }
        Ok(self.head)
    }
}

/// Exports a change without the znode before and after it.
fn without_states(change: Change) -> ExportedChange {
    ExportedChange {
        format: FORMAT,
        change: Some(change),
        ..ExportedChange::default()
    }
}
