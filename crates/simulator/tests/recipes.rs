//! Recipes on simulated time. Fresh seeds satisfy every invariant, and each deliberate bug in the
//! recipes and their client is caught.
//!
//! `ZOARIUM_SIMULATOR_FROM` repeats the seeds of an earlier run, and `ZOARIUM_SIMULATOR_RECIPES`
//! runs more.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use simulator::{
    Mutant, RECIPES_CAUGHT_BY, Recipe, RecipesReport, Trace, repeat_command, run_recipes,
};

const SEEDS: u64 = 200;
/// A change of the simulator changes the meaning of the seeds. Then one of the following seeds must
/// catch the mutant.
const SEEDS_MAX: u64 = 300;
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
fn recipes_keep_every_promise() {
    let from = number("ZOARIUM_SIMULATOR_FROM").unwrap_or_else(fresh);
    let count = number("ZOARIUM_SIMULATOR_RECIPES").unwrap_or(SEEDS);
    println!("{count} seeds from {from}");
    let next = AtomicU64::new(from);
    let reports: Vec<(u64, RecipesReport)> = everywhere(|| {
        let seeds = std::iter::from_fn(|| Some(next.fetch_add(1, Ordering::Relaxed)));
        let seeds = seeds.take_while(|seed| *seed < from + count);
        seeds
            .map(|seed| (seed, run_recipes(seed, None, None, Trace::Off)))
            .collect()
    });
    let failed = reports.iter().filter_map(|(seed, ran)| {
        let violation = ran.report.violation.as_ref()?;
        let command = repeat_command(*seed, None);
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
            let ran = || run_recipes(seed, Some(recipe), None, Trace::Off);
            assert_eq!(ran(), ran(), "{recipe:?}, seed {seed}");
        }
    }
    let ran = || run_recipes(7010, None, None, Trace::Off);
    assert_eq!(ran(), ran());
}

/// Returns the first of some seeds that fails with the mutant, and passes without it.
fn caught(mutant: Mutant, recipe: Recipe, from: u64) -> Option<u64> {
    let is_red = |seed, mutant| {
        let ran = run_recipes(seed, Some(recipe), mutant, Trace::Off);
        ran.report.violation.is_some()
    };
    (from..from + SEEDS_MAX).find(|seed| is_red(*seed, Some(mutant)) && !is_red(*seed, None))
}

#[test]
#[ignore = "simulates for minutes"]
fn every_mutant_of_the_recipes_is_caught() {
    let next = AtomicUsize::new(0);
    let missed: Vec<Mutant> = everywhere(|| {
        let mut missed = Vec::new();
        while let Some((mutant, recipe, seed)) =
            RECIPES_CAUGHT_BY.get(next.fetch_add(1, Ordering::Relaxed))
        {
            match caught(*mutant, *recipe, *seed) {
                Some(found) if found == *seed => {}
                Some(found) => println!("{mutant:?} is caught by {found}, not by {seed} any more"),
                None => missed.push(*mutant),
            }
        }
        missed
    });
    assert!(missed.is_empty(), "not caught: {missed:?}");
}
