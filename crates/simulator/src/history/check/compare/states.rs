//! Comparison of past states: znodes, trees and differences.

use std::collections::BTreeMap;

use history::record::{ExportedChange, Znode};
use history::{HistoryError, Moment, Position};
use proto::Zxid;

use super::sight::before;
use super::{Comparison, equal, equal_lists, plain_znode};

/// States of a znode before and after.
type Pair = (Option<Znode>, Option<Znode>);

impl Comparison<'_> {
    /// Compares a random znode in the past.
    pub(super) fn znode(&mut self) -> Result<(), String> {
        let (path, zxid) = (self.path(), self.zxid());
        if !is_modelled(&path) {
            return Ok(());
        }
        let what = || format!("{path} at {zxid:#x} to {:?}", self.sight);
        let viewer = self.sight.viewer(self.model);
        let found = self
            .reader
            .znode_at(&path, Moment::Zxid(Zxid(zxid)), &viewer);
        let wanted = self.model.znode(&path, zxid);
        let found = match found {
            Err(error) if error.is_unknown_moment() && !self.ranges.knows(zxid) => return Ok(()),
            Err(HistoryError::NoPermission { .. }) => None,
            found => found.map_err(|error| format!("{}: {error}", what()))?,
        };
        if !self.ranges.knows(zxid) {
            return Err(format!("{}: the tree must be unknown", what()));
        }
        let wanted = wanted.filter(|znode| self.sees_znode(&path, znode));
        let wanted = wanted.map(|znode| self.shown_znode(&path, &znode));
        equal(&found.map(plain_znode), &wanted, what)
    }

    /// Compares a random subtree in the past.
    pub(super) fn tree(&mut self) -> Result<(), String> {
        let (path, zxid, limit) = (self.path(), self.zxid(), 1 + self.random.below(30));
        let what = || format!("tree of {path} at {zxid:#x} to {:?}", self.sight);
        let (mut found, mut total, mut after, mut pages) = (Vec::new(), 0, None::<String>, 0);
        let mut cost = self.random.clone();
        loop {
            let reader = self.limited(&mut cost);
            let moment = Moment::Zxid(Zxid(zxid));
            let viewer = self.sight.viewer(self.model);
            let page = match reader.tree_at(&path, moment, after.as_deref(), limit, &viewer) {
                Err(error) if error.is_unknown_moment() && !self.ranges.knows(zxid) => {
                    return Ok(());
                }
                Err(HistoryError::NoPermission { .. }) if after.is_none() => {
                    let top = self.model.znode(&path, zxid);
                    let is_hidden = top.is_some_and(|top| !self.sees_znode(&path, &top));
                    return equal(&is_hidden, &true, what);
                }
                page => page.map_err(|error| format!("{}: {error}", what()))?,
            };
            total += page.hidden + page.results.len() as u64;
            let results = page.results.into_iter();
            found.extend(results.map(|entry| (entry.path, plain_znode(entry.znode))));
            pages += 1;
            self.must_end(pages, &what)?;
            match page.next {
                Some(next) => after = Some(next.into()),
                None => break,
            }
        }
        let below = self.model.paths().filter(|other| is_below(&path, other));
        let all = below.filter_map(|path| Some((path, self.model.znode(path, zxid)?)));
        let all: Vec<_> = all.filter(|(path, _)| is_modelled(path)).collect();
        let of_system = found.iter().filter(|(path, _)| !is_modelled(path)).count();
        if path != "/" && is_modelled(&path) {
            equal(&total, &(all.len() as u64), || {
                format!("{}: seen and hidden", what())
            })?;
        } else if total < (all.len() + of_system) as u64 {
            return Err(format!("{}: only {total} seen and hidden", what()));
        }
        let seen = all
            .iter()
            .filter(|(path, znode)| self.sees_znode(path, znode));
        let wanted = seen.map(|(path, znode)| ((*path).to_owned(), self.shown_znode(path, znode)));
        let wanted: Vec<(String, Znode)> = wanted.collect();
        found.retain(|(path, _)| is_modelled(path));
        equal_lists(&found, &wanted, what)
    }

    /// Compares the differences between two random moments.
    pub(super) fn diff(&mut self) -> Result<(), String> {
        let (path, from, to) = (self.path(), self.zxid(), self.zxid());
        let limit = 1 + self.random.below(20);
        let what = || {
            format!(
                "diff of {path} from {from:#x} to {to:#x} to {:?}",
                self.sight
            )
        };
        let wanted = self.differences(&path, from, to);
        let (mut found, mut after, mut pages) = (Vec::new(), None::<String>, 0);
        let mut cost = self.random.clone();
        loop {
            let reader = self.limited(&mut cost);
            let viewer = self.sight.viewer(self.model);
            let moments = [from, to].map(|zxid| Moment::Zxid(Zxid(zxid)));
            let [begin, end] = moments;
            let page = match reader.diff(&path, begin, end, after.as_deref(), limit, &viewer) {
                Err(error) if error.is_unknown_moment() => {
                    let is_known = self.ranges.knows(from) && self.ranges.knows(to);
                    return equal(&is_known, &false, what);
                }
                Err(HistoryError::NoPermission { .. }) if after.is_none() => {
                    let is_hidden = wanted.get(&path).is_some_and(Option::is_none);
                    return equal(&is_hidden, &true, what);
                }
                page => page.map_err(|error| format!("{}: {error}", what()))?,
            };
            for one in page.results {
                let pair: Pair = (one.before.map(plain_znode), one.after.map(plain_znode));
                found.push((one.path, pair));
            }
            pages += 1;
            self.must_end(pages, &what)?;
            match page.next {
                Some(next) => after = Some(next.into()),
                None => break,
            }
        }
        found.retain(|(path, _)| is_modelled(path));
        let seen = wanted.into_iter();
        let seen = seen.filter_map(|(path, pair)| Some((path, pair?)));
        let wanted: Vec<(String, Pair)> = seen.collect();
        equal_lists(&found, &wanted, what)
    }

    /// Returns the znodes that differ between two moments; `None` for each that the viewer does not
    /// see.
    fn differences(&self, top: &str, from: i64, to: i64) -> BTreeMap<String, Option<Pair>> {
        let paths = self.model.paths();
        let paths = paths.filter(|path| is_below(top, path) && is_modelled(path));
        let mut found = BTreeMap::new();
        for path in paths {
            let states = [from, to].map(|zxid| self.model.znode(path, zxid));
            if states[0] == states[1] {
                continue;
            }
            let is_seen = states
                .iter()
                .flatten()
                .all(|znode| self.sees_znode(path, znode));
            let shown = states.map(|znode| znode.map(|znode| self.shown_znode(path, &znode)));
            let [before, after] = shown;
            found.insert(path.to_owned(), is_seen.then_some((before, after)));
        }
        found
    }

    /// Compares the states in an answer before and after its change.
    pub(super) fn states_of(&self, found: &ExportedChange) -> Result<(), String> {
        let Some(change) = &found.change else {
            return Ok(());
        };
        let path = &change.path;
        let has_states = found.before.is_some() || found.after.is_some() || found.is_before_unknown;
        if !is_modelled(path) || !has_states {
            return Ok(());
        }
        let what = || format!("states of {change:?} to {:?}", self.sight);
        let known = |at: Position| self.ranges.knows(at.zxid.0);
        let (earlier, later) = (before(change), change.position());
        let state = |at: Position| {
            let znode = self.model.znode_after(path, at).filter(|_| known(at));
            znode.map(|znode| (self.could_read(&znode), self.shown_znode(path, &znode)))
        };
        let wanted = state(later).map(|(_, znode)| znode);
        equal(&found.after.clone().map(plain_znode), &wanted, what)?;
        let wanted = state(earlier);
        let is_hidden = matches!(&wanted, Some((false, _)));
        equal(
            &found.is_before_unknown,
            &(is_hidden || !known(earlier)),
            what,
        )?;
        let wanted = wanted
            .filter(|(is_seen, _)| *is_seen)
            .map(|(_, znode)| znode);
        equal(&found.before.clone().map(plain_znode), &wanted, what)
    }

    /// Draws the zxid of a committed transaction up to the last recorded one.
    fn zxid(&mut self) -> i64 {
        let head = self.ranges.head();
        let upto = self.model.times.partition_point(|(zxid, _)| *zxid <= head);
        let at = self.random.below(upto);
        self.model
            .times
            .get(at)
            .map_or(head, |(zxid, _)| (*zxid).min(head))
    }
}

/// Returns whether `path` is `top` or one of its descendants.
pub(super) fn is_below(top: &str, path: &str) -> bool {
    let rest = path.strip_prefix(top.trim_end_matches('/'));
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// Returns whether the model knows all states of a znode. Servers create the system's znodes
/// without a transaction, and count quotas in them.
pub(super) fn is_modelled(path: &str) -> bool {
    path != "/" && !path.starts_with("/zookeeper")
}
