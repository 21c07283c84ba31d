//! The twelve ordering bugs, and the guards that random faults seldom exercise. Each script passes,
//! and fails with its mutant.

use simulator::Trace;
use simulator::scenarios::{GUARDS, SCENARIOS};

#[test]
fn there_are_twelve() {
    let issues: Vec<u32> = SCENARIOS.iter().map(|scenario| scenario.issue).collect();
    let expected = [
        1818, 2846, 3023, 3526, 3911, 4394, 4643, 4646, 4685, 4712, 4785, 4925,
    ];
    assert_eq!(issues, expected);
}

#[test]
fn each_is_green() {
    for scenario in SCENARIOS {
        let violation = scenario.play(None, Trace::Off);
        assert_eq!(violation, None, "ZOOKEEPER-{}", scenario.issue);
    }
}

#[test]
fn each_is_red_without_its_guard() {
    for scenario in SCENARIOS {
        let violation = scenario.play(Some(scenario.mutant), Trace::Off);
        assert!(violation.is_some(), "ZOOKEEPER-{}", scenario.issue);
    }
}

#[test]
fn each_guard_holds() {
    for guard in GUARDS {
        assert_eq!(guard.play(None, Trace::Off), None, "{:?}", guard.mutant);
    }
}

#[test]
fn each_guard_is_needed() {
    for guard in GUARDS {
        let violation = guard.play(Some(guard.mutant), Trace::Off);
        println!("{:?}: {violation:?}", guard.mutant);
        assert!(violation.is_some(), "{:?}", guard.mutant);
    }
}
