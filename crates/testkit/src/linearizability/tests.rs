use super::znode::{Answer, Question, Znode};
use super::{Call, Verdict, check};
use crate::Random;

type ZnodeCall = Call<Question, Answer>;

const STEPS_MAX: usize = 1_000_000;

fn call(asked_at: i64, answered_at: i64, question: Question, answer: Answer) -> ZnodeCall {
    Call {
        question,
        asked_at,
        answer: Some((answer, answered_at)),
    }
}

fn unanswered(asked_at: i64, question: Question) -> ZnodeCall {
    Call {
        question,
        asked_at,
        answer: None,
    }
}

fn set(value: u64) -> Question {
    Question::Set {
        value,
        version: None,
    }
}

fn found(value: u64, version: i32) -> Answer {
    Answer::Found { value, version }
}

fn is_linearizable(history: &[ZnodeCall]) -> bool {
    match check(&Znode, history, STEPS_MAX) {
        Verdict::Linearizable(order) => {
            let answered = |call: &usize| history[*call].answer.is_some();
            let all = history.iter().filter(|call| call.answer.is_some()).count();
            assert_eq!(order.iter().filter(|call| answered(call)).count(), all);
            true
        }
        Verdict::NotLinearizable { stuck_at, longest } => {
            assert!(!longest.contains(&stuck_at));
            false
        }
        Verdict::Undecided => panic!("undecided"),
    }
}

#[test]
fn an_empty_history_is_linearizable() {
    assert!(is_linearizable(&[]));
    assert!(is_linearizable(&[unanswered(0, Question::Create(1))]));
}

#[test]
fn sequential_calls_must_be_correct() {
    let created = call(0, 1, Question::Create(7), Answer::Done);
    let read = |answer| call(2, 3, Question::Read, answer);
    assert!(is_linearizable(&[created.clone(), read(found(7, 0))]));
    for wrong in [found(7, 1), found(8, 0), Answer::Missing] {
        assert!(!is_linearizable(&[created.clone(), read(wrong)]));
    }
}

#[test]
fn a_read_concurrent_with_a_write_may_see_it_or_not() {
    let begin = [
        call(0, 1, Question::Create(1), Answer::Done),
        call(2, 9, set(2), Answer::Version(1)),
    ];
    let with = |reads: &[ZnodeCall]| [&begin, reads].concat();
    let old = |at| call(at, at + 1, Question::Read, found(1, 0));
    let new = |at| call(at, at + 1, Question::Read, found(2, 1));
    assert!(is_linearizable(&with(&[old(3), old(5)])));
    assert!(is_linearizable(&with(&[old(3), new(5)])));
    assert!(is_linearizable(&with(&[new(3), new(5)])));
    // A state that one read has returned must also be visible to the next read.
    assert!(!is_linearizable(&with(&[new(3), old(5)])));
    // A read that begins after the answer to the write must return the new value.
    assert!(!is_linearizable(&with(&[old(10)])));
}

#[test]
fn an_unanswered_write_takes_effect_at_any_later_time_or_never() {
    let begin = [
        call(0, 1, Question::Create(1), Answer::Done),
        unanswered(2, set(2)),
    ];
    let with = |reads: &[ZnodeCall]| [&begin, reads].concat();
    let old = |at| call(at, at + 1, Question::Read, found(1, 0));
    let new = |at| call(at, at + 1, Question::Read, found(2, 1));
    assert!(is_linearizable(&with(&[old(100)])));
    assert!(is_linearizable(&with(&[old(50), new(100)])));
    assert!(!is_linearizable(&with(&[new(50), old(100)])));
    // A write does not take effect before its question.
    let early = call(0, 1, Question::Create(1), Answer::Done);
    let read = call(1, 2, Question::Read, found(2, 1));
    assert!(!is_linearizable(&[early, read, unanswered(3, set(2))]));
}

#[test]
fn contradictory_successes_are_not_linearizable() {
    let create = |value, from| call(from, 9, Question::Create(value), Answer::Done);
    assert!(!is_linearizable(&[create(1, 0), create(2, 1)]));
    let delete = call(0, 9, Question::Delete { version: None }, Answer::Done);
    assert!(is_linearizable(&[create(1, 0), create(2, 1), delete]));
    let swap = |value| {
        let version = Some(0);
        call(2, 9, Question::Set { value, version }, Answer::Version(1))
    };
    let created = call(0, 1, Question::Create(1), Answer::Done);
    assert!(!is_linearizable(&[created.clone(), swap(2), swap(3)]));
    let version = Some(0);
    let lost = Question::Set { value: 3, version };
    let lost = call(2, 9, lost, Answer::BadVersion);
    assert!(is_linearizable(&[created, swap(2), lost]));
}

