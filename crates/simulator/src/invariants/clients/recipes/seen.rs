//! Observations of contenders. Each observation must have been true at some time since its
//! beginning.

use std::collections::BTreeSet;

use bytes::Bytes;
use proto::{SessionId, Zxid};

use super::{Recipe, place_of};
use crate::history::{History, NodeState};
use crate::invariants::CheckResult;

/// Name of the znode of a double barrier that lets its members enter.
pub(super) const READY: &str = "ready";

/// A moment of the run. A contender whose observation begins at a moment waits until its server
/// knows all transactions up to this moment.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Moment {
    pub(crate) zxid: Zxid,
    /// Wall-clock time, in ms since 1970.
    pub(crate) wall_ms: i64,
}

/// Observation of a contender.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Seen {
    /// The znode at this path does not exist.
    Missing(String),
    /// All members of the double barrier that do not belong to this session have left.
    Alone { session: SessionId },
    /// The znode exists with this data and, unless it may outlive its session, with this owner.
    Present {
        path: String,
        data: Bytes,
        owner: Option<SessionId>,
    },
    /// The members of a pool or of a group.
    Members {
        directory: String,
        ids: Vec<String>,
        identifiers: Identifiers,
    },
    /// The id of the leader, or `None` without a leader.
    Leader(Option<String>),
    /// The taken item is the first free item of its queue.
    First { recipe: Recipe, path: String },
}

/// Place of the identifiers of members.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Identifiers {
    /// The names of the znodes.
    Names,
    /// The data of the znodes.
    Data,
    /// The parts of the names after 32 digits and a hyphen.
    Endings,
}

impl Identifiers {
    fn of(self, name: &str, node: &NodeState) -> Option<String> {
        match self {
            Self::Names => Some(name.to_owned()),
            Self::Data if name.contains("__party__") => {
                let data = node.data.as_deref().unwrap_or_default();
                Some(String::from_utf8_lossy(data).into_owned())
            }
            Self::Data => None,
            Self::Endings => name.get(33..).map(str::to_owned),
        }
    }
}

impl Seen {
    /// Checks an observation that a contender began at `since`.
    pub(super) fn judge(&self, since: Moment, now: Moment, history: &History) -> CheckResult {
        let from = since.zxid;
        let is_true = match self {
            Self::Missing(path) => {
                let mut moments = changes(path, from, history);
                moments.any(|at| history.get(path, at).is_none())
            }
            Self::Alone { session } => {
                let directory = Recipe::DoubleBarrier.path();
                let others = members(directory, from, history);
                let others = others.filter(|(_, node)| node.owner != *session);
                let others: BTreeSet<&str> = others.map(|(name, _)| name).collect();
                let mut moments = child_changes(directory, from, history);
                moments.any(|at| {
                    let mut now = members(directory, at, history);
                    now.all(|(name, _)| !others.contains(name))
                })
            }
            Self::Present { path, data, owner } => {
                let mut moments = changes(path, from, history);
                moments.any(|at| {
                    history.get(path, at).is_some_and(|node| {
                        let is_owned = owner.is_none_or(|owner| node.owner == owner);
                        is_owned && node.data.as_ref() == Some(data)
                    })
                })
            }
            Self::Members {
                directory,
                ids,
                identifiers,
            } => return are_members(directory, ids, *identifiers, from, history),
            Self::Leader(id) => {
                let directory = Recipe::Election.path();
                let mut moments = child_changes(directory, from, history);
                moments.any(|at| leader(directory, at, history) == *id)
            }
            Self::First { recipe, path } => return is_first(*recipe, path, since, now, history),
        };
        if is_true {
            Ok(())
        } else {
            Err(format!("{self:?} was never true since {from}"))
        }
    }
}

/// Returns `from`, and each later moment at which the znode has changed.
fn changes(path: &str, from: Zxid, history: &History) -> impl Iterator<Item = Zxid> {
    std::iter::once(from).chain(history.changes(path, from, history.end()))
}

/// Returns `from`, and each later moment at which a child was created or deleted.
fn child_changes(path: &str, from: Zxid, history: &History) -> impl Iterator<Item = Zxid> {
    std::iter::once(from).chain(history.child_changes(path, from, history.end()))
}

