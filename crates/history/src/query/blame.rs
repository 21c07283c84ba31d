//! Blame: the last change of each part of a znode.

use proto::position::Position;

use crate::error::{HistoryError, Result};
use crate::index::postings::{kinds, path_key};
use crate::limits::PAGE_RESULTS_MAX;
use crate::query::resume::PathPosition;
use crate::query::scan::SubtreeCursor;
use crate::reading::read::Reader;
use crate::reading::view::HistoryView;
use crate::reading::viewer::{Viewer, ViewerPermissions};
use crate::record::{Change, ExportedChange};

/// The last changes to a znode. Each is `None` if it is no longer kept, if a hole may contain a
/// later change, or if the viewer may not see it.
#[derive(Debug, Clone)]
pub struct Blame {
    /// Change that created the znode.
    pub created: Option<ExportedChange>,
    /// Change that set the data.
    pub data: Option<ExportedChange>,
    /// Change that set the ACL.
    pub acl: Option<ExportedChange>,
    /// Change that deleted the znode, if the znode does not exist.
    pub deleted: Option<ExportedChange>,
    /// Current children of the znode, and deleted children whose last change is known.
    pub children: Vec<ChildBlame>,
    /// Child after which the next page begins; `None` on the last page.
    pub next: Option<PathPosition>,
}

/// The last change to a child.
#[derive(Debug, Clone)]
pub struct ChildBlame {
    /// Name of the child.
    pub name: String,
    /// Whether the child exists.
    pub exists: bool,
    /// Last change to the child itself; `None` if it is no longer kept, if a hole may contain a
    /// later change, or if the viewer may not see it.
    pub last: Option<ExportedChange>,
}

impl Reader {
    /// Returns the last changes to a znode and to its children. The children start after the name
    /// `after`.
    ///
    /// # Errors
    /// If the path is invalid or not recorded, or if the viewer may not see it.
    pub fn blame(
        &self,
        path: &str,
        after: Option<&str>,
        limit: usize,
        viewer: &Viewer<'_>,
    ) -> Result<Blame> {
        let (history_view, permissions) = (self.history_view(), ViewerPermissions::new(viewer));
        history_view.check_path(path)?;
        let is_recorded = !history_view.postings(&path_key(path))?.is_empty();
        let is_there = history_view
            .znode(path, Position::after(history_view.head))?
            .is_some();
        if (is_there || is_recorded) && !history_view.may_see_now(path, &permissions)? {
            return Err(HistoryError::NoPermission {
                path: path.to_owned(),
            });
        }
        let last = |wanted: u8| history_view.last_change(path, wanted, &permissions);
        // The viewer may see a deletion, but not the change that created the znode again.
        let deleted = if is_there {
            None
        } else {
            last(kinds::DELETES)?
        };
        let mut blame = Blame {
            data: last(kinds::SETS_DATA)?,
            acl: last(kinds::SETS_ACL)?,
            deleted,
            created: last(kinds::CREATES)?,
            children: Vec::new(),
            next: None,
        };
        history_view.blame_children(
            path,
            after,
            limit.clamp(1, PAGE_RESULTS_MAX),
            &permissions,
            &mut blame,
        )?;
        Ok(blame)
    }
}

impl HistoryView {
    /// Exports the last recorded change of one of these kinds to a path. Returns `None` if a hole
    /// may contain a later change, or if the viewer may not see the change.
    fn last_change(
        &self,
        path: &str,
        wanted: u8,
        permissions: &ViewerPermissions<'_>,
    ) -> Result<Option<ExportedChange>> {
        let Some((change, segment)) = self.last_recorded(path, wanted)? else {
            return Ok(None);
        };
        if !self.is_last_over_holes(&change, wanted)? {
            return Ok(None);
        }
        let change = self.with_contents(&change, segment.as_ref())?;
        self.exported(change, false, permissions)
    }

    /// Returns whether the last recorded change is certainly the last actual change. For a change
    /// before a hole, this is certain only if the znode has the same versions after the hole as
    /// after the change. It is never certain for a deletion before a hole.
    fn is_last_over_holes(&self, change: &Change, wanted: u8) -> Result<bool> {
        let Some(era) = self.eras.last().filter(|_| self.eras.len() > 1) else {
            return Ok(true);
        };
        if change.zxid > era.row.gap_after {
            return Ok(true);
        }
        let then = match self.znode(&change.path, change.position()) {
            Err(HistoryError::NotKept { .. } | HistoryError::Hole { .. }) => None,
            other => other?,
        };
        let (Some(then), Some(base)) = (then, self.base_znode(&change.path, era)?) else {
            return Ok(false);
        };
        let is_unless = |kind: u8, is_same: bool| wanted & kind == 0 || is_same;
        Ok(base.czxid == then.czxid
            && is_unless(kinds::SETS_DATA, base.mzxid == then.mzxid)
            && is_unless(kinds::SETS_ACL, base.aversion == then.aversion))
    }

    fn blame_children(
        &self,
        path: &str,
        after: Option<&str>,
        limit: usize,
        permissions: &ViewerPermissions<'_>,
        blame: &mut Blame,
    ) -> Result<()> {
        let prefix = match path {
            "/" => "/".to_owned(),
            _ => format!("{path}/"),
        };
        let mut behind = match after {
            Some(name) => self.path_of_position(&prefix, name, permissions)?,
            None => path.to_owned(),
        };
        let mut paths = SubtreeCursor::new(self, path, Some(&behind));
        let mut passed = None::<String>;
        while let Some((found, _)) = paths.next()? {
            let Some(rest) = found.strip_prefix(&prefix) else {
                continue;
            };
            if let Some((child, _)) = rest.split_once('/') {
                // The keys of all descendants of a child are adjacent and are skipped in one step.
                behind = format!("{prefix}{child}/\u{10ffff}");
                paths = SubtreeCursor::new(self, path, Some(&behind));
                continue;
            }
            if let Some(passed) = &passed
                && (blame.children.len() == limit || self.is_spent()?)
            {
                let name = &passed[prefix.len()..];
                blame.next = Some(self.position_after(passed, name, permissions)?);
                return Ok(());
            }
            passed = Some(found.clone());
            let now = self.znode(&found, Position::after(self.head))?;
            if now.is_some() && !self.may_see_now(&found, permissions)? {
                continue;
            }
            let any = kinds::CREATES | kinds::SETS_DATA | kinds::SETS_ACL | kinds::DELETES;
            let last = self.last_change(&found, any, permissions)?;
            if now.is_some() || last.is_some() {
                blame.children.push(ChildBlame {
                    name: rest.to_owned(),
                    exists: now.is_some(),
                    last,
                });
            }
        }
        Ok(())
    }
}
