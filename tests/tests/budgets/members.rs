//! Budgets on the members of an ensemble.

use tests::ensemble::{Ensemble, EnsembleBuilder, Role};
use tests::requests::get_data;
use tests::{Flavour, RawSession, handshake, or_skip, wait_for};

use super::held::{THROTTLED, call, ephemeral, wait_until_let_in};
use super::{GREEDY, LIMIT, TIMEOUT, is_served, write};

const RATE: usize = 50;

fn greedy_at(ensemble: &Ensemble, id: u64, continued: Option<&RawSession>) -> RawSession {
    let address = ensemble.member(id).client_address().to_string();
    let continued = continued.map(|session| session.session().clone());
    let handshake = handshake(TIMEOUT).with_session(continued);
    RawSession::open_from(GREEDY, &address, &handshake).expect("a session")
}

fn metric(ensemble: &Ensemble, id: u64, name: &str) -> u64 {
    let value = ensemble.member(id).metric(name);
    value.map_or(0, |value| value.parse().expect("a number"))
}

#[test]
fn a_member_counts_requests_and_resources_of_its_own_clients() {
    let builder = EnsembleBuilder::new(&[Flavour::under_test(); 3])
        .setting("budget.greedy.who", "ip:127.0.0.2")
        .setting("budget.greedy.requestsPerSecond", &RATE.to_string())
        .setting("budget.greedy.ephemerals", "2");
    let Some(ensemble) = or_skip("an ensemble with budgets", builder.start()) else {
        return;
    };
    let leader = ensemble.wait_until_all_serve();
    let [here, there] = ensemble.in_role(Role::Follower)[..] else {
        panic!("two followers");
    };
    let mut one = greedy_at(&ensemble, here, None);
    is_served(&mut one, &write("/a", 10));
    for path in ["/1", "/2"] {
        is_served(&mut one, &ephemeral(path));
    }
    // The follower refuses the request itself, so the leader does not count anything.
    assert_eq!(call(&mut one, &ephemeral("/3")), THROTTLED);
    assert_eq!(
        metric(&ensemble, here, "zoarium_budget_requests_refused"),
        1
    );
    assert_eq!(
        metric(&ensemble, leader, "zoarium_budget_requests_refused"),
        0
    );

    // On this member its requests wait. On another member, requests from the same address do not.
    for _ in 0..3 * RATE {
        one.put(&get_data("/a"));
    }
    one.flush().expect("sent");
    wait_for("requests that wait for a budget", LIMIT, || {
        (metric(&ensemble, here, "zoarium_budget_requests_delayed") > 0).then_some(())
    });
    let mut other = greedy_at(&ensemble, there, None);
    assert_eq!(other.sync().expect("an answer").err, 0);
    is_served(&mut other, &get_data("/a"));
    is_served(&mut other, &ephemeral("/3"));
    assert_eq!(
        metric(&ensemble, there, "zoarium_budget_requests_delayed"),
        0
    );
    while one.unanswered() > 0 {
        assert_eq!(one.take().expect("an answer").err, 0);
    }

    // The resources of a session move with it to another member.
    let mut moved = greedy_at(&ensemble, there, Some(&one));
    assert_eq!(moved.session(), one.session());
    assert_eq!(call(&mut moved, &ephemeral("/4")), THROTTLED);
    assert_eq!(call(&mut other, &ephemeral("/4")), THROTTLED);
    let mut left = greedy_at(&ensemble, here, None);
    wait_until_let_in(&mut left, &ephemeral("/5"), 0);
}
