//! Differences between two moments.

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

/// Kind of difference between two states of a znode.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DifferenceKind {
    /// The znode did not exist before.
    Created,
    /// The znode no longer exists.
    Deleted,
    /// The znode was deleted, and another znode was created at its path.
    Replaced,
    /// The data, the ACL or both were set.
    Changed,
}

impl DifferenceKind {
    /// Returns the name that commands use.
    pub fn name(self) -> &'static str {
        match self {
            Self::Created => "created",
            Self::Deleted => "deleted",
            Self::Replaced => "replaced",
            Self::Changed => "changed",
        }
    }
}

/// A znode that differs between two moments.
#[derive(Debug, Clone, PartialEq)]
pub struct Difference {
    /// Path of the znode.
    pub path: String,
    /// Kind of difference.
    pub kind: DifferenceKind,
    /// State at the moment `from`, if the znode existed.
    pub before: Option<Znode>,
    /// State at the moment `to`, if the znode existed.
    pub after: Option<Znode>,
}

/// Maximum number of paths that one page visits.
const PATHS_MAX: usize = 20_000;

impl Reader {
    /// Returns the znodes in a subtree that differ between two moments, ordered by the bytes of
    /// their paths, starting after `after`.
    ///
    /// # Errors
    /// If a moment is unknown, if the path is invalid, or if the viewer may not see the top of the
    /// subtree.
    pub fn diff(
        &self,
        path: &str,
        from: Moment,
        to: Moment,
        after: Option<&str>,
        limit: usize,
        viewer: &Viewer<'_>,
    ) -> Result<Page<Difference, PathPosition>> {
        filter::check(path)?;
        let (history_view, permissions) = (self.history_view(), ViewerPermissions::new(viewer));
        let (from, to) = (history_view.zxid_at(from)?, history_view.zxid_at(to)?);
        let eras = (history_view.era_of(from)?, history_view.era_of(to)?);
        // These blocks contain the changes between the two moments.
        let between = history_view.first_block_from(from.min(to).0)
            ..=history_view.last_block_at(from.max(to).0);
        let limit = limit.clamp(1, PAGE_RESULTS_MAX);
        let after = after.map(|after| history_view.path_of_position("", after, &permissions));
        let after = after.transpose()?;
        let mut page = Page {
            results: Vec::new(),
            next: None,
            hidden: 0,
            extent: history_view.extent(),
        };
        let mut paths = SubtreeCursor::new(&history_view, path, after.as_deref());
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
            let is_touched = postings.iter().any(|at| between.contains(&at.block));
            if eras.0 == eras.1 && !is_touched {
                continue;
            }
            let state = |zxid: proto::Zxid, era: usize| {
                history_view.znode_of(
                    &found,
                    Position::after(zxid),
                    &history_view.eras[era],
                    &postings,
                )
            };
            let (before, after) = (state(from, eras.0)?, state(to, eras.1)?);
            let Some(kind) = kind_of(before.as_ref(), after.as_ref()) else {
                continue;
            };
            let mut is_seen = true;
            for znode in before.iter().chain(&after) {
                is_seen &=
                    history_view.may_see(&found, &PastAcl::of_znode(Some(znode))?, &permissions)?;
            }
            if !is_seen && found == path {
                return Err(HistoryError::NoPermission { path: found });
            } else if !is_seen {
                page.hidden += 1;
                continue;
            }
            let shown = |znode: Znode| permissions.shown(&found, znode);
            let difference = Difference {
                kind,
                before: before.map(shown),
                after: after.map(shown),
                path: found.clone(),
            };
            let znodes = difference.before.iter().chain(&difference.after);
            bytes += znodes.map(prost::Message::encoded_len).sum::<usize>();
            page.results.push(difference);
        }
        Ok(page)
    }
}

fn kind_of(before: Option<&Znode>, after: Option<&Znode>) -> Option<DifferenceKind> {
    match (before, after) {
        (None, None) => None,
        (None, Some(_)) => Some(DifferenceKind::Created),
        (Some(_), None) => Some(DifferenceKind::Deleted),
        (Some(before), Some(after)) if before.czxid != after.czxid => {
            Some(DifferenceKind::Replaced)
        }
        (Some(before), Some(after)) => (!before.is_same(after)).then_some(DifferenceKind::Changed),
    }
}
