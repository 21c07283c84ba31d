//! A disk that does not sync. Its contents are unknown, so its server acknowledges nothing more,
//! reports the failure, and exits. The others continue without it.

use std::time::{Duration, Instant};

use proto::request::{Request, flags};
use tests::ensemble::{Ensemble, Holders, Load, LoadSettings, check};
use tests::requests::{create, get_data};
use tests::{Faults, Flavour, RawSession, ServerBuilder, or_skip, wait_for, wait_until};

use crate::faults::{LIMIT, OBSERVER, PROGRESS, led_by_3, three, with_observer};

const WHAT: &str = "disks that do not sync";
/// Part of the path of every transaction log.
const LOGS: &str = "/log.";
/// Parts of the error message when a log does not sync.
const LOG_ERROR: [&str; 3] = ["transaction log", LOGS, "Input/output error"];
const HOLDER_TIMEOUT: Duration = Duration::from_secs(60);
/// Duration of the stall of a leader's disk, longer than `syncLimit`.
const HELD: Duration = Duration::from_secs(4);

/// Checks that each of these members ends by itself with this code, and that its only error line
/// contains all these texts.
fn end_with_one_error(ensemble: &mut Ensemble, ids: &[u64], code: i32, texts: &[&str]) {
    for &id in ids {
        let status = wait_for("end of a member", LIMIT, || ensemble.member_mut(id).ended());
        let log = ensemble.member(id).log();
        assert_eq!(status.code(), Some(code), "member {id}: {log}");
        has_one_error(&log, texts);
        // Its process has ended. This permits another start.
        ensemble.member_mut(id).kill();
    }
}

/// Checks that a server's log has a single error line, which contains all these texts.
fn has_one_error(log: &str, texts: &[&str]) {
    let errors: Vec<&str> = log.lines().filter(|line| line.contains("ERROR")).collect();
    assert_eq!(errors.len(), 1, "{errors:?}");
    for text in texts {
        assert!(errors[0].contains(text), "no {text:?} in {errors:?}");
    }
}

/// The disks of these members stop syncing their logs during writes through all members.
fn logs_fail_at(failing: &[u64]) {
    if Flavour::under_test() != Flavour::Zoarium {
        // Java's server continues and looks for a leader, on the same disk.
        return;
    }
    let Some((faults, mut ensemble)) = or_skip(WHAT, led_by_3(&three())) else {
        return;
    };
    let all = ensemble.ids();
    let mut holders = Holders::open(&ensemble.addresses(&all), HOLDER_TIMEOUT);
    let load = Load::start(&ensemble.addresses(&all));
    load.wait_for_progress(PROGRESS);
    for &id in failing {
        faults.fail_syncs(id, LOGS);
    }
    end_with_one_error(&mut ensemble, failing, 1, &LOG_ERROR);
    let mut others = all.clone();
    others.retain(|id| !failing.contains(id));
    if others.len() > 1 {
        ensemble.wait_until_these_serve(&others);
        load.wait_for_progress(PROGRESS);
        holders.check();
    } else {
        ensemble.wait_until_none_serves(&others);
    }
    // On a disk that syncs again they have everything.
    for &id in failing {
        ensemble.start(id);
    }
    ensemble.wait_until_all_serve();
    load.wait_for_progress(PROGRESS);
    holders.check();
    let report = load.finish();
    println!("logs of {failing:?} fail: {}", report.summary());
    assert_eq!(report.sessions_lost(), 0);
    holders.close();
    check::nothing_is_lost(&ensemble, &report);
}

#[test]
fn a_follower_with_a_failed_log_sync_ends() {
    logs_fail_at(&[1]);
}

#[test]
fn a_leader_with_a_failed_log_sync_steps_down() {
    logs_fail_at(&[3]);
}

#[test]
fn a_quorum_with_failed_log_syncs_acknowledges_nothing() {
    logs_fail_at(&[1, 3]);
}

