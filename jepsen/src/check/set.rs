//! The checker of sets: every read contains the elements that were acknowledged before it began.
//!
//! | f | invoke | ok |
//! |---|---|---|
//! | `add` | element, a whole number | null |
//! | `read`, `final-read`, `peek` | null | list of elements |
//!
//! Reads must be of a kind that ZooKeeper guarantees to be fresh. A peek may be stale, but it shows
//! only committed elements. An element is *known* after its
//! add is acknowledged or after a read has shown it. Elements are never removed.

use std::collections::{BTreeMap, BTreeSet};

use super::ops::{Op, Outcome, by_key, calls};
use super::{Broken, Gathered};
use crate::history::Event;
use crate::verdict::Verdict;

/// The operation that reads after all members serve again.
pub const FINAL_READ: &str = "final-read";
/// The operation that may show an older state.
pub const PEEK: &str = "peek";

struct Element<'a> {
    add: Op<'a>,
    /// Index after which every read must show it.
    known: u64,
}

struct Read<'a> {
    op: Op<'a>,
    shown: BTreeSet<i64>,
}

/// Judges a history, in which every key is a separate set.
pub fn check(events: &[Event]) -> Verdict {
    judge(events).unwrap_or_else(Verdict::from)
}

fn judge(events: &[Event]) -> Result<Verdict, Broken> {
    let mut gathered = Gathered::default();
    for (key, ops) in by_key(calls(events)?) {
        judge_one(key, ops, &mut gathered)?;
    }
    Ok(gathered.verdict())
}

fn judge_one(key: &str, ops: Vec<Op<'_>>, gathered: &mut Gathered) -> Result<(), Broken> {
    let mut elements: BTreeMap<i64, Element<'_>> = BTreeMap::new();
    let mut reads = Vec::new();
    for op in ops {
        match op.f() {
            "add" => {
                let number = op.call.value.as_i64();
                let number =
                    number.ok_or_else(|| op.broken("the value of an add is not a number"))?;
                let known = match op.outcome() {
                    Outcome::Ok => op.last(),
                    Outcome::Fail | Outcome::Unknown => u64::MAX,
                };
                let element = Element { add: op, known };
                if elements.insert(number, element).is_some() {
                    return Err(op.broken(format!("element {number} is added twice")));
                }
            }
            "read" | FINAL_READ | PEEK => reads.extend(read(op)?),
            other => return Err(op.broken(format!("unknown operation {other:?}"))),
        }
    }
    for read in &reads {
        unexpected(read, &elements, gathered);
        for number in &read.shown {
            if let Some(element) = elements.get_mut(number) {
                element.known = element.known.min(read.op.last());
            }
        }
    }
    count(&elements, &reads, gathered);
    missing(&elements, &reads, gathered);
    if !reads.iter().any(|read| read.op.f() == FINAL_READ) {
        gathered.doubt(
            format!("the history does not contain a final read of set {key:?}"),
            [],
        );
    }
    Ok(())
}

fn read(op: Op<'_>) -> Result<Option<Read<'_>>, Broken> {
    let Some(answer) = op.answer() else {
        return Ok(None);
    };
    let list = answer.as_array();
    let list = list.ok_or_else(|| op.broken("the reply of a read is not a list"))?;
    let numbers = list.iter().map(|element| {
        let number = element.as_i64();
        number.ok_or_else(|| op.broken(format!("{element} is not the number of an element")))
    });
    let shown = numbers.collect::<Result<BTreeSet<i64>, Broken>>()?;
    Ok(Some(Read { op, shown }))
}

/// Finds shown elements that were never added, not yet added, or refused.
fn unexpected(read: &Read<'_>, elements: &BTreeMap<i64, Element<'_>>, gathered: &mut Gathered) {
    for number in &read.shown {
        let (what, add) = match elements.get(number) {
            None => ("was never added", None),
            Some(element) if element.add.first() > read.op.last() => {
                ("was added only later", Some(element.add))
            }
            Some(element) if element.add.outcome() == Outcome::Fail => {
                ("was refused", Some(element.add))
            }
            Some(_) => continue,
        };
        gathered.count("unexpected", 1);
        let events = read.op.events();
        let events = events.chain(add.into_iter().flat_map(|add| add.events()));
        gathered.find(format!("a read shows {number}, which {what}"), events);
    }
}

fn missing(elements: &BTreeMap<i64, Element<'_>>, reads: &[Read<'_>], gathered: &mut Gathered) {
    let last = reads.iter().rfind(|read| read.op.f() == FINAL_READ);
    for (number, element) in elements {
        let owing = |read: &&Read<'_>| read.op.first() > element.known && read.op.f() != PEEK;
        let mut without = reads
            .iter()
            .filter(owing)
            .filter(|read| !read.shown.contains(number));
        let Some(first) = without.next() else {
            continue;
        };
        let is_lost = last.is_some_and(|last| !last.shown.contains(number) && owing(&last));
        let (figure, what) = if is_lost {
            ("lost", "and so does the final read: it is lost")
        } else {
            ("stale", "so this read is stale")
        };
        gathered.count(figure, 1);
        let events = element.add.events().chain([element.known]);
        gathered.find(
            format!("{number} was acknowledged or read, but a later read lacks it, {what}"),
            events.chain(first.op.events()),
        );
    }
}

