//! Comparison of blame, and of moments by time.

use std::collections::BTreeMap;

use history::record::{Change, ExportedChange, Operation};
use history::{HistoryError, Moment, Position};

use super::states::is_modelled;
use super::{Comparison, change_of, equal, equal_lists};

const DATA: [Operation; 3] = [Operation::Create, Operation::SetData, Operation::Reconfig];
const ACL: [Operation; 2] = [Operation::Create, Operation::SetAcl];
const DELETES: [Operation; 3] = [
    Operation::Delete,
    Operation::DeleteByServer,
    Operation::CloseSession,
];

impl Comparison<'_> {
    /// Compares the blame of a random znode and of its children.
    pub(super) fn blame(&mut self) -> Result<(), String> {
        let (path, limit) = (self.path(), 1 + self.random.below(8));
        if !is_modelled(&path) && path != "/" {
            return Ok(());
        }
        let what = || format!("blame of {path} to {:?}", self.sight);
        let head = self.ranges.head();
        let (mut children, mut after, mut pages) = (Vec::new(), None::<String>, 0);
        let mut cost = self.random.clone();
        loop {
            let reader = self.limited(&mut cost);
            let viewer = self.sight.viewer(self.model);
            let page = match reader.blame(&path, after.as_deref(), limit, &viewer) {
                Err(error) if error.is_unknown_moment() => {
                    return equal(&self.ranges.knows(head), &false, what);
                }
                Err(HistoryError::NoPermission { .. }) if after.is_none() => {
                    return equal(&self.may_see_now(&path), &false, what);
                }
                page => page.map_err(|error| format!("{}: {error}", what()))?,
            };
            if path != "/" {
                let is_there = self.model.znode(&path, head).is_some();
                self.last_change(&path, &[Operation::Create], page.created)?;
                self.last_change(&path, &DATA, page.data)?;
                self.last_change(&path, &ACL, page.acl)?;
                if is_there {
                    equal(&page.deleted, &None, || format!("{}: deleted", what()))?;
                } else {
                    self.last_change(&path, &DELETES, page.deleted)?;
                }
            }
            children.extend(page.children);
            pages += 1;
            self.must_end(pages, &what)?;
            match page.next {
                Some(next) => after = Some(next.into()),
                None => break,
            }
        }
        let wanted = self.children(&path);
        let prefix = format!("{}/", path.trim_end_matches('/'));
        children.retain(|child| is_modelled(&format!("{prefix}{}", child.name)));
        let names = children
            .iter()
            .map(|child| (child.name.clone(), child.exists));
        equal_lists(&names.collect::<Vec<_>>(), &wanted, what)?;
        for child in children {
            self.last_change(
                &format!("{prefix}{}", child.name),
                &Operation::ALL,
                child.last,
            )?;
        }
        Ok(())
    }

    /// Returns the names of the children that the blame of a znode must list, each with whether the
    /// child exists.
    fn children(&self, path: &str) -> Vec<(String, bool)> {
        let prefix = format!("{}/", path.trim_end_matches('/'));
        let mut found = BTreeMap::new();
        for child in self.model.paths() {
            let Some(name) = child.strip_prefix(&prefix) else {
                continue;
            };
            if name.contains('/') || !is_modelled(child) {
                continue;
            }
            let is_there = self.model.znode(child, self.ranges.head()).is_some();
            let is_listed = if is_there {
                self.may_see_now(child)
            } else {
                let last = self.last(child, &Operation::ALL);
                last.is_some_and(|last| self.is_certain(last) && self.sees_change(last))
            };
            if is_listed {
                found.insert(name.to_owned(), is_there);
            }
        }
        found.into_iter().collect()
    }

    /// Returns the last recorded change of these kinds.
    fn last(&self, path: &str, of: &[Operation]) -> Option<&Change> {
        let mut changes = self.changes.iter().rev();
        changes.find(|change| change.path == path && of.contains(&change.operation()))
    }

    fn is_certain(&self, change: &Change) -> bool {
        change.zxid > self.ranges.whole_after()
    }

    /// Checks the last change of these kinds to a znode. For a change before a hole, the answer may
    /// lack it, but must not contain a change that is not the last one.
    fn last_change(
        &self,
        path: &str,
        of: &[Operation],
        found: Option<ExportedChange>,
    ) -> Result<(), String> {
        let what = || format!("last change {of:?} of {path} to {:?}", self.sight);
        let recorded = self.last(path, of);
        let wanted = recorded.filter(|change| self.sees_change(change));
        let found = found.map(change_of).transpose()?;
        let Some(found) = found else {
            let is_missing = wanted.is_some_and(|wanted| self.is_certain(wanted));
            return equal(&is_missing, &false, what);
        };
        let shown = wanted.map(|change| self.shown(change.clone()));
        equal(&Some(found), &shown, what)?;
        let head = self.ranges.head();
        let mut all = self.model.changes.iter().rev();
        let last = all.find(|change| {
            change.path == path && change.zxid <= head && of.contains(&change.operation())
        });
        let position = |change: Option<&Change>| change.map(Change::position);
        equal(&position(recorded), &position(last), what)
    }

    /// Compares the moment of a random time. With holes, only the range of the answer is certain.
    pub(super) fn time(&mut self) -> Result<(), String> {
        let Some(change) = self.change() else {
            return Ok(());
        };
        let (ms, head) = (change.time_ms, self.ranges.head());
        let found = match self.reader.zxid_at(Moment::Time(ms)) {
            Err(error) if error.is_unknown_moment() => {
                let is_known = self.ranges.all.len() == 1 && self.ranges.knows(change.zxid);
                return equal(&is_known, &false, || format!("time {ms}: {error}"));
            }
            Err(HistoryError::TooEarly { .. }) => {
                let error = format!("a change at {ms} is recorded, but the history begins later");
                return Err(error);
            }
            found => found.map_err(|error| format!("time {ms}: {error}"))?,
        };
        let mut changes = self.changes.iter().rev();
        let last = changes.find(|change| change.time_ms <= ms);
        let last = last.map(|change| change.zxid);
        let is_begin = self
            .ranges
            .all
            .iter()
            .any(|range| range.known_from == found.0);
        if found.0 == head || Some(found.0) == last || is_begin {
            return Ok(());
        }
        let after = Position::after(found);
        Err(format!("time {ms}: {after} instead of {last:?}"))
    }
}
