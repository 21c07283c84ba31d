//! The checker of a hard quota of znodes.
//!
//! | f | invoke | ok |
//! |---|---|---|
//! | `add`, `remove` | the name | null |
//! | `read`, `final-read` | null | `{"names", "usage"}` at one moment: the existing names, and the counted usage |
//!
//! The usage is the number of names plus one for the directory. The leader compares the limit with
//! the state that it has applied, so it may accept one addition and all additions that are
//! concurrent with it. An addition with an unknown outcome may happen at any later time. An
//! acknowledged name exists until a client removes it, and a refused name never exists.
//!
//! Source: ZooKeeperServer.checkQuota.

use std::collections::{BTreeSet, HashMap};

use serde_json::Value;

use super::ops::{Op, Outcome, calls};
use super::{Broken, Gathered};
use crate::check::set::FINAL_READ;
use crate::history::Event;
use crate::verdict::Verdict;

/// The hard limit of znodes, including the directory.
pub const LIMIT: u64 = 20;

/// Judges a history.
pub fn check(events: &[Event]) -> Verdict {
    judge(events).unwrap_or_else(Verdict::from)
}

fn judge(events: &[Event]) -> Result<Verdict, Broken> {
    let mut gathered = Gathered::default();
    let (mut adds, mut removes): (HashMap<&str, Op<'_>>, Removes<'_>) = Default::default();
    let mut reads = Vec::new();
    let mut additions = Additions::default();
    for op in calls(events)? {
        let name = op.call.value.as_str();
        let by_outcome = match op.outcome() {
            Outcome::Ok => "",
            Outcome::Fail => "_refused",
            Outcome::Unknown => "_unknown",
        };
        gathered.count(&format!("{}{by_outcome}", op.f()), 1);
        match (op.f(), name) {
            ("add", Some(name)) => {
                additions.begins(&op);
                if adds.insert(name, op).is_some() {
                    return Err(op.broken(format!("znode {name} is added twice")));
                }
            }
            ("remove", Some(name)) => {
                if op.outcome() != Outcome::Fail {
                    removes.entry(name).or_default().push(op);
                }
            }
            ("read" | FINAL_READ, _) => reads.extend((op.outcome() == Outcome::Ok).then_some(op)),
            (other, _) => {
                let what = format!("the operation {other:?} is unknown, or its value is invalid");
                return Err(op.broken(what));
            }
        }
    }
    let mut expected = Expected::new(&adds, &removes);
    let mut greatest = 0;
    for op in &reads {
        let names = names(op)?;
        let usage = op.number("usage")?;
        let there = names.len() as u64 + 1;
        greatest = greatest.max(there);
        if u64::try_from(usage) != Ok(there) {
            let what = format!("the usage is {usage}, but the number of znodes is {there}");
            gathered.find(what, op.events());
        }
        let most = additions.most_before(op.last());
        if there > most {
            let what = format!(
                "the number of znodes is {there}, but with the limit {LIMIT} and all concurrent requests it \
                 can be at most {most}"
            );
            gathered.find(what, op.events());
        }
        for name in &names {
            let add: Option<&Op<'_>> = adds.get(name);
            if add.is_none_or(|add| add.outcome() == Outcome::Fail) {
                let what = format!("znode {name} exists, but was not added");
                gathered.find(what, op.events());
            }
            let mut removed = removes.get(name).into_iter().flatten();
            if let Some(remove) = removed.find(|remove| remove.last() < op.first()) {
                let what = format!("znode {name} exists, but was removed");
                gathered.find(what, remove.events().chain(op.events()));
            }
        }
        expected.missing(op, &names, &mut gathered);
    }
    gathered.count("greatest", greatest);
    Ok(gathered.verdict())
}

/// Additions that may exceed the limit together.
#[derive(Default)]
struct Additions {
    /// Ends of the acknowledged additions that are open.
    open: Vec<u64>,
    /// Maximum number of acknowledged additions that were open at the same time.
    at_once: usize,
    /// Begins of the additions with an unknown outcome.
    unknown: Vec<u64>,
}

impl Additions {
    /// Adds an addition. Additions must be passed in the order of their begins.
    fn begins(&mut self, add: &Op<'_>) {
        match add.outcome() {
            Outcome::Ok => {
                self.open.retain(|end| *end > add.first());
                self.open.push(add.last());
                self.at_once = self.at_once.max(self.open.len());
            }
            Outcome::Fail => {}
            Outcome::Unknown => self.unknown.push(add.first()),
        }
    }

    /// Returns the maximum number of znodes before the event with this index.
    fn most_before(&self, index: u64) -> u64 {
        let unknown = self.unknown.iter().filter(|begin| **begin < index);
        LIMIT + (self.at_once.saturating_sub(1) + unknown.count()) as u64
    }
}

/// Removals that happened, or may have happened.
type Removes<'a> = HashMap<&'a str, Vec<Op<'a>>>;

/// Names that must exist, from read to read.
struct Expected<'a> {
    /// Acknowledged additions, the latest first.
    added: Vec<(&'a str, Op<'a>)>,
    there: Vec<(&'a str, Op<'a>)>,
    removes: &'a Removes<'a>,
}

