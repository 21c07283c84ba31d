//! The checker of first ephemerals: until the first fault, a session that has just made a write
//! creates its ephemeral, and then sees it.
//!
//! | f | invoke | ok |
//! |---|---|---|
//! | `touch` | null | `{"session"}`: the session has made a write |
//! | `take` | null | `{"session"}`: the session has created its ephemeral |
//! | `look` | null | `{"session", "exists"}`: whether the session sees its ephemeral |

use std::collections::BTreeMap;

use serde_json::Value;

use crate::check::ops::{Op, Outcome, calls};
use crate::check::{Broken, Gathered};
use crate::history::{Event, Process};
use crate::verdict::Verdict;

/// Time after the begin of a write in which no session may expire. It is shorter than every session
/// timeout of the workload.
const ALIVE_NS: u64 = 1_000_000_000;

/// Judges a history.
pub fn check(events: &[Event]) -> Verdict {
    judge(events).unwrap_or_else(Verdict::from)
}

fn judge(events: &[Event]) -> Result<Verdict, Broken> {
    let mut gathered = Gathered::default();
    let first_fault = events
        .iter()
        .find(|event| matches!(event.process, Process::Other(_)));
    let first_fault = first_fault.map_or(u64::MAX, |event| event.index);
    let mut last: BTreeMap<u64, Op<'_>> = BTreeMap::new();
    for op in calls(events)? {
        gathered.count(op.f(), 1);
        let before = last.insert(op.process, op);
        let Some(end) = op.end.filter(|end| end.index < first_fault) else {
            continue;
        };
        let is_alive = |before: &Op<'_>| {
            before.outcome() == Outcome::Ok && end.time_ns - before.call.time_ns < ALIVE_NS
        };
        let Some(before) = before.filter(is_alive) else {
            continue;
        };
        gathered.count("judged", 1);
        let what = match (before.f(), op.f()) {
            ("touch", "take") if has_expired(end) => {
                "a session that was alive expired with its first ephemeral"
            }
            ("take", "look") if end.value["exists"] == Value::Bool(false) => {
                "the first ephemeral of a session does not exist"
            }
            _ => continue,
        };
        gathered.find(what, before.events().chain(op.events()));
    }
    Ok(gathered.verdict())
}

/// Returns whether the server replied that it does not know the session: `SessionExpired` of
/// KeeperException.
fn has_expired(end: &Event) -> bool {
    let error = end.error.as_deref().unwrap_or_default();
    error.contains("(-112)") || error.contains("has expired")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::check::testing::{History, assert_found, assert_valid};
    use crate::history::{Kind, Name};

    fn touched() -> History {
        let mut history = History::default();
        history.call(1, "touch", "", Value::Null, json!({"session": "s1"}));
        history
    }

    fn expired(mut history: History) -> History {
        history.invoke(1, "take", "", Value::Null);
        history.end(Kind::Info, 1, Value::Null);
        let end = history.events.last_mut().expect("an event");
        end.error = Some("create: SessionExpired (-112)".to_owned());
        history
    }

    #[test]
    fn a_live_session_that_expires_is_found() {
        assert_found(&check(&expired(touched()).events), "expired");
    }

    #[test]
    fn a_session_may_expire_after_its_time_or_after_a_fault() {
        let mut late = expired(touched());
        late.events[3].time_ns += ALIVE_NS;
        assert_valid(&check(&late.events));
        let mut faulty = expired(touched());
        faulty.events[0].process = Process::Other(Name::Nemesis);
        faulty.events[1].process = Process::Other(Name::Nemesis);
        assert_valid(&check(&faulty.events));
    }

    #[test]
    fn an_ephemeral_that_is_missing_is_found() {
        let mut history = touched();
        history.call(1, "take", "", Value::Null, json!({"session": "s1"}));
        let mut gone = history.clone();
        let seen = |exists| json!({"session": "s1", "exists": exists});
        history.call(1, "look", "", Value::Null, seen(true));
        assert_valid(&check(&history.events));
        gone.call(1, "look", "", Value::Null, seen(false));
        assert_found(&check(&gone.events), "does not exist");
    }
}
