//! Observers of followers (`observerMasterPort`): both sides of that port, also with Apache
//! ZooKeeper.

use proto::request::{Request, flags};
use tests::Flavour::{Apache, Zoarium};
use tests::ensemble::{Ensemble, EnsembleBuilder, Load, SETTLE_LIMIT, check};
use tests::requests::create;
use tests::{Flavour, RawSession, or_skip, wait_for};

/// Writes of each writer that prove progress.
const PROGRESS: u64 = 30;
/// Session timeout.
const TIMEOUT_MS: i32 = 20_000;
/// Id of the only observer.
const OBSERVER: u64 = 4;

/// Starts three voters and an observer, each with a separate address, because all have the same
/// port.
fn ensemble(voters: Flavour, observer: Flavour) -> Option<Ensemble> {
    let builder = EnsembleBuilder::new(&[voters; 3])
        .observers(&[observer])
        .setting("observerMasterPort", "2191")
        .in_network(4);
    or_skip("an observer behind a follower", builder.start())
}

/// Returns the server from which the observer learns, once that server confirms it.
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

/// Writes through the observer, kills its master, and continues with the other follower.
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

/// A client has left its observer, which does not know this yet, and has connected to the
/// observer's master. Or it moved in the opposite direction and remains at the observer: no server
/// can tell. The master does not execute requests from the connection that it considers old, and
/// ends it silently, as a leader does when a session has moved. The client then reconnects.
fn a_session_that_has_moved_comes_back(observer: Flavour) {
    let Some(ensemble) = ensemble(Zoarium, observer) else {
        return;
    };
    ensemble.wait_until_all_serve();
    let master = wait_for_master(&ensemble, None);
    let address = |id: u64| ensemble.member(id).client_address().to_string();
    let open = |id, continued: Option<&RawSession>| {
        let continued = continued.map(|session| session.session().clone());
        RawSession::open(&address(id), continued.as_ref(), TIMEOUT_MS).expect("a session")
    };
    let create = |session: &mut RawSession, path: &str| {
        let request = Request::Write(create(path, "", flags::EPHEMERAL));
        session.call(&request).map(|answer| answer.err)
    };
    let mut old = open(OBSERVER, None);
    assert_eq!(create(&mut old, "/before").ok(), Some(0));
    let mut moved = open(master, Some(&old));
    assert_eq!(create(&mut moved, "/moved").ok(), Some(0));
    let late = create(&mut old, "/late");
    assert!(late.is_err(), "it is refused without an answer: {late:?}");
    let mut back = open(OBSERVER, Some(&old));
    assert_eq!(create(&mut back, "/late").ok(), Some(0), "it was not made");
    assert!(create(&mut moved, "/later").is_err());
    check::all_agree(&ensemble);
}

#[test]
fn a_session_that_has_moved_comes_back_to_its_observer() {
    a_session_that_has_moved_comes_back(Flavour::under_test());
}

#[test]
#[ignore = "runs other people's programs"]
fn a_session_that_has_moved_comes_back_to_its_java_observer() {
    a_session_that_has_moved_comes_back(Apache);
}

#[test]
fn an_observer_learns_from_followers() {
    let flavour = Flavour::under_test();
    observe_through_the_loss_of_the_master(flavour, flavour);
}

#[test]
#[ignore = "runs other people's programs"]
fn a_java_observer_learns_from_followers() {
    observe_through_the_loss_of_the_master(Zoarium, Apache);
}

#[test]
#[ignore = "runs other people's programs"]
fn an_observer_learns_from_java_followers() {
    observe_through_the_loss_of_the_master(Apache, Zoarium);
}
