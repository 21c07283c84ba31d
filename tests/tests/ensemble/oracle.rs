//! Ensembles of two with an oracle (`oraclePath`). One server of two serves alone only if its file
//! permits it.

use std::fs;
use std::time::Duration;

use tests::ensemble::{Ensemble, EnsembleBuilder, Load, check};
use tests::{Flavour, or_skip};

/// Writes of each writer that prove progress.
const PROGRESS: u64 = 30;
/// Observation time without service: several elections.
const WATCHED: Duration = Duration::from_secs(5);

/// Starts two servers, each with an oracle that contains 0.
fn of_two() -> Option<Ensemble> {
    let flavour = Flavour::under_test();
    // Relative to the directory of each server.
    let builder = EnsembleBuilder::new(&[flavour; 2]).setting("oraclePath", "oracle");
    let mut ensemble = or_skip("an ensemble of two with an oracle", builder.prepare())?;
    for id in ensemble.ids() {
        say(&ensemble, id, "0");
        ensemble.start(id);
    }
    ensemble.wait_until_all_serve();
    Some(ensemble)
}

fn say(ensemble: &Ensemble, id: u64, word: &str) {
    let file = ensemble.member(id).home().join("oracle");
    fs::write(file, word).expect("write the oracle's word");
}

fn write_through(ensemble: &Ensemble, id: u64) {
    let load = Load::start(&ensemble.addresses(&[id]));
    load.wait_for_progress(PROGRESS);
    let report = load.finish();
    check::nothing_is_lost(ensemble, &report);
    let session = ensemble.super_session(id);
    report.remove(&mut session.expect("a session"));
}

#[test]
fn the_server_named_by_the_oracle_continues_and_the_other_returns() {
    let Some(mut ensemble) = of_two() else { return };
    let leader = ensemble.wait_for_leader();
    let follower = 3 - leader;
    say(&ensemble, leader, "1");
    let load = Load::start(&ensemble.addresses(&[leader]));
    load.wait_for_progress(PROGRESS);
    ensemble.member_mut(follower).kill();
    load.wait_for_progress(PROGRESS);
    assert_eq!(
        ensemble.leaders(),
        [leader],
        "it leads on, without an election"
    );
    ensemble.start(follower);
    ensemble.wait_until_all_serve();
    load.wait_for_progress(PROGRESS);
    let report = load.finish();
    check::nothing_is_lost(&ensemble, &report);
    check::all_agree(&ensemble);
}

#[test]
fn a_server_left_alone_does_not_serve_until_the_oracle_names_it() {
    let Some(mut ensemble) = of_two() else { return };
    let leader = ensemble.wait_for_leader();
    let follower = 3 - leader;
    ensemble.member_mut(leader).kill();
    ensemble.wait_until_none_serves(&[follower]);
    ensemble.assert_none_serves_for(&[follower], WATCHED);
    say(&ensemble, follower, "1");
    ensemble.wait_until_these_serve(&[follower]);
    write_through(&ensemble, follower);
    // The oracle changes its answer: a leader that is still alone stops.
    say(&ensemble, follower, "0");
    ensemble.wait_until_none_serves(&[follower]);
    ensemble.start(leader);
    ensemble.wait_until_all_serve();
    check::all_agree(&ensemble);
}
