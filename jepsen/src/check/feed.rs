//! The checker of change feeds: each change arrives once, in order, and none is left out.
//!
//! | f | invoke | ok |
//! |---|---|---|
//! | `write` | the paths | `{"zxid", "paths"}` |
//! | `follow`, `final-follow` | `{"after"}`: the feed begins after this zxid | `[zxid, index, path]` of each change since the previous call; the key is the feed's name |
//!
//! Between its begin and its last change, a feed must contain every change that was acknowledged or
//! that another feed contains. A final feed must contain all of them up to the end.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::ops::{Op, Outcome, calls};
use super::{Broken, Gathered};
use crate::history::Event;
use crate::verdict::Verdict;

/// The operation of a feed that is followed until it contains the last write.
pub const FINAL_FOLLOW: &str = "final-follow";

/// Position of a change: zxid and index.
type At = (i64, u64);

/// Judges a history.
pub fn check(events: &[Event]) -> Verdict {
    judge(events).unwrap_or_else(Verdict::from)
}

#[derive(Default)]
struct Feed<'a> {
    after: i64,
    is_final: bool,
    changes: Vec<(At, &'a str, Op<'a>)>,
    last: Option<Op<'a>>,
}

fn judge(events: &[Event]) -> Result<Verdict, Broken> {
    let mut gathered = Gathered::default();
    let mut feeds: BTreeMap<&str, Feed<'_>> = BTreeMap::new();
    let mut writes: BTreeMap<i64, (Vec<&str>, Op<'_>)> = BTreeMap::new();
    for op in calls(events)? {
        if op.outcome() != Outcome::Ok {
            gathered.count("refused_or_unknown", 1);
            continue;
        }
        match op.f() {
            "write" => {
                let paths = op.answer().and_then(|answer| answer["paths"].as_array());
                let paths = paths
                    .ok_or_else(|| op.broken("the reply of a write does not contain paths"))?;
                let mut paths: Vec<_> = paths.iter().filter_map(Value::as_str).collect();
                paths.sort_unstable();
                gathered.count("writes", 1);
                writes.insert(op.number("zxid")?, (paths, op));
            }
            "follow" | FINAL_FOLLOW => {
                let feed = feeds.entry(op.key()).or_default();
                feed.after = op.call.value["after"].as_i64().unwrap_or_default();
                feed.is_final |= op.f() == FINAL_FOLLOW;
                feed.last = Some(op);
                let list = op.answer().and_then(Value::as_array);
                for change in list.into_iter().flatten() {
                    let (at, path) = one(change).ok_or_else(|| {
                        op.broken("the feed contains a value that is not a change")
                    })?;
                    feed.changes.push((at, path, op));
                }
            }
            other => return Err(op.broken(format!("unknown operation {other:?}"))),
        }
    }
    let replaced: Vec<&str> = feeds
        .keys()
        .copied()
        .filter(|name| is_replaced(name, &feeds))
        .collect();
    for name in replaced {
        if let Some(feed) = feeds.get_mut(name) {
            feed.is_final = false;
        }
    }
    let mut known: BTreeMap<At, (&str, &str, Op<'_>)> = BTreeMap::new();
    for (name, feed) in &feeds {
        gathered.count("changes", feed.changes.len() as u64);
        in_order(name, feed, &mut gathered);
        for (at, path, op) in &feed.changes {
            let (first, by, other) = *known.entry(*at).or_insert((path, name, *op));
            if first != *path {
                let text = format!(
                    "change {at:x?} has path {first} in feed {by}, but {path} in feed {name}"
                );
                gathered.find(text, other.events().chain(op.events()));
            }
        }
    }
    for (name, feed) in &feeds {
        whole(name, feed, &known, &writes, &mut gathered);
    }
    gathered.count("feeds", feeds.len() as u64);
    if !feeds.values().any(|feed| feed.is_final) {
        gathered.doubt("no feed was followed to the end", []);
    }
    Ok(gathered.verdict())
}

/// Returns whether the client has replaced this feed after a report of missing changes. Such
/// a feed ends with its last change.
fn is_replaced(name: &str, feeds: &BTreeMap<&str, Feed<'_>>) -> bool {
    let next = name.rsplit_once('-').and_then(|(client, number)| {
        let number = number.parse::<u64>().ok()?;
        Some(format!("{client}-{}", number + 1))
    });
    next.is_some_and(|next| feeds.contains_key(next.as_str()))
}

fn one(change: &Value) -> Option<(At, &str)> {
    let at = (change.get(0)?.as_i64()?, change.get(1)?.as_u64()?);
    Some((at, change.get(2)?.as_str()?))
}

fn in_order(name: &str, feed: &Feed<'_>, gathered: &mut Gathered) {
    for (before, next) in feed.changes.iter().zip(feed.changes.iter().skip(1)) {
        if before.0 >= next.0 {
            let text = format!("feed {name} has change {:x?} after {:x?}", next.0, before.0);
            gathered.find(text, before.2.events().chain(next.2.events()));
        }
    }
}

/// Checks that a feed does not leave out any change between its begin and its end.
fn whole(
    name: &str,
    feed: &Feed<'_>,
    known: &BTreeMap<At, (&str, &str, Op<'_>)>,
    writes: &BTreeMap<i64, (Vec<&str>, Op<'_>)>,
    gathered: &mut Gathered,
) {
    let Some(last) = feed.last else {
        return;
    };
    let has: BTreeSet<At> = feed.changes.iter().map(|(at, _, _)| *at).collect();
    let end = match (feed.is_final, has.last()) {
        (true, _) => (i64::MAX, u64::MAX),
        (false, Some(end)) => *end,
        (false, None) => return,
    };
    for (at, (path, by, op)) in known.range((feed.after + 1, 0)..=end) {
        if !has.contains(at) {
            let text = format!("feed {name} lacks change {at:x?} of {path}, which feed {by} has");
            gathered.find(text, op.events().chain(last.events()));
        }
    }
    let mut by_zxid: BTreeMap<i64, Vec<&str>> = BTreeMap::new();
    for ((zxid, _), path, _) in &feed.changes {
        by_zxid.entry(*zxid).or_default().push(path);
    }
    // The last transaction may be incomplete.
    let whole_to = if feed.is_final { end.0 } else { end.0 - 1 };
    if whole_to <= feed.after {
        return;
    }
    for (zxid, (paths, op)) in writes.range(feed.after + 1..=whole_to) {
        let mut got = by_zxid.remove(zxid).unwrap_or_default();
        got.sort_unstable();
        if got != *paths {
            let text = format!(
                "feed {name} reports {got:?} for the write with zxid {zxid:#x}, which changed {paths:?}"
            );
            gathered.find(text, op.events().chain(last.events()));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::testing::{History, assert_found, assert_valid};
    use crate::history::Kind;
    use crate::verdict::Validity;
    use serde_json::json;

    fn good() -> History {
        let mut history = History::default();
        let one = json!({"zxid": 10, "paths": ["/a"]});
        let two = json!({"zxid": 12, "paths": ["/b", "/a"]});
        history.call(1, "write", "", Value::Null, one);
        history.call(1, "write", "", Value::Null, two);
        history.invoke(3, "write", "", Value::Null);
        history.end(Kind::Info, 3, Value::Null);
        let after = json!({"after": 0});
        history.call(2, "follow", "f", after.clone(), json!([[10, 0, "/a"]]));
        history.call(
            2,
            "follow",
            "f",
            after.clone(),
            json!([[12, 0, "/b"], [12, 1, "/a"]]),
        );
        let all = json!([[10, 0, "/a"], [12, 0, "/b"], [12, 1, "/a"], [13, 0, "/c"]]);
        history.call(9, FINAL_FOLLOW, "g", after, all);
        history
    }

    fn changed(at: usize, changes: Value) -> Verdict {
        let mut history = good();
        history.events[at].value = changes;
        check(&history.events)
    }

    #[test]
    fn a_feed_has_each_change_once() {
        let verdict = check(&good().events);
        assert_valid(&verdict);
        assert_eq!(
            (verdict.figures["changes"], verdict.figures["feeds"]),
            (7, 2)
        );
    }

    /// A member told the client that it has lost the changes before zxid 13.
    #[test]
    fn a_feed_that_is_replaced_ends_with_its_last_change() {
        let mut history = good();
        let (before, after) = (json!({"after": 0}), json!({"after": 12}));
        history.call(
            8,
            FINAL_FOLLOW,
            "h-0",
            before.clone(),
            json!([[10, 0, "/a"]]),
        );
        assert_found(
            &check(&history.events),
            "feed h-0 lacks change (c, 0) of /b, which feed f has",
        );
        history.call(8, FINAL_FOLLOW, "h-1", after, json!([[13, 0, "/c"]]));
        assert_valid(&check(&history.events));
    }

    #[test]
    fn a_change_that_comes_twice_or_late_is_found() {
        let twice = json!([[10, 0, "/a"], [12, 0, "/b"], [12, 1, "/a"]]);
        assert_found(&changed(9, twice), "feed f has change (a, 0) after (a, 0)");
        let late = json!([[12, 1, "/a"], [12, 0, "/b"]]);
        assert_found(&changed(9, late), "feed f has change (c, 0) after (c, 1)");
    }

    #[test]
    fn a_change_that_is_left_out_is_found() {
        let verdict = changed(7, json!([]));
        assert_found(
            &verdict,
            "feed f lacks change (a, 0) of /a, which feed g has",
        );
        assert_found(&verdict, "feed f reports [] for the write with zxid 0xa");
        let half = json!([[10, 0, "/a"], [12, 0, "/b"]]);
        assert_found(
            &changed(11, half),
            "feed g reports [\"/b\"] for the write with zxid 0xc",
        );
    }

    #[test]
    fn a_feed_that_was_told_of_a_gap_begins_behind_it() {
        let mut history = good();
        history.events[7].value = json!([]);
        for event in &mut history.events[6..10] {
            if event.kind == Kind::Invoke {
                event.value = json!({"after": 10});
            }
        }
        assert_valid(&check(&history.events));
    }

    #[test]
    fn feeds_that_differ_are_found() {
        let other = json!([[12, 0, "/c"], [12, 1, "/a"]]);
        assert_found(
            &changed(9, other),
            "change (c, 0) has path /c in feed f, but /b in feed g",
        );
    }

    #[test]
    fn without_a_feed_to_the_end_nobody_knows() {
        let mut history = good();
        history.events.truncate(10);
        assert_eq!(check(&history.events).validity, Validity::Unknown);
    }
}
