//! The checker of member lists: each list is based on the previous one, and no read shows an older
//! list after a newer one.
//!
//! | f | invoke | ok |
//! |---|---|---|
//! | `change` | `{"from", "member", "votes"}` | `{"version", "members"}` of the new list |
//! | `read`, `final-read` | null | `{"version", "members"}` of the current list; it is a fresh read |
//!
//! `members` contains for each id whether it votes. A change names the version on which it is based
//! (`from`). Only one of two changes with one base succeeds.
//!
//! Source: ZOOKEEPER-107; ReconfigCommand.

use std::collections::{BTreeMap, HashMap};

use serde_json::Value;

use super::ops::{Op, Outcome, calls};
use super::{Broken, Gathered};
use crate::check::set::FINAL_READ;
use crate::history::Event;
use crate::verdict::Verdict;

/// Judges a history.
pub fn check(events: &[Event]) -> Verdict {
    judge(events).unwrap_or_else(Verdict::from)
}

fn judge(events: &[Event]) -> Result<Verdict, Broken> {
    let mut gathered = Gathered::default();
    // The list of each version, and the call that first showed it.
    let mut lists: BTreeMap<i64, (&Value, Op<'_>)> = BTreeMap::new();
    let mut changes: Vec<(i64, i64, Op<'_>)> = Vec::new();
    let mut done: Vec<(i64, Op<'_>)> = Vec::new();
    for op in calls(events)? {
        if !matches!(op.f(), "read" | "change" | FINAL_READ) {
            return Err(op.broken(format!("unknown operation {:?}", op.f())));
        }
        let Some(answer) = op.answer().filter(|_| op.outcome() == Outcome::Ok) else {
            gathered.count("refused_or_unknown", 1);
            continue;
        };
        gathered.count(op.f(), 1);
        let version = op.number("version")?;
        let (members, by) = *lists.entry(version).or_insert((&answer["members"], op));
        if *members != answer["members"] {
            let what = format!("two different member lists have version {version:#x}");
            gathered.find(what, by.events().chain(op.events()));
        }
        if op.f() == "change" {
            let from = op.call.value["from"].as_i64();
            let from = from.ok_or_else(|| {
                op.broken("the change does not name the version on which it is based")
            })?;
            changes.push((from, version, op));
        }
        done.push((version, op));
    }
    gathered.count("lists", lists.len() as u64);
    judge_changes(&lists, &changes, &mut gathered);
    stale(&done, &mut gathered);
    Ok(gathered.verdict())
}

fn judge_changes(
    lists: &BTreeMap<i64, (&Value, Op<'_>)>,
    changes: &[(i64, i64, Op<'_>)],
    gathered: &mut Gathered,
) {
    let mut made: HashMap<i64, Op<'_>> = HashMap::new();
    for &(from, version, op) in changes {
        if let Some(other) = made.insert(from, op) {
            let what = format!("two changes are based on version {from:#x}");
            gathered.find(what, other.events().chain(op.events()));
        }
        if version <= from {
            let what = format!(
                "a change of version {from:#x} created version {version:#x}, which is not newer"
            );
            gathered.find(what, op.events());
        }
        if let Some((between, (_, by))) = lists.range(from + 1..version.max(from + 1)).next() {
            let what = format!(
                "a change of version {from:#x} created version {version:#x}, but version {between:#x} \
                 existed between them"
            );
            gathered.find(what, by.events().chain(op.events()));
        }
        let Some((before, by)) = lists.get(&from) else {
            continue;
        };
        let mut expected = (*before).clone();
        let member = op.call.value["member"].as_str().unwrap_or_default();
        expected[member] = op.call.value["votes"].clone();
        if op
            .answer()
            .is_some_and(|answer| answer["members"] != expected)
        {
            let what =
                format!("a change of member {member} created a list that differs from {expected}");
            gathered.find(what, by.events().chain(op.events()));
        }
    }
}

/// Finds calls that show a list older than a list that was shown before they began.
fn stale(done: &[(i64, Op<'_>)], gathered: &mut Gathered) {
    let mut by_end: Vec<_> = done.iter().collect();
    by_end.sort_by_key(|(_, op)| op.last());
    let mut by_end = by_end.into_iter().peekable();
    let mut newest: Option<&(i64, Op<'_>)> = None;
    for (version, op) in done {
        while let Some(next) = by_end.next_if(|(_, other)| other.last() < op.first()) {
            if newest.is_none_or(|(newest, _)| *newest < next.0) {
                newest = Some(next);
            }
        }
        if let Some((before, other)) = newest
            && version < before
        {
            let what = format!(
                "a {} returned version {version:#x} although an earlier {} returned {before:#x}",
                op.f(),
                other.f()
            );
            gathered.find(what, other.events().chain(op.events()));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::testing::{History, assert_found, assert_valid};
    use serde_json::json;

    fn list(version: i64, votes: [bool; 3]) -> Value {
        let [one, two, three] = votes;
        json!({"version": version, "members": {"1": one, "2": two, "3": three}})
    }

    fn good() -> History {
        let mut history = History::default();
        history.call(1, "read", "", Value::Null, list(0, [true, true, true]));
        let change = json!({"from": 0, "member": "2", "votes": false});
        history.invoke(2, "change", "", change);
        history.call(1, "read", "", Value::Null, list(0, [true, true, true]));
        history.end(crate::history::Kind::Ok, 2, list(20, [true, false, true]));
        let change = json!({"from": 20, "member": "2", "votes": true});
        history.call(2, "change", "", change, list(31, [true, true, true]));
        history.call(1, "read", "", Value::Null, list(31, [true, true, true]));
        history
    }

    #[test]
    fn lists_follow_each_other() {
        let verdict = check(&good().events);
        assert_valid(&verdict);
        assert_eq!(
            (verdict.figures["change"], verdict.figures["lists"]),
            (2, 3)
        );
    }

    #[test]
    fn a_list_of_old_is_found() {
        let mut history = good();
        history.events[9].value = list(20, [true, false, true]);
        assert_found(
            &check(&history.events),
            "a read returned version 0x14 although an earlier change",
        );
    }

    #[test]
    fn two_lists_of_one_version_are_found() {
        let mut history = good();
        history.events[9].value = list(31, [true, true, false]);
        assert_found(
            &check(&history.events),
            "two different member lists have version 0x1f",
        );
    }

    #[test]
    fn two_changes_of_one_version_are_found() {
        let mut history = good();
        history.events[6].value["from"] = json!(0);
        let verdict = check(&history.events);
        assert_found(&verdict, "two changes are based on version 0x0");
        assert_found(&verdict, "version 0x14 existed between them");
    }

    #[test]
    fn a_change_that_makes_another_list_is_found() {
        let mut history = good();
        history.events[5].value = list(20, [false, false, true]);
        assert_found(
            &check(&history.events),
            "a change of member 2 created a list that differs",
        );
        history.events[5].value = list(0, [true, true, true]);
        assert_found(&check(&history.events), "created version 0x0");
    }
}
