//! Observers behind followers (`observerMasterPort`): both sides of that port, beside Apache
//! ZooKeeper too.

use proto::request::{Request, flags};
use tests::Flavour::{Apache, Zoarium};
use tests::ensemble::{Ensemble, EnsembleBuilder, Load, SETTLE_LIMIT, check};
use tests::requests::create;
use tests::{Flavour, RawSession, or_skip, wait_for};

/// Writes of each writer that show that writing goes on.
const PROGRESS: u64 = 30;
/// Of sessions.
const TIMEOUT_MS: i32 = 20_000;
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

/// A client has given up its observer, which does not know it yet, and has come to the observer's master. Or
/// it was the other way round, and it is at the observer for good: nobody can tell. What comes over the
/// connection of which the master does not think that the client has it is not carried out, and ends it
/// without a word, as a leader has it done when a session has moved; then the client comes again.
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
