//! The checkers of locks and queues.
//!
//! A lock ([`lock`]):
//!
//! | f | invoke | ok |
//! |---|---|---|
//! | `use` | the token of the lock that is held | `{"zxid"}` of the guarded write |
//!
//! A guarded write is one multi with a check that the lock is held. In the order of the zxids, the
//! tokens must never fall: no holder writes after a later holder has written.
//!
//! A queue ([`queue`]):
//!
//! | f | invoke | ok |
//! |---|---|---|
//! | `put` | item, a whole number | null |
//! | `take` | item | null |
//! | `final-read` | null | items that are left |
//!
//! Each item must be taken exactly once or be left at the end.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use serde_json::Value;

use super::ops::{Op, Outcome, calls};
use super::set::FINAL_READ;
use super::{Broken, Gathered};
use crate::history::Event;
use crate::verdict::Verdict;

/// Judges a history of a lock.
pub fn lock(events: &[Event]) -> Verdict {
    judge_lock(events).unwrap_or_else(Verdict::from)
}

fn judge_lock(events: &[Event]) -> Result<Verdict, Broken> {
    let mut gathered = Gathered::default();
    let mut uses: BTreeMap<i64, (i64, Op<'_>)> = BTreeMap::new();
    let mut holders: HashMap<i64, Op<'_>> = HashMap::new();
    for op in calls(events)? {
        let token = op.call.value.as_i64().filter(|_| op.f() == "use");
        let token =
            token.ok_or_else(|| op.broken("the call is not a use of a lock with a token"))?;
        if op.outcome() != Outcome::Ok {
            gathered.count("refused_or_unknown", 1);
            continue;
        }
        gathered.count("used", 1);
        let holder = *holders.entry(token).or_insert(op);
        if holder.process != op.process {
            let what = format!(
                "processes {} and {} both use the lock with token {token:#x}",
                holder.process, op.process
            );
            gathered.find(what, holder.events().chain(op.events()));
        }
        let zxid = op.number("zxid")?;
        if let Some((_, other)) = uses.insert(zxid, (token, op)) {
            let what = format!("two guarded writes have zxid {zxid:#x}");
            gathered.find(what, other.events().chain(op.events()));
        }
    }
    gathered.count("holders", holders.len() as u64);
    let mut greatest: Option<&(i64, Op<'_>)> = None;
    for (zxid, used) in &uses {
        match greatest.filter(|(token, _)| *token > used.0) {
            Some((token, other)) => {
                let what = format!(
                    "token {:#x} wrote at zxid {zxid:#x}, after the later token {token:#x} had written",
                    used.0
                );
                gathered.find(what, other.events().chain(used.1.events()));
            }
            None => greatest = Some(used),
        }
    }
    Ok(gathered.verdict())
}

/// Judges a history of a queue.
pub fn queue(events: &[Event]) -> Verdict {
    judge_queue(events).unwrap_or_else(Verdict::from)
}

fn judge_queue(events: &[Event]) -> Result<Verdict, Broken> {
    let mut gathered = Gathered::default();
    let mut puts: BTreeMap<i64, Op<'_>> = BTreeMap::new();
    let mut takes: HashMap<i64, Vec<Op<'_>>> = HashMap::new();
    let mut end: Option<(Op<'_>, BTreeSet<i64>)> = None;
    for op in calls(events)? {
        let item = op.call.value.as_i64();
        match (op.f(), item) {
            ("put", Some(item)) => {
                if puts.insert(item, op).is_some() {
                    return Err(op.broken(format!("item {item} is put twice")));
                }
            }
            ("take", Some(item)) if op.outcome() != Outcome::Fail => {
                takes.entry(item).or_default().push(op);
            }
            ("take", Some(_)) => gathered.count("refused", 1),
            (FINAL_READ, _) => {
                if let Some(list) = op.answer() {
                    end = Some((op, items(&op, list)?));
                }
            }
            (other, _) => {
                return Err(op.broken(format!(
                    "the operation {other:?} is unknown, or its value is invalid"
                )));
            }
        }
    }
    for (item, takers) in &takes {
        let sure = takers.iter().filter(|take| take.outcome() == Outcome::Ok);
        let sure: Vec<&Op<'_>> = sure.collect();
        gathered.count("taken", sure.len() as u64);
        if sure.len() > 1 {
            let what = format!("item {item} was taken {} times", sure.len());
            gathered.find(what, sure.iter().flat_map(|take| take.events()));
        }
        let put = puts.get(item);
        let was_put = |put: &&Op<'_>| put.outcome() != Outcome::Fail;
        if let (Some(first), None) = (sure.first(), put.filter(was_put)) {
            gathered.find(
                format!("item {item} was taken, but never put"),
                first.events(),
            );
        }
    }
    match &end {
        None => gathered.doubt("the history does not contain a final read", []),
        Some((read, left)) => at_the_end(read, left, &puts, &takes, &mut gathered),
    }
    Ok(gathered.verdict())
}

fn items(op: &Op<'_>, list: &Value) -> Result<BTreeSet<i64>, Broken> {
    let list = list.as_array();
    let list = list.ok_or_else(|| op.broken("the reply of a read is not a list"))?;
    let numbers = list.iter().map(|item| {
        let number = item.as_i64();
        number.ok_or_else(|| op.broken(format!("{item} is not the number of an item")))
    });
    numbers.collect()
}

fn at_the_end(
    read: &Op<'_>,
    left: &BTreeSet<i64>,
    puts: &BTreeMap<i64, Op<'_>>,
    takes: &HashMap<i64, Vec<Op<'_>>>,
    gathered: &mut Gathered,
) {
    gathered.count("left", left.len() as u64);
    gathered.count("lost", 0);
    for (item, put) in puts {
        let takers = takes.get(item);
        if put.outcome() == Outcome::Ok && !left.contains(item) && takers.is_none() {
            gathered.count("lost", 1);
            let what = format!("item {item} was put, but was neither taken nor left in the queue");
            gathered.find(what, put.events().chain(read.events()));
        }
    }
    for item in left {
        let put = puts.get(item);
        if put.is_none_or(|put| put.outcome() == Outcome::Fail) {
            gathered.find(
                format!("item {item} is left in the queue, but was never put"),
                read.events(),
            );
        }
        let taken = takes.get(item).into_iter().flatten();
        for take in taken.filter(|take| take.last() < read.first()) {
            let what = format!("item {item} is left in the queue, but was taken");
            gathered.find(what, take.events().chain(read.events()));
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

    fn locked() -> History {
        let mut history = History::default();
        history.call(1, "use", "", json!(10), json!({"zxid": 11}));
        history.call(1, "use", "", json!(10), json!({"zxid": 12}));
        history.call(2, "use", "", json!(13), json!({"zxid": 15}));
        history.invoke(1, "use", "", json!(10));
        history.end(Kind::Fail, 1, Value::Null);
        history
    }

    #[test]
    fn holders_follow_each_other() {
        let verdict = lock(&locked().events);
        assert_valid(&verdict);
        assert_eq!(
            (verdict.figures["used"], verdict.figures["holders"]),
            (3, 2)
        );
    }

    #[test]
    fn a_write_of_a_holder_of_old_is_found() {
        let mut history = locked();
        history.call(1, "use", "", json!(10), json!({"zxid": 17}));
        assert_found(
            &lock(&history.events),
            "token 0xa wrote at zxid 0x11, after the later token 0xd",
        );
    }

    #[test]
    fn two_holders_of_one_token_are_found() {
        let mut history = locked();
        history.events[4].value = json!(10);
        assert_found(&lock(&history.events), "processes 1 and 2 both");
    }

    fn queued() -> History {
        let mut history = History::default();
        for item in 1..=5 {
            history.call(1, "put", "", json!(item), Value::Null);
        }
        history.call(2, "take", "", json!(1), Value::Null);
        history.invoke(3, "take", "", json!(2));
        history.end(Kind::Info, 3, Value::Null);
        history.invoke(2, "take", "", json!(3));
        history.end(Kind::Fail, 2, Value::Null);
        history.call(4, "take", "", json!(3), Value::Null);
        history.call(4, FINAL_READ, "", Value::Null, json!([4, 5]));
        history
    }

    #[test]
    fn an_item_is_taken_left_or_unknown() {
        let verdict = queue(&queued().events);
        assert_valid(&verdict);
        assert_eq!((verdict.figures["taken"], verdict.figures["left"]), (2, 2));
    }

    #[test]
    fn an_item_taken_twice_is_found() {
        let mut history = queued();
        history.events[15].kind = Kind::Ok;
        assert_found(&queue(&history.events), "item 3 was taken 2 times");
    }

    #[test]
    fn a_lost_item_is_found() {
        let mut history = queued();
        history.events[19].value = json!([5]);
        let verdict = queue(&history.events);
        assert_found(&verdict, "item 4 was put, but was neither taken nor left");
        assert_eq!(verdict.figures["lost"], 1);
    }

    #[test]
    fn an_item_that_came_back_or_from_nowhere_is_found() {
        let mut history = queued();
        history.events[19].value = json!([1, 4, 5, 9]);
        let verdict = queue(&history.events);
        assert_found(&verdict, "item 1 is left in the queue, but was taken");
        assert_found(&verdict, "item 9 is left in the queue, but was never put");
        history.call(4, "take", "", json!(8), Value::Null);
        assert_found(&queue(&history.events), "item 8 was taken, but never put");
    }

    #[test]
    fn without_a_final_read_nobody_knows() {
        let mut history = queued();
        history.events.truncate(18);
        assert_eq!(queue(&history.events).validity, Validity::Unknown);
    }
}
