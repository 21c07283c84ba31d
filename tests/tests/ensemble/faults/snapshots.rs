//! A snapshot is still being written when the member's role ends. The next leader truncates the
//! last records of that role. No file may contain them then.

use std::fs;
use std::io::ErrorKind;
use std::path::PathBuf;

use proto::request::{Request, flags};
use tests::ensemble::{Ensemble, check};
use tests::requests::create;
use tests::{Faults, Flavour, RawSession, or_skip, wait_for};

use crate::faults::{LIMIT, led_by_3, three};

const WHAT: &str = "a snapshot that outlives its role";
/// Transactions between two snapshots, plus or minus a half.
const SNAP_COUNT: usize = 200;
/// A snapshot is synced in steps, and this tree needs several. With few processors, a larger tree
/// would delay the next snapshot for longer than [`LIMIT`].
const LARGE: usize = 20;
const LARGE_BYTES: usize = 250_000;
/// Part of the path of a snapshot that is being written.
const UNFINISHED: &str = "/unfinished.snapshot.";
/// Part of the name of every znode that was never committed.
const NEVER: &str = "never";

fn snapshots(ensemble: &Ensemble, id: u64) -> Vec<PathBuf> {
    let dir = ensemble.member(id).data_dir().join("version-2");
    let files = fs::read_dir(dir).expect("the data directory");
    let files = files.map(|entry| entry.expect("a file").path());
    files
        .filter(|path| {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            name.contains("snapshot.")
        })
        .collect()
}

fn is_under_way(ensemble: &Ensemble, id: u64) -> bool {
    let is_unfinished = |path: &PathBuf| path.to_string_lossy().contains(UNFINISHED);
    snapshots(ensemble, id).iter().any(is_unfinished)
}

/// Checks that no snapshot, complete or not, contains the name of a znode that was never committed.
fn no_snapshot_holds_truncated(ensemble: &Ensemble, id: u64) {
    for file in snapshots(ensemble, id) {
        let bytes = match fs::read(&file) {
            // It was completed or abandoned in the meantime.
            Err(error) if error.kind() == ErrorKind::NotFound => {
                return no_snapshot_holds_truncated(ensemble, id);
            }
            bytes => bytes.expect("read a snapshot"),
        };
        let found = bytes
            .windows(NEVER.len())
            .any(|part| part == NEVER.as_bytes());
        assert!(!found, "{} holds what was truncated", file.display());
    }
}

fn open(ensemble: &Ensemble, id: u64) -> RawSession {
    let address = ensemble.member(id).client_address().to_string();
    RawSession::open(&address, None, 30_000).expect("a session")
}

/// Moment at which a snapshot continues that was begun under the leader.
#[derive(Debug, Clone, Copy)]
enum GoesOn {
    /// After the leader has stepped down, when the tree contains uncommitted znodes.
    AfterTheRole,
    /// After its log was truncated, when the tree was replaced.
    AfterTheCut,
}

#[test]
fn a_snapshot_in_progress_contains_no_truncated_transaction() {
    if Flavour::under_test() != Flavour::Zoarium {
        return;
    }
    let builder = three()
        .property("zookeeper.snapCount", &SNAP_COUNT.to_string())
        .in_network(3);
    let Some((faults, mut ensemble)) = or_skip(WHAT, led_by_3(&builder)) else {
        return;
    };
    let mut session = open(&ensemble, 3);
    for number in 0..LARGE {
        let path = format!("/large{number}");
        let request = create(&path, vec![b'l'; LARGE_BYTES], flags::PERSISTENT);
        let answer = session.call(&Request::Write(request)).expect("an answer");
        assert_eq!(answer.err, 0);
    }
    session.close().expect("the end of the session");
    for goes_on in [GoesOn::AfterTheRole, GoesOn::AfterTheCut] {
        let old = ensemble.wait_until_all_serve();
        ensemble.wait_for_equal_zxids(&[1, 2, 3]);
        truncate_leader(&mut ensemble, &faults, old, goes_on);
        write_on(&mut ensemble, old, goes_on);
    }
    let tree = check::same_trees(&ensemble, &[1, 2, 3]);
    let is_phantom = |path: &&String| path.contains(NEVER);
    assert_eq!(tree.znodes.keys().find(is_phantom), None);
}

