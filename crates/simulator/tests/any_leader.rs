//! Zab is safe whichever server is elected. Elections that ignore the newest history only cost
//! time: the elected server finds out that it lacks data, and does not lead.

use simulator::{Mutant, Trace, run};

const SEEDS: u64 = 40;

/// The only invariants that may break: the ensemble is well in the end, and soon.
const LIVENESS: [&str; 2] = ["liveness", "well soon after everything is mended"];

#[test]
#[ignore = "simulates for minutes"]
fn nothing_breaks_but_liveness_where_elections_choose_anybody() {
    let (mut committed, mut epochs) = (0, 0);
    for seed in 5000..5000 + SEEDS {
        let report = run(seed, Some(Mutant::ElectsAnybody), Trace::Off);
        let broken = report
            .violation
            .filter(|broken| !LIVENESS.contains(&broken.invariant));
        assert_eq!(broken, None, "seed {seed}");
        committed += report.committed;
        epochs += report.epochs;
    }
    println!("{committed} committed in {epochs} epochs");
    assert!(committed > 1000 && epochs > 60);
}
