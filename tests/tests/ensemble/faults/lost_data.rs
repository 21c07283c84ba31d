//! Members without data. With `db.autocreate=false` they do not vote until a leader has sent them a
//! snapshot, or an operator has created the file `initialize` next to the data.

use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use tests::ensemble::{Ensemble, EnsembleBuilder, Load, check};
use tests::{Flavour, or_skip};

use crate::faults::{PROGRESS, three};

const WHAT: &str = "members without data";
/// Longer than an election among members with votes.
const WATCHED: Duration = Duration::from_secs(4);

fn builder() -> EnsembleBuilder {
    three().property("zookeeper.db.autocreate", "false")
}

fn marker(ensemble: &Ensemble, id: u64) -> PathBuf {
    ensemble.member(id).data_dir().join("initialize")
}

/// Creates the file with which an operator permits this member to begin without data.
fn initialize(ensemble: &Ensemble, id: u64) {
    if ensemble.member(id).flavour() != Flavour::Zoarium {
        // Java has left epoch files there, which it would then refuse.
        fs::remove_dir_all(ensemble.member(id).data_dir().join("version-2")).ok();
    }
    fs::write(marker(ensemble, id), "").expect("write the file");
}

fn lose_data(ensemble: &Ensemble, id: u64) {
    let data = ensemble.member(id).data_dir().join("version-2");
    fs::remove_dir_all(data).expect("remove the data");
}

fn kill(ensemble: &mut Ensemble, ids: &[u64]) {
    for &id in ids {
        ensemble.member_mut(id).kill();
    }
}

#[test]
fn empty_members_elect_no_leader_before_initialization() {
    let Some(mut ensemble) = or_skip(WHAT, builder().prepare()) else {
        return;
    };
    for id in [1, 2, 3] {
        ensemble.start(id);
    }
    ensemble.assert_none_serves_for(&[1, 2, 3], WATCHED);
    // One vote is not a quorum, and the two others do not have votes.
    ensemble.member_mut(1).terminate();
    initialize(&ensemble, 1);
    ensemble.start(1);
    ensemble.assert_none_serves_for(&[1, 2, 3], WATCHED);
    ensemble.member_mut(2).terminate();
    initialize(&ensemble, 2);
    ensemble.start(2);
    // Two are a quorum, and send the third its data. It does not lead, although its id is the
    // highest.
    assert_eq!(ensemble.wait_until_all_serve(), 2);
    for id in [1, 2] {
        let marker = marker(&ensemble, id);
        assert!(!marker.exists(), "{} counts once", marker.display());
    }
    let load = Load::start(&ensemble.addresses(&[1, 2, 3]));
    load.wait_for_progress(PROGRESS);
    // From then on it votes like any other member: without it there is no quorum. The next leader
    // depends on the last messages of the killed leader.
    ensemble.member_mut(2).kill();
    ensemble.wait_until_all_serve();
    load.wait_for_progress(PROGRESS);
    ensemble.start(2);
    ensemble.wait_until_all_serve();
    let report = load.finish();
    check::nothing_is_lost(&ensemble, &report);
}

/// With the default setting, an ensemble would overwrite data that only the lost disk and one other
/// member had.
#[test]
fn a_member_that_lost_its_data_does_not_vote() {
    let Some(mut ensemble) = or_skip(WHAT, builder().prepare()) else {
        return;
    };
    for id in [1, 2, 3] {
        initialize(&ensemble, id);
        ensemble.start(id);
    }
    ensemble.wait_until_all_serve();
    // Member 1 does not have the following writes.
    ensemble.member_mut(1).kill();
    ensemble.wait_until_these_serve(&[2, 3]);
    let load = Load::start(&ensemble.addresses(&[2, 3]));
    load.wait_for_progress(PROGRESS);
    let report = load.finish();
    kill(&mut ensemble, &[2, 3]);
    lose_data(&ensemble, 3);

    // An old history and an empty one. By their number they would be a quorum, which would lose the
    // writes.
    ensemble.start(3);
    ensemble.start(1);
    ensemble.assert_none_serves_for(&[1, 3], WATCHED);
    // The member with the writes leads.
    ensemble.start(2);
    assert_eq!(ensemble.wait_until_all_serve(), 2);
    check::nothing_is_lost(&ensemble, &report);

    // Two of three members without data do not start an empty ensemble next to the one that has
    // data.
    kill(&mut ensemble, &[1, 2, 3]);
    lose_data(&ensemble, 1);
    lose_data(&ensemble, 3);
    for id in [1, 3] {
        ensemble.start(id);
    }
    ensemble.assert_none_serves_for(&[1, 3], WATCHED);
    ensemble.start(2);
    ensemble.assert_none_serves_for(&[1, 2, 3], WATCHED);
    // Two disks of three are lost permanently. The operator confirms this, and the third member's
    // history is valid.
    ensemble.member_mut(1).kill();
    initialize(&ensemble, 1);
    ensemble.start(1);
    assert_eq!(ensemble.wait_until_all_serve(), 2);
    check::nothing_is_lost(&ensemble, &report);
}
