//! The checker of unique ids: no two acknowledged calls get equal ids, and later calls get greater
//! ones.
//!
//! | f | invoke | ok |
//! |---|---|---|
//! | `take` | null | the id, a whole number |

use std::collections::HashMap;

use super::ops::{Op, calls};
use super::{Broken, Gathered};
use crate::history::Event;
use crate::verdict::Verdict;

/// Judges a history, in which every key is a separate counter.
pub fn check(events: &[Event]) -> Verdict {
    judge(events).unwrap_or_else(Verdict::from)
}

fn judge(events: &[Event]) -> Result<Verdict, Broken> {
    let mut gathered = Gathered::default();
    let mut taken: HashMap<&str, Vec<(Op<'_>, i64)>> = HashMap::new();
    for op in calls(events)? {
        if op.f() != "take" {
            return Err(op.broken(format!("unknown operation {:?}", op.f())));
        }
        if let Some(answer) = op.answer() {
            let id = answer.as_i64();
            let id = id.ok_or_else(|| op.broken(format!("{answer} is not a whole number")))?;
            taken.entry(op.key()).or_default().push((op, id));
        } else {
            gathered.count("unknown_or_refused", 1);
        }
    }
    gathered.count("duplicates", 0);
    for ids in taken.values() {
        gathered.count("acknowledged", ids.len() as u64);
        twice(ids, &mut gathered);
        backwards(ids, &mut gathered);
    }
    Ok(gathered.verdict())
}

fn twice(ids: &[(Op<'_>, i64)], gathered: &mut Gathered) {
    let mut owners: HashMap<i64, &Op<'_>> = HashMap::new();
    for (op, id) in ids {
        if let Some(other) = owners.insert(*id, op) {
            gathered.count("duplicates", 1);
            let what = format!(
                "id {id} was assigned to process {} and to process {}",
                other.process, op.process
            );
            gathered.find(what, other.events().chain(op.events()));
        }
    }
}

/// Finds ids that do not exceed all ids that were assigned before their call began.
fn backwards(ids: &[(Op<'_>, i64)], gathered: &mut Gathered) {
    let mut by_end: Vec<&(Op<'_>, i64)> = ids.iter().collect();
    by_end.sort_by_key(|(op, _)| op.last());
    let mut by_end = by_end.into_iter().peekable();
    let mut greatest: Option<&(Op<'_>, i64)> = None;
    for (op, id) in ids {
        while let Some(next) = by_end.next_if(|(other, _)| other.last() < op.first()) {
            if greatest.is_none_or(|(_, greatest)| *greatest < next.1) {
                greatest = Some(next);
            }
        }
        if let Some((other, before)) = greatest.filter(|(_, greatest)| greatest > id) {
            let what = format!("id {id} was assigned after the greater id {before}");
            gathered.find(what, other.events().chain(op.events()));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::testing::{History, assert_found, assert_valid};
    use crate::history::Kind;
    use serde_json::{Value, json};

    fn good() -> History {
        let mut history = History::default();
        history.invoke(1, "take", "", Value::Null);
        history.call(2, "take", "", Value::Null, json!(2));
        history.end(Kind::Ok, 1, json!(1));
        history.invoke(3, "take", "", Value::Null);
        history.end(Kind::Info, 3, Value::Null);
        history.call(2, "take", "", Value::Null, json!(4));
        history
    }

    #[test]
    fn calls_at_the_same_time_have_no_order() {
        let verdict = check(&good().events);
        assert_valid(&verdict);
        assert_eq!(verdict.figures["acknowledged"], 3);
    }

    #[test]
    fn an_id_given_twice_is_found() {
        let mut history = good();
        history.events[3].value = json!(2);
        assert_found(
            &check(&history.events),
            "id 2 was assigned to process 1 and to process 2",
        );
    }

    #[test]
    fn ids_that_are_swapped_are_found() {
        let mut history = good();
        history.events[2].value = json!(4);
        history.events[7].value = json!(2);
        assert_found(
            &check(&history.events),
            "id 2 was assigned after the greater id 4",
        );
    }
}
