//! Every deliberate bug is caught: invariants that nothing can break would prove nothing.

use simulator::scenarios::SCENARIOS;
use simulator::{CAUGHT_BY, Mutant, run};

/// A change of the simulator gives seeds another meaning. Then one of the next must do.
const SEEDS_MAX: u64 = 300;

#[test]
fn every_mutant_has_a_seed_or_a_script() {
    for mutant in Mutant::all() {
        let by_seed = CAUGHT_BY.iter().any(|(caught, _)| *caught == mutant);
        let by_script = SCENARIOS.iter().any(|scenario| scenario.mutant == mutant);
        assert!(by_seed || by_script, "{mutant:?}");
    }
}

#[test]
fn every_mutant_of_the_list_is_caught() {
    for (mutant, seed) in CAUGHT_BY {
        let is_caught = |seed: &u64| run(*seed, *mutant, false).violation.is_some();
        let caught = (*seed..*seed + SEEDS_MAX).find(is_caught);
        assert!(caught.is_some(), "{mutant:?} from seed {seed} on");
        if caught != Some(*seed) {
            println!("{mutant:?} is caught by {caught:?}, not by {seed} any more");
        }
    }
}
