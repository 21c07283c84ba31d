//! Zoarium and Apache ZooKeeper in one ensemble, in every role.
//!
//! `ours` is Zoarium. `ZOARIUM_TEST_SERVER=apache` replaces it with Apache ZooKeeper, which shows
//! whether a scenario itself is right.

mod failover;
mod migration;
mod older;
mod reconfiguration;
mod roles;
mod sessions;
mod synchronisation;

use tests::Flavour;
use tests::ensemble::{Ensemble, EnsembleBuilder};
use tests::or_skip;

/// Writes of each writer that prove progress.
const PROGRESS: u64 = 30;

/// Returns Zoarium, unless the scenarios themselves are tested.
fn ours() -> Flavour {
    Flavour::under_test()
}

/// Runs a scenario with each kind in each role, concurrently, because the runs mostly wait.
fn both_ways(scenario: impl Fn(Flavour, Flavour) + Sync) {
    std::thread::scope(|scope| {
        let other_way = scope.spawn(|| scenario(Flavour::Apache, ours()));
        scenario(ours(), Flavour::Apache);
        // Its message was printed at the failure.
        assert!(other_way.join().is_ok(), "failed with a leader of Java's");
    });
}

/// Starts followers of one flavour, with a leader of another flavour, which is the last voter.
fn led(
    what: &str,
    leader: Flavour,
    followers: &[Flavour],
    build: impl FnOnce(EnsembleBuilder) -> EnsembleBuilder,
) -> Option<Ensemble> {
    let mut voters = followers.to_vec();
    voters.push(leader);
    // Many JVMs that start concurrently can delay one of them for a while.
    let builder = EnsembleBuilder::new(&voters).setting("syncLimit", "14");
    let builder = build(builder);
    or_skip(what, builder.start_led_by_last_voter())
}
