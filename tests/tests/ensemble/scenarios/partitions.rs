//! Partitions: only a side with a quorum elects a leader and serves.

use std::time::Duration;

use tests::ensemble::{Ensemble, EnsembleBuilder, Load, check};
use tests::{Flavour, or_skip};

/// Many times the duration of an election.
const NEVER: Duration = Duration::from_secs(4);
/// Writes of each writer that prove progress.
const PROGRESS: u64 = 30;

/// Starts voters of the tested flavour in a network that can be cut.
fn ensemble(voters: u8) -> Option<Ensemble> {
    let builder = EnsembleBuilder::new(&vec![Flavour::under_test(); usize::from(voters)]);
    or_skip("partitions", builder.in_network(voters).start())
}

/// Returns the leader's side and the other one, with this many followers cut off.
fn sides(ensemble: &Ensemble, cut_off: usize) -> (u64, Vec<u64>, Vec<u64>) {
    let leader = ensemble.wait_until_all_serve();
    let mut others = ensemble.voters();
    others.retain(|id| *id != leader);
    let cut = others.split_off(others.len() - cut_off);
    others.push(leader);
    (leader, others, cut)
}

/// Expected outcome when followers are cut off.
enum Outcome {
    LeaderGoesOn,
    OthersElect,
    NobodyServes,
}

fn cut_off(ensemble: &mut Ensemble, load: &Load, count: usize, outcome: &Outcome) {
    let (leader, with_leader, cut) = sides(ensemble, count);
    ensemble.network().cut(&with_leader, &cut);
    match outcome {
        Outcome::LeaderGoesOn => {
            ensemble.wait_until_none_serves(&cut);
            ensemble.assert_none_serves_for(&cut, NEVER);
            assert_eq!(ensemble.wait_until_these_serve(&with_leader), leader);
            load.wait_for_progress(PROGRESS);
        }
        Outcome::OthersElect => {
            let next = ensemble.wait_until_these_serve(&cut);
            assert_ne!(next, leader);
            ensemble.wait_until_none_serves(&with_leader);
            load.wait_for_progress(PROGRESS);
            ensemble.assert_none_serves_for(&with_leader, NEVER);
            assert_eq!(ensemble.leaders(), [next]);
        }
        Outcome::NobodyServes => {
            ensemble.wait_until_none_serves(&ensemble.ids());
            ensemble.assert_none_serves_for(&ensemble.ids(), NEVER);
        }
    }
    ensemble.network().heal();
    ensemble.wait_until_all_serve();
    load.wait_for_progress(PROGRESS);
}

fn survives_cuts(voters: u8, last: &Outcome) {
    let Some(mut ensemble) = ensemble(voters) else {
        return;
    };
    // A writer on every member, on both sides.
    let load = Load::start(&ensemble.addresses(&ensemble.ids()));
    for count in [1, 2] {
        cut_off(&mut ensemble, &load, count, &Outcome::LeaderGoesOn);
    }
    cut_off(&mut ensemble, &load, 3, last);
    let report = load.finish();
    println!("{voters} voters: {}", report.summary());
    check::nothing_is_lost(&ensemble, &report);
}

#[test]
fn of_five_voters_the_side_with_three_serves() {
    survives_cuts(5, &Outcome::OthersElect);
}

#[test]
fn two_halves_of_six_voters_do_not_serve() {
    survives_cuts(6, &Outcome::NobodyServes);
}

/// The packets from the leader are lost, or the packets to the leader. In both cases it must step
/// down, and none of its clients may receive a success that the others do not know.
fn replaced_when_cut_one_way(is_heard: bool) {
    let Some(mut ensemble) = ensemble(3) else {
        return;
    };
    let load = Load::start(&ensemble.addresses(&ensemble.ids()));
    load.wait_for_progress(PROGRESS);
    let (leader, _, others) = sides(&ensemble, 2);
    for &other in &others {
        if is_heard {
            ensemble.network().cut_one_way(other, leader);
        } else {
            ensemble.network().cut_one_way(leader, other);
        }
    }
    let next = ensemble.wait_until_these_serve(&others);
    ensemble.wait_until_none_serves(&[leader]);
    load.wait_for_progress(PROGRESS);
    assert_eq!(ensemble.leaders(), [next]);
    ensemble.network().heal();
    ensemble.wait_until_all_serve();
    load.wait_for_progress(PROGRESS);
    let report = load.finish();
    println!("cut one way: {}", report.summary());
    assert_eq!(report.sessions_lost(), 0);
    check::nothing_is_lost(&ensemble, &report);
}

#[test]
fn a_leader_that_receives_nothing_is_replaced() {
    replaced_when_cut_one_way(true);
}

#[test]
fn a_leader_that_cannot_send_is_replaced() {
    replaced_when_cut_one_way(false);
}
