//! Observers behind followers (`observerMasterPort`): both sides of that port, beside Apache
//! ZooKeeper too.

use tests::Flavour::{Apache, Zoarium};
use tests::ensemble::{Ensemble, EnsembleBuilder, Load, SETTLE_LIMIT, check};
use tests::{Flavour, or_skip, wait_for};

/// Writes of each writer that show that writing goes on.
const PROGRESS: u64 = 30;
/// The one observer.
const OBSERVER: u64 = 4;

/// Three voters and an observer, each with an address of its own, since all have the same port.
fn ensemble(voters: Flavour, observer: Flavour) -> Option<Ensemble> {
    let builder = EnsembleBuilder::new(&[voters; 3])
        .observers(&[observer])
        .setting("observerMasterPort", "2191")
        .in_network(4);
    or_skip("an observer behind a follower", builder.start())
}

/// Whom the observer learns from, once that server says so too.
fn wait_for_master(ensemble: &Ensemble, other_than: Option<u64>) -> u64 {
    wait_for("an observer behind a follower", SETTLE_LIMIT, || {
        let master = ensemble.member(OBSERVER).metric("observer_master_id")?;
        let master = master
            .parse()
            .ok()
            .filter(|master| Some(*master) != other_than)?;
        let count = ensemble.member(master).metric("synced_observers")?;
        (count == "1").then_some(master)
    })
}

/// Writes through the observer, loses its master and goes on behind the other follower.
fn observe_through_the_loss_of_the_master(voters: Flavour, observer: Flavour) {
    let Some(mut ensemble) = ensemble(voters, observer) else {
        return;
    };
    let leader = ensemble.wait_until_all_serve();
    let master = wait_for_master(&ensemble, None);
    assert_ne!(master, leader);
    let load = Load::start(&ensemble.addresses(&[OBSERVER]));
    load.wait_for_progress(PROGRESS);
    let at_leader = ensemble.member(leader).metric("synced_observers");
    assert_eq!(at_leader.as_deref(), Some("0"));
    let mut session = ensemble.super_session(OBSERVER).expect("a session");
    assert_eq!(session.sync().expect("an answer to a sync").err, 0);
    ensemble.member_mut(master).kill();
    let next = wait_for_master(&ensemble, Some(master));
    assert_ne!(next, leader);
    load.wait_for_progress(PROGRESS);
    ensemble.start(master);
    ensemble.wait_until_all_serve();
    let report = load.finish();
    check::nothing_is_lost(&ensemble, &report);
    check::all_agree(&ensemble);
}

#[test]
fn an_observer_learns_from_followers() {
    let flavour = Flavour::under_test();
    observe_through_the_loss_of_the_master(flavour, flavour);
}

#[test]
fn a_java_observer_learns_from_followers() {
    observe_through_the_loss_of_the_master(Zoarium, Apache);
}

#[test]
fn an_observer_learns_from_java_followers() {
    observe_through_the_loss_of_the_master(Apache, Zoarium);
}
