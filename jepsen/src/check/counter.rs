//! The checker of counters: no acknowledged addition is lost, and none is applied twice.
//!
//! | f | invoke | ok |
//! |---|---|---|
//! | `add` | the addend | the sum afterwards |
//! | `read`, `final-read` | null | the sum |
//!
//! The lower bound of a sum contains the additions that were certain when the read began. The upper
//! bound contains the additions that were possible when it ended. If all additions are positive,
//! the sums in their answers must also grow with time.

use super::ops::{Op, Outcome, calls};
use super::set::FINAL_READ;
use super::{Broken, Gathered};
use crate::history::Event;
use crate::verdict::Verdict;

/// Judges a history of a counter that begins with `start`.
pub fn check(start: i64, events: &[Event]) -> Verdict {
    judge(start, events).unwrap_or_else(Verdict::from)
}

fn judge(start: i64, events: &[Event]) -> Result<Verdict, Broken> {
    let mut gathered = Gathered::default();
    let mut bounds = Bounds::new(start);
    let mut reads = Vec::new();
    let mut additions = Vec::new();
    for op in calls(events)? {
        match op.f() {
            "add" => {
                let by = op.call.value.as_i64();
                let by = by.ok_or_else(|| op.broken("the value of an addition is not a number"))?;
                bounds.add(&op, by);
                if op.outcome() == Outcome::Ok {
                    additions.push((op, sum(&op)?, by));
                }
            }
            "read" | FINAL_READ if op.outcome() == Outcome::Ok => reads.push((op, sum(&op)?)),
            "read" | FINAL_READ => {}
            other => return Err(op.broken(format!("unknown operation {other:?}"))),
        }
    }
    bounds.seal();
    gathered.count("acknowledged", additions.len() as u64);
    gathered.count("reads", reads.len() as u64);
    for (op, sum) in &reads {
        within(&bounds, op, *sum, "reads", &mut gathered);
    }
    for (op, sum, _) in &additions {
        within(&bounds, op, *sum, "reaches", &mut gathered);
    }
    if additions.iter().all(|(_, _, by)| *by > 0) {
        in_order(&additions, &mut gathered);
    }
    if !reads.iter().any(|(op, _)| op.f() == FINAL_READ) {
        gathered.doubt("the history does not contain a final read", []);
    }
    Ok(gathered.verdict())
}

fn sum(op: &Op<'_>) -> Result<i64, Broken> {
    let sum = op.answer().and_then(serde_json::Value::as_i64);
    sum.ok_or_else(|| op.broken("the sum in the reply is not a whole number"))
}

/// Lower and upper bound of the sum at each moment.
pub(super) struct Bounds {
    /// Changes of the lower bound, with their indexes.
    least: Changes,
    /// Changes of the upper bound.
    most: Changes,
    start: i64,
}

impl Bounds {
    pub(super) fn new(start: i64) -> Bounds {
        Bounds {
            least: Changes::default(),
            most: Changes::default(),
            start,
        }
    }

    /// Adds an addition. It is possible from its invocation on, and certain after its
    /// acknowledgement.
    pub(super) fn add(&mut self, op: &Op<'_>, by: i64) {
        if op.outcome() == Outcome::Fail {
            return;
        }
        let (early, late) = if by > 0 {
            (&mut self.most, &mut self.least)
        } else {
            (&mut self.least, &mut self.most)
        };
        early.0.push((op.first(), by, 0));
        if op.outcome() == Outcome::Ok {
            late.0.push((op.last(), by, 0));
        }
    }

    /// Must be called once, after the last addition and before the first query.
    pub(super) fn seal(&mut self) {
        self.least.seal();
        self.most.seal();
    }

    /// Returns the bounds of a sum that is read between the begin and the end of the call. Every
    /// addition that may change it meanwhile counts.
    pub(super) fn of(&self, op: &Op<'_>) -> (i64, i64) {
        (
            self.start + self.least.sum(op, |by| by < 0),
            self.start + self.most.sum(op, |by| by > 0),
        )
    }
}

/// Index, change, and the sum up to and including this change.
#[derive(Default)]
struct Changes(Vec<(u64, i64, i64)>);

impl Changes {
    fn seal(&mut self) {
        self.0.sort_unstable();
        let mut sum = 0_i64;
        for (_, by, so_far) in &mut self.0 {
            sum = sum.saturating_add(*by);
            *so_far = sum;
        }
    }

    /// Returns the sum of all changes before the call, and of those during the call that `keep`
    /// accepts.
    fn sum(&self, op: &Op<'_>, keep: fn(i64) -> bool) -> i64 {
        let (before, after) = self
            .0
            .split_at(self.0.partition_point(|(at, _, _)| *at < op.first()));
        let while_open = after.iter().take_while(|(at, _, _)| *at < op.last());
        let kept = while_open.map(|(_, by, _)| *by).filter(|by| keep(*by));
        before.last().map_or(0, |(_, _, sum)| *sum) + kept.sum::<i64>()
    }
}

