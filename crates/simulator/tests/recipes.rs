//! Recipes on simulated time. Fresh seeds satisfy every invariant.
//!
//! `ZOARIUM_SIMULATOR_FROM` repeats the seeds of an earlier run, and `ZOARIUM_SIMULATOR_RECIPES`
//! runs more.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use simulator::{Recipe, Trace, repeat_command, run_recipes};
use testkit::seeds::{fresh, number};
use tokio::runtime::Builder;

const SEEDS: u64 = 200;
/// Number of seeds of each recipe that has runs of its own, unless a variable sets the number of
/// seeds.
const SEEDS_ALONE: u64 = 5;
/// Minimum average number of grants, puts or takes of a recipe per seed that contains it. It was at
/// least 36 so far.
const DONE_MIN: usize = 10;

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
    let alone = number("ZOARIUM_SIMULATOR_RECIPES").map_or(SEEDS_ALONE, |count| {
        count / u64::try_from(Recipe::ALONE.len()).unwrap_or(1)
    });
    println!("{count} seeds from {from}, and {alone} of each recipe that runs alone");
    let seeds = (from..from + count).map(|seed| (seed, None));
    let alone = Recipe::ALONE.into_iter().flat_map(|recipe| {
        let seeds = from..from + alone;
        seeds.map(move |seed| (seed, Some(recipe)))
    });
    let runs: Vec<(u64, Option<Recipe>)> = seeds.chain(alone).collect();
    let next = AtomicUsize::new(0);
    let reports: Vec<_> = everywhere(|| {
        let mine = std::iter::from_fn(|| runs.get(next.fetch_add(1, Ordering::Relaxed)));
        mine.map(|&(seed, only)| (seed, only, run_recipes(seed, only, Trace::Off)))
            .collect()
    });
    let failed = reports.iter().filter_map(|(seed, only, ran)| {
        let violation = ran.report.violation.as_ref()?;
        let command = repeat_command(*seed);
        let (invariant, text) = (violation.invariant, &violation.text);
        let only = only.map_or_else(String::new, |recipe| format!(" --recipe {recipe:?}"));
        Some(format!("{invariant}: {text}\n  {command} --recipes{only}"))
    });
    let failed: Vec<String> = failed.collect();
    assert!(failed.is_empty(), "{}", failed.join("\n"));
    // A run without events satisfies every invariant.
    let mut done: BTreeMap<Recipe, (usize, usize)> = BTreeMap::new();
    for (recipe, times) in reports.iter().flat_map(|(_, _, ran)| &ran.done) {
        let (seeds, sum) = done.entry(*recipe).or_default();
        *seeds += 1;
        *sum += times;
    }
    println!("{done:?}");
    for recipe in Recipe::all() {
        let (seeds, sum) = done.get(&recipe).copied().unwrap_or_default();
        assert!(sum > DONE_MIN * seeds && seeds > 0, "{recipe:?}: {done:?}");
    }
}

/// With seed 7010, tokio's `watch` once produced a different run each time. The order in which
/// tasks learn of a lost connection must not be random.
#[test]
fn a_seed_of_recipes_repeats_itself() {
    let seeds = |recipe| {
        let seeds: &[u64] = if Recipe::DRAWN.contains(&recipe) {
            &[7, 7010]
        } else {
            &[7]
        };
        seeds.iter().map(move |seed| (recipe, *seed))
    };
    for (recipe, seed) in Recipe::all().flat_map(seeds) {
        let ran = || run_recipes(seed, Some(recipe), Trace::Off);
        assert_eq!(ran(), ran(), "{recipe:?}, seed {seed}");
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
