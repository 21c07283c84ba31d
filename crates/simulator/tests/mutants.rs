//! Every deliberate bug is caught. Invariants that nothing can break would prove nothing.

use std::sync::atomic::{AtomicUsize, Ordering};

use simulator::scenarios::{GUARDS, SCENARIOS};
use simulator::{CAUGHT_BY, Mutant, RECIPES_CAUGHT_BY, Trace, mutants, run};

/// A change of the simulator changes the meaning of the seeds. Then one of the following seeds must
/// catch the mutant.
const SEEDS_MAX: u64 = 300;
/// Minimum number of mutants.
const MUTANTS_MIN: usize = 60;

#[test]
#[ignore = "simulates for minutes"]
fn every_mutant_has_a_seed_or_a_script() {
    for mutant in mutants() {
        let by_seed = CAUGHT_BY.iter().any(|(caught, _)| *caught == mutant);
        let by_script = SCENARIOS.iter().any(|scenario| scenario.mutant == mutant);
        let by_guard = GUARDS.iter().any(|guard| guard.mutant == mutant);
        let mut of_recipes = RECIPES_CAUGHT_BY.iter();
        let by_recipe = of_recipes.any(|(caught, ..)| *caught == mutant);
        assert!(by_seed || by_script || by_guard || by_recipe, "{mutant:?}");
    }
    assert!(mutants().count() >= MUTANTS_MIN);
}

/// Returns the first of some seeds that fails with the mutant, and passes without it.
fn caught(mutant: Mutant, from: u64) -> Option<u64> {
    let is_red = |seed, mutant| run(seed, mutant, Trace::Off).violation.is_some();
    (from..from + SEEDS_MAX).find(|seed| is_red(*seed, Some(mutant)) && !is_red(*seed, None))
}

#[test]
#[ignore = "simulates for minutes"]
fn every_mutant_of_the_list_is_caught() {
    let next = AtomicUsize::new(0);
    let work = || {
        let mut missed = Vec::new();
        while let Some((mutant, seed)) = CAUGHT_BY.get(next.fetch_add(1, Ordering::Relaxed)) {
            match caught(*mutant, *seed) {
                Some(found) if found == *seed => {}
                Some(found) => println!("{mutant:?} is caught by {found}, not by {seed} any more"),
                None => missed.push((mutant, seed)),
            }
        }
        missed
    };
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let missed: Vec<_> = std::thread::scope(|scope| {
        let workers: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        let joined = workers.into_iter().map(|worker| worker.join());
        joined
            .flat_map(|missed| missed.expect("a worker"))
            .collect()
    });
    assert!(missed.is_empty(), "not caught: {missed:?}");
}
