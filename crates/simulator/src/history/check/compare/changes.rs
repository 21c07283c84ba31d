//! Comparison of lists of changes: histories, feeds and origins.

use std::collections::BTreeSet;

use history::record::{Change, Operation};
use history::{FeedMemory, HistoryError, HistoryQuery, KnownOrigin, Moment, Position};
use proto::Zxid;

use super::{Comparison, change_of, equal, equal_lists};

impl Comparison<'_> {
    /// Checks that the history and a feed list every change once and in order.
    pub(super) fn all_changes(&mut self) -> Result<(), String> {
        let mut query = HistoryQuery::of("/");
        query.recursive = true;
        self.list(&query)?;
        self.feed(&query, Position::after(Zxid(self.ranges.begin())))
    }

    /// Compares the answers to random queries.
    pub(super) fn query(&mut self) -> Result<(), String> {
        let mut query = self.drawn();
        self.list(&query)?;
        (query.since, query.until, query.newest_first) = (None, None, false);
        query.with_states = false;
        let begin = Position::after(Zxid(self.ranges.begin()));
        let from = self.change().map_or(begin, |change| change.position());
        self.feed(&query, from)
    }

    /// Returns a recorded change.
    pub(super) fn change(&mut self) -> Option<Change> {
        let at = self.random.below(self.changes.len());
        self.changes.get(at).cloned()
    }

    /// Draws the path of a committed change, or a path without a znode.
    pub(super) fn path(&mut self) -> String {
        let at = self.random.below(self.model.changes.len());
        let path = self.model.changes.get(at);
        let path = path.map_or("/", |change| change.path.as_str());
        match self.random.below(6) {
            0 => "/".to_owned(),
            1 => format!("{}/missing", path.trim_end_matches('/')),
            2 => match path.rsplit_once('/') {
                Some((parent, _)) if !parent.is_empty() => parent.to_owned(),
                _ => "/".to_owned(),
            },
            _ => path.to_owned(),
        }
    }

    fn moment(&mut self) -> Option<Moment> {
        let change = self.change()?;
        match self.random.below(4) {
            0 => Some(Moment::Zxid(Zxid(change.zxid))),
            1 => Some(Moment::Time(change.time_ms)),
            _ => None,
        }
    }

    fn drawn(&mut self) -> HistoryQuery {
        let mut query = HistoryQuery::of(&self.path());
        query.recursive = self.random.percent(50);
        (query.since, query.until) = (self.moment(), self.moment());
        query.newest_first = self.random.percent(50);
        query.limit = 1 + self.random.below(20);
        query.with_states = self.random.percent(50);
        if let Some(change) = self.change() {
            match self.random.below(8) {
                0 => query.session = Some(change.session),
                1 => query.by = change.identities.first().cloned(),
                2 => query.by = host(&change.client).map(str::to_owned),
                3 => query.operations = vec![change.operation(), Operation::Create],
                _ => {}
            }
        }
        query
    }

    /// Returns the recorded changes that match a query, and the changes that the viewer sees.
    fn wanted(&self, query: &HistoryQuery) -> (Vec<Change>, Vec<Change>) {
        let matching = self.changes.iter();
        let matching = matching.filter(|change| is_wanted(query, change)).cloned();
        let mut matching: Vec<Change> = matching.collect();
        if query.newest_first {
            matching.reverse();
        }
        let seen = matching.iter().filter(|change| self.sees_change(change));
        let seen = seen.filter(|change| self.is_judged(&change.path));
        let seen = seen.map(|change| self.shown(change.clone())).collect();
        (matching, seen)
    }

    fn needs_origins(query: &HistoryQuery) -> bool {
        query.by.is_some() || query.session.is_some()
    }

    /// Checks the answer to a query over all pages.
    fn list(&mut self, query: &HistoryQuery) -> Result<(), String> {
        let what = || format!("{query:?} of {:?}", self.sight);
        let (matching, wanted) = self.wanted(query);
        let mut query = query.clone();
        let (mut found, mut total, mut pages) = (Vec::new(), 0, 0);
        let mut limit = self.random.clone();
        loop {
            let reader = self.limited(&mut limit);
            let page = match reader.history(&query, &self.sight.viewer(self.model)) {
                Err(HistoryError::OriginHidden)
                    if Self::needs_origins(&query) && !self.sight.sees_origins() =>
                {
                    return Ok(());
                }
                Err(HistoryError::NoPermission { .. })
                    if !query.recursive && wanted.is_empty() && !matching.is_empty() =>
                {
                    return Ok(());
                }
                page => page.map_err(|error| format!("{}: {error}", what()))?,
            };
            total += page.hidden + page.results.len() as u64;
            if page.results.len() > query.limit {
                return Err(format!("{}: a page is too long", what()));
            }
            for result in page.results {
                self.states_of(&result)?;
                found.push(change_of(result)?);
            }
            pages += 1;
            self.must_end(pages, &what)?;
            match page.next {
                Some(next) => query.after = Some(next),
                None => break,
            }
        }
        equal(&total, &(matching.len() as u64), || {
            format!("{}: seen and hidden", what())
        })?;
        found.retain(|change| self.is_judged(&change.path));
        equal_lists(&found, &wanted, what)
    }

    /// Checks that a feed returns each change after a position once, and stops at every hole.
    fn feed(&mut self, query: &HistoryQuery, from: Position) -> Result<(), String> {
        let what = || format!("feed of {query:?} after {from} to {:?}", self.sight);
        let mut wanted = self.wanted(query).1;
        wanted.retain(|change| change.position() > from);
        let (mut after, mut found, mut passed, mut pages) = (from, Vec::new(), Vec::new(), 0);
        let end = Position::after(Zxid(self.ranges.head()));
        let (mut limit, mut memory) = (self.random.clone(), FeedMemory::default());
        while after < end {
            let viewer = self.sight.viewer(self.model);
            let reader = self.limited(&mut limit);
            pages += 1;
            self.must_end(pages, &what)?;
            let page = reader.feed_with_memory(query, after, &viewer, &mut memory);
            let page = match page {
                Err(HistoryError::OriginHidden)
                    if Self::needs_origins(query) && !self.sight.sees_origins() =>
                {
                    return Ok(());
                }
                // The changes are unknown, or it is unknown whether the viewer may see them.
                Err(HistoryError::Hole { to, .. }) => {
                    passed.push((after, to.0));
                    after = Position::after(to);
                    continue;
                }
                Err(HistoryError::NotKept { oldest, .. }) if Position::after(oldest) > after => {
                    passed.push((after, oldest.0));
                    after = Position::after(oldest);
                    continue;
                }
                page => page.map_err(|error| format!("{}: {error}", what()))?,
            };
            if page.position <= after {
                return Err(format!("{}: the page after {after} is empty", what()));
            }
            for result in page.results {
                found.push(change_of(result)?);
            }
            after = page.position;
        }
        for (after, upto) in &passed {
            // Nothing is unknown between these positions if the trees are known there.
            let is_hole = self
                .ranges
                .all
                .iter()
                .any(|range| range.recorded_after == *upto || range.known_from == *upto);
            if !is_hole {
                return Err(format!("{}: a hole from {after} to {upto:#x}", what()));
            }
        }
        let is_passed = |change: &Change| {
            let mut passed = passed.iter();
            passed.any(|(after, upto)| {
                let is_certain = self.ranges.knows(change.zxid) && change.zxid < *upto;
                change.position() > *after && change.zxid <= *upto && !is_certain
            })
        };
        wanted.retain(|change| !is_passed(change));
        found.retain(|change| self.is_judged(&change.path));
        found.retain(|change| wanted.contains(change) || !self.is_remembered(change));
        equal_lists(&found, &wanted, what)
    }

    /// Compares the known clients of some transactions.
    pub(super) fn known_origins(&mut self) -> Result<(), String> {
        let mut zxids = BTreeSet::from([Zxid(0), Zxid(self.ranges.head() + 1)]);
        for _ in 0..12 {
            let at = self.random.below(self.model.times.len());
            zxids.extend(self.model.times.get(at).map(|(zxid, _)| Zxid(*zxid)));
        }
        let mut wanted: Vec<KnownOrigin> = Vec::new();
        for change in &self.changes {
            let zxid = Zxid(change.zxid);
            let is_new = wanted.last().is_none_or(|last| last.zxid != zxid);
            let is_known = !change.client.is_empty() && zxids.contains(&zxid);
            if is_new && is_known && self.sees_change(change) {
                wanted.push(KnownOrigin {
                    zxid,
                    client: change.client.clone(),
                    identities: change.identities.clone(),
                });
            }
        }
        let (mut found, mut pages) = (Vec::new(), 0);
        let mut limit = self.random.clone();
        loop {
            let reader = self.limited(&mut limit);
            let page = match reader.origins(&zxids, &self.sight.viewer(self.model)) {
                Err(HistoryError::OriginHidden) if !self.sight.sees_origins() => return Ok(()),
                page => page.map_err(|error| format!("origins: {error}"))?,
            };
            found.extend(page.results);
            pages += 1;
            self.must_end(pages, &|| format!("origins of {zxids:?}"))?;
            match page.next {
                Some(next) => zxids = zxids.split_off(&next),
                None => break,
            }
        }
        equal_lists(&found, &wanted, || "the known clients".into())
    }
}

/// Returns the host in the address of a client.
fn host(client: &str) -> Option<&str> {
    client.rsplit_once(':').map(|(host, _)| host)
}

/// Returns whether a change matches a query. The position in the query is ignored.
fn is_wanted(query: &HistoryQuery, change: &Change) -> bool {
    let (zxid, ms) = (change.zxid, change.time_ms);
    let is_since = match query.since {
        Some(Moment::Zxid(since)) => zxid >= since.0,
        Some(Moment::Time(since)) => ms >= since,
        None => true,
    };
    let is_until = match query.until {
        Some(Moment::Zxid(until)) => zxid <= until.0,
        Some(Moment::Time(until)) => ms <= until,
        None => true,
    };
    let below = format!("{}/", query.path.trim_end_matches('/'));
    let is_by = |who: &String| {
        change.identities.contains(who) || host(&change.client) == Some(who.as_str())
    };
    is_since
        && is_until
        && (change.path == query.path || query.recursive && change.path.starts_with(&below))
        && query
            .session
            .is_none_or(|session| session == change.session)
        && query.by.as_ref().is_none_or(is_by)
        && (query.operations.is_empty() || query.operations.contains(&change.operation()))
}
