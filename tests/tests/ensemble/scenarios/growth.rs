//! Growth from three servers to five: with configuration files, in the right and in the wrong
//! order, and by reconfiguration.

use std::time::Duration;

use tests::ensemble::{Change, Duty, Ensemble, EnsembleBuilder, Load, Role, check};
use tests::{Flavour, Port, or_skip, wait_for};

/// Many times the duration of an election.
const A_WHILE: Duration = Duration::from_secs(4);
const LIMIT: Duration = Duration::from_secs(60);
/// Writes of each writer that prove progress.
const PROGRESS: u64 = 30;

fn list(ids: &[u64]) -> Vec<(u64, Duty)> {
    ids.iter().map(|&id| (id, Duty::Participant)).collect()
}

/// Starts servers 1, 2 and 3 with a list of three and 2 as their leader, and servers 4 and 5, which
/// follow it, with a list of five.
fn three_and_two(guard: bool) -> Option<Ensemble> {
    let flavour = Flavour::under_test();
    let builder =
        EnsembleBuilder::new(&[flavour; 5]).setting("zoarium.membershipGuard", &guard.to_string());
    let mut ensemble = or_skip("growth by files", builder.prepare())?;
    for id in [1, 2, 3] {
        ensemble.configure(id, &list(&[1, 2, 3]));
    }
    for id in [1, 2] {
        ensemble.start(id);
    }
    assert_eq!(ensemble.wait_until_all_serve(), 2);
    ensemble.start(3);
    assert_eq!(ensemble.wait_until_all_serve(), 2);
    for id in [4, 5] {
        ensemble.start(id);
    }
    assert_eq!(ensemble.wait_until_all_serve(), 2);
    Some(ensemble)
}

/// Restarts the leader first for its list of five. Meanwhile, the others with a list of three elect
/// one of them, and the members with a list of five wait for a third one. Returns the elected one,
/// which is 3 unless the old leader had sent more to 1.
fn restart_leader_first(ensemble: &mut Ensemble) -> u64 {
    assert!(ensemble.member_mut(2).terminate().code().is_some());
    ensemble.configure(2, &list(&[1, 2, 3, 4, 5]));
    let leader = ensemble.wait_until_these_serve(&[1, 3]);
    ensemble.wait_until_none_serves(&[4, 5]);
    ensemble.assert_none_serves_for(&[4, 5], A_WHILE);
    ensemble.start(2);
    leader
}

#[test]
fn growth_in_the_wrong_order_without_the_guard_has_two_leaders() {
    let Some(mut ensemble) = three_and_two(false) else {
        return;
    };
    assert_eq!(restart_leader_first(&mut ensemble), 3);
    let roles = |ensemble: &Ensemble| -> Vec<_> {
        let ids = ensemble.ids().into_iter();
        ids.map(|id| ensemble.member(id).role()).collect()
    };
    let (leads, follows) = (Some(Role::Leader), Some(Role::Follower));
    wait_for("second leader, as Java's", LIMIT, || {
        (roles(&ensemble) == [follows, follows, leads, follows, leads]).then_some(())
    });
}

#[test]
fn growth_in_the_wrong_order_with_the_guard_has_one_leader() {
    if Flavour::under_test() != Flavour::Zoarium {
        return;
    }
    let Some(mut ensemble) = three_and_two(true) else {
        return;
    };
    let load = Load::start(&ensemble.addresses(&[1, 3]));
    load.wait_for_progress(PROGRESS);
    let leader = restart_leader_first(&mut ensemble);
    // A member that would lead with the list of five reports the refusal and the difference.
    wait_for("word of the guard", LIMIT, || {
        let logs = [2, 4, 5].map(|id| ensemble.member(id).log());
        logs.iter().any(|log| tells_of_lists(log)).then_some(())
    });
    ensemble.assert_none_serves_for(&[2, 4, 5], A_WHILE);
    assert_eq!(ensemble.leaders(), [leader]);
    load.wait_for_progress(PROGRESS);
    // The solution: restore the old list on the members that were changed too early, and then
    // continue in the right order, the leader last. Stopping 1 or 3 now would leave a quorum of the
    // new list without their writes.
    ensemble.member_mut(2).terminate();
    ensemble.configure(2, &list(&[1, 2, 3]));
    ensemble.start(2);
    assert_eq!(ensemble.wait_until_all_serve(), leader);
    for id in [4 - leader, 2, leader] {
        restart_with_five(&mut ensemble, id);
        load.wait_for_progress(PROGRESS);
    }
    load.wait_for_progress(PROGRESS);
    let report = load.finish();
    check::nothing_is_lost(&ensemble, &report);
}

