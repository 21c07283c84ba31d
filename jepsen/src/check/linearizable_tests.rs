use serde_json::{Value, json};

use super::*;
use crate::check::register::{BAD_VERSION, Register};
use crate::check::testing::{History, assert_found, assert_valid};
use crate::history::Kind;
use crate::verdict::Validity;

const STEPS: u64 = 1_000_000;

fn register(history: &History) -> Verdict {
    check(&Register { start: (0, 0) }, &history.events, STEPS)
}

/// A queue, for the examples of Herlihy and Wing.
struct Fifo;

impl Model for Fifo {
    type State = Vec<i64>;
    type Call = (bool, Option<i64>);

    fn start(&self) -> Vec<i64> {
        Vec::new()
    }

    fn call(&self, op: &Op<'_>) -> Result<Option<Self::Call>, Broken> {
        let is_in = op.f() == "in";
        let value = if is_in {
            Some(&op.call.value)
        } else {
            op.answer()
        };
        Ok(Some((is_in, value.and_then(Value::as_i64))))
    }

    fn step(&self, state: &Vec<i64>, call: &Self::Call) -> Option<Vec<i64>> {
        let mut next = state.clone();
        match *call {
            (true, value) => next.push(value?),
            (false, answer) => {
                let first = state.first().copied()?;
                if answer.is_some_and(|answer| answer != first) {
                    return None;
                }
                next.remove(0);
            }
        }
        Some(next)
    }
}

/// A register without versions, as in the test sets of other checkers.
struct Plain;

impl Model for Plain {
    type State = i64;
    type Call = (bool, i64);

    fn start(&self) -> i64 {
        0
    }

    fn call(&self, op: &Op<'_>) -> Result<Option<Self::Call>, Broken> {
        let is_write = op.f() == "write";
        let value = if is_write {
            Some(&op.call.value)
        } else {
            op.answer()
        };
        Ok(value.and_then(Value::as_i64).map(|value| (is_write, value)))
    }

    fn step(&self, state: &i64, &(is_write, value): &Self::Call) -> Option<i64> {
        (is_write || *state == value).then_some(value)
    }
}

/// Builds a history from calls: process, name, argument, answer, begin and end.
fn timed(calls: &[(u64, &str, Value, Value, u64, u64)]) -> History {
    let mut moments: Vec<(u64, bool, usize)> = Vec::new();
    for (at, call) in calls.iter().enumerate() {
        moments.extend([(call.4, false, at), (call.5, true, at)]);
    }
    moments.sort_unstable();
    let mut history = History::default();
    for (_, is_end, at) in moments {
        let (process, f, asked, answer, _, _) = &calls[at];
        if is_end {
            history.end(Kind::Ok, *process, answer.clone());
        } else {
            history.invoke(*process, f, "", asked.clone());
        }
    }
    history
}

fn is_explained<M: Model>(model: &M, history: &History) -> bool {
    check(model, &history.events, STEPS).validity == Validity::Valid
}

#[test]
fn the_queues_of_herlihy_and_wing_are_judged_as_in_their_paper() {
    // Figure 1 of "Linearizability: A Correctness Condition for Concurrent Objects" (1990).
    let put = |process, value: i64, from, to| (process, "in", json!(value), Value::Null, from, to);
    let got = |process, value: i64, from, to| (process, "out", Value::Null, json!(value), from, to);
    let (a, b, c, x, y, z) = (1, 2, 3, 10, 20, 30);
    let first = [
        put(a, x, 0, 3),
        put(b, y, 1, 4),
        got(b, x, 5, 8),
        got(a, y, 6, 9),
        put(a, z, 10, 11),
    ];
    assert!(is_explained(&Fifo, &timed(&first)));
    let second = [put(a, x, 0, 1), put(b, y, 2, 3), got(a, y, 4, 5)];
    assert!(!is_explained(&Fifo, &timed(&second)));
    let third = [put(a, x, 0, 9), got(b, x, 1, 2)];
    assert!(is_explained(&Fifo, &timed(&third)));
    let fourth = [
        put(a, x, 0, 3),
        put(b, y, 1, 2),
        got(a, y, 4, 6),
        got(c, y, 5, 7),
    ];
    assert!(!is_explained(&Fifo, &timed(&fourth)));
}

#[test]
fn the_registers_of_porcupine_are_judged_as_in_its_tests() {
    let write =
        |process, value: i64, from, to| (process, "write", json!(value), Value::Null, from, to);
    let read =
        |process, value: i64, from, to| (process, "read", Value::Null, json!(value), from, to);
    let good = [
        write(0, 100, 0, 100),
        read(1, 100, 25, 75),
        read(2, 0, 30, 60),
    ];
    assert!(is_explained(&Plain, &timed(&good)));
    let bad = [
        write(0, 200, 0, 100),
        read(1, 200, 10, 30),
        read(2, 0, 40, 90),
    ];
    assert!(!is_explained(&Plain, &timed(&bad)));
}