fn within(bounds: &Bounds, op: &Op<'_>, sum: i64, verb: &str, gathered: &mut Gathered) {
    let (least, most) = bounds.of(op);
    if least <= sum && sum <= most {
        return;
    }
    let figure = if sum < least {
        "too_little"
    } else {
        "too_much"
    };
    gathered.count(figure, 1);
    gathered.find(
        format!(
            "process {} {verb} the sum {sum}, but the additions permit only {least} to {most}",
            op.process
        ),
        op.events(),
    );
}

fn in_order(additions: &[(Op<'_>, i64, i64)], gathered: &mut Gathered) {
    let mut by_sum: Vec<_> = additions.iter().collect();
    by_sum.sort_by_key(|(op, sum, _)| (*sum, op.last()));
    for pair in by_sum.windows(2) {
        let [(first, sum, _), (second, next, by)] = pair else {
            continue;
        };
        let events = || first.events().chain(second.events());
        if sum + by > *next {
            let what = format!(
                "two additions returned {sum} and {next}, but the second added {by}: one is lost"
            );
            gathered.find(what, events());
        }
    }
    // In the order of their ends: each sum must exceed the sums of all additions that ended before
    // this one began.
    let mut ended: Vec<_> = additions.iter().collect();
    ended.sort_by_key(|(op, _, _)| op.last());
    let mut begun: Vec<_> = additions.iter().collect();
    begun.sort_by_key(|(op, _, _)| op.first());
    let mut most: Option<&(Op<'_>, i64, i64)> = None;
    let mut ended = ended.into_iter().peekable();
    for (op, sum, _) in begun {
        while let Some(next) = ended.next_if(|(other, _, _)| other.last() < op.first()) {
            if most.is_none_or(|(_, most, _)| *most < next.1) {
                most = Some(next);
            }
        }
        if let Some((other, before, _)) = most.filter(|(_, most, _)| most >= sum) {
            let what = format!(
                "an addition returned {sum} although an earlier addition returned {before}"
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
    use crate::verdict::Validity;
    use serde_json::{Value, json};

    fn good() -> History {
        let mut history = History::default();
        history.call(1, "add", "", json!(5), json!(5));
        history.invoke(2, "add", "", json!(2));
        history.call(3, "read", "", Value::Null, json!(7));
        history.end(Kind::Info, 2, Value::Null);
        history.call(1, "add", "", json!(1), json!(8));
        history.invoke(4, "add", "", json!(9));
        history.end(Kind::Fail, 4, Value::Null);
        history.call(3, FINAL_READ, "", Value::Null, json!(8));
        history
    }

    #[test]
    fn an_unknown_addition_may_count() {
        assert_valid(&check(0, &good().events));
    }

    #[test]
    fn a_lost_addition_is_found() {
        let mut history = good();
        history.events[11].value = json!(5);
        assert_found(
            &check(0, &history.events),
            "reads the sum 5, but the additions permit only 6 to 8",
        );
    }

    #[test]
    fn a_refused_addition_that_was_done_is_found() {
        let mut history = good();
        history.events[11].value = json!(17);
        assert_found(&check(0, &history.events), "reads the sum 17");
    }

    #[test]
    fn two_additions_of_one_sum_are_found() {
        let mut history = good();
        history.events[7].value = json!(5);
        let verdict = check(0, &history.events);
        assert_found(&verdict, "one is lost");
        assert_found(
            &verdict,
            "an addition returned 5 although an earlier addition returned 5",
        );
    }

    #[test]
    fn sums_that_are_swapped_are_found() {
        let mut history = good();
        history.events[1].value = json!(8);
        history.events[7].value = json!(5);
        assert_found(
            &check(0, &history.events),
            "returned 5 although an earlier addition returned 8",
        );
    }

    #[test]
    fn without_a_final_read_nobody_knows() {
        let mut history = good();
        history.events.truncate(10);
        assert_eq!(check(0, &history.events).validity, Validity::Unknown);
    }

    #[test]
    fn subtractions_have_their_bounds_too() {
        let mut history = History::default();
        history.invoke(1, "add", "", json!(-3));
        history.call(2, "read", "", Value::Null, json!(7));
        history.call(2, "read", "", Value::Null, json!(10));
        history.end(Kind::Ok, 1, json!(7));
        history.call(2, FINAL_READ, "", Value::Null, json!(7));
        assert_valid(&check(10, &history.events));
        history.events.last_mut().expect("an event").value = json!(10);
        assert_found(&check(10, &history.events), "permit only 7 to 7");
    }
}
