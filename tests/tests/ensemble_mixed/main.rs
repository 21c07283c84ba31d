//! Zoarium beside Apache ZooKeeper in one ensemble, in every role.
//!
//! `ours` is Zoarium; `ZOARIUM_TEST_SERVER=apache` puts Apache ZooKeeper in its place too, which
//! tells whether a scenario itself is right.

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

/// Writes of each writer that show that writing goes on.
const PROGRESS: u64 = 30;

/// Zoarium, unless the scenarios themselves are tested.
fn ours() -> Flavour {
    Flavour::under_test()
}

/// Two servers under test or of Java's, to have scenarios both ways round.
fn both_ways() -> [(Flavour, Flavour); 2] {
    [(ours(), Flavour::Apache), (Flavour::Apache, ours())]
}

/// Followers of one flavour and their leader, which is the last voter, of another.
fn led(
    what: &str,
    leader: Flavour,
    followers: &[Flavour],
    build: impl FnOnce(EnsembleBuilder) -> EnsembleBuilder,
) -> Option<Ensemble> {
    let mut voters = followers.to_vec();
    voters.push(leader);
    let builder = build(EnsembleBuilder::new(&voters));
    or_skip(what, builder.start_led_by_last_voter())
}