/// Returns a good history with every kind of call.
fn good() -> History {
    let mut history = History::default();
    history.call(1, "write", "r", json!(5), json!([1, 5]));
    history.call(2, "read", "r", Value::Null, json!([1, 5]));
    history.call(1, "cas", "r", json!([1, 6]), json!([2, 6]));
    history.call(2, "read", "r", Value::Null, json!([2, 6]));
    history.invoke(3, "cas", "r", json!([1, 9]));
    history.end(Kind::Fail, 3, Value::Null);
    history.events.last_mut().expect("an event").error = Some(BAD_VERSION.into());
    history.call(1, "write", "r", json!(7), json!([3, 7]));
    history.call(2, "read", "r", Value::Null, json!([3, 7]));
    history
}

#[test]
fn a_good_history_is_explained() {
    let verdict = register(&good());
    assert_valid(&verdict);
    assert_eq!((verdict.figures["keys"], verdict.figures["calls"]), (1, 7));
}

#[test]
fn two_answers_swapped_are_found() {
    let mut history = good();
    let later = history.events[7].value.clone();
    history.events[7].value = std::mem::replace(&mut history.events[3].value, later);
    let verdict = register(&history);
    assert_found(
        &verdict,
        "no order of the calls explains that read of process 2",
    );
    // The shortest failing prefix ends with the first wrong answer.
    assert_eq!(verdict.findings[0].events, [0, 1, 2, 3]);
}

#[test]
fn a_stale_read_is_found() {
    let mut history = good();
    history.events[7].value = json!([1, 5]);
    assert_found(&register(&history), "possible states before it: (2, 6)");
}

#[test]
fn a_lost_write_is_found() {
    let mut history = good();
    history.events.last_mut().expect("an event").value = json!([2, 6]);
    assert_found(&register(&history), "no order of the calls explains");
}

#[test]
fn a_refusal_without_a_reason_is_found() {
    let mut history = good();
    history.events[8].value = json!([2, 9]);
    assert_found(&register(&history), "returned a refusal");
    // With another open write, the refusal might have seen the version before it.
    let mut history = History::default();
    history.invoke(1, "write", "r", json!(1));
    history.invoke(3, "cas", "r", json!([1, 9]));
    history.end(Kind::Fail, 3, Value::Null);
    history.events[2].error = Some(BAD_VERSION.into());
    history.end(Kind::Ok, 1, json!([1, 1]));
    assert_valid(&register(&history));
}

#[test]
fn an_unknown_write_may_happen_late_or_never_but_once() {
    let mut history = History::default();
    history.invoke(1, "write", "r", json!(5));
    history.end(Kind::Info, 1, Value::Null);
    history.call(2, "read", "r", Value::Null, json!([0, 0]));
    assert_valid(&register(&history));
    history.call(2, "read", "r", Value::Null, json!([1, 5]));
    assert_valid(&register(&history));
    history.call(2, "write", "r", json!(6), json!([2, 6]));
    assert_valid(&register(&history));
    history.call(2, "read", "r", Value::Null, json!([3, 5]));
    assert_found(&register(&history), "[3,5]");
}

#[test]
fn keys_are_judged_apart() {
    let mut history = good();
    history.call(1, "write", "s", json!(5), json!([1, 5]));
    history.call(1, "read", "s", Value::Null, json!([1, 6]));
    let verdict = register(&history);
    assert_eq!(verdict.findings.len(), 1);
    assert_found(&verdict, "key s: ");
}

#[test]
fn without_steps_it_says_how_far_it_came() {
    let verdict = check(&Register { start: (0, 0) }, &good().events, 5);
    assert_eq!(verdict.validity, Validity::Unknown);
    let what = &verdict.findings[0].what;
    assert!(
        what.contains("after 5 steps") && what.contains("of 7 calls"),
        "{what}"
    );
}

#[test]
fn without_memory_it_says_how_far_it_came() {
    // Each of the lost writes may have happened or not, in any order, when the read ends.
    let mut history = good();
    for process in 10..20 {
        history.invoke(process, "write", "r", json!(process));
    }
    history.call(1, "read", "r", Value::Null, json!([100, 10]));
    let model = Register { start: (0, 0) };
    let verdict = check_within(&model, &history.events, u64::MAX, 100);
    assert_eq!(verdict.validity, Validity::Unknown);
    let what = &verdict.findings[0].what;
    assert!(
        what.contains("with more than 100 open possibilities; it explained 7 of 18 calls"),
        "{what}"
    );
    assert_eq!(register(&history).validity, Validity::Invalid);
}

