//! The checker of watches: a session receives the event of a change before it reads the change, and
//! once.
//!
//! | f | invoke | ok |
//! |---|---|---|
//! | `write` | null | `{"version", "zxid"}` |
//! | `read` | null | `{"session", "by", "version", "zxid"}`, and the events that had arrived before the answer |
//!
//! `by` is the kind of the session's watches. A standard watch (`once`) was set by an earlier read
//! at the version `watched`, and `told` is whether it has fired. A read without these two fields
//! sets the watch. A `persistent` or `recursive` watch delivers `events`: the zxids of all changes
//! of this key since the previous read. `missed` means that events may be missing, because the
//! connection was lost.
//!
//! Source: ZooKeeper Programmer's Guide, What ZooKeeper Guarantees about Watches.

use std::collections::HashMap;

use serde_json::Value;

use super::ops::{Op, Outcome, calls};
use super::{Broken, Gathered};
use crate::history::Event;
use crate::verdict::Verdict;

/// Zxid of an event without its transaction, from servers before 3.9.
const NOT_SAID: i64 = -1;

/// Judges a history.
pub fn check(events: &[Event]) -> Verdict {
    judge(events).unwrap_or_else(Verdict::from)
}

fn judge(events: &[Event]) -> Result<Verdict, Broken> {
    let mut gathered = Gathered::default();
    let mut before: HashMap<(&str, &str), Op<'_>> = HashMap::new();
    for op in calls(events)? {
        match op.f() {
            "read" => {}
            "write" => {
                gathered.count("writes", u64::from(op.outcome() == Outcome::Ok));
                continue;
            }
            other => return Err(op.broken(format!("unknown operation {other:?}"))),
        }
        let Some(answer) = op.answer() else {
            // The events that it received are lost with its answer.
            gathered.count("refused_or_unknown", 1);
            before.retain(|(_, key), earlier| *key != op.key() || !follows(earlier, &op));
            continue;
        };
        if answer["by"].is_null() {
            continue;
        }
        let by = op.text("by")?;
        gathered.count(by, 1);
        if by == "once" {
            once(&op, answer, &mut gathered)?;
            continue;
        }
        if let Some(earlier) = before.insert((op.text("session")?, op.key()), op) {
            stream(&earlier, &op, answer, &mut gathered)?;
        }
    }
    Ok(gathered.verdict())
}

/// Returns whether the read could be the next of this client.
fn follows(earlier: &Op<'_>, lost: &Op<'_>) -> bool {
    earlier.process == lost.process
}

fn once(op: &Op<'_>, answer: &Value, gathered: &mut Gathered) -> Result<(), Broken> {
    let (Some(watched), Some(told)) = (answer["watched"].as_i64(), answer["told"].as_bool()) else {
        return Ok(());
    };
    let version = op.number("version")?;
    gathered.count("told", u64::from(told));
    if version > watched && !told {
        let what = format!(
            "a read shows version {version} of {}, but the watch, set at version {watched}, has not \
             fired",
            op.key()
        );
        gathered.find(what, op.events());
    }
    if version <= watched && told {
        let what = format!(
            "a watch of {}, set at version {watched}, has fired, but a read then shows version {version}",
            op.key()
        );
        gathered.find(what, op.events());
    }
    Ok(())
}