impl<'a> Expected<'a> {
    fn new(adds: &HashMap<&'a str, Op<'a>>, removes: &'a Removes<'a>) -> Expected<'a> {
        let added = adds.iter().map(|(name, add)| (*name, *add));
        let mut added: Vec<_> = added
            .filter(|(_, add)| add.outcome() == Outcome::Ok)
            .collect();
        added.sort_by_key(|(_, add)| std::cmp::Reverse(add.last()));
        Expected {
            added,
            there: Vec::new(),
            removes,
        }
    }

    /// Finds names that were added before a read and are missing. Reads must be passed in the order
    /// of their begins.
    fn missing(&mut self, read: &Op<'_>, names: &BTreeSet<&str>, gathered: &mut Gathered) {
        while let Some(next) = self.added.pop_if(|(_, add)| add.last() < read.first()) {
            self.there.push(next);
        }
        let removes = self.removes;
        let begun_before = |name: &str, index: u64| {
            let removes = removes.get(name).into_iter().flatten();
            removes.into_iter().any(|remove| remove.first() < index)
        };
        self.there
            .retain(|(name, _)| !begun_before(name, read.first()));
        for (name, add) in &self.there {
            if !names.contains(name) && !begun_before(name, read.last()) {
                let what = format!("znode {name} was added, but does not exist");
                gathered.find(what, add.events().chain(read.events()));
            }
        }
    }
}

fn names<'a>(op: &Op<'a>) -> Result<BTreeSet<&'a str>, Broken> {
    let list = op.answer().and_then(|answer| answer["names"].as_array());
    let list = list.ok_or_else(|| op.broken("the reply of a read does not contain names"))?;
    Ok(list.iter().filter_map(Value::as_str).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::testing::{History, assert_found, assert_valid};
    use crate::history::Kind;
    use serde_json::json;

    fn read(names: &[&str], usage: i64) -> Value {
        json!({"names": names, "usage": usage})
    }

    fn good() -> History {
        let mut history = History::default();
        history.call(1, "add", "", json!("a"), Value::Null);
        history.call(1, "add", "", json!("b"), Value::Null);
        history.invoke(2, "add", "", json!("c"));
        history.end(Kind::Fail, 2, Value::Null);
        history.call(1, "remove", "", json!("a"), Value::Null);
        history.call(2, "read", "", Value::Null, read(&["b"], 2));
        history
    }

    fn shown(names: &[&str], usage: i64) -> Verdict {
        let mut history = good();
        history.events[9].value = read(names, usage);
        check(&history.events)
    }

    #[test]
    fn what_is_there_is_what_is_counted() {
        let verdict = check(&good().events);
        assert_valid(&verdict);
        assert_eq!(
            (verdict.figures["greatest"], verdict.figures["add_refused"]),
            (2, 1)
        );
    }

    #[test]
    fn a_wrong_usage_is_found() {
        assert_found(
            &shown(&["b"], 3),
            "the usage is 3, but the number of znodes is 2",
        );
    }

    #[test]
    fn names_that_came_back_or_were_lost_or_refused_are_found() {
        assert_found(&shown(&["a", "b"], 3), "znode a exists, but was removed");
        assert_found(&shown(&["b", "c"], 3), "znode c exists, but was not added");
        assert_found(&shown(&[], 1), "znode b was added, but does not exist");
    }

    const AT_MOST_20: &str = "the number of znodes is 21, but with the limit 20 and all concurrent \
                              requests it can be at most 20";

    /// Returns a history after which one more addition reaches the limit. The directory counts.
    fn almost_full() -> History {
        let mut history = History::default();
        for number in 2..LIMIT {
            history.call(1, "add", "", json!(number.to_string()), Value::Null);
        }
        history
    }

    /// Adds a read of all names that were added.
    fn read_all(history: &mut History) {
        let adds = history
            .events
            .iter()
            .filter(|event| event.kind == Kind::Invoke);
        let names: Vec<Value> = adds.map(|add| add.value.clone()).collect();
        let answer = json!({"usage": names.len() + 1, "names": names});
        history.call(3, "read", "", Value::Null, answer);
    }

    #[test]
    fn one_client_cannot_exceed_the_limit() {
        let mut history = almost_full();
        history.call(1, "add", "", json!("last"), Value::Null);
        let mut full = history.clone();
        read_all(&mut full);
        assert_valid(&check(&full.events));
        history.call(1, "add", "", json!("more"), Value::Null);
        read_all(&mut history);
        assert_found(&check(&history.events), AT_MOST_20);
    }

    #[test]
    fn concurrent_additions_may_exceed_the_limit() {
        let mut history = almost_full();
        history.invoke(1, "add", "", json!("last"));
        history.invoke(2, "add", "", json!("more"));
        history.end(Kind::Ok, 1, Value::Null);
        history.end(Kind::Ok, 2, Value::Null);
        read_all(&mut history);
        assert_valid(&check(&history.events));
    }

    #[test]
    fn an_unknown_addition_exceeds_the_limit_only_after_its_begin() {
        let mut history = almost_full();
        history.invoke(2, "add", "", json!("unknown"));
        history.end(Kind::Info, 2, Value::Null);
        history.call(1, "add", "", json!("last"), Value::Null);
        read_all(&mut history);
        assert_valid(&check(&history.events));

        let mut history = almost_full();
        history.call(1, "add", "", json!("last"), Value::Null);
        history.call(1, "add", "", json!("more"), Value::Null);
        read_all(&mut history);
        history.invoke(2, "add", "", json!("unknown"));
        assert_found(&check(&history.events), AT_MOST_20);
    }
}
