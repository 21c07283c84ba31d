//! Random schedules of larger models. `ZOARIUM_SHUTTLE_SCHEDULES` sets their number.

use std::sync::Arc as SharedModel;

use zoarium_executor::Mailbox;

use crate::models::primitives;
use crate::probe::{Path, Probe, assert_empty, executor, send};

primitives!(Shuttle, shuttle);

/// Number of schedules of each model if the environment variable is not set.
const SCHEDULES: usize = 10_000;

type Executor = zoarium_executor::Executor<Probe<Shuttle>, Shuttle>;

const SENDERS: usize = 3;
const MESSAGES_EACH: usize = 4;
const MESSAGES: usize = SENDERS * MESSAGES_EACH;

fn schedules() -> usize {
    let set = std::env::var("ZOARIUM_SHUTTLE_SCHEDULES").ok();
    set.and_then(|set| set.parse().ok()).unwrap_or(SCHEDULES)
}

pub(crate) fn check(model: impl Fn() + Send + Sync + 'static) {
    // Half of them at random, half with few preemptions at random places.
    let (model, half) = (SharedModel::new(model), schedules().div_ceil(2));
    let second = model.clone();
    shuttle::check_random(move || model(), half);
    shuttle::check_pct(move || second(), half, 3);
}

/// Senders that use every path in turn. The machine allows inline turns now and then and ends after
/// `expected` messages.
fn messages(expected: usize) {
    let executor: Arc<Executor> = Arc::new(executor(expected, 2, |handled| handled % 3 > 0));
    let sending = |sender: usize| {
        let executor = executor.clone();
        thread::spawn(move || {
            for number in 0..MESSAGES_EACH {
                let path = [Path::Send, Path::Inline, Path::InlineAlways][(sender + number) % 3];
                send(&executor, sender * MESSAGES_EACH + number, path);
            }
        })
    };
    let senders: Vec<_> = (0..SENDERS).map(sending).collect();
    executor.run();
    senders.into_iter().for_each(|one| one.join().unwrap());
    assert_empty(&executor);
}

/// Senders that fill two slots, and a receiver that sees the last value of each.
fn requests() {
    let mailbox = Arc::new(Mailbox::<[Option<usize>; 2], Shuttle>::new([None; 2]));
    let sending = |slot: usize| {
        let mailbox = mailbox.clone();
        thread::spawn(move || {
            for number in 0..MESSAGES_EACH {
                assert!(mailbox.post(|slots| slots[slot] = Some(number)).is_some());
            }
        })
    };
    let senders: Vec<_> = (0..2).map(sending).collect();
    let finishing = mailbox.clone();
    let end = thread::spawn(move || {
        senders.into_iter().for_each(|one| one.join().unwrap());
        finishing.finish();
    });
    let mut last = [None; 2];
    let take = |slots: &mut [Option<usize>; 2]| {
        let slot = slots.iter().position(Option::is_some)?;
        slots[slot].take().map(|number| (slot, number))
    };
    while let Some((slot, number)) = mailbox.take(take) {
        assert!(last[slot].replace(number) < Some(number), "out of order");
    }
    assert_eq!(last, [Some(MESSAGES_EACH - 1); 2]);
    end.join().unwrap();
}

/// Runs a receiver that waits for a request before the next one is sent.
fn request_and_answer() {
    let mailbox = Arc::new(Mailbox::<Option<usize>, Shuttle>::new(None));
    let (answer, answers) = shuttle::sync::mpsc::channel();
    let receiving = mailbox.clone();
    let receiver = thread::spawn(move || {
        while let Some(number) = receiving.take(Option::take) {
            answer.send(number).unwrap();
        }
    });
    for number in 0..MESSAGES_EACH {
        mailbox.post(|slot| *slot = Some(number));
        assert_eq!(answers.recv(), Ok(number));
    }
    mailbox.close();
    receiver.join().unwrap();
}

#[test]
fn shuttle_finds_no_lost_message() {
    check(|| messages(MESSAGES));
}

#[test]
fn shuttle_finds_no_turn_and_no_message_after_the_end() {
    check(|| messages(MESSAGES / 2));
}

#[test]
fn shuttle_finds_no_lost_request_in_a_mailbox() {
    check(requests);
    check(request_and_answer);
}