#[test]
fn values_of_another_form_are_named() {
    let mut history = good();
    history.events[3].value = json!("five");
    let verdict = register(&history);
    assert_eq!(verdict.validity, Validity::Unknown);
    assert_eq!(verdict.findings[0].events, [3]);
}

#[test]
fn many_unknown_outcomes_cost_little() {
    let mut history = History::default();
    for process in 0..300 {
        history.invoke(process, "cas", "r", json!([process, 1000]));
        history.end(Kind::Info, process, Value::Null);
    }
    for version in 1..200 {
        history.call(
            1000,
            "cas",
            "r",
            json!([version - 1, version]),
            json!([version, version]),
        );
        history.call(1000, "read", "r", Value::Null, json!([version, version]));
    }
    let verdict = register(&history);
    assert_valid(&verdict);
    assert!(verdict.figures["steps"] < 500_000, "{verdict:?}");
}

/// Tries every order of every choice of unknown calls.
fn by_force(model: &Register, calls: &[(Op<'_>, super::super::register::Call)]) -> bool {
    fn go(
        model: &Register,
        calls: &[(Op<'_>, super::super::register::Call)],
        done: u32,
        state: (i64, i64),
    ) -> bool {
        let waiting = |at: usize| done >> at & 1 == 0;
        let mut left = (0..calls.len()).filter(|at| waiting(*at));
        if left.all(|at| calls[at].0.last() == u64::MAX) {
            return true;
        }
        (0..calls.len()).filter(|at| waiting(*at)).any(|at| {
            let begins = calls[at].0.first();
            let is_next = (0..calls.len())
                .filter(|other| waiting(*other))
                .all(|other| calls[other].0.last() > begins);
            let next = model.step(&state, &calls[at].1).filter(|_| is_next);
            next.is_some_and(|next| go(model, calls, done | 1 << at, next))
        })
    }
    go(model, calls, 0, model.start())
}

/// Returns a tiny history of three processes whose answers are right, nearly right or wrong.
fn by_chance(random: &mut fastrand::Rng) -> History {
    let mut history = History::default();
    let mut free: Vec<u64> = vec![0, 1, 2];
    let mut open: Vec<(u64, i64)> = Vec::new();
    let (mut next, mut version, mut value) = (3, 0_i64, 0_i64);
    for _ in 0..random.usize(6..15) {
        if open.is_empty() || (random.bool() && !free.is_empty()) {
            let process = free.swap_remove(random.usize(..free.len()));
            let new = random.i64(1..4);
            match random.u8(..3) {
                0 => history.invoke(process, "read", "", Value::Null),
                1 => history.invoke(process, "write", "", json!(new)),
                _ => history.invoke(process, "cas", "", json!([random.i64(0..3), new])),
            }
            open.push((process, new));
            continue;
        }
        let (process, new) = open.swap_remove(random.usize(..open.len()));
        let call = history.events.iter().rev();
        let mut call =
            call.filter(|event| event.process == crate::history::Process::Client(process));
        let f = call.next().expect("a call").f.clone();
        if random.u8(..5) == 0 {
            history.end(Kind::Info, process, Value::Null);
            free.push(next);
            next += 1;
            continue;
        }
        if f == "cas" && random.u8(..3) == 0 {
            history.end(Kind::Fail, process, Value::Null);
            history.events.last_mut().expect("an event").error = Some(BAD_VERSION.into());
        } else {
            let (seen, held) = (version, value);
            if f != "read" {
                (version, value) = (version + 1, new);
            }
            let answer = if random.u8(..6) == 0 {
                (seen, held)
            } else {
                (version, value)
            };
            history.end(Kind::Ok, process, json!([answer.0, answer.1]));
        }
        free.push(process);
    }
    history
}

#[test]
fn it_says_what_trying_every_order_says() {
    let model = Register { start: (0, 0) };
    let (mut yes, mut no) = (0, 0);
    for seed in 0..4_000 {
        let history = by_chance(&mut fastrand::Rng::with_seed(seed));
        let ops = calls(&history.events).expect("whole");
        let modelled = ops.into_iter().filter_map(|op| {
            let call = model.call(&op).expect("well formed")?;
            Some((op, call))
        });
        let expected = by_force(&model, &modelled.collect::<Vec<_>>());
        assert_eq!(
            is_explained(&model, &history),
            expected,
            "seed {seed}: {history:#?}"
        );
        if expected { yes += 1 } else { no += 1 }
    }
    assert!(yes > 400 && no > 400, "{yes} and {no} say little");
}