fn count(elements: &BTreeMap<i64, Element<'_>>, reads: &[Read<'_>], gathered: &mut Gathered) {
    for figure in ["acknowledged", "lost", "stale", "unexpected", "recovered"] {
        gathered.count(figure, 0);
    }
    gathered.count("added", elements.len() as u64);
    gathered.count("reads", reads.len() as u64);
    for element in elements.values() {
        match element.add.outcome() {
            Outcome::Ok => gathered.count("acknowledged", 1),
            Outcome::Fail => gathered.count("refused", 1),
            Outcome::Unknown if element.known != u64::MAX => gathered.count("recovered", 1),
            Outcome::Unknown => gathered.count("unknown", 1),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::testing::{History, assert_found, assert_valid};
    use crate::history::Kind;
    use crate::verdict::Validity;
    use serde_json::{Value, json};

    /// Returns a good history: 1 and 2 are added, 3 is unknown and visible, 4 is unknown and not
    /// visible, and 5 is refused.
    fn good() -> History {
        let mut history = History::default();
        for number in 1..=5 {
            history.invoke(number, "add", "", json!(number));
        }
        history.end(Kind::Ok, 1, Value::Null);
        history.end(Kind::Ok, 2, Value::Null);
        history.end(Kind::Info, 3, Value::Null);
        history.end(Kind::Info, 4, Value::Null);
        history.end(Kind::Fail, 5, Value::Null);
        history.call(6, "read", "", Value::Null, json!([1, 2]));
        history.call(6, FINAL_READ, "", Value::Null, json!([3, 1, 2]));
        history
    }

    #[test]
    fn unknown_adds_may_be_there_or_not() {
        let verdict = check(&good().events);
        assert_valid(&verdict);
        let figure = |name: &str| verdict.figures[name];
        assert_eq!((figure("acknowledged"), figure("recovered")), (2, 1));
        assert_eq!((figure("unknown"), figure("refused")), (1, 1));
    }

    #[test]
    fn a_lost_element_is_found() {
        let mut history = good();
        history.events[13].value = json!([1]);
        let verdict = check(&history.events);
        assert_found(
            &verdict,
            "2 was acknowledged or read, but a later read lacks it, and so does the final read",
        );
        assert_eq!(verdict.figures["lost"], 1);
        assert_eq!(verdict.findings[0].events, [1, 6, 12, 13]);
    }

    #[test]
    fn a_stale_read_is_found() {
        let mut history = good();
        history.events[11].value = json!([2]);
        let verdict = check(&history.events);
        assert_found(&verdict, "stale");
        assert_eq!((verdict.figures["lost"], verdict.figures["stale"]), (0, 1));
    }

    #[test]
    fn an_unknown_add_that_was_read_must_stay() {
        let mut history = good();
        history.events[11].value = json!([1, 2, 4]);
        assert_found(&check(&history.events), "4 was acknowledged or read");
    }

    #[test]
    fn what_was_not_added_is_found() {
        let mut history = good();
        history.events[13].value = json!([1, 2, 3, 5, 9]);
        let verdict = check(&history.events);
        assert_found(&verdict, "a read shows 5, which was refused");
        assert_found(&verdict, "a read shows 9, which was never added");
        let mut history = good();
        history.call(7, "add", "", json!(8), Value::Null);
        history.events[11].value = json!([1, 2, 8]);
        assert_found(
            &check(&history.events),
            "a read shows 8, which was added only later",
        );
    }

    #[test]
    fn without_a_final_read_nobody_knows() {
        let mut history = good();
        history.events.truncate(12);
        assert_eq!(check(&history.events).validity, Validity::Unknown);
    }

    #[test]
    fn a_read_that_is_no_list_is_named() {
        let mut history = good();
        history.events[13].value = json!({"1": 2});
        let verdict = check(&history.events);
        assert_eq!(verdict.validity, Validity::Unknown);
        assert!(verdict.findings[0].what.contains("event 13"));
    }
}