/// Returns the children of a directory except the znode that opens a double barrier.
pub(super) fn members<'a>(
    directory: &'a str,
    at: Zxid,
    history: &'a History,
) -> impl Iterator<Item = (&'a str, &'a NodeState)> {
    let names = history.children(directory, at).into_iter();
    let names = names.filter(|name| *name != READY);
    names.filter_map(move |name| {
        let node = history.get(&format!("{directory}/{name}"), at)?;
        Some((name, node))
    })
}

fn leader(directory: &str, at: Zxid, history: &History) -> Option<String> {
    let candidates = members(directory, at, history);
    let numbered = candidates.filter_map(|(name, node)| Some((place_of(name)?.number, node)));
    let (_, first) = numbered.min_by_key(|(number, _)| *number)?;
    let id = first.data.as_deref().unwrap_or_default();
    Some(String::from_utf8_lossy(id).into_owned())
}

/// Checks that each listed member existed at some time since `from`, and that each member that
/// existed all this time is listed.
fn are_members(
    directory: &str,
    ids: &[String],
    identifiers: Identifiers,
    from: Zxid,
    history: &History,
) -> CheckResult {
    let mut known = BTreeSet::new();
    for at in child_changes(directory, from, history) {
        let found = members(directory, at, history);
        known.extend(found.filter_map(|(name, node)| identifiers.of(name, node)));
    }
    if let Some(unknown) = ids.iter().find(|id| !known.contains(*id)) {
        return Err(format!(
            "{unknown} is listed, but was no member of {directory} since {from}"
        ));
    }
    let stays = |name: &str| {
        let path = format!("{directory}/{name}");
        history.end_between(&path, from, history.end()).is_none()
    };
    let mut lasting = members(directory, from, history)
        .filter(|(name, _)| stays(name))
        .filter_map(|(name, node)| identifiers.of(name, node));
    match lasting.find(|id| !ids.contains(id)) {
        Some(id) => Err(format!(
            "{id} is a member of {directory} since {from}, but not listed"
        )),
        None => Ok(()),
    }
}

/// Order of an item in its queue: its priority or due time, and its number.
type Order = (i64, i64);

fn order_of(recipe: Recipe, name: &str) -> Option<Order> {
    let at = name.len().checked_sub(10)?;
    let number = name.get(at..)?.parse().ok()?;
    let label = name.get(..at)?;
    let first = match recipe {
        Recipe::PriorityQueue => {
            let digits = label.get("queue-0".len()..)?;
            let bits = u32::from_str_radix(digits, 16).ok()?;
            i64::from(bits.cast_signed())
        }
        Recipe::LockingQueue => label
            .strip_prefix("entry-")?
            .strip_suffix('-')?
            .parse()
            .ok()?,
        Recipe::DelayQueue => {
            let digits = label.strip_prefix("queue-|")?.strip_suffix('|')?;
            i64::from_str_radix(digits, 16).ok()?
        }
        _ => 0,
    };
    Some((first, number))
}

/// Checks that the taken item was due, and that no earlier item was free during the whole
/// observation.
fn is_first(
    recipe: Recipe,
    path: &str,
    since: Moment,
    now: Moment,
    history: &History,
) -> CheckResult {
    let (Some((items, locks)), Some((_, name))) = (recipe.items(), path.rsplit_once('/')) else {
        return Err(format!("{path} is not an item of a queue"));
    };
    let Some(taken) = order_of(recipe, name) else {
        return Err(format!("{path} is not an item of {recipe:?}"));
    };
    let (from, end) = (since.zxid, history.end());
    let has_due_time = recipe == Recipe::DelayQueue;
    if has_due_time && taken.0 > now.wall_ms {
        return Err(format!(
            "{path} is taken at {}, before it is due",
            now.wall_ms
        ));
    }
    let is_free = |name: &str| {
        let (item, lock) = (format!("{items}/{name}"), format!("{locks}/{name}"));
        history.end_between(&item, from, end).is_none()
            && history.get(&lock, from).is_none()
            && history.changes(&lock, from, end).next().is_none()
    };
    let is_ahead = |name: &&str| {
        let order = order_of(recipe, name);
        let is_ahead = order.is_some_and(|(due_ms, number)| {
            (due_ms, number) < taken && (!has_due_time || due_ms <= since.wall_ms)
        });
        is_ahead && is_free(name)
    };
    match history.children(items, from).into_iter().find(is_ahead) {
        Some(ahead) => Err(format!(
            "{path} is taken, but {ahead} was free all the time"
        )),
        None => Ok(()),
    }
}
