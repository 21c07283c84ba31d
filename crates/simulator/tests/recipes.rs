//! Recipes on simulated time. Fresh seeds satisfy every invariant.
//!
//! `ZOARIUM_SIMULATOR_FROM` repeats the seeds of an earlier run, and `ZOARIUM_SIMULATOR_RECIPES`
//! runs more.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use simulator::{Recipe, RecipesReport, Trace, repeat_command, run_recipes};
use tokio::runtime::Builder;

const SEEDS: u64 = 200;
/// Minimum average number of grants, puts or takes of a recipe per seed that contains it. It was at
/// least 36 so far.
const DONE_MIN: usize = 10;

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

/// Returns the time in milliseconds, shifted to leave room for more seeds after it.
fn fresh() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    let millis = since.expect("the clock is behind 1970").as_millis();
    u64::try_from(millis).expect("a time of this age") << 16
}

/// Runs the work on every processor, and returns all results.
fn everywhere<T: Send>(work: impl Fn() -> Vec<T> + Sync) -> Vec<T> {
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..threads).map(|_| scope.spawn(&work)).collect();
        let joined = workers.into_iter().map(|worker| worker.join());
        joined.flat_map(|found| found.expect("a worker")).collect()
    })
}

#[test]
#[ignore = "simulates for minutes"]
fn recipes_keep_every_invariant() {
    let from = number("ZOARIUM_SIMULATOR_FROM").unwrap_or_else(fresh);
    let count = number("ZOARIUM_SIMULATOR_RECIPES").unwrap_or(SEEDS);
    println!("{count} seeds from {from}");
    let next = AtomicU64::new(from);
    let reports: Vec<(u64, RecipesReport)> = everywhere(|| {
        let seeds = std::iter::from_fn(|| Some(next.fetch_add(1, Ordering::Relaxed)));
        let seeds = seeds.take_while(|seed| *seed < from + count);
        seeds
            .map(|seed| (seed, run_recipes(seed, None, Trace::Off)))
            .collect()
    });
    let failed = reports.iter().filter_map(|(seed, ran)| {
        let violation = ran.report.violation.as_ref()?;
        let command = repeat_command(*seed);
        let (invariant, text) = (violation.invariant, &violation.text);
        Some(format!("{invariant}: {text}\n  {command} --recipes"))
    });
    let failed: Vec<String> = failed.collect();
    assert!(failed.is_empty(), "{}", failed.join("\n"));
    // A run without events satisfies every invariant.
    let mut done: BTreeMap<Recipe, (usize, usize)> = BTreeMap::new();
    for (recipe, times) in reports.iter().flat_map(|(_, ran)| &ran.done) {
        let (seeds, sum) = done.entry(*recipe).or_default();
        *seeds += 1;
        *sum += times;
    }
    println!("{done:?}");
    for recipe in Recipe::ALL {
        let (seeds, sum) = done.get(&recipe).copied().unwrap_or_default();
        assert!(sum > DONE_MIN * seeds && seeds > 0, "{recipe:?}: {done:?}");
    }
}

/// With seed 7010, tokio's `watch` once produced a different run each time. The order in which
/// tasks learn of a lost connection must not be random.
#[test]
fn a_seed_of_recipes_repeats_itself() {
    for recipe in Recipe::ALL {
        for seed in [7, 7010] {
            let ran = || run_recipes(seed, Some(recipe), Trace::Off);
            assert_eq!(ran(), ran(), "{recipe:?}, seed {seed}");
        }
    }
    let ran = || run_recipes(7010, None, Trace::Off);
    assert_eq!(ran(), ran());
}

/// Tests the property on which the processes of recipes rely (`contenders/process.rs`).
#[test]
fn all_ready_tasks_run_without_advancing_time() {
    let mut builder = Builder::new_current_thread();
    builder.enable_time().event_interval(u32::MAX);
    let runtime = builder.start_paused(true).build().expect("a value");
    let done = Arc::new(AtomicUsize::new(0));
    let (first, mut last) = tokio::sync::mpsc::channel::<usize>(1);
    let mut next = first;
    // A chain of tasks. Each task wakes the next one.
    for _ in 0..500 {
        let (sender, receiver) = tokio::sync::mpsc::channel(1);
        let mut before = std::mem::replace(&mut last, receiver);
        let done = Arc::clone(&done);
        runtime.spawn(async move {
            let number = before.recv().await.expect("a value");
            done.fetch_add(1, Ordering::Relaxed);
            let _ = sender.send(number + 1).await;
        });
    }
    let late = Arc::clone(&done);
    runtime.spawn(async move {
        tokio::time::sleep(Duration::from_millis(10)).await;
        late.fetch_add(1000, Ordering::Relaxed);
    });
    next.try_send(0).expect("a value");
    runtime.block_on(tokio::task::yield_now());
    assert_eq!(done.load(Ordering::Relaxed), 500);
    for (ms, expected) in [(9, 500), (1, 1500)] {
        runtime.block_on(async {
            tokio::time::advance(Duration::from_millis(ms)).await;
            tokio::task::yield_now().await;
        });
        assert_eq!(done.load(Ordering::Relaxed), expected);
    }
    next = tokio::sync::mpsc::channel(1).0;
    drop(next);
}