/// Gives a member the list of five, and returns the leader when all serve again.
fn restart_with_five(ensemble: &mut Ensemble, id: u64) -> u64 {
    ensemble.member_mut(id).terminate();
    ensemble.configure(id, &list(&[1, 2, 3, 4, 5]));
    ensemble.start(id);
    ensemble.wait_until_all_serve()
}

fn tells_of_lists(log: &str) -> bool {
    log.lines()
        .any(|line| line.contains("has a different member list"))
}

#[test]
fn growth_in_the_right_order_loses_nothing() {
    let Some(mut ensemble) = three_and_two(true) else {
        return;
    };
    let load = Load::start(&ensemble.addresses(&[1, 2, 3]));
    load.wait_for_progress(PROGRESS);
    for id in [1, 3, 2] {
        let leader = restart_with_five(&mut ensemble, id);
        // The old leader may be the first to lead again after its restart.
        assert!(leader == 2 || id == 2, "{leader} leads after {id}");
        load.wait_for_progress(PROGRESS);
    }
    // The ensemble now has five members.
    for _ in 0..2 {
        let leader = ensemble.wait_until_all_serve();
        ensemble.member_mut(leader).kill();
    }
    ensemble.wait_until_all_serve();
    load.wait_for_progress(PROGRESS);
    let report = load.finish();
    println!("by files: {}", report.summary());
    assert_eq!(report.sessions_lost(), 0);
    check::nothing_is_lost(&ensemble, &report);
}

#[test]
fn reconfiguration_from_three_to_five_and_back_loses_nothing() {
    let flavour = Flavour::under_test();
    let builder = EnsembleBuilder::new(&[flavour; 3]).dynamic();
    let Some(mut ensemble) = or_skip("growth by reconfiguration", builder.start()) else {
        return;
    };
    let load = Load::start(&ensemble.addresses(&[1, 2, 3]));
    load.wait_for_progress(PROGRESS);
    for _ in 0..2 {
        let id = ensemble.add(flavour, Duty::Participant);
        ensemble.configure(id, &list(&ensemble.ids()));
        ensemble.start(id);
        ensemble.wait_until_all_serve();
        let joining = vec![ensemble.member(id).line(true)];
        let change = Change {
            joining,
            ..Change::default()
        };
        let text = ensemble.reconfigure(1, &change);
        assert!(text.contains(&ensemble.member(id).line(true)), "{text}");
        ensemble.wait_until_all_serve();
        load.wait_for_progress(PROGRESS);
    }
    // Five voters survive the loss of two. Three would not.
    let mut killed = Vec::new();
    for _ in 0..2 {
        let leader = ensemble.wait_until_all_serve();
        ensemble.member_mut(leader).kill();
        killed.push(leader);
    }
    ensemble.wait_until_all_serve();
    load.wait_for_progress(PROGRESS);
    for id in killed {
        ensemble.start(id);
    }
    // Back to three, and the leader is one of the leaving members. The writers know only the first
    // three members, of which two stay with any leader.
    let leader = ensemble.wait_until_all_serve();
    let other = ensemble.ids().into_iter().rfind(|id| *id != leader);
    let leaving = vec![leader, other.expect("others")];
    let staying: Vec<u64> = ensemble.ids();
    let staying: Vec<u64> = staying
        .into_iter()
        .filter(|id| !leaving.contains(id))
        .collect();
    let change = Change {
        leaving: leaving.clone(),
        ..Change::default()
    };
    let text = ensemble.reconfigure(staying[0], &change);
    assert_eq!(
        text.lines()
            .filter(|line| line.starts_with("server."))
            .count(),
        3,
        "{text}"
    );
    ensemble.wait_until_these_serve(&staying);
    for id in leaving {
        ensemble.member_mut(id).terminate();
    }
    load.wait_for_progress(PROGRESS);
    // Three survive the loss of one.
    let leader = ensemble.wait_until_these_serve(&staying);
    ensemble.survive_kill_of(leader, &load, PROGRESS);
    let report = load.finish();
    println!("by reconfiguration: {}", report.summary());
    check::nothing_is_lost(&ensemble, &report);
}

