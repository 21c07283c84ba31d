//! Query for a subtree at a moment.

use prost::Message;
use proto::position::Position;

use crate::error::{HistoryError, Result};
use crate::limits::{PAGE_BYTES_MAX, PAGE_RESULTS_MAX};
use crate::query::list::Page;
use crate::query::scan::SubtreeCursor;
use crate::reading::read::{Moment, Reader};
use crate::reading::viewer::{PastAcl, Sight, Viewer};
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
    /// If the moment is unknown, or if the path is invalid.
    pub fn tree_at(
        &self,
        path: &str,
        moment: Moment,
        after: Option<&str>,
        limit: usize,
        viewer: &Viewer<'_>,
    ) -> Result<Page<TreeEntry, String>> {
        filter::check(path)?;
        let (look, sight) = (self.look(), Sight::new(viewer));
        let zxid = look.zxid_at(moment)?;
        let era = look.eras[look.era_of(zxid)?].clone();
        let limit = limit.clamp(1, PAGE_RESULTS_MAX);
        let mut paths = SubtreeCursor::new(&look, path, after);
        let mut page = Page {
            results: Vec::new(),
            next: None,
            hidden: 0,
            extent: look.extent(),
        };
        let (mut bytes, mut last) = (0, None);
        for number in 0..PATHS_MAX {
            let Some((found, postings)) = paths.next()? else {
                break;
            };
            let count = page.results.len() as u64 + page.hidden;
            let is_full = page.results.len() >= limit || count >= PAGE_RESULTS_MAX as u64;
            if is_full || bytes >= PAGE_BYTES_MAX || number > 0 && look.is_spent()? {
                page.next = last;
                return Ok(page);
            }
            last = Some(found.clone());
            let Some(znode) = look.znode_of(&found, Position::after(zxid), &era, &postings)? else {
                continue;
            };
            if !look.may_see(&found, &PastAcl::of_znode(Some(&znode))?, &sight)? {
                if found == path {
                    return Err(HistoryError::NoPermission { path: found });
                }
                page.hidden += 1;
                continue;
            }
            bytes += znode.encoded_len();
            let znode = sight.shown(&found, znode);
            page.results.push(TreeEntry { path: found, znode });
        }
        page.next = match paths.next()? {
            Some(_) => last,
            None => None,
        };
        Ok(page)
    }
}
