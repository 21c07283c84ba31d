use super::*;
use crate::quorum::Majority;

use MemberState::{
    Follower, Leader, Looking, NeverReached, Observer, ReadOnly, Standalone, Unknown, Unreachable,
};

fn members(states: &[MemberState]) -> Vec<MemberHealth> {
    let numbered = (1..).zip(states);
    let members = numbered.map(|(number, state)| MemberHealth {
        name: format!("server {number}"),
        sid: Some(Sid(number)),
        state: *state,
        lag_ms: None,
    });
    members.collect()
}

/// Returns the line for an ensemble with three voters. Further members are observers.
fn line(states: &[MemberState], synced: Option<usize>) -> String {
    let quorum = Majority::new((1..=3).map(Sid));
    assess(&members(states), Some(&quorum), synced).to_string()
}

#[test]
fn the_verdict_follows_from_the_members() {
    let table: [(&[MemberState], &str); 8] = [
        (
            &[Follower, Leader, Follower],
            "Healthy (3 of 3 voters in sync, tolerates 1 failure)",
        ),
        (
            &[Unreachable, Leader, Follower],
            "Degraded (2 of 3 voters in sync; server 1 is unreachable; one more failure stops writes)",
        ),
        (
            &[Follower, Leader, Follower, Unreachable],
            "Degraded (3 of 3 voters in sync; server 4 is unreachable; tolerates 1 more failure)",
        ),
        (
            &[Follower, Leader, Follower, Observer],
            "Healthy (3 of 3 voters in sync, tolerates 1 failure)",
        ),
        (
            &[Unreachable, Leader, Unreachable],
            "Degraded (1 of 3 voters in sync; server 1 is unreachable; server 3 is unreachable; writes wait for a quorum)",
        ),
        (
            &[Unreachable, Looking, Unreachable],
            "No quorum (1 of 3 voters answering; server 1 is unreachable; server 2 is looking for a leader; server 3 is unreachable; writes are not served)",
        ),
        (
            &[ReadOnly, Looking, Looking, Looking],
            "No quorum (3 of 3 voters answering; server 1 is looking for a leader; server 2 is looking for a leader; server 3 is looking for a leader; further faults: 1; writes are not served)",
        ),
        (
            &[Follower, Follower, Follower],
            "Degraded (3 of 3 voters in sync; no member reports that it leads; tolerates 1 more failure)",
        ),
    ];
    for (states, wanted) in table {
        assert_eq!(line(states, None), wanted);
    }
}

#[test]
fn the_leader_knows_members_whose_admin_ports_do_not_answer() {
    let states = [NeverReached, Leader, Unknown];
    let healthy = "Healthy (3 of 3 voters in sync, tolerates 1 failure)";
    assert_eq!(line(&states, Some(3)), healthy);
    let degraded = "Degraded (1 of 3 voters in sync; server 1 has not answered yet; server 3 does not report its state; writes wait for a quorum)";
    assert_eq!(line(&states, Some(2)), degraded);
    // If a member has answered before, its own state counts instead of the leader's report.
    let lost = line(&[Unreachable, Leader, Follower], Some(3));
    assert!(lost.starts_with("Degraded (2 of 3 voters"), "{lost}");
    let observer = line(&[Follower, Leader, Follower, NeverReached], Some(3));
    assert!(
        observer.starts_with("Degraded (3 of 3 voters"),
        "{observer}"
    );
}

#[test]
fn a_lagging_member_is_not_in_sync() {
    let quorum = Majority::new((1..=3).map(Sid));
    let mut members = members(&[Follower, Leader, Follower]);
    members[0].lag_ms = Some(LAG_MS_MAX);
    assert_eq!(
        assess(&members, Some(&quorum), None).verdict,
        Verdict::Healthy
    );
    members[0].lag_ms = Some(4_500);
    let lagging = assess(&members, Some(&quorum), Some(3));
    assert_eq!(
        lagging.to_string(),
        "Degraded (2 of 3 voters in sync; server 1 lags 4 s; one more failure stops writes)"
    );
    assert_eq!(lagging.faults[0].member, Some(0));
}

#[test]
fn the_advice_depends_on_the_members_that_answer() {
    let quorum = Majority::new((1..=3).map(Sid));
    let remedy = |states: &[MemberState]| assess(&members(states), Some(&quorum), None).remedy;
    let start = remedy(&[Unreachable, Looking, NeverReached]).unwrap();
    assert!(start.starts_with("Start the unreachable servers"));
    let wait = remedy(&[Looking, Looking, Unreachable]).unwrap();
    assert!(wait.starts_with("Wait for the election"));
    assert_eq!(remedy(&[Unreachable, Leader, Follower]), None);
    // A server that hides its state is not unreachable.
    let check = remedy(&[Unknown, Unknown, Unreachable]).unwrap();
    assert!(check.starts_with("Check the state of the servers that answer"));
    let hidden = line(&[Unknown, Unknown, Unknown], None);
    assert!(
        hidden.starts_with(
            "No quorum (3 of 3 voters answering; server 1 does not report its state; "
        ),
        "{hidden}"
    );
    assert!(hidden.ends_with("; writes may not be served)"), "{hidden}");
}

#[test]
fn servers_without_a_known_ensemble_are_counted() {
    let line = |states: &[MemberState]| assess(&members(states), None, None).to_string();
    assert_eq!(
        line(&[Standalone]),
        "Healthy (standalone server, tolerates no failure)"
    );
    assert_eq!(line(&[Follower]), "Healthy (1 of 1 server serving)");
    assert_eq!(
        line(&[Leader, Unreachable]),
        "Degraded (1 of 2 servers serving; server 2 is unreachable)"
    );
    assert_eq!(
        line(&[Looking]),
        "No quorum (0 of 1 server serving; server 1 is looking for a leader)"
    );
    assert_eq!(
        line(&[Unreachable]),
        "Down (0 of 1 server serving; server 1 is unreachable)"
    );
}
