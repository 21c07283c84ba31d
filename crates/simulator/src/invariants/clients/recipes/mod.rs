//! Invariants of the recipes: in commit order, no two contenders hold an exclusive grant, no
//! contender holds anything without a connection, and nothing remains at the end.
//!
//! Each report of a contender is compared with the history at that moment. A contender with a grant
//! has seen the deletion of its predecessor, so this deletion is committed. If the contender's own
//! znode is already deleted by then, the grant came too late. No lock can prevent this, but the
//! contender's writes fail.

mod kind;
mod seen;
mod tally;

use std::collections::BTreeMap;

use proto::Zxid;
use proto::txn::Txn;

use crate::history::{Entry, History, has_failed, parent_of};
use crate::invariants::CheckResult;
pub use kind::Recipe;
pub(crate) use seen::{Identifiers, Moment, Seen};
pub(crate) use tally::LeaseTime;
use tally::Tally;

pub(crate) const NAME: &str = "recipes keep their guarantees";

/// Number of leases of the semaphore.
pub(crate) const LEASES: usize = 2;
/// Number of members of the double barrier.
pub(crate) const MEMBERS: usize = 2;
/// Znode into which each holder writes the path of its own znode. The same transaction checks that
/// the holder's znode exists.
pub(crate) const FENCED: &str = "/fenced";

/// A grant of a contender.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Grant {
    pub(crate) recipe: Recipe,
    /// Path of the contender's znode, and the zxid that created it.
    pub(crate) path: String,
    pub(crate) token: i64,
}

/// Reports of the contenders so far, reduced to the facts that the checks need.
#[derive(Debug, Default)]
pub(crate) struct Recipes {
    /// Current grants by contender, as reported by the contenders.
    held: BTreeMap<usize, Vec<Grant>>,
    /// Grants whose znode is not known to be deleted, each with the number of its contender.
    granted: Vec<(usize, Grant)>,
    /// Latest token of an exclusive holder, for each directory.
    tokens: BTreeMap<String, i64>,
    tally: Tally,
    /// Number of checked entries of the history.
    looked_at: usize,
}

/// Position of a contender in its queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct QueuePosition {
    number: i32,
    is_shared: bool,
}

/// Returns the position in a znode name, in the format of Curator and kazoo.
fn place_of(name: &str) -> Option<QueuePosition> {
    let at = name.len().checked_sub(10)?;
    let number = name.get(at..)?.parse().ok()?;
    let is_shared = name.contains("__READ__") || name.contains("__rlock__");
    Some(QueuePosition { number, is_shared })
}

impl Grant {
    fn is_there(&self, history: &History) -> bool {
        let there = history.get(&self.path, history.end()).is_some();
        there && history.created_at(&self.path) == Some(Zxid(self.token))
    }

    fn is_shared(&self) -> bool {
        place_of(&self.path).is_some_and(|place| place.is_shared)
    }
}

impl Recipes {
    /// Checks a new grant of a contender.
    pub(crate) fn granted(&mut self, by: usize, grant: Grant, history: &History) -> CheckResult {
        self.held.entry(by).or_default().push(grant.clone());
        if !grant.is_there(history) {
            return Ok(());
        }
        self.granted.retain(|(_, other)| other.is_there(history));
        // Earlier grants of the same contender are ignored, because the znode of its last grant may
        // still exist.
        let others = self.granted.iter().filter(|(of, _)| *of != by);
        let others = others.map(|(_, other)| other);
        let others: Vec<&Grant> = others
            .filter(|other| parent_of(&other.path) == parent_of(&grant.path))
            .collect();
        let excludes = |other: &Grant| !(other.is_shared() && grant.is_shared());
        match grant.recipe {
            Recipe::Semaphore if others.len() >= LEASES => {
                return Err(format!("{grant:?} is granted together with {others:?}"));
            }
            Recipe::Semaphore => {}
            _ => {
                if let Some(other) = others.into_iter().find(|other| excludes(other)) {
                    return Err(format!("{grant:?} is granted, but {other:?} still exists"));
                }
                in_turn(&grant.path, history.end(), history)?;
            }
        }
        if grant.recipe != Recipe::Semaphore && !grant.is_shared() {
            let directory = parent_of(&grant.path).to_owned();
            let newest = self.tokens.entry(directory).or_insert(grant.token);
            if grant.token < *newest {
                return Err(format!(
                    "{grant:?} is granted after the higher token {newest:#x}"
                ));
            }
            *newest = grant.token;
        }
        self.granted.push((by, grant));
        Ok(())
    }

    /// Records that a contender no longer holds anything, because it has reported this or its
    /// process has ended.
    pub(crate) fn yielded(&mut self, by: usize) {
        self.held.remove(&by);
    }

    /// Returns the contenders that hold a grant.
    pub(crate) fn holders(&self) -> Vec<usize> {
        self.held.keys().copied().collect()
    }

    /// Checks that a disconnected contender holds nothing after running all its tasks.
    pub(crate) fn is_cut_off(&self, by: usize) -> CheckResult {
        match self.held.get(&by) {
            Some(grant) => Err(format!(
                "contender {by} is disconnected, but holds {grant:?}"
            )),
            None => Ok(()),
        }
    }

    /// Records that the queue has confirmed an item to its producer.
    pub(crate) fn put(&mut self, item: String, recipe: Recipe) {
        self.tally.put(item, recipe);
    }

