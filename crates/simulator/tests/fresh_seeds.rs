//! Seeds that were never run before. All invariants must hold with each of them.
//!
//! `ZOARIUM_SIMULATOR_FROM` repeats the seeds of an earlier run, and `ZOARIUM_SIMULATOR_SEEDS` runs
//! more.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU64, Ordering};

use proto::OpCode;
use simulator::{Answer, Report, Times, Trace, repeat_command, run};
use testkit::seeds::{fresh, number};

const SEEDS: u64 = 300;
/// Maximum number of abandoned searches for an order of calls per hundred seeds.
const UNDECIDED_MAX: usize = 2;
/// Maximum number of runs per hundred seeds that end without a quorum with its acknowledged data.
/// The actual rate is below one in a thousand.
const GIVEN_UP_MAX: usize = 1;

/// Runs all seeds. Every thread takes the next seed until none remains.
fn run_all(from: u64, count: u64) -> Vec<(u64, Report)> {
    let next = AtomicU64::new(from);
    let work = || {
        let mut reports = Vec::new();
        loop {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            if seed >= from + count {
                return reports;
            }
            reports.push((seed, run(seed, Trace::Off)));
        }
    };
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        let joined = workers.into_iter().map(|worker| worker.join());
        joined
            .flat_map(|reports| reports.expect("a worker"))
            .collect()
    })
}

#[test]
#[ignore = "simulates for minutes"]
fn every_invariant_holds() {
    let from = number("ZOARIUM_SIMULATOR_FROM").unwrap_or_else(fresh);
    let count = number("ZOARIUM_SIMULATOR_SEEDS").unwrap_or(SEEDS);
    println!("{count} seeds from {from}");
    let reports = run_all(from, count);
    let failed = reports.iter().filter_map(|(seed, report)| {
        let violation = report.violation.as_ref()?;
        let command = repeat_command(*seed);
        Some(format!(
            "{}: {}\n  {command}",
            violation.invariant, violation.text
        ))
    });
    let failed: Vec<String> = failed.collect();
    assert!(failed.is_empty(), "{}", failed.join("\n"));
    // A run without events satisfies every invariant.
    let sum =
        |of: fn(&Report) -> usize| reports.iter().map(|(_, report)| of(report)).sum::<usize>();
    let committed = sum(|report| report.committed);
    let acknowledged = sum(|report| report.acknowledged);
    let epochs = sum(|report| report.epochs);
    let undecided = sum(|report| report.undecided);
    println!("{committed} committed, {acknowledged} acknowledged, {epochs} epochs");
    let seeds = reports.len();
    assert!(committed > 50 * seeds && acknowledged > 20 * seeds && epochs > 2 * seeds);
    let recorded = sum(|report| report.recorded.0);
    let missed = sum(|report| report.recorded.1);
    println!("{recorded} in change histories, {missed} in their holes");
    assert!(recorded > 100 * seeds && recorded > 4 * missed);
    assert!(undecided <= UNDECIDED_MAX * seeds.div_ceil(100));
    let given_up = sum(|report| usize::from(report.is_given_up));
    assert!(given_up <= GIVEN_UP_MAX * seeds.div_ceil(100), "{given_up}");
    every_operation_was_carried_out(&reports);
    every_answer_was_given(&reports);
}

/// Checks that the schedules gave each of their answers, also while the disk of that server was
/// stalled.
fn every_answer_was_given(reports: &[(u64, Report)]) {
    for answer in Answer::ALL {
        let mut sum = Times::default();
        for (_, report) in reports {
            let times = report.answers.times(answer);
            sum.given += times.given;
            sum.stalled += times.stalled;
        }
        println!("{answer:?}: {sum:?}");
        assert!(sum.given > 0, "never: {answer:?}");
        let is_stalled = sum.stalled > 0 || !answer.can_be_stalled();
        assert!(is_stalled, "never while a disk was stalled: {answer:?}");
    }
}

/// Checks that every operation of the table succeeded at least once, except those that cannot
/// succeed for any client: `error` is not a request, and SASL is not configured.
fn every_operation_was_carried_out(reports: &[(u64, Report)]) {
    let done = reports.iter().flat_map(|(_, report)| &report.succeeded);
    let done: BTreeSet<OpCode> = done.map(|(op, _)| *op).collect();
    let all = OpCode::ALL.iter().copied();
    let missing = all.filter(|op| !matches!(op, OpCode::Error | OpCode::Sasl));
    let missing: Vec<&str> = missing
        .filter(|op| !done.contains(op))
        .map(OpCode::name)
        .collect();
    assert!(missing.is_empty(), "never carried out: {missing:?}");
}

#[test]
fn a_seed_repeats_itself() {
    for seed in [7, 8] {
        assert_eq!(run(seed, Trace::Off), run(seed, Trace::Off));
    }
}
