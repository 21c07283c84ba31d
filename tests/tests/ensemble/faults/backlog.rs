//! A stalled disk during large writes. The waiting data must not fill the memory.

use std::time::Duration;

use proto::request::{Request, flags};
use tests::ensemble::{Ensemble, check};
use tests::requests::{create, get_data, set_data};
use tests::{Flavour, RawSession, or_skip};

use crate::faults::{OBSERVER, led_by_3, three, with_observer};

const WHAT: &str = "disks that stand still";
const LOGS: &str = "/log.";
const ZNODE: &str = "/large";
/// Bytes of data in each write, below jute.maxbuffer.
const DATA_BYTES: usize = 900 << 10;
/// More writes than any server keeps waiting for its disk.
const WRITES_MAX: usize = 400;
const ANSWER_LIMIT: Duration = Duration::from_secs(20);

fn open(ensemble: &Ensemble, through: u64) -> RawSession {
    let address = ensemble.member(through).client_address().to_string();
    let mut session = RawSession::open(&address, None, 60_000).expect("a session");
    session.set_patience(ANSWER_LIMIT);
    session
}

/// Writes through a member while `goes_on` returns true. Returns the number of acknowledged writes.
fn write(ensemble: &Ensemble, through: u64, goes_on: impl Fn() -> bool) -> i32 {
    let mut session = open(ensemble, through);
    let data = vec![b'x'; DATA_BYTES];
    let made = create(ZNODE, data.clone(), flags::PERSISTENT);
    let made = session.call(&Request::Write(made)).expect("an answer");
    assert_eq!(made.err, 0);
    for acknowledged in 0..WRITES_MAX {
        if !goes_on() {
            return i32::try_from(acknowledged).expect("few");
        }
        let write = set_data(ZNODE, data.clone(), -1);
        match session.call(&Request::Write(write)) {
            Ok(answer) => assert_eq!(answer.err, 0),
            // Its server has lost the leader.
            Err(_) => return i32::try_from(acknowledged).expect("few"),
        }
    }
    panic!("{WRITES_MAX} writes of {DATA_BYTES} bytes have changed nothing");
}

/// Checks that every acknowledged write exists, and at most the one write without an answer.
fn nothing_is_lost(ensemble: &Ensemble, acknowledged: i32) {
    // A new leader's own zxid is higher than its followers' until the first write.
    let mark = Request::Write(create("/mark", "", flags::PERSISTENT));
    let mark = open(ensemble, 1).call(&mark).expect("an answer");
    assert_eq!(mark.err, 0);
    ensemble.wait_for_equal_zxids(&ensemble.ids());
    for id in ensemble.ids() {
        let mut session = open(ensemble, id);
        let answer = session.call(&get_data(ZNODE)).expect("an answer");
        let version = answer
            .record::<proto::response::GetDataResponse>()
            .stat
            .version;
        assert!(
            (acknowledged..=acknowledged + 1).contains(&version),
            "member {id} has version {version} after {acknowledged} writes"
        );
    }
    check::same_digests(ensemble, &ensemble.ids());
}

/// The leader commits with its followers' disks, so nothing else would end it.
#[test]
#[ignore = "needs minutes of faults"]
fn a_leader_with_a_stalled_disk_steps_down_before_its_memory_is_full() {
    if Flavour::under_test() != Flavour::Zoarium {
        // Java's leader continues until the heap is full.
        return;
    }
    let Some((faults, ensemble)) = or_skip(WHAT, led_by_3(&three())) else {
        return;
    };
    faults.hold_syncs(3, LOGS);
    let acknowledged = write(&ensemble, 1, || ensemble.member(3).role().is_some());
    assert!(faults.has_held(3));
    let log = ensemble.member(3).log();
    assert!(
        log.contains("the disk is too slow for the transaction log"),
        "{log}"
    );
    let next = ensemble.wait_until_these_serve(&[1, 2]);
    assert_ne!(next, 3);
    faults.release(3);
    assert_eq!(ensemble.wait_until_all_serve(), next);
    nothing_is_lost(&ensemble, acknowledged);
}

/// An observer acknowledges nothing, so no leader would notice its absence.
#[test]
#[ignore = "needs minutes of faults"]
fn an_observer_with_a_stalled_disk_is_dropped_and_returns() {
    if Flavour::under_test() != Flavour::Zoarium {
        return;
    }
    let Some((faults, ensemble)) = or_skip(WHAT, with_observer()) else {
        return;
    };
    let leader = ensemble.wait_for_leader();
    faults.hold_syncs(OBSERVER, LOGS);
    let serves = || ensemble.member(OBSERVER).role().is_some();
    let acknowledged = write(&ensemble, leader, serves);
    assert!(faults.has_held(OBSERVER));
    faults.release(OBSERVER);
    ensemble.wait_until_all_serve();
    nothing_is_lost(&ensemble, acknowledged);
}
