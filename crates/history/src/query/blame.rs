//! Who last changed what of a znode.

use crate::error::{HistoryError, Result};
use crate::limits::PAGE_RESULTS_MAX;
use crate::postings::{kinds, path_key};
use crate::query::scan::SubtreeCursor;
use crate::read::{Reader, Viewer};
use crate::record::{Change, ExportedChange};
use crate::view::Look;

/// The last changes of a znode; each is `None` if it is older than what is kept, or if a later one may
/// lie in a hole.
#[derive(Debug, Clone)]
pub struct Blame {
    /// Which created it.
    pub created: Option<ExportedChange>,
    /// Which set the data.
    pub data: Option<ExportedChange>,
    /// Which set the ACL.
    pub acl: Option<ExportedChange>,
    /// Which deleted it, if it is gone.
    pub deleted: Option<ExportedChange>,
    /// Its children as they are now, and those that were deleted since the history begins.
    pub children: Vec<ChildBlame>,
    /// The name behind which there are more children.
    pub next: Option<String>,
}

/// The last change of a child.
#[derive(Debug, Clone)]
pub struct ChildBlame {
    /// Its name.
    pub name: String,
    /// Whether it is there.
    pub exists: bool,
    /// The last change of the child itself; `None` if it is older than what is kept, or if a later one
    /// may lie in a hole.
    pub last: Option<ExportedChange>,
}

impl Reader {
    /// Who last changed data, ACL and each child of a znode; children from behind `after` on.
    ///
    /// # Errors
    /// If the path makes no sense, is not recorded or may not be seen.
    pub fn blame(
        &self,
        path: &str,
        after: Option<&str>,
        limit: usize,
        viewer: &dyn Viewer,
    ) -> Result<Blame> {
        let look = self.look();
        look.check_path(path)?;
        if let Some(now) = look.znode(path, (look.head.0, u32::MAX))?
            && !look.may_see(path, &now, viewer)?
        {
            return Err(HistoryError::NoPermission {
                path: path.to_owned(),
            });
        }
        let last = |wanted: u8| look.last_change(path, wanted, viewer);
        let deleted = last(kinds::DELETES)?;
        let created = last(kinds::CREATES)?;
        let position = |found: &Option<ExportedChange>| {
            let change = found.as_ref().and_then(|found| found.change.as_ref());
            change.map(|change| change.position())
        };
        let is_gone = position(&deleted) > position(&created);
        let mut blame = Blame {
            data: last(kinds::SETS_DATA)?,
            acl: last(kinds::SETS_ACL)?,
            deleted: deleted.filter(|_| is_gone),
            created,
            children: Vec::new(),
            next: None,
        };
        look.blame_children(
            path,
            after,
            limit.clamp(1, PAGE_RESULTS_MAX),
            viewer,
            &mut blame,
        )?;
        Ok(blame)
    }
}

impl Look {
    /// The last change of a path that does one of these.
    fn last_change(
        &self,
        path: &str,
        wanted: u8,
        viewer: &dyn Viewer,
    ) -> Result<Option<ExportedChange>> {
        let postings = self.postings(&path_key(path))?;
        let last = self.last_block_at(self.head.0);
        let may_hold = postings
            .iter()
            .rev()
            .filter(|at| at.kinds & wanted != 0 && at.block <= last);
        let recorded_after = self.extent().recorded_after.0;
        for posting in may_hold {
            let (changes, segment) = self.block(posting.block)?;
            let found = changes.iter().rev().find(|change| {
                change.path == path
                    && change.zxid <= self.head.0
                    && change.zxid > recorded_after
                    && crate::postings::kinds_of(change) & wanted != 0
            });
            if let Some(change) = found {
                if !self.is_last_over_holes(change, wanted)? {
                    return Ok(None);
                }
                let change = self.with_contents(change, segment.as_ref())?;
                return self.exported(change, false, viewer);
            }
        }
        Ok(None)
    }

    /// Whether the last change that is recorded is the last that there was: the znodes behind the last
    /// hole still are what it made of them. Of a deletion nobody can tell.
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
        viewer: &dyn Viewer,
        blame: &mut Blame,
    ) -> Result<()> {
        let prefix = match path {
            "/" => "/".to_owned(),
            _ => format!("{path}/"),
        };
        let mut behind = match after {
            Some(name) => format!("{prefix}{name}"),
            None => path.to_owned(),
        };
        let mut paths = SubtreeCursor::new(self, path, Some(&behind));
        while let Some((found, _)) = paths.next()? {
            let Some(rest) = found.strip_prefix(&prefix) else {
                continue;
            };
            if let Some((child, _)) = rest.split_once('/') {
                // All that is below a child lies together: it is passed over at once.
                behind = format!("{prefix}{child}/\u{10ffff}");
                paths = SubtreeCursor::new(self, path, Some(&behind));
                continue;
            }
            if blame.children.len() == limit {
                blame.next = blame.children.last().map(|child| child.name.clone());
                return Ok(());
            }
            let now = self.znode(&found, (self.head.0, u32::MAX))?;
            if let Some(now) = &now
                && !self.may_see(&found, now, viewer)?
            {
                continue;
            }
            let any = kinds::CREATES | kinds::SETS_DATA | kinds::SETS_ACL | kinds::DELETES;
            let last = self.last_change(&found, any, viewer)?;
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
