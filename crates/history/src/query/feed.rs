//! Changes in their order, from a position on, as far as there are any: what a feed is made of.

use prost::Message;
use proto::position::Position;

use crate::error::{HistoryError, Result};
use crate::filter;
use crate::limits::{FEED_BLOCKS_MAX, FEED_BYTES_MAX, FORMAT, PAGE_RESULTS_MAX};
use crate::query::{FeedMemory, HistoryQuery};
use crate::read::Reader;
use crate::record::{Change, ExportedChange};
use crate::view::Look;
use crate::viewer::{Sight, Viewer};

/// A part of a feed.
#[derive(Debug, Clone)]
pub struct FeedPage {
    /// Changes that were asked for, in their order.
    pub results: Vec<ExportedChange>,
    /// Up to here all is in this page, or in those before.
    pub position: Position,
    /// Changes that the reader may not see.
    pub hidden: u64,
    /// Whether there is more already.
    pub has_more: bool,
    /// The last transaction that is recorded.
    pub head: proto::Zxid,
}

impl Reader {
    /// Changes behind `after` that match the query, the oldest first; its `after`, `limit` and
    /// order do not count.
    ///
    /// A page goes over so many changes at most, whether they match or not, and never over a hole: the
    /// last position in front of one is answered [`HistoryError::Hole`]. The same holds for a change of
    /// which nobody knows whether the reader might see it: behind a snapshot ACLs are not known yet.
    ///
    /// # Errors
    /// [`HistoryError::NotKept`] if changes behind `after` are not kept any more,
    /// [`HistoryError::Hole`] if what follows it is not known, and for a path that makes no sense or is
    /// not recorded.
    pub fn feed(
        &self,
        query: &HistoryQuery,
        after: Position,
        viewer: &Viewer<'_>,
    ) -> Result<FeedPage> {
        self.feed_on(query, after, viewer, &mut FeedMemory::default())
    }

    /// The same for a reader who asks page by page with the same query, and is known from the pages
    /// before.
    ///
    /// # Errors
    /// As [`feed`](Self::feed).
    pub fn feed_on(
        &self,
        query: &HistoryQuery,
        after: Position,
        viewer: &Viewer<'_>,
        memory: &mut FeedMemory,
    ) -> Result<FeedPage> {
        let look = self.look();
        filter::check(&query.path)?;
        query.check_origin(viewer)?;
        if !query.recursive {
            look.check_path(&query.path)?;
        }
        let upto = look.feed_end(after)?;
        look.refresh(memory, after)?;
        let page = look.feed_page(query, (after, upto), &Sight::new(viewer), memory)?;
        memory.ends_at(page.position);
        Ok(page)
    }
}

impl Look {
    fn feed_page(
        &self,
        query: &HistoryQuery,
        (after, upto): (Position, proto::Zxid),
        sight: &Sight<'_>,
        memory: &mut FeedMemory,
    ) -> Result<FeedPage> {
        let look = self;
        let mut page = FeedPage {
            results: Vec::new(),
            position: after,
            hidden: 0,
            has_more: false,
            head: look.head,
        };
        let (mut bytes, mut blocks) = (0, 0);
        'blocks: for block in look.first_block_from(after.zxid.0)..=look.open_block {
            if blocks >= FEED_BLOCKS_MAX {
                page.has_more = true;
                return Ok(page);
            }
            blocks += 1;
            let (changes, segment) = look.block(block)?;
            let first = changes.partition_point(|change| change.position() <= after.key());
            for change in &changes[first..] {
                if change.zxid > upto.0 {
                    break 'blocks;
                }
                let is_begun = page.position > after;
                let is_full = bytes >= FEED_BYTES_MAX || page.hidden >= PAGE_RESULTS_MAX as u64;
                if is_full || is_begun && look.is_spent()? {
                    page.has_more = true;
                    return Ok(page);
                }
                let position = change.position().into();
                if !query.matches(change) {
                    memory.pass(change);
                    page.position = position;
                    continue;
                }
                let change = look.with_contents(change, segment.as_ref())?;
                let is_seen = match look.may_see_fed(&change, sight, memory) {
                    // Nobody knows whether it may be seen: it is missing, as in a hole. What comes
                    // before it is told first.
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
                    look.exported(change, true, sight)?
                } else {
                    Some(sight.mask(alone(change)))
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
        // All that is recorded was looked at: transactions without a change count as well.
        page.position = page.position.max(Position::behind(upto));
        Ok(page)
    }

    /// How far a page may go that begins at `after`: up to the next hole, or to what is recorded.
    fn feed_end(&self, after: Position) -> Result<proto::Zxid> {
        let extent = self.extent();
        if after < Position::behind(extent.recorded_after) {
            return Err(HistoryError::NotKept {
                wanted: after.zxid,
                oldest: extent.recorded_after,
            });
        }
        for hole in &extent.holes {
            if after >= Position::behind(hole.recorded_after) {
                continue;
            }
            if after >= Position::behind(hole.after) {
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

/// A change without the znode before and after it.
fn alone(change: Change) -> ExportedChange {
    ExportedChange {
        format: FORMAT,
        change: Some(change),
        ..ExportedChange::default()
    }
}
