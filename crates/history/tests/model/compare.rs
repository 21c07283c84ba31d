//! Every kind of query, compared between the history and the plain list.

use std::collections::{BTreeMap, BTreeSet};

use fastrand::Rng;
use proto::Zxid;
use zoarium_history::record::{Change, Content, Operation, Znode};
use zoarium_history::{
    DifferenceKind, HistoryError, HistoryQuery, Moment, Position, Reader, Viewer,
};

use crate::plain::{Plain, PlainChange, PlainZnode, Tree, acl_of};

const OWNER: Viewer<'static> = Viewer::FileOwner {
    shows_secrets: true,
};

fn bytes(content: &Content) -> bytes::Bytes {
    assert_eq!(content.inline.as_ref().unwrap().len() as u64, content.size);
    content.inline.clone().unwrap()
}

fn plain_znode(znode: &Znode) -> PlainZnode {
    PlainZnode {
        czxid: znode.czxid,
        mzxid: znode.mzxid,
        ctime_ms: znode.ctime_ms,
        mtime_ms: znode.mtime_ms,
        version: znode.version,
        aversion: znode.aversion,
        owner: znode.owner,
        kind: znode.kind(),
        data: znode.data.as_ref().map(bytes),
        acl: acl_of(&bytes(znode.acl.as_ref().unwrap())),
    }
}

fn position_of(change: &PlainChange) -> Position {
    Position {
        zxid: Zxid(change.zxid),
        index: change.index,
    }
}

fn plain_change(change: &Change) -> PlainChange {
    let by = change.identities.first().map(|who| {
        let host = change.client.split(':').next().unwrap();
        (who.clone(), host.to_owned())
    });
    PlainChange {
        zxid: change.zxid,
        index: change.index,
        time_ms: change.time_ms,
        session: change.session,
        by,
        operation: change.operation(),
        path: change.path.clone(),
        data: change.data.as_ref().map(bytes),
        acl: change.acl.as_ref().map(|acl| acl_of(&bytes(acl))),
    }
}

/// Compares many random queries.
pub(crate) fn compare(reader: &Reader, plain: &Plain, seed: u64, rounds: usize) {
    let extent = reader.extent();
    assert_eq!(extent.head.0, plain.head());
    let mut asking = Asking {
        reader,
        plain,
        random: Rng::with_seed(seed),
        recorded_after: extent.recorded_after.0,
        known_from: extent.known_from.0,
    };
    for _ in 0..rounds {
        asking.history();
        asking.znode();
        asking.tree();
        asking.diff();
        asking.blame();
        asking.origins();
        asking.time();
        asking.feed();
    }
    asking.outside();
}

struct Asking<'a> {
    reader: &'a Reader,
    plain: &'a Plain,
    random: Rng,
    recorded_after: i64,
    known_from: i64,
}

