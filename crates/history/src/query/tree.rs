//! Query for a subtree at a moment.

use prost::Message;
use proto::position::Position;

use crate::error::{HistoryError, Result};
use crate::limits::{PAGE_BYTES_MAX, PAGE_RESULTS_MAX};
use crate::query::list::Page;
use crate::query::resume::PathPosition;
use crate::query::scan::SubtreeCursor;
use crate::reading::read::{Moment, Reader};
use crate::reading::viewer::{PastAcl, Viewer, ViewerPermissions};
use crate::record::Znode;
use crate::recording::filter;

/// A znode and its path.
#[derive(Debug, Clone, PartialEq)]
pub struct TreeEntry {
    /// Path of the znode.
    pub path: String,
    /// State of the znode.
    pub znode: Znode,
}

/// Maximum number of paths that one page visits, including znodes that did not exist at that
/// moment.
const PATHS_MAX: usize = 20_000;

impl Reader {
    /// Returns the znodes in a subtree, ordered by the bytes of their paths, starting after
    /// `after`.
    ///
    /// # Errors
    /// If the moment is unknown, if the path is invalid, or if the viewer may not see the top of
    /// the subtree.
    pub fn tree_at(
        &self,
        path: &str,
        moment: Moment,
        after: Option<&str>,
        limit: usize,
        viewer: &Viewer<'_>,
    ) -> Result<Page<TreeEntry, PathPosition>> {
        filter::check(path)?;
        let (history_view, permissions) = (self.history_view(), ViewerPermissions::new(viewer));
        let zxid = history_view.zxid_at(moment)?;
        let era = history_view.eras[history_view.era_of(zxid)?].clone();
        let limit = limit.clamp(1, PAGE_RESULTS_MAX);
        let after = after.map(|after| history_view.path_of_position("", after, &permissions));
        let after = after.transpose()?;
        let mut paths = SubtreeCursor::new(&history_view, path, after.as_deref());
        let mut page = Page {
            results: Vec::new(),
            next: None,
            hidden: 0,
            extent: history_view.extent(),
        };
        let (mut bytes, mut visited, mut last) = (0, 0, None::<String>);
        while let Some((found, postings)) = paths.next()? {
            let count = page.results.len() as u64 + page.hidden;
            let is_full = page.results.len() >= limit || count >= PAGE_RESULTS_MAX as u64;
            let is_full = is_full || bytes >= PAGE_BYTES_MAX || visited == PATHS_MAX;
            if let Some(last) = &last
                && (is_full || history_view.is_spent()?)
            {
                page.next = Some(history_view.position_after(last, last, &permissions)?);
                break;
            }
            last = Some(found.clone());
            visited += 1;
            let Some(znode) =
                history_view.znode_of(&found, Position::after(zxid), &era, &postings)?
            else {
                continue;
            };
            if !history_view.may_see(&found, &PastAcl::of_znode(Some(&znode))?, &permissions)? {
                if found == path {
                    return Err(HistoryError::NoPermission { path: found });
                }
                page.hidden += 1;
                continue;
            }
            bytes += znode.encoded_len();
            let znode = permissions.shown(&found, znode);
            page.results.push(TreeEntry { path: found, znode });
        }
        Ok(page)
    }
}
