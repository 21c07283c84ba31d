//! The twelve ordering bugs, and the guards that random faults seldom exercise. Each script passes.
//! It fails with its mutant, which `tests/tests/mutants.rs` checks.

use std::fs;
use std::path::Path;

use simulator::Trace;
use simulator::scenarios::{GUARDS, SCENARIOS};

#[test]
fn there_are_twelve_scenarios() {
    let issues: Vec<u32> = SCENARIOS.iter().map(|scenario| scenario.issue).collect();
    let expected = [
        1818, 2846, 3023, 3526, 3911, 4394, 4643, 4646, 4685, 4712, 4785, 4925,
    ];
    assert_eq!(issues, expected);
}

#[test]
fn each_scenario_passes() {
    for scenario in SCENARIOS {
        let violation = scenario.play(Trace::Off);
        assert_eq!(violation, None, "ZOOKEEPER-{}", scenario.issue);
    }
}

#[test]
fn each_guard_holds() {
    for guard in GUARDS {
        assert_eq!(guard.play(Trace::Off), None, "{:?}", guard.mutant);
    }
}

#[test]
fn each_script_is_named_by_the_mutant_that_it_must_catch() {
    let mutants = Path::new(env!("CARGO_MANIFEST_DIR")).join("mutants");
    let of_issues = SCENARIOS.iter().map(|it| (it.mutant, it.issue.to_string()));
    let of_guards = GUARDS.iter().map(|it| (it.mutant, it.mutant.to_owned()));
    for (mutant, script) in of_issues.chain(of_guards) {
        let patch = fs::read_to_string(mutants.join(format!("{mutant}.patch")));
        let patch = patch.unwrap_or_else(|error| panic!("{mutant}.patch: {error}"));
        let line = format!("\nCaught-by: simulator --scenario {script}\n");
        assert!(patch.contains(&line), "{mutant}.patch lacks {line:?}");
    }
}