impl Asking<'_> {
    fn path(&mut self) -> String {
        let changes = &self.plain.changes;
        let path = &changes[self.random.usize(..changes.len())].path;
        match self.random.u32(..6) {
            0 => "/".to_owned(),
            1 => format!("{}/missing", path.trim_end_matches('/')),
            _ => path.clone(),
        }
    }

    fn zxid(&mut self) -> i64 {
        let known = self
            .plain
            .trees
            .iter()
            .filter(|(zxid, _)| *zxid >= self.known_from);
        let zxids: Vec<i64> = known.map(|(zxid, _)| *zxid).collect();
        zxids[self.random.usize(..zxids.len())]
    }

    fn moment(&mut self) -> Option<Moment> {
        let changes = &self.plain.changes;
        let change = &changes[self.random.usize(..changes.len())];
        match self.random.u32(..4) {
            0 => Some(Moment::Zxid(Zxid(change.zxid))),
            1 => Some(Moment::Time(change.time_ms)),
            _ => None,
        }
    }

    fn query(&mut self) -> HistoryQuery {
        let mut query = HistoryQuery::of(&self.path());
        query.recursive = self.random.bool();
        (query.since, query.until) = (self.moment(), self.moment());
        query.newest_first = self.random.bool();
        query.limit = self.random.usize(1..60);
        query.with_states = true;
        query.by = match self.random.u32(..8) {
            0 => Some("digest:user1".to_owned()),
            1 => Some("10.0.0.2".to_owned()),
            2 => Some("nobody".to_owned()),
            _ => None,
        };
        if self.random.u32(..4) == 0 {
            query.session = Some(self.random.i64(1..7));
        }
        if self.random.u32(..4) == 0 {
            query.operations = vec![Operation::Create, Operation::Delete];
        }
        query
    }

    fn wanted(&self, query: &HistoryQuery) -> Vec<PlainChange> {
        let is_since = |change: &PlainChange| match query.since {
            Some(Moment::Zxid(zxid)) => change.zxid >= zxid.0,
            Some(Moment::Time(ms)) => change.time_ms >= ms,
            None => true,
        };
        let is_until = |change: &PlainChange| match query.until {
            Some(Moment::Zxid(zxid)) => change.zxid <= zxid.0,
            Some(Moment::Time(ms)) => change.time_ms <= ms,
            None => true,
        };
        let below = format!("{}/", query.path.trim_end_matches('/'));
        let of = self.plain.changes.iter().filter(|change| {
            change.zxid > self.recorded_after
                && (change.path == query.path || query.recursive && change.path.starts_with(&below))
                && is_since(change)
                && is_until(change)
                && query
                    .session
                    .is_none_or(|session| session == change.session)
                && (query.operations.is_empty() || query.operations.contains(&change.operation))
                && query.by.as_ref().is_none_or(|who| {
                    change
                        .by
                        .as_ref()
                        .is_some_and(|(id, host)| who == id || who == host)
                })
        });
        let mut wanted: Vec<PlainChange> = of.cloned().collect();
        if query.newest_first {
            wanted.reverse();
        }
        wanted
    }

    fn history(&mut self) {
        let mut query = self.query();
        let wanted = self.wanted(&query);
        let mut found = Vec::new();
        loop {
            let page = self.reader.history(&query, &OWNER).unwrap();
            assert!(page.results.len() <= query.limit);
            for result in page.results {
                let change = result.change.unwrap();
                self.check_states(
                    &change,
                    result.before,
                    result.after,
                    result.is_before_unknown,
                );
                found.push(plain_change(&change));
            }
            match page.next {
                Some(next) => query.after = Some(next),
                None => break,
            }
        }
        assert_eq!(found, wanted, "{query:?}");
    }

    fn check_states(
        &self,
        change: &Change,
        before: Option<Znode>,
        after: Option<Znode>,
        is_unknown: bool,
    ) {
        let path = &change.path;
        let of_txn = |other: &&PlainChange| other.zxid == change.zxid && other.path == *path;
        let same: Vec<&PlainChange> = self.plain.changes.iter().filter(of_txn).collect();
        let is_first = same
            .first()
            .is_some_and(|first| first.index == change.index);
        let is_last = same.last().is_some_and(|last| last.index == change.index);
        if change.zxid - 1 < self.known_from {
            assert!(is_unknown || change.index > 0);
        } else if is_first {
            let wanted = self.plain.tree(change.zxid - 1).get(path);
            assert_eq!(
                before.as_ref().map(plain_znode).as_ref(),
                wanted,
                "{change:?}"
            );
        }
        if is_last && change.zxid >= self.known_from {
            let wanted = self.plain.tree(change.zxid).get(path);
            assert_eq!(
                after.as_ref().map(plain_znode).as_ref(),
                wanted,
                "{change:?}"
            );
        }
    }

    fn znode(&mut self) {
        let (path, zxid) = (self.path(), self.zxid());
        let found = self
            .reader
            .znode_at(&path, Moment::Zxid(Zxid(zxid)), &OWNER)
            .unwrap();
        let wanted = self.plain.tree(zxid).get(&path);
        assert_eq!(
            found.as_ref().map(plain_znode).as_ref(),
            wanted,
            "{path} at {zxid:#x}"
        );
    }

    fn below<'t>(tree: &'t Tree, top: &str) -> BTreeMap<&'t str, &'t PlainZnode> {
        let below = format!("{}/", top.trim_end_matches('/'));
        let of = tree
            .iter()
            .filter(|(path, _)| *path == top || path.starts_with(&below));
        of.map(|(path, znode)| (path.as_str(), znode)).collect()
    }

    fn tree(&mut self) {
        let (path, zxid, limit) = (self.path(), self.zxid(), self.random.usize(1..200));
        let (mut found, mut after) = (Vec::new(), None::<String>);
        loop {
            let moment = Moment::Zxid(Zxid(zxid));
            let page = self
                .reader
                .tree_at(&path, moment, after.as_deref(), limit, &OWNER)
                .unwrap();
            found.extend(
                page.results
                    .into_iter()
                    .map(|entry| (entry.path, plain_znode(&entry.znode))),
            );
            match page.next {
                Some(next) => after = Some(next.into()),
                None => break,
            }
        }
        let count = found.len();
        let found: Tree = found.into_iter().collect();
        assert_eq!(found.len(), count, "a znode came twice");
        let found: BTreeMap<&str, &PlainZnode> = Self::below(&found, &path);
        assert_eq!(
            found,
            Self::below(self.plain.tree(zxid), &path),
            "{path} at {zxid:#x}"
        );
    }

    fn diff(&mut self) {
        let (path, from, to) = (self.path(), self.zxid(), self.zxid());
        let limit = self.random.usize(1..100);
        let (begin, end) = (Moment::Zxid(Zxid(from)), Moment::Zxid(Zxid(to)));
        let (mut found, mut after) = (BTreeMap::new(), None::<String>);
        loop {
            let page = self
                .reader
                .diff(&path, begin, end, after.as_deref(), limit, &OWNER)
                .unwrap();
            for one in page.results {
                let states = (
                    one.before.as_ref().map(plain_znode),
                    one.after.as_ref().map(plain_znode),
                );
                assert_eq!(one.kind == DifferenceKind::Created, states.0.is_none());
                assert!(found.insert(one.path, states).is_none());
            }
            match page.next {
                Some(next) => after = Some(next.into()),
                None => break,
            }
        }
        let (before, after) = (self.plain.tree(from), self.plain.tree(to));
        let both = (Self::below(before, &path), Self::below(after, &path));
        let mut wanted = BTreeMap::new();
        for key in both.0.keys().chain(both.1.keys()) {
            let states = (before.get(*key).cloned(), after.get(*key).cloned());
            if states.0 != states.1 {
                wanted.insert((*key).to_owned(), states);
            }
        }
        assert_eq!(found, wanted, "{path} from {from:#x} to {to:#x}");
    }

    fn origins(&mut self) {
        let changes = &self.plain.changes;
        let some = (0..20).map(|_| changes[self.random.usize(..changes.len())].zxid);
        let mut zxids: BTreeSet<Zxid> = some.map(Zxid).collect();
        zxids.extend([Zxid(0), Zxid(self.plain.head() + 1)]);
        let found = self.reader.origins(&zxids, &OWNER).unwrap();
        assert_eq!(found.next, None);
        let found = found.results.into_iter().map(|origin| {
            let host = origin.client.split(':').next().unwrap().to_owned();
            (origin.zxid.0, (origin.identities[0].clone(), host))
        });
        let kept = changes.iter().filter(|change| {
            change.zxid > self.recorded_after && zxids.contains(&Zxid(change.zxid))
        });
        let known = kept.filter_map(|change| Some((change.zxid, change.by.clone()?)));
        let known: BTreeMap<i64, _> = known.collect();
        assert_eq!(found.collect::<BTreeMap<i64, _>>(), known);
    }

    fn blame(&mut self) {
        let path = self.path();
        let blame = self.reader.blame(&path, None, 1000, &OWNER).unwrap();
        let kept = |change: &&PlainChange| change.zxid > self.recorded_after;
        let last = |operations: &[Operation]| {
            let of = self.plain.changes.iter().rev().filter(kept);
            of.clone()
                .find(|change| change.path == path && operations.contains(&change.operation))
                .map(position_of)
        };
        let position = |found: &Option<zoarium_history::record::ExportedChange>| {
            found
                .as_ref()
                .map(|found| found.change.as_ref().unwrap().position())
        };
        let data = [Operation::Create, Operation::SetData];
        assert_eq!(position(&blame.created), last(&[Operation::Create]));
        assert_eq!(position(&blame.data), last(&data));
        assert_eq!(
            position(&blame.acl),
            last(&[Operation::Create, Operation::SetAcl])
        );
        let prefix = format!("{}/", path.trim_end_matches('/'));
        let now = self.plain.tree(self.plain.head()).keys();
        let is_child = |other: &&String| {
            let rest = other.strip_prefix(&prefix);
            rest.is_some_and(|rest| !rest.is_empty() && !rest.contains('/'))
        };
        let wanted: Vec<&str> = now
            .filter(is_child)
            .map(|path| &path[prefix.len()..])
            .collect();
        let mut found: Vec<&str> = blame
            .children
            .iter()
            .filter(|child| child.exists)
            .map(|child| child.name.as_str())
            .collect();
        found.sort_unstable();
        assert_eq!(found, wanted, "{path}");
        for child in &blame.children {
            let path = format!("{prefix}{}", child.name);
            let mut of = self.plain.changes.iter().rev().filter(kept);
            let last = of.find(|change| change.path == path);
            let last = last.map(position_of);
            assert_eq!(position(&child.last), last, "{path}");
        }
    }

    fn time(&mut self) {
        let changes = &self.plain.changes;
        let ms = changes[self.random.usize(..changes.len())].time_ms;
        let mut kept = changes
            .iter()
            .rev()
            .filter(|change| change.zxid > self.recorded_after);
        let Some(last) = kept.find(|change| change.time_ms <= ms) else {
            return;
        };
        let (head, head_ms) = *self.plain.times.last().unwrap();
        let wanted = if ms >= head_ms { head } else { last.zxid };
        match self.reader.zxid_at(Moment::Time(ms)) {
            Ok(found) => assert_eq!(found.0, wanted, "{ms}"),
            Err(HistoryError::NotKept { .. }) => assert!(wanted < self.known_from),
            Err(other) => panic!("{other}"),
        }
    }

    /// Checks that a feed from a change on, or from the first that is kept, returns all following
    /// changes once and in order.
    fn feed(&mut self) {
        let mut query = self.query();
        (query.since, query.until, query.newest_first) = (None, None, false);
        let changes = &self.plain.changes;
        let change = &changes[self.random.usize(..changes.len())];
        let first = Position::after(Zxid(self.recorded_after));
        let from = match self.random.u32(..3) {
            0 => first,
            1 => Position::after(Zxid(change.zxid)),
            _ => position_of(change),
        };
        if from < first {
            let refused = self.reader.feed(&query, from, &OWNER);
            assert!(matches!(refused, Err(HistoryError::NotKept { .. })));
            return;
        }
        let (mut after, mut found) = (from, Vec::new());
        loop {
            let page = self.reader.feed(&query, after, &OWNER).unwrap();
            assert!(page.position >= after, "it goes back");
            let changes = page.results.iter();
            found.extend(changes.map(|result| plain_change(result.change.as_ref().unwrap())));
            after = page.position;
            if !page.has_more {
                break;
            }
        }
        assert_eq!(after, Position::after(Zxid(self.plain.head())));
        let mut wanted = self.wanted(&query);
        wanted.retain(|change| position_of(change) > from);
        assert_eq!(found, wanted, "{query:?} from {from}");
    }

    /// Moments that are unknown.
    fn outside(&self) {
        let at = |zxid: i64| self.reader.znode_at("/", Moment::Zxid(Zxid(zxid)), &OWNER);
        assert!(matches!(
            at(self.plain.head() + 1),
            Err(HistoryError::Future { .. })
        ));
        assert!(matches!(
            at(self.known_from - 1),
            Err(HistoryError::NotKept { .. })
        ));
        let early = self.reader.zxid_at(Moment::Time(1));
        assert!(
            matches!(early, Err(HistoryError::TooEarly { .. })),
            "{early:?}"
        );
        for path in ["", "a", "/a/", "//"] {
            let bad = self
                .reader
                .znode_at(path, Moment::Zxid(Zxid(self.known_from)), &OWNER);
            assert!(matches!(bad, Err(HistoryError::BadPath { .. })), "{path}");
        }
    }
}
