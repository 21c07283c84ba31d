//! Clocks that jump. Only timestamps follow the wall clock. Sessions, pings and elections do not.

use std::collections::HashSet;
use std::time::{Duration, Instant};

use client::Session;
use proto::SessionId;
use proto::request::{Request, flags};
use proto::response::StatResponse;
use tests::ensemble::{Ensemble, EnsembleBuilder, Holders, Load, check};
use tests::requests::{create, get_data, set_data};
use tests::{Faults, Flavour, RawSession, or_skip, wait_for};

use crate::faults::{LIMIT, PROGRESS, led_by_3, three};

const WHAT: &str = "clocks that jump";
const HOUR_S: i64 = 3600;
/// Timeout of the sessions that must survive. Pings are three times as frequent.
const HOLDER_TIMEOUT: Duration = Duration::from_secs(6);
/// Longer than a leader waits for its followers, and they for it (`syncLimit`). If a jump stopped
/// their clocks, they would have separated.
const WATCHED: Duration = Duration::from_secs(4);
/// Tolerance for a timestamp, seconds.
const STAMP_TOLERANCE_S: i64 = 60;

fn builder() -> EnsembleBuilder {
    three().setting("syncLimit", "8")
}

/// Returns the epoch of all members, which an election would raise.
fn epochs(ensemble: &Ensemble) -> Vec<Option<u64>> {
    let members = ensemble.ids().into_iter();
    let zxids = members.map(|id| ensemble.member(id).zxid());
    zxids.map(|zxid| Some(zxid? >> 32)).collect()
}

/// Returns the difference between the leader's clock and ours, from the timestamp of a write.
fn stamped_ahead_s(ensemble: &Ensemble) -> i64 {
    let address = ensemble.member(3).client_address().to_string();
    let mut session = RawSession::open(&address, None, 30_000).expect("a session");
    let make = Request::Write(create("/stamp", "", flags::PERSISTENT));
    // It may already exist.
    session.call(&make).expect("an answer");
    let change = Request::Write(set_data("/stamp", "", -1));
    let StatResponse { stat } = session.call(&change).expect("an answer").record();
    session.close().expect("the end of the session");
    let now = std::time::SystemTime::now();
    let now = now.duration_since(std::time::UNIX_EPOCH);
    let now_ms = now.expect("a clock after 1970").as_millis();
    (stat.mtime - i64::try_from(now_ms).expect("a clock of this age")) / 1000
}

#[test]
#[ignore = "needs minutes of faults"]
fn no_session_expires_and_no_role_ends_when_clocks_jump() {
    let Some((faults, ensemble)) = or_skip(WHAT, led_by_3(&builder())) else {
        return;
    };
    let all = ensemble.ids();
    let mut holders = Holders::open(&ensemble.addresses(&all), HOLDER_TIMEOUT);
    let load = Load::start(&ensemble.addresses(&all));
    load.wait_for_progress(PROGRESS);
    let before = epochs(&ensemble);
    // The members whose clocks jump, the jump, and the leader's resulting offset.
    let jumps: [(&[u64], i64, i64); 6] = [
        (&[3], HOUR_S, HOUR_S),
        (&[3], -HOUR_S, -HOUR_S),
        (&[1], HOUR_S, -HOUR_S),
        (&[1], -HOUR_S, -HOUR_S),
        (&[1, 2, 3], HOUR_S, HOUR_S),
        (&[1, 2, 3], -HOUR_S, -HOUR_S),
    ];
    for (ids, to_s, leader_s) in jumps {
        for &id in ids {
            faults.set_clock(id, &format!("{to_s:+}"));
        }
        let off_s = stamped_ahead_s(&ensemble) - leader_s;
        assert!(off_s.abs() < STAMP_TOLERANCE_S, "{off_s} s off {leader_s}");
        let jumped = Instant::now();
        while jumped.elapsed() < WATCHED {
            load.wait_for_progress(PROGRESS);
            holders.check();
            assert_eq!(ensemble.leaders(), [3], "{ids:?} at {to_s:+} s");
            assert_eq!(epochs(&ensemble), before, "{ids:?} at {to_s:+} s");
        }
    }
    let report = load.finish();
    println!("clocks jump: {}", report.summary());
    assert_eq!(report.sessions_lost(), 0);
    let lost = report.writers.iter().map(|writer| writer.connections_lost);
    assert_eq!(lost.sum::<u64>(), 0);
    // Sessions without pings still expire. This waits until their ephemerals are deleted.
    drop(holders);
    check::nothing_is_lost(&ensemble, &report);
}

/// Opens a session with an ephemeral on this member.
fn open(ensemble: &Ensemble, through: u64, number: usize) -> Session {
    let address = ensemble.member(through).client_address().to_string();
    let mut session = wait_for("a session", LIMIT, || {
        RawSession::open(&address, None, 120_000).ok()
    });
    let request = create(&format!("/alive{number}"), "", flags::EPHEMERAL);
    let answer = session.call(&Request::Write(request)).expect("an answer");
    assert_eq!(answer.err, 0);
    session.session().clone()
}

/// Returns the id of a session that was opened on this member and closed.
fn open_and_close(ensemble: &Ensemble, through: u64) -> SessionId {
    let address = ensemble.member(through).client_address().to_string();
    let session = wait_for("a session", LIMIT, || {
        RawSession::open(&address, None, 120_000).ok()
    });
    let id = session.session().id;
    session.close().expect("the end of the session");
    id
}

/// Session ids of Apache ZooKeeper begin with the time of the start. It may equal the time of an
/// earlier start.
#[test]
#[ignore = "needs minutes of faults"]
fn no_session_gets_the_id_of_another_after_clocks_have_jumped() {
    if Flavour::under_test() != Flavour::Zoarium {
        return;
    }
    let Some(faults) = or_skip(WHAT, Faults::new()) else {
        return;
    };
    let Some(mut ensemble) = or_skip(WHAT, builder().start_led_by_last_voter()) else {
        return;
    };
    let mut sessions = Vec::new();
    let mut ids = Vec::new();
    for clock in ["+0", "+3600", "-3600", "=1700000000", "=1700000000"] {
        ensemble.member_mut(1).kill();
        faults.set_clock(1, clock);
        ensemble.start_after(1, &faults.commands(1));
        ensemble.wait_until_all_serve();
        // The first session is over before the next start. A client that still has its id must not
        // get another client's session.
        ids.push(open_and_close(&ensemble, 1));
        for _ in 0..3 {
            sessions.push(open(&ensemble, 1, sessions.len()));
        }
    }
    ids.extend(sessions.iter().map(|session| session.id));
    let different: HashSet<SessionId> = ids.iter().copied().collect();
    assert_eq!(different.len(), ids.len(), "{ids:x?}");
    // Each session still owns its ephemeral.
    for (number, session) in sessions.iter().enumerate() {
        let address = ensemble.member(2).client_address().to_string();
        let mut again = RawSession::open(&address, Some(session), 120_000).expect("the session");
        let answer = again.call(&get_data(&format!("/alive{number}")));
        let answer = answer.expect("an answer");
        assert_eq!(answer.err, 0, "/alive{number} is gone");
        let read: proto::response::GetDataResponse = answer.record();
        assert_eq!(read.stat.ephemeral_owner, session.id.0);
        again.close().expect("the end of the session");
    }
    check::all_agree(&ensemble);
}