/// A follower that cannot make its epoch or its snapshot durable exits as with its log.
#[test]
fn a_follower_with_failed_syncs_of_other_files_ends() {
    if Flavour::under_test() != Flavour::Zoarium {
        return;
    }
    let builder = three().property("zookeeper.snapCount", "100");
    let Some((faults, mut ensemble)) = or_skip(WHAT, led_by_3(&builder)) else {
        return;
    };
    let load = Load::start(&ensemble.addresses(&[3]));
    load.wait_for_progress(PROGRESS);
    faults.fail_syncs(2, "/unfinished.snapshot.");
    let texts = ["/snapshot.", "Input/output error"];
    end_with_one_error(&mut ensemble, &[2], 10, &texts);
    load.wait_for_progress(PROGRESS);
    ensemble.start(2);
    ensemble.wait_until_all_serve();

    // It cannot accept the next epoch.
    faults.fail_syncs(1, "Epoch");
    ensemble.member_mut(3).kill();
    let texts = ["/acceptedEpoch", "Input/output error"];
    end_with_one_error(&mut ensemble, &[1], 1, &texts);
    ensemble.start(3);
    ensemble.wait_until_all_serve();
    ensemble.start(1);
    ensemble.wait_until_all_serve();
    load.wait_for_progress(PROGRESS);
    let report = load.finish();
    assert_eq!(report.sessions_lost(), 0);
    check::nothing_is_lost(&ensemble, &report);
}

/// There is neither an error nor an end. A leader drops such a follower. A leader with such a disk
/// continues with its followers' disks.
#[test]
fn a_stalled_disk_does_not_stop_other_members() {
    let builder = three().setting("syncLimit", "5");
    let Some((faults, mut ensemble)) = or_skip(WHAT, led_by_3(&builder)) else {
        return;
    };
    let mut holders = Holders::open(&ensemble.addresses(&[1, 2, 3]), HOLDER_TIMEOUT);
    let load = Load::start(&ensemble.addresses(&[2, 3]));
    load.wait_for_progress(PROGRESS);
    faults.hold_syncs(1, LOGS);
    ensemble.wait_until_none_serves(&[1]);
    load.wait_for_progress(PROGRESS);
    // The session that began there has moved to another member.
    holders.check();
    assert_eq!(ensemble.leaders(), [3]);
    faults.release(1);
    assert_eq!(ensemble.wait_until_all_serve(), 3);

    faults.hold_syncs(3, LOGS);
    wait_for("a sync that stands still", LIMIT, || {
        faults.has_held(3).then_some(())
    });
    let held = Instant::now();
    while held.elapsed() < HELD {
        load.wait_for_progress(PROGRESS);
    }
    faults.release(3);
    load.wait_for_progress(PROGRESS);
    assert_eq!(ensemble.wait_until_all_serve(), 3);
    holders.check();
    // It has everything that it has acknowledged, also after a restart.
    ensemble.member_mut(3).kill();
    ensemble.start(3);
    ensemble.wait_until_all_serve();
    holders.check();
    holders.close();
    let report = load.finish();
    println!("disks stand still: {}", report.summary());
    assert_eq!(report.sessions_lost(), 0);
    check::nothing_is_lost(&ensemble, &report);
}