fn stream(
    earlier: &Op<'_>,
    op: &Op<'_>,
    answer: &Value,
    gathered: &mut Gathered,
) -> Result<(), Broken> {
    let told = answer["events"].as_array();
    let told =
        told.ok_or_else(|| op.broken("the reply of a read does not contain a list of events"))?;
    let told: Vec<i64> = told.iter().filter_map(Value::as_i64).collect();
    if answer["missed"] == Value::Bool(true) {
        gathered.count("reads_after_reconnects", 1);
        return Ok(());
    }
    gathered.count("told", told.len() as u64);
    let (from, to) = (earlier.number("version")?, op.number("version")?);
    let shown = earlier.events().chain(op.events());
    let (by, key) = (op.text("by")?, op.key());
    if i64::try_from(told.len()) != Ok(to - from) {
        let what = format!(
            "{key} had version {from} and then {to}, but the number of events of the {by} watch is {}",
            told.len()
        );
        gathered.find(what, shown);
        return Ok(());
    }
    if told.contains(&NOT_SAID) {
        return Ok(());
    }
    let is_ascending = told.is_sorted_by(|one, next| one < next);
    let (first, last) = (earlier.number("zxid")?, op.number("zxid")?);
    let is_between = told.iter().all(|&zxid| zxid > first && zxid <= last);
    if !(is_ascending && is_between && told.last().is_none_or(|&zxid| zxid == last)) {
        let what = format!(
            "{key} had zxid {first:#x} and then {last:#x}, but the {by} watch had events at {told:x?}"
        );
        gathered.find(what, shown);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::testing::{History, assert_found, assert_valid};
    use crate::history::Kind;
    use serde_json::json;

    fn read(version: i64, zxid: i64, watch: Value) -> Value {
        let mut answer = watch;
        answer["session"] = json!("s");
        answer["version"] = json!(version);
        answer["zxid"] = json!(zxid);
        answer
    }

    fn told(events: Value) -> Value {
        json!({"by": "recursive", "events": events, "missed": false})
    }

    fn good() -> History {
        let mut history = History::default();
        let unset = json!({"by": "once"});
        let quiet = json!({"by": "once", "watched": 1, "told": false});
        let fired = json!({"by": "once", "watched": 1, "told": true});
        history.call(1, "read", "a", Value::Null, read(1, 10, unset));
        history.call(1, "read", "a", Value::Null, read(1, 10, quiet));
        history.call(
            3,
            "write",
            "a",
            Value::Null,
            json!({"version": 2, "zxid": 12}),
        );
        history.call(1, "read", "a", Value::Null, read(2, 12, fired));
        // A stream.
        history.call(2, "read", "b", Value::Null, read(1, 10, told(json!([]))));
        history.call(
            2,
            "read",
            "b",
            Value::Null,
            read(3, 15, told(json!([13, 15]))),
        );
        let missed = json!({"by": "recursive", "events": [], "missed": true});
        history.call(2, "read", "b", Value::Null, read(6, 20, missed));
        history.call(2, "read", "b", Value::Null, read(7, 21, told(json!([21]))));
        history
    }

    #[test]
    fn what_is_read_was_told() {
        let verdict = check(&good().events);
        assert_valid(&verdict);
        assert_eq!((verdict.figures["told"], verdict.figures["once"]), (4, 3));
    }

    #[test]
    fn a_watch_that_was_not_told_is_found() {
        let mut history = good();
        history.events[7].value["told"] = json!(false);
        assert_found(&check(&history.events), "set at version 1, has not fired");
    }

    #[test]
    fn a_watch_that_was_told_without_a_change_is_found() {
        let mut history = good();
        history.events[3].value["told"] = json!(true);
        assert_found(
            &check(&history.events),
            "has fired, but a read then shows version 1",
        );
    }

    #[test]
    fn an_event_that_is_lost_or_comes_twice_or_late_is_found() {
        for (events, words) in [
            (json!([15]), "the recursive watch is 1"),
            (json!([13, 13, 15]), "the recursive watch is 3"),
            (json!([13, 13]), "had events at [d, d]"),
            (json!([15, 13]), "had events at [f, d]"),
            (json!([9, 15]), "had events at [9, f]"),
            (json!([13, 16]), "had events at [d, 10]"),
        ] {
            let mut history = good();
            history.events[11].value["events"] = events;
            assert_found(&check(&history.events), words);
        }
    }

    #[test]
    fn behind_a_reconnect_events_count_again() {
        let mut history = good();
        history.events[15].value["events"] = json!([]);
        assert_found(&check(&history.events), "the recursive watch is 0");
    }

    #[test]
    fn what_a_lost_answer_would_have_told_is_not_missed() {
        let mut history = good();
        history.events[11].kind = Kind::Fail;
        history.events[13].value["missed"] = json!(false);
        assert_valid(&check(&history.events));
    }
}