/// A single voter designates itself as the leader, and must listen on its new address.
#[test]
fn a_single_voter_that_moves_can_be_joined() {
    let flavour = Flavour::under_test();
    if flavour != Flavour::Zoarium {
        return;
    }
    let builder = EnsembleBuilder::new(&[flavour])
        .dynamic()
        .setting("standaloneEnabled", "false");
    let Some(mut ensemble) = or_skip("a single voter", builder.prepare()) else {
        return;
    };
    let (earlier, file) = (Port::take(), ensemble.member(1).config_file());
    let port = format!(":{}:", ensemble.member(1).quorum_address().port());
    let config = std::fs::read_to_string(&file).expect("zoo.cfg");
    assert!(config.contains(&port), "{config}");
    let config = config.replace(&port, &format!(":{}:", earlier.number()));
    std::fs::write(&file, config).expect("zoo.cfg");
    ensemble.start(1);
    ensemble.wait_until_all_serve();
    let join = |ensemble: &Ensemble, id: u64| {
        let change = Change {
            joining: vec![ensemble.member(id).line(true)],
            ..Change::default()
        };
        ensemble.reconfigure(1, &change);
    };
    join(&ensemble, 1);
    let id = ensemble.add(flavour, Duty::Participant);
    ensemble.configure(id, &list(&ensemble.ids()));
    ensemble.start(id);
    ensemble.wait_until_all_serve();
    join(&ensemble, id);
    ensemble.wait_until_all_serve();
}

#[test]
fn a_leader_that_is_removed_hands_over_without_an_election() {
    let what = "removal of the leader";
    hands_over(what, |ensemble, leader| {
        let leaving = vec![leader];
        let change = Change {
            leaving,
            ..Change::default()
        };
        ensemble.reconfigure(1, &change);
        let leader = ensemble.wait_until_these_serve(&[1, 2]);
        assert_ne!(leader, 3);
    });
}

#[test]
fn a_leader_that_is_made_an_observer_hands_over_without_an_election() {
    let what = "demotion of the leader";
    hands_over(what, |ensemble, leader| {
        let joining = vec![ensemble.member(leader).line_as(Duty::Observer, true)];
        let change = Change {
            joining,
            ..Change::default()
        };
        ensemble.reconfigure(1, &change);
        wait_for("observer that led", LIMIT, || {
            let role = ensemble.member(leader).role();
            (role == Some(Role::Observer)).then_some(())
        });
        ensemble.wait_until_all_serve();
    });
}

/// Server 3 of three leads, and its role is changed while writers are busy on the others.
fn hands_over(what: &str, change: impl Fn(&Ensemble, u64)) {
    let flavour = Flavour::under_test();
    let builder = EnsembleBuilder::new(&[flavour; 3]).dynamic();
    let Some(ensemble) = or_skip(what, builder.start_led_by_last_voter()) else {
        return;
    };
    let load = Load::start(&ensemble.addresses(&[1, 2]));
    load.wait_for_progress(PROGRESS);
    let leader = ensemble.wait_until_all_serve();
    assert_eq!(leader, 3);
    let before = elections(&ensemble);
    change(&ensemble, leader);
    load.wait_for_progress(PROGRESS);
    // Java also counts a role that was taken without an election.
    if flavour == Flavour::Zoarium {
        assert_eq!(elections(&ensemble), before);
    }
    let report = load.finish();
    println!("{what}: {}", report.summary());
    assert_eq!(report.sessions_lost(), 0);
    check::nothing_is_lost(&ensemble, &report);
}

/// Returns the number of elections of each member.
fn elections(ensemble: &Ensemble) -> Vec<String> {
    let count = |id| {
        let count = || ensemble.member(id).metric("cnt_election_time");
        wait_for("count of elections", LIMIT, count)
    };
    ensemble.ids().into_iter().map(count).collect()
}
