//! A snapshot that is still being written when the role ends under which it was due, and what was
//! appended at the end of that role is truncated by the next leader: no file may hold it then.

use std::fs;
use std::path::PathBuf;

use proto::request::{Request, flags};
use tests::ensemble::{Ensemble, check};
use tests::requests::create;
use tests::{Flavour, RawSession, or_skip, wait_for};

use crate::{LIMIT, led_by_3, three};

const WHAT: &str = "a snapshot that outlives its role";
/// Transactions between two snapshots, give or take a half.
const SNAP_COUNT: usize = 200;
/// A snapshot is synced every 8 MiB: this tree takes some steps.
const LARGE: usize = 100;
const LARGE_BYTES: usize = 250_000;
/// In the name of every znode that was never committed.
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

/// No snapshot, finished or not, has the name of a znode that was never committed.
fn no_snapshot_holds_truncated(ensemble: &Ensemble, id: u64) {
    for file in snapshots(ensemble, id) {
        let bytes = fs::read(&file).expect("read a snapshot");
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

#[test]
fn a_snapshot_under_way_holds_nothing_that_is_truncated() {
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
        let request = create(
            &format!("/large{number}"),
            vec![b'l'; LARGE_BYTES],
            flags::PERSISTENT,
        );
        let answer = session.call(&Request::Write(request)).expect("an answer");
        assert_eq!(answer.err, 0);
    }
    ensemble.wait_for_equal_zxids(&[1, 2, 3]);

    // A snapshot becomes due in what is never committed, and stands still in its midst.
    faults.hold_syncs(3, "/unfinished.snapshot.");
    ensemble.network().cut(&[3], &[1, 2]);
    for number in 0..2 * SNAP_COUNT {
        let path = format!("/{NEVER}{number}");
        session.put(&Request::Write(create(&path, "", flags::PERSISTENT)));
    }
    session.flush().expect("requests are taken");
    assert!(session.take().is_err(), "acknowledged without a quorum");
    wait_for("snapshot under way", LIMIT, || {
        faults.has_held(3).then_some(())
    });
    ensemble.wait_until_none_serves(&[3]);
    let next = ensemble.wait_until_these_serve(&[1, 2]);

    // The next leader has the tail cut off, and only then the snapshot goes on.
    let since = ensemble.member(3).log().len();
    let has_said = |ensemble: &Ensemble, text: &str| {
        let log = ensemble.member(3).log().split_off(since);
        log.contains(text).then_some(())
    };
    ensemble.network().heal();
    wait_for("truncation", LIMIT, || has_said(&ensemble, "by=\"TRUNC\""));
    faults.release(3);
    wait_for("end of the snapshot", LIMIT, || {
        has_said(&ensemble, "snapshot given up")
    });
    assert_eq!(ensemble.wait_until_all_serve(), next);
    no_snapshot_holds_truncated(&ensemble, 3);

    // Further ones are due and written; from them the member comes back the same.
    let mut session = open(&ensemble, 3);
    for number in 0..2 * SNAP_COUNT {
        let request = create(&format!("/after{number}"), "", flags::PERSISTENT);
        session.put(&Request::Write(request));
    }
    while session.unanswered() > 0 {
        assert_eq!(session.take().expect("an answer").err, 0);
    }
    wait_for("a further snapshot", LIMIT, || {
        has_said(&ensemble, "snapshot written")
    });
    session.close().expect("the end of the session");
    no_snapshot_holds_truncated(&ensemble, 3);
    ensemble.member_mut(3).kill();
    ensemble.start(3);
    ensemble.wait_until_all_serve();
    let tree = check::same_trees(&ensemble, &[1, 2, 3]);
    let is_phantom = |path: &&String| path.contains(NEVER);
    assert_eq!(tree.znodes.keys().find(is_phantom), None);
}