/// With a lone writer, transactions arrive one by one, and members may sync them on a thread that
/// also has other work.
#[test]
fn a_stalled_disk_does_not_delay_a_lone_writer() {
    let builder = three().setting("syncLimit", "5");
    let Some((faults, ensemble)) = or_skip(WHAT, led_by_3(&builder)) else {
        return;
    };
    let mut holders = Holders::open(&ensemble.addresses(&[1, 2, 3]), HOLDER_TIMEOUT);
    let one = LoadSettings {
        writers: 1,
        depth: 1,
        pace: Duration::ZERO,
        ..LoadSettings::default()
    };
    let load = Load::with(&ensemble.addresses(&[2]), &one);
    load.wait_for_progress(PROGRESS);
    for id in [3, 1] {
        faults.hold_syncs(id, LOGS);
        wait_for("a sync that stands still", LIMIT, || {
            faults.has_held(id).then_some(())
        });
        let held = Instant::now();
        while held.elapsed() < HELD {
            load.wait_for_progress(PROGRESS);
        }
        assert_eq!(ensemble.leaders(), [3]);
        if id == 1 {
            // Its clients move to other members, with their sessions and ephemerals.
            ensemble.wait_until_none_serves(&[1]);
            holders.check();
        }
        faults.release(id);
        assert_eq!(ensemble.wait_until_all_serve(), 3);
        load.wait_for_progress(PROGRESS);
        holders.check();
    }
    holders.close();
    let report = load.finish();
    println!(
        "disks stand still below a lone writer: {}",
        report.summary()
    );
    assert_eq!(report.sessions_lost(), 0);
    check::nothing_is_lost(&ensemble, &report);
}

/// An observer accumulates its transactions, and its log has capacity for only some groups. Without
/// capacity, it must wait for capacity, and not for the due time of the next group.
#[test]
fn an_observer_with_a_stalled_disk_uses_no_processor_time() {
    const WATCHED: Duration = Duration::from_secs(2);
    if Flavour::under_test() != Flavour::Zoarium {
        return;
    }
    let Some((faults, ensemble)) = or_skip(WHAT, with_observer()) else {
        return;
    };
    faults.hold_syncs(OBSERVER, LOGS);
    let load = Load::start(&ensemble.addresses(&[1, 2, 3]));
    let begun = Instant::now();
    while begun.elapsed() < WATCHED {
        load.wait_for_progress(PROGRESS);
    }
    assert!(faults.has_held(OBSERVER));
    let report = load.finish();
    // All writes are complete, and no further one arrives.
    ensemble.wait_for_equal_zxids(&ensemble.ids());
    let before = ensemble.member(OBSERVER).processor_time();
    let taken = || ensemble.member(OBSERVER).processor_time() - before;
    let is_spinning = || (taken() > WATCHED / 4).then_some(());
    assert_eq!(wait_until(WATCHED, is_spinning), None, "{:?}", taken());
    faults.release(OBSERVER);
    check::nothing_is_lost(&ensemble, &report);
}

/// Checks the single error line of a standalone server, and all its answered writes.
#[test]
fn a_standalone_server_with_a_failed_log_sync_ends() {
    let Some(faults) = or_skip(WHAT, Faults::new()) else {
        return;
    };
    let builder = ServerBuilder::new(Flavour::Zoarium);
    let shimmed = builder.clone().after(&faults.commands(1));
    let mut server = shimmed.start().expect("a server of ours needs nothing");
    let mut session = RawSession::open(&server.address(), None, 30_000).expect("a session");
    let path = |number: usize| format!("/n{number}");
    let (mut sent, mut answered) = (0, 0);
    loop {
        while session.unanswered() < 8 {
            let request = create(&path(sent), path(sent), flags::PERSISTENT);
            session.put(&Request::Write(request));
            sent += 1;
        }
        let Ok(answer) = session.take() else { break };
        assert_eq!(answer.err, 0);
        answered += 1;
        if answered == 200 {
            faults.fail_syncs(1, LOGS);
        }
        assert!(answered < 100_000, "the server goes on");
    }
    let status = server.wait_for_end();
    let log = server.log();
    assert_eq!(status.code(), Some(1), "{log}");
    has_one_error(&log, &LOG_ERROR);
    let again = builder.data_dir(server.data_dir()).start();
    let again = again.expect("a server of ours needs nothing");
    let mut session = RawSession::open(&again.address(), None, 30_000).expect("a session");
    for number in 0..answered {
        let answer = session.call(&get_data(&path(number))).expect("an answer");
        assert_eq!(answer.err, 0, "{} is lost", path(number));
    }
}
