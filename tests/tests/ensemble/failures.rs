//! Failures of one member that do not affect the others: a full disk, an impossible epoch, a second
//! server with the same id.

use std::time::Duration;

use proto::request::{Request, flags};
use tests::ensemble::{Duty, Ensemble, EnsembleBuilder, Load, check};
use tests::requests::create;
use tests::{Flavour, RawSession, or_skip, wait_for, wait_until};

const LIMIT: Duration = Duration::from_secs(60);
/// Writes of each writer that prove progress.
const PROGRESS: u64 = 30;
/// Files have at most 512 KiB. Without the trap, a signal would end the server silently.
const SMALL_FILES: &str = "trap '' XFSZ; ulimit -f 1024";
/// More znodes of 1000 bytes than such a file holds.
const TOO_MANY: usize = 1500;

/// Prepares three voters of the tested flavour. The last one will have too little space for its
/// log.
fn with_small_files() -> Option<Ensemble> {
    let builder = EnsembleBuilder::new(&[Flavour::under_test(); 3]).setting("preAllocSize", "64");
    or_skip("a limit for files", builder.prepare())
}

/// Writes more through a member than the limited member can log.
fn fill(ensemble: &Ensemble, through: u64) {
    let address = ensemble.member(through).client_address().to_string();
    let open = || RawSession::open(&address, None, 30_000).ok();
    let mut session = wait_for("a session", LIMIT, open);
    for number in 0..TOO_MANY {
        let request = create(
            &format!("/fill{number}"),
            vec![b'f'; 1000],
            flags::PERSISTENT,
        );
        session.put(&Request::Write(request));
        if session.unanswered() > 20 && session.take().is_err() {
            return;
        }
    }
    while session.unanswered() > 0 && session.take().is_ok() {}
}

/// The member exits, or waits, with the reason in its log. It then returns and receives everything
/// that it missed.
fn lacks_room(limited: u64, order: [u64; 3]) {
    if Flavour::under_test() != Flavour::Zoarium {
        return;
    }
    let Some(mut ensemble) = with_small_files() else {
        return;
    };
    for id in order {
        if id == limited {
            ensemble.start_after(id, SMALL_FILES);
        } else {
            ensemble.start(id);
        }
    }
    ensemble.wait_until_all_serve();
    let mut others = ensemble.ids();
    others.retain(|id| *id != limited);
    let load = Load::start(&ensemble.addresses(&others));
    load.wait_for_progress(PROGRESS);
    fill(&ensemble, limited);
    fill(&ensemble, others[0]);
    wait_for("word about the disk", LIMIT, || {
        let log = ensemble.member(limited).log();
        log.contains("File too large").then_some(())
    });
    let leader = ensemble.wait_until_these_serve(&others);
    assert_ne!(leader, limited);
    load.wait_for_progress(PROGRESS);
    // It has ended, or is killed. With space it has everything again.
    wait_until(Duration::from_secs(5), || {
        ensemble.member_mut(limited).ended().map(drop)
    });
    ensemble.member_mut(limited).kill();
    ensemble.start(limited);
    ensemble.wait_until_all_serve();
    load.wait_for_progress(PROGRESS);
    let report = load.finish();
    println!("member {limited} without room: {}", report.summary());
    check::nothing_is_lost(&ensemble, &report);
}

#[test]
fn a_follower_with_a_full_disk_does_not_stop_the_ensemble() {
    lacks_room(1, [1, 3, 2]);
}

#[test]
fn a_leader_with_a_full_disk_steps_down() {
    lacks_room(3, [1, 3, 2]);
}

/// Ends member `id` and starts it with another accepted epoch on its disk.
fn restart_with_accepted_epoch(ensemble: &mut Ensemble, id: u64, epoch: u64) {
    ensemble.member_mut(id).terminate();
    let file = ensemble
        .member(id)
        .data_dir()
        .join("version-2/acceptedEpoch");
    std::fs::write(&file, epoch.to_string()).expect("write the epoch");
    ensemble.start(id);
}

/// Returns how often a learner has lost its leader.
fn tries(log: &str) -> usize {
    let lines = ["stopped following", "lost the connection to the leader"];
    lines.map(|line| log.matches(line).count()).iter().sum()
}

/// The follower cannot join the current epoch. With Apache ZooKeeper it waits for another leader.
#[test]
fn one_new_epoch_admits_a_follower_with_a_later_epoch() {
    const AHEAD: u64 = 1000;
    let builder = EnsembleBuilder::new(&[Flavour::under_test(); 3]);
    let started = builder.start_led_by_last_voter();
    let Some(mut ensemble) = or_skip("an epoch far ahead", started) else {
        return;
    };
    let load = Load::start(&ensemble.addresses(&[2, 3]));
    load.wait_for_progress(PROGRESS);
    restart_with_accepted_epoch(&mut ensemble, 1, AHEAD);
    if Flavour::under_test() != Flavour::Zoarium {
        ensemble.assert_none_serves_for(&[1], Duration::from_secs(5));
        assert_eq!(ensemble.leaders(), [3]);
        load.wait_for_progress(PROGRESS);
        ensemble.member_mut(3).kill();
        ensemble.wait_until_all_serve();
        ensemble.start(3);
    }
    let leader = ensemble.wait_until_all_serve();
    load.wait_for_progress(PROGRESS);
    let epoch = ensemble.member(leader).zxid().expect("a zxid") >> 32;
    assert_eq!(epoch, AHEAD + 1);
    let report = load.finish();
    check::nothing_is_lost(&ensemble, &report);
}

