//! The survivors of a lost majority continue with their own list (docs/TROUBLESHOOTING.md, "A
//! majority is lost forever").

use std::fs;

use tests::ensemble::{Duty, Ensemble, EnsembleBuilder, Load, check};
use tests::{Flavour, or_skip};

/// Writes of each writer that prove progress.
const PROGRESS: u64 = 30;

/// Gives a member a zoo.cfg with these voters, as if it had never had another list.
fn relist(ensemble: &Ensemble, id: u64, voters: &[u64]) {
    let home = ensemble.member(id).home();
    for entry in fs::read_dir(home).expect("its directory").flatten() {
        let name = entry.file_name();
        if name.to_string_lossy().starts_with("zoo.cfg.dynamic") {
            fs::remove_file(entry.path()).expect("remove a list");
        }
    }
    let servers: Vec<_> = voters.iter().map(|id| (*id, Duty::Participant)).collect();
    ensemble.configure(id, &servers);
}

fn goes_on(builder: EnsembleBuilder) {
    let Some(mut ensemble) = or_skip("a lost majority", builder.start()) else {
        return;
    };
    let load = Load::start(&ensemble.addresses(&ensemble.ids()));
    load.wait_for_progress(PROGRESS);
    let report = load.finish();
    ensemble.wait_for_equal_zxids(&ensemble.ids());
    let leader = ensemble.wait_until_all_serve();
    let mut followers = ensemble.ids();
    followers.retain(|id| *id != leader);
    let (left, lost) = followers.split_at(2);
    for id in lost.iter().chain([&leader]) {
        ensemble.member_mut(*id).kill();
    }
    ensemble.wait_until_none_serves(left);
    for id in left {
        ensemble.member_mut(*id).terminate();
        relist(&ensemble, *id, left);
    }
    for id in left {
        ensemble.start(*id);
    }
    ensemble.wait_until_these_serve(left);
    check::nothing_is_lost(&ensemble, &report);

    // A new server with an old id and an empty disk: first the new one, then the others.
    let again = lost[0];
    let wiped = ensemble.member(again).data_dir().join("version-2");
    fs::remove_dir_all(wiped).expect("an empty disk");
    let mut three = left.to_vec();
    three.push(again);
    relist(&ensemble, again, &three);
    ensemble.start(again);
    let leader = ensemble.wait_for_leader_among(left);
    let mut order = left.to_vec();
    order.sort_by_key(|id| *id == leader);
    for id in order {
        ensemble.member_mut(id).terminate();
        relist(&ensemble, id, &three);
        ensemble.start(id);
        if id != leader {
            ensemble.wait_until_these_serve(left);
        }
    }
    ensemble.wait_until_these_serve(&three);
    check::all_write(&ensemble, "again");
    check::same_trees(&ensemble, &three);
}

#[test]
fn two_of_five_continue_with_a_new_list() {
    goes_on(EnsembleBuilder::new(&[Flavour::under_test(); 5]));
}

#[test]
fn two_of_five_with_lists_in_files_continue() {
    goes_on(EnsembleBuilder::new(&[Flavour::under_test(); 5]).dynamic());
}
