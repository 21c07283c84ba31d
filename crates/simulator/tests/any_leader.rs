//! Zab is safe whoever is elected. Elections that choose by anything but the newest history cost time,
//! and nothing else: the elected server finds out that it lacks what others have, and does not lead.

use simulator::{Mutant, run};

const SEEDS: u64 = 40;

#[test]
fn nothing_breaks_but_liveness_where_elections_choose_anybody() {
    let (mut committed, mut epochs) = (0, 0);
    for seed in 5000..5000 + SEEDS {
        let report = run(seed, Mutant::ElectsAnybody, false);
        let broken = report
            .violation
            .filter(|broken| broken.invariant != "liveness");
        assert_eq!(broken, None, "seed {seed}");
        committed += report.committed;
        epochs += report.epochs;
    }
    println!("{committed} committed in {epochs} epochs");
    assert!(committed > 1000 && epochs > 60);
}