/// Elections cannot have led to this epoch. The follower cannot join the current epoch, and must
/// not disturb it.
#[test]
fn a_follower_with_an_implausible_epoch_waits_quietly() {
    const DAMAGED: u64 = 2_000_000;
    let builder = EnsembleBuilder::new(&[Flavour::under_test(); 3]);
    let started = builder.start_led_by_last_voter();
    let Some(mut ensemble) = or_skip("an epoch that is damaged", started) else {
        return;
    };
    let load = Load::start(&ensemble.addresses(&[2, 3]));
    load.wait_for_progress(PROGRESS);
    let before = ensemble.member(3).log().len();
    restart_with_accepted_epoch(&mut ensemble, 1, DAMAGED);
    ensemble.assert_none_serves_for(&[1], Duration::from_secs(5));
    assert_eq!(ensemble.leaders(), [3]);
    load.wait_for_progress(PROGRESS);
    if Flavour::under_test() == Flavour::Zoarium {
        // Java reconnects up to 250 times per second.
        let log = ensemble.member(1).log();
        let tries = tries(&log);
        assert!((1..=20).contains(&tries), "{tries} tries in five seconds");
        let lines = ensemble.member(3).log().split_off(before);
        let lines = lines
            .lines()
            .filter(|line| line.contains("learner"))
            .count();
        assert!(lines < 100, "{lines} lines at the leader");
    }
    // The next leader chooses a higher epoch.
    ensemble.member_mut(3).kill();
    let next = ensemble.wait_until_all_serve();
    let epoch = ensemble.member(next).zxid().expect("a zxid") >> 32;
    assert!(epoch > DAMAGED, "epoch {epoch}");
    ensemble.start(3);
    ensemble.wait_until_all_serve();
    load.wait_for_progress(PROGRESS);
    let report = load.finish();
    check::nothing_is_lost(&ensemble, &report);
}

/// An observer does not have a vote, so no leader steps down for it. It also does not revoke an
/// epoch that it may have accepted as a voter. It joins the next leader that it meets before the
/// epoch is fixed, or whose epoch is later than its own.
#[test]
fn an_observer_with_an_epoch_ahead_waits_quietly_for_a_later_one() {
    const AHEAD: u64 = 3;
    const OBSERVER: u64 = 4;
    let builder = EnsembleBuilder::new(&[Flavour::under_test(); 3]);
    let started = builder
        .observers(&[Flavour::under_test()])
        .start_led_by_last_voter();
    let Some(mut ensemble) = or_skip("an observer's epoch ahead", started) else {
        return;
    };
    let load = Load::start(&ensemble.addresses(&[1, 2, 3]));
    load.wait_for_progress(PROGRESS);
    restart_with_accepted_epoch(&mut ensemble, OBSERVER, AHEAD);
    ensemble.assert_none_serves_for(&[OBSERVER], Duration::from_secs(5));
    assert_eq!(ensemble.leaders(), [3]);
    load.wait_for_progress(PROGRESS);
    if Flavour::under_test() == Flavour::Zoarium {
        let log = ensemble.member(OBSERVER).log();
        let tries = tries(&log);
        assert!((1..=20).contains(&tries), "{tries} tries in five seconds");
        assert!(log.contains("proposes epoch 0x1, but this server has accepted epoch 0x3"));
        assert!(log.contains("stop this observer, move its data away and start it again"));
    }
    // Each election leads to a later epoch.
    let mut elections = 0..AHEAD;
    let comes_in = |ensemble: &mut Ensemble| {
        let leader = ensemble.wait_until_these_serve(&[1, 2, 3]);
        ensemble.member_mut(leader).kill();
        let rest: Vec<_> = [1, 2, 3].into_iter().filter(|id| *id != leader).collect();
        ensemble.wait_until_these_serve(&rest);
        ensemble.start(leader);
        ensemble.wait_until_these_serve(&[1, 2, 3]);
        ensemble.member(OBSERVER).role().is_some()
    };
    elections.any(|_| comes_in(&mut ensemble));
    ensemble.wait_until_all_serve();
    load.wait_for_progress(PROGRESS);
    let report = load.finish();
    check::nothing_is_lost(&ensemble, &report);
}

/// Copied directories are the usual reason. The two servers disturb each other, and no other
/// server.
#[test]
fn a_second_server_with_the_same_id_does_not_stop_others() {
    let builder = EnsembleBuilder::new(&[Flavour::under_test(); 3])
        .setting("quorumListenOnAllIPs", "true")
        .in_network(4);
    let what = "two servers with one id";
    let Some(mut ensemble) = or_skip(what, builder.start_led_by_last_voter()) else {
        return;
    };
    let load = Load::start(&ensemble.addresses(&[2, 3]));
    load.wait_for_progress(PROGRESS);
    let impostor = ensemble.add(Flavour::under_test(), Duty::Participant);
    let list = [1, 2, 3].map(|id| (id, Duty::Participant));
    ensemble.configure(impostor, &list);
    let myid = ensemble.member(impostor).data_dir().join("myid");
    std::fs::write(myid, "1\n").expect("write myid");
    ensemble.start(impostor);
    for _ in 0..5 {
        load.wait_for_progress(PROGRESS);
        assert_eq!(ensemble.leaders(), [3]);
    }
    ensemble.member_mut(impostor).kill();
    ensemble.wait_until_these_serve(&[1, 2, 3]);
    load.wait_for_progress(PROGRESS);
    let report = load.finish();
    println!("two servers with one id: {}", report.summary());
    assert_eq!(report.sessions_lost(), 0);
    check::nothing_is_lost(&ensemble, &report);
}
