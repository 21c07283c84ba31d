//! Configured delays: of a leader for its voters (`leader.maxTimeToWaitForEpoch`), and of an
//! observer before it connects or reconnects (`observer.reconnectDelayMs`,
//! `observer.election.DelayMs`).

use std::fs;
use std::time::Duration;

use tests::ensemble::{Ensemble, EnsembleBuilder, Load, check};
use tests::{Flavour, Port, or_skip, wait_for};

use crate::faults::{LIMIT, PROGRESS, three};

/// Delays are random up to their limit. This limit of 11 days is practically never over.
const ENDLESS_MS: &str = "1000000000";
/// Longer than a healthy observer needs.
const WATCHED: Duration = Duration::from_secs(4);

/// Changes the text of a member's zoo.cfg.
fn edit(ensemble: &Ensemble, id: u64, edit: impl FnOnce(String) -> String) {
    let file = ensemble.member(id).config_file();
    let text = fs::read_to_string(&file).expect("read zoo.cfg");
    fs::write(&file, edit(text)).expect("write zoo.cfg");
}

/// Member 2 votes for member 3 and then cannot reach it, because its list contains a wrong port. It
/// starts another election long before member 3 would stop waiting.
#[test]
fn a_leader_does_not_wait_long_for_an_unreachable_voter() {
    let what = "a leader that is not found";
    let builder = three()
        // 60 seconds, the default of the wait without the key.
        .setting("initLimit", "200")
        .setting("connectToLearnerMasterLimit", "4")
        .property("zookeeper.leader.maxTimeToWaitForEpoch", "500");
    let Some(mut ensemble) = or_skip(what, builder.prepare()) else {
        return;
    };
    let nowhere = Port::take();
    let port = ensemble.member(3).quorum_address().port();
    edit(&ensemble, 2, |text| {
        text.replace(&format!(":{port}:"), &format!(":{}:", nowhere.number()))
    });
    ensemble.start(2);
    ensemble.start(3);
    let word = match Flavour::under_test() {
        Flavour::Zoarium => "stopped leading",
        _ => "Quit leading due to voter changed mind",
    };
    wait_for("end of a wait in vain", LIMIT, || {
        ensemble.member(3).log().contains(word).then_some(())
    });
    // With a voter that reaches it, it leads. The earlier failure has no lasting effect.
    ensemble.start(1);
    assert_eq!(ensemble.wait_until_these_serve(&[1, 3]), 3);
    ensemble.member_mut(2).kill();
    edit(&ensemble, 2, |text| {
        text.replace(&format!(":{}:", nowhere.number()), &format!(":{port}:"))
    });
    ensemble.start(2);
    assert_eq!(ensemble.wait_until_all_serve(), 3);
}

#[test]
fn delays_of_observers_do_not_apply_to_voters() {
    let what = "delays of observers";
    let flavour = Flavour::under_test();
    let builder = EnsembleBuilder::new(&[flavour; 3]).observers(&[flavour; 2]);
    let Some(mut ensemble) = or_skip(what, builder.prepare()) else {
        return;
    };
    let keys = ["observer.reconnectDelayMs", "observer.election.DelayMs"];
    let [before_dial, before_look] = keys.map(|key| format!("{key}={ENDLESS_MS}\n"));
    // Neither delay applies to a voter.
    for id in [1, 2, 3] {
        edit(&ensemble, id, |text| text + &before_dial + &before_look);
    }
    edit(&ensemble, 4, |text| text + &before_dial);
    edit(&ensemble, 5, |text| text + &before_look);
    for id in ensemble.ids() {
        ensemble.start(id);
    }
    let leader = ensemble.wait_until_these_serve(&[1, 2, 3]);
    // Member 5 connects immediately the first time, and member 4 does not.
    ensemble.wait_until_these_serve(&[1, 2, 3, 5]);
    ensemble.assert_none_serves_for(&[4], WATCHED);
    let load = Load::start(&ensemble.addresses(&[1, 2, 3]));
    load.wait_for_progress(PROGRESS);
    ensemble.member_mut(leader).kill();
    let mut voters = vec![1, 2, 3];
    voters.retain(|id| *id != leader);
    ensemble.wait_until_these_serve(&voters);
    load.wait_for_progress(PROGRESS);
    ensemble.assert_none_serves_for(&[4, 5], WATCHED);
    // An endless delay does not prevent the stop of a server.
    for id in [4, 5] {
        ensemble.member_mut(id).terminate();
        edit(&ensemble, id, |text| {
            text.replace(&before_dial, "").replace(&before_look, "")
        });
        ensemble.start(id);
    }
    ensemble.start(leader);
    ensemble.wait_until_all_serve();
    let report = load.finish();
    check::nothing_is_lost(&ensemble, &report);
}
