//! The checker of fresh reads: a read shows everything that was acknowledged or read before it
//! began.
//!
//! | f | invoke | ok |
//! |---|---|---|
//! | `write` | anything | the new version |
//! | `read`, `final-read` | null | the version that it shows |

use serde_json::Value;

use super::ops::{Op, Outcome, by_key, calls};
use super::set::FINAL_READ;
use super::{Broken, Gathered};
use crate::history::Event;
use crate::verdict::Verdict;

/// Judges a history, in which every key is a separate znode.
pub fn check(events: &[Event]) -> Verdict {
    judge(events).unwrap_or_else(Verdict::from)
}

fn judge(events: &[Event]) -> Result<Verdict, Broken> {
    let mut gathered = Gathered::default();
    for (key, ops) in by_key(calls(events)?) {
        let mut done = Vec::new();
        for op in ops {
            if !matches!(op.f(), "read" | "write" | FINAL_READ) {
                return Err(op.broken(format!("unknown operation {:?}", op.f())));
            }
            if op.outcome() == Outcome::Ok {
                let version = op.answer().and_then(Value::as_i64);
                let version =
                    version.ok_or_else(|| op.broken("the reply does not contain a version"))?;
                gathered.count(op.f(), 1);
                done.push((op, version));
            }
        }
        stale(key, &done, &mut gathered);
    }
    Ok(gathered.verdict())
}

/// Finds calls that show an older version than a call that ended before they began. A write shows
/// its new version, which must be newer.
fn stale(key: &str, done: &[(Op<'_>, i64)], gathered: &mut Gathered) {
    let mut by_end: Vec<&(Op<'_>, i64)> = done.iter().collect();
    by_end.sort_by_key(|(op, _)| op.last());
    let mut by_end = by_end.into_iter().peekable();
    let mut newest: Option<&(Op<'_>, i64)> = None;
    for (op, version) in done {
        while let Some(next) = by_end.next_if(|(other, _)| other.last() < op.first()) {
            if newest.is_none_or(|(_, newest)| *newest < next.1) {
                newest = Some(next);
            }
        }
        let Some((other, before)) = newest else {
            continue;
        };
        let is_stale = match op.f() {
            "write" => version <= before,
            _ => version < before,
        };
        if is_stale {
            gathered.count("stale", 1);
            let what = format!(
                "{key}: a {} returned version {version} although an earlier {} returned {before}",
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
    use crate::history::Kind;
    use serde_json::json;

    fn good() -> History {
        let mut history = History::default();
        history.call(1, "write", "z", Value::Null, json!(1));
        history.invoke(1, "write", "z", Value::Null);
        history.call(2, "read", "z", Value::Null, json!(1));
        history.end(Kind::Ok, 1, json!(2));
        history.call(2, "read", "z", Value::Null, json!(2));
        history
    }

    #[test]
    fn a_read_may_miss_what_is_open() {
        assert_valid(&check(&good().events));
    }

    #[test]
    fn a_stale_read_is_found() {
        let mut history = good();
        history.events[7].value = json!(1);
        let verdict = check(&history.events);
        assert_found(
            &verdict,
            "a read returned version 1 although an earlier write returned 2",
        );
        assert_eq!(verdict.findings[0].events, [2, 5, 6, 7]);
    }

    #[test]
    fn what_one_reads_all_read() {
        let mut history = good();
        history.events[4].value = json!(2);
        assert_valid(&check(&history.events));
        history.events[5].kind = Kind::Info;
        history.events[7].value = json!(1);
        assert_found(
            &check(&history.events),
            "although an earlier read returned 2",
        );
    }

    #[test]
    fn two_writes_of_one_version_are_found() {
        let mut history = good();
        history.events[5].value = json!(1);
        assert_found(&check(&history.events), "a write returned version 1");
    }
}