#[test]
fn refusals_reveal_the_state() {
    let created = call(0, 1, Question::Create(1), Answer::Done);
    let again = call(2, 3, Question::Create(2), Answer::Exists);
    assert!(is_linearizable(&[created.clone(), again.clone()]));
    assert!(!is_linearizable(&[again]));
    let gone = call(2, 3, Question::Delete { version: None }, Answer::Missing);
    assert!(!is_linearizable(&[created.clone(), gone]));
    let check = |version, answer| call(2, 3, Question::Check { version }, answer);
    assert!(is_linearizable(&[
        created.clone(),
        check(Some(0), Answer::Done)
    ]));
    assert!(!is_linearizable(&[created, check(Some(1), Answer::Done)]));
}

#[test]
fn a_stale_read_after_a_known_write_is_reported_with_its_position() {
    let history = [
        call(0, 1, Question::Create(1), Answer::Done),
        call(2, 3, set(2), Answer::Version(1)),
        call(4, 5, Question::Read, found(1, 0)),
    ];
    let verdict = check(&Znode, &history, STEPS_MAX);
    let expected = Verdict::NotLinearizable {
        longest: vec![0, 1],
        stuck_at: 2,
    };
    assert_eq!(verdict, expected);
}

#[test]
fn a_too_long_search_is_abandoned() {
    let history: Vec<ZnodeCall> = (0..40)
        .map(|value| unanswered(0, Question::Create(value)))
        .chain([call(1, 2, Question::Read, found(99, 0))])
        .collect();
    assert_eq!(check(&Znode, &history, 100), Verdict::Undecided);
}

/// Generates concurrent calls to a znode, with the answers of the model. Each call takes effect at
/// some moment between its question and its answer. Some answers are lost, and half of these calls
/// do not take effect.
fn random_history(random: &mut Random, calls: usize) -> Vec<ZnodeCall> {
    use super::Model;
    let mut asked: Vec<(i64, i64, i64, Question)> = Vec::new();
    for number in 0..calls {
        let from = random.range(0, 800);
        let at = from + random.range(0, 20);
        let upto = at + random.range(0, 20);
        let value = number as u64;
        let version = random
            .percent(50)
            .then(|| i32::try_from(random.below(4)).unwrap());
        let question = match random.below(5) {
            0 => Question::Create(value),
            1 => Question::Delete { version },
            2 => Question::Read,
            _ => Question::Set { value, version },
        };
        asked.push((at, from, upto, question));
    }
    asked.sort_by_key(|(at, ..)| *at);
    let mut state = Znode.start();
    let mut history = Vec::new();
    for (_, asked_at, answered_at, question) in asked {
        let answers = match (&question, state) {
            (Question::Create(_), Some(_)) => Answer::Exists,
            (Question::Create(_), None) => Answer::Done,
            (_, None) => Answer::Missing,
            (Question::Read, Some((value, version))) => Answer::Found { value, version },
            _ if Znode
                .step(&state, &question, Some(&Answer::BadVersion))
                .is_some() =>
            {
                Answer::BadVersion
            }
            _ => Answer::Done,
        };
        let is_lost = random.percent(10);
        let happened = !is_lost || random.percent(50);
        if happened {
            state = Znode
                .step(&state, &question, Some(&answers))
                .expect("what the model says");
        }
        let answer = (!is_lost).then_some((answers, answered_at));
        history.push(Call {
            question,
            asked_at,
            answer,
        });
    }
    history
}

#[test]
fn calls_on_a_real_znode_are_linearizable() {
    for seed in 0..200 {
        let mut random = Random::new(seed);
        let calls = 1 + random.below(60);
        let history = random_history(&mut random, calls);
        assert!(is_linearizable(&history), "seed {seed}: {history:?}");
    }
}

#[test]
fn a_read_of_an_unwritten_value_is_always_found() {
    for seed in 0..100 {
        let mut random = Random::new(seed);
        let mut history = random_history(&mut random, 40);
        let at = random.range(0, 800);
        history.push(call(at, at + 10, Question::Read, found(1_000, 0)));
        assert!(!is_linearizable(&history), "seed {seed}");
    }
}
