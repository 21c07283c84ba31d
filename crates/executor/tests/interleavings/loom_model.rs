//! Every execution of small models, up to a bound of preemptions.

use crate::models::primitives;
use crate::probe::{Path, Probe, assert_empty, executor, send};

primitives!(Loom, loom);

type Executor = zoarium_executor::Executor<Probe<Loom>, Loom>;

/// Visits every execution with at most this number of preemptions: moments at which a thread could
/// continue, and another one runs instead.
fn check(preemptions_max: usize, model: impl Fn() + Send + Sync + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(preemptions_max);
    builder.check(model);
}

/// Starts a thread for each path, which sends one message. The machine ends after `expected`
/// messages.
fn messages(paths: &'static [Path], expected: usize) {
    let executor: Arc<Executor> = Arc::new(executor(expected, 2, |_| true));
    let sending = |(message, path): (usize, &'static Path)| {
        let executor = executor.clone();
        thread::spawn(move || send(&executor, message, *path))
    };
    let senders: Vec<_> = paths.iter().enumerate().map(sending).collect();
    executor.run();
    senders.into_iter().for_each(|one| one.join().unwrap());
    assert_empty(&executor);
}

#[test]
fn loom_finds_no_lost_message_on_any_path() {
    check(3, || messages(&[Path::Send], 1));
    check(3, || messages(&[Path::Inline], 1));
    check(3, || messages(&[Path::InlineAlways], 1));
    check(2, || messages(&[Path::Inline, Path::InlineAlways], 2));
}

#[test]
fn loom_finds_no_message_that_outlives_the_end() {
    check(2, || messages(&[Path::InlineAlways, Path::Send], 1));
}
