//! The twelve order bugs: each script is green with a host that does its duty, and red with the host
//! of its mutant.

use simulator::Mutant;
use simulator::scenarios::SCENARIOS;

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
        let violation = scenario.play(Mutant::None, false);
        assert_eq!(violation, None, "ZOOKEEPER-{}", scenario.issue);
    }
}

#[test]
fn each_is_red_without_its_guard() {
    for scenario in SCENARIOS {
        let violation = scenario.play(scenario.mutant, false);
        assert!(violation.is_some(), "ZOOKEEPER-{}", scenario.issue);
    }
}