/// Starts a snapshot, and stalls it in the middle of the tree.
fn hold_a_snapshot(ensemble: &Ensemble, faults: &Faults, id: u64, goes_on: GoesOn) {
    wait_for("no snapshot under way", LIMIT, || {
        (!is_under_way(ensemble, id)).then_some(())
    });
    faults.hold_syncs(id, UNFINISHED);
    let mut session = open(ensemble, id);
    let mut number = 0;
    // After a large snapshot none is started for a while, even if several are due.
    wait_for("a snapshot under way", LIMIT, || {
        for _ in 0..SNAP_COUNT / 4 {
            let path = format!("/before{goes_on:?}{number}");
            session.put(&Request::Write(create(&path, "", flags::PERSISTENT)));
            number += 1;
        }
        while session.unanswered() > 0 {
            assert_eq!(session.take().expect("an answer").err, 0);
        }
        faults.has_held(id).then_some(())
    });
    session.close().expect("the end of the session");
}

/// Isolates the leader while a snapshot of its tree is stalled, and writes znodes that are never
/// committed. The snapshot continues when another member leads, before or after that leader has had
/// the tail truncated.
fn truncate_leader(ensemble: &mut Ensemble, faults: &Faults, old: u64, goes_on: GoesOn) {
    let others: Vec<u64> = [1, 2, 3].into_iter().filter(|id| *id != old).collect();
    hold_a_snapshot(ensemble, faults, old, goes_on);
    let since = ensemble.member(old).log().len();
    let has_said = |ensemble: &Ensemble, texts: &[&str]| {
        let log = ensemble.member(old).log().split_off(since);
        texts.iter().any(|text| log.contains(text)).then_some(())
    };
    let end_of_snapshot = |ensemble: &Ensemble| {
        faults.release(old);
        let texts = ["snapshot cancelled", "snapshot written"];
        wait_for("end of the snapshot", LIMIT, || has_said(ensemble, &texts));
    };
    let mut session = open(ensemble, old);
    ensemble.network().cut(&[old], &others);
    for number in 0..2 * SNAP_COUNT {
        // The writes cover the whole tree, including parts that the snapshot has not reached.
        let path = format!("/large{}/{NEVER}{number}", number % LARGE);
        session.put(&Request::Write(create(&path, "", flags::PERSISTENT)));
    }
    session.flush().expect("requests are taken");
    assert!(session.take().is_err(), "acknowledged without a quorum");
    ensemble.wait_until_none_serves(&[old]);
    let next = ensemble.wait_until_these_serve(&others);
    let taken_in = ["applied logged transactions that are not yet known to be committed"];
    wait_for("end of the role", LIMIT, || has_said(ensemble, &taken_in));
    if matches!(goes_on, GoesOn::AfterTheRole) {
        end_of_snapshot(ensemble);
    }
    ensemble.network().heal();
    let truncated = ["by=\"TRUNC\""];
    wait_for("truncation", LIMIT, || has_said(ensemble, &truncated));
    if matches!(goes_on, GoesOn::AfterTheCut) {
        end_of_snapshot(ensemble);
    }
    assert_eq!(ensemble.wait_until_all_serve(), next);
    no_snapshot_holds_truncated(ensemble, old);
}

/// Writes until further snapshots are complete, and checks that the member restarts from them with
/// equal data.
fn write_on(ensemble: &mut Ensemble, id: u64, goes_on: GoesOn) {
    let since = ensemble.member(id).log().len();
    let mut session = open(ensemble, id);
    let mut number = 0;
    // None is started while the thread pauses after a large one, even if several are due. A
    // snapshot takes longer while others write.
    wait_for("a further snapshot", LIMIT, || {
        let count = if is_under_way(ensemble, id) {
            0
        } else {
            SNAP_COUNT
        };
        for _ in 0..count {
            let path = format!("/{goes_on:?}{number}");
            session.put(&Request::Write(create(&path, "", flags::PERSISTENT)));
            number += 1;
        }
        while session.unanswered() > 0 {
            assert_eq!(session.take().expect("an answer").err, 0);
        }
        let log = ensemble.member(id).log().split_off(since);
        log.contains("snapshot written").then_some(())
    });
    session.close().expect("the end of the session");
    no_snapshot_holds_truncated(ensemble, id);
    ensemble.member_mut(id).kill();
    ensemble.start(id);
    ensemble.wait_until_all_serve();
}
