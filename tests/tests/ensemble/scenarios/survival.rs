//! The number of failures that an ensemble survives. A quorum is more than half of the voters, and
//! observers do not count.

use std::time::Duration;

use tests::ensemble::{Ensemble, EnsembleBuilder, Load, check};
use tests::{Flavour, or_skip};

/// Many times the duration of an election. A member that does not serve within this time does not
/// serve.
const NEVER: Duration = Duration::from_secs(4);
/// Writes of each writer that prove progress.
const PROGRESS: u64 = 30;

/// Starts an ensemble with these numbers of voters and observers, all of the tested flavour.
fn ensemble(voters: usize, observers: usize) -> Option<Ensemble> {
    let flavour = Flavour::under_test();
    let builder = EnsembleBuilder::new(&vec![flavour; voters]);
    let started = builder.observers(&vec![flavour; observers]).start();
    or_skip("survived failures", started)
}

/// Kills the leader and then followers until `survived` members are down, which must not stop the
/// ensemble. One more kill must stop it. When that member restarts, the ensemble must continue.
fn survives(voters: usize, survived: usize) {
    let Some(mut ensemble) = ensemble(voters, 0) else {
        return;
    };
    let load = Load::start(&ensemble.addresses(&ensemble.ids()));
    load.wait_for_progress(PROGRESS);
    let mut failed = Vec::new();
    for _ in 0..survived {
        let leader = ensemble.wait_until_all_serve();
        ensemble.member_mut(leader).kill();
        failed.push(leader);
        ensemble.wait_until_all_serve();
        load.wait_for_progress(PROGRESS);
    }
    let leader = ensemble.wait_until_all_serve();
    let mut followers = ensemble.up();
    followers.retain(|id| *id != leader);
    let last = followers.pop().expect("a follower is left");
    ensemble.member_mut(last).kill();
    assert_nobody_serves(&ensemble);
    ensemble.start(last);
    ensemble.wait_until_all_serve();
    load.wait_for_progress(PROGRESS);
    for id in failed {
        ensemble.start(id);
    }
    ensemble.wait_until_all_serve();
    let report = load.finish();
    println!("{voters} voters: {}", report.summary());
    assert_eq!(report.sessions_lost(), 0);
    check::nothing_is_lost(&ensemble, &report);
}

/// Checks that without a quorum no member serves, permanently.
fn assert_nobody_serves(ensemble: &Ensemble) {
    let up = ensemble.up();
    ensemble.wait_until_none_serves(&up);
    ensemble.assert_none_serves_for(&up, NEVER);
}

#[test]
fn two_voters_survive_no_failure() {
    survives(2, 0);
}

#[test]
fn three_voters_survive_one_failure() {
    survives(3, 1);
}

#[test]
fn four_voters_survive_one_failure() {
    survives(4, 1);
}

#[test]
fn five_voters_survive_two_failures() {
    survives(5, 2);
}

#[test]
fn six_voters_survive_two_failures() {
    survives(6, 2);
}

#[test]
fn observers_do_not_count() {
    let Some(mut ensemble) = ensemble(3, 2) else {
        return;
    };
    let load = Load::start(&ensemble.addresses(&ensemble.ids()));
    load.wait_for_progress(PROGRESS);
    let with_leader = |ensemble: &Ensemble| {
        let leader = ensemble.wait_until_all_serve();
        let mut followers = ensemble.voters();
        followers.retain(|id| *id != leader);
        (leader, followers)
    };
    // Both followers, then the leader and a follower: each time three of five servers remain.
    let (_, followers) = with_leader(&ensemble);
    for victims in [followers, Vec::new()] {
        let victims = if victims.is_empty() {
            let (leader, followers) = with_leader(&ensemble);
            vec![leader, followers[0]]
        } else {
            victims
        };
        for &id in &victims {
            ensemble.member_mut(id).kill();
        }
        assert_nobody_serves(&ensemble);
        for &id in &victims {
            ensemble.start(id);
        }
        ensemble.wait_until_all_serve();
        load.wait_for_progress(PROGRESS);
    }
    // Observers may be killed freely.
    let observers: Vec<_> = ensemble.ids().split_off(3);
    for &id in &observers {
        ensemble.member_mut(id).kill();
    }
    load.wait_for_progress(PROGRESS);
    for &id in &observers {
        ensemble.start(id);
    }
    ensemble.wait_until_all_serve();
    let report = load.finish();
    println!("3 voters, 2 observers: {}", report.summary());
    check::nothing_is_lost(&ensemble, &report);
}