    pub(crate) fn taken(&mut self, item: String) {
        self.tally.taken(item);
    }

    /// Checks that the queue confirms an item to a consumer only once.
    pub(crate) fn confirmed(&mut self, item: String) -> CheckResult {
        self.tally.confirmed(item)
    }

    /// Records a call that ended without a result, because it failed or because the process ended.
    pub(crate) fn unknown(&mut self, recipe: Recipe) {
        self.tally.unknown(recipe);
    }

    /// Records that a counter was incremented.
    pub(crate) fn incremented(&mut self) {
        self.tally.incremented();
    }

    /// Checks that no other contender has the lease at the same time.
    pub(crate) fn leased(&mut self, by: usize, lease: LeaseTime) -> CheckResult {
        self.tally.leased(by, lease)
    }

    /// Checks an observation that a contender began at `since`.
    pub(crate) fn seen(
        &self,
        seen: &Seen,
        since: Moment,
        now: Moment,
        history: &History,
    ) -> CheckResult {
        seen.judge(since, now, history)
    }

    /// Checks the transactions that were committed since the last call.
    pub(crate) fn committed(&mut self, history: &History) -> CheckResult {
        while let Some(entry) = history.entries.get(self.looked_at) {
            self.looked_at += 1;
            let held = judge(entry, history);
            held.map_err(|text| format!("{}: {text}", entry.zxid))?;
        }
        Ok(())
    }

    /// Checks the tree after all contenders and their sessions have ended.
    pub(crate) fn at_the_end(&self, history: &History) -> CheckResult {
        let mut left = history.paths().filter(|(_, node)| node.owner.0 != 0);
        if let Some((path, _)) = left.next() {
            return Err(format!("{path} was not deleted"));
        }
        self.tally.at_the_end(history)
    }
}

/// Checks a transaction of a contender.
fn judge(entry: &Entry, history: &History) -> CheckResult {
    let txn = &entry.txn.txn;
    let parts = match txn {
        _ if has_failed(txn) => &[],
        Txn::Multi(parts) => &parts[..],
        txn => std::slice::from_ref(txn),
    };
    for part in parts {
        if let Txn::Delete { path } = part
            && &**path == Recipe::UnfairElection.path()
        {
            own_is_deleted(path, entry, history)?;
        }
        let ready = format!("{}/{}", Recipe::DoubleBarrier.path(), seen::READY);
        if let Txn::Create(create) | Txn::CreateV0(create) | Txn::Create2(create) = part
            && *create.path == *ready
        {
            enough_have_entered(entry, history)?;
        }
        let Txn::SetData(set) = part else { continue };
        if &*set.path == FENCED {
            let path = String::from_utf8_lossy(set.data.as_deref().unwrap_or_default());
            if history.get(&path, entry.zxid).is_none() {
                return Err(format!("{path} was deleted, but its former holder writes"));
            }
            in_turn(&path, entry.zxid, history)?;
        }
    }
    Ok(())
}

/// Checks that a double barrier opens only after enough members have entered. Since the contender
/// that opens the barrier entered, there must have been a moment with enough members.
fn enough_have_entered(entry: &Entry, history: &History) -> CheckResult {
    let directory = Recipe::DoubleBarrier.path();
    let before = Zxid(entry.zxid.0 - 1);
    let opener = seen::members(directory, before, history)
        .find(|(_, node)| node.owner == entry.txn.header.session);
    let Some((name, _)) = opener else {
        return Ok(());
    };
    let since = history.created_before(&format!("{directory}/{name}"), before);
    let since = since.map_or(before, |since| Zxid(since.0 - 1));
    let mut moments = history.child_changes(directory, since, before);
    if moments.any(|at| seen::members(directory, at, history).count() >= MEMBERS) {
        return Ok(());
    }
    Err(format!("{directory} opens without {MEMBERS} members"))
}

/// Checks that only the leader deletes the leader's znode.
fn own_is_deleted(path: &str, entry: &Entry, history: &History) -> CheckResult {
    let session = entry.txn.header.session;
    let before = history.get(path, Zxid(entry.zxid.0 - 1));
    match before.map(|node| node.owner) {
        Some(owner) if owner != session => {
            let text =
                format!("session {session} deletes {path}, which session {owner} has created");
            Err(text)
        }
        _ => Ok(()),
    }
}

/// Checks that no other contender precedes this one in its directory. A later contender with a
/// lower number does not count, because it is a reader that was a writer or tried to become a
/// writer.
fn in_turn(path: &str, at: Zxid, history: &History) -> CheckResult {
    let (directory, name) = (parent_of(path), path.rsplit('/').next().unwrap_or_default());
    let Some(own) = place_of(name) else {
        // All contenders share one znode.
        return Ok(());
    };
    let since = |name: &str| history.created_before(&format!("{directory}/{name}"), at);
    let own_since = since(name);
    let is_ahead = |name: &&str| {
        let excludes =
            |other: QueuePosition| other.number < own.number && !(own.is_shared && other.is_shared);
        place_of(name).is_some_and(excludes) && since(name) < own_since
    };
    let mut others = history.children(directory, at).into_iter();
    match others.find(is_ahead) {
        Some(ahead) => Err(format!(
            "{path} holds the lock, but {ahead} precedes it in the queue"
        )),
        None => Ok(()),
    }
}
