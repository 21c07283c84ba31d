//! The logs of observers, for which no other member waits.

use std::fs;
use std::path::Path;

use proto::request::Request;
use tests::ensemble::{EnsembleBuilder, Load, SETTLE_LIMIT, check};
use tests::requests::create;
use tests::{Flavour, or_skip, wait_for};

/// Writes of each writer, many per sync of an observer.
const PROGRESS: u64 = 300;
const VOTERS: [u64; 3] = [1, 2, 3];
const OBSERVER: u64 = 4;
const LAST: &str = "/the-last-one";

/// An observer syncs many transactions together, and does not wait for more before it writes the
/// last ones.
#[test]
fn an_observer_needs_fewer_syncs_and_loses_nothing() {
    if Flavour::under_test() != Flavour::Zoarium {
        // Apache ZooKeeper's observers sync like its followers.
        return;
    }
    let builder = EnsembleBuilder::new(&[Flavour::Zoarium; 3]);
    let started = builder.observers(&[Flavour::Zoarium]).start();
    let Some(mut ensemble) = or_skip("an observer's syncs", started) else {
        return;
    };
    ensemble.wait_until_all_serve();
    let load = Load::start(&ensemble.addresses(&VOTERS));
    load.wait_for_progress(PROGRESS);
    let report = load.finish();
    ensemble.wait_for_equal_zxids(&ensemble.ids());
    let syncs = |id| -> u64 {
        let count = ensemble.member(id).metric("cnt_fsynctime");
        count.and_then(|count| count.parse().ok()).expect("a count")
    };
    let [of_voter, of_observer] = [VOTERS[0], OBSERVER].map(syncs);
    assert!(
        of_observer * 2 < of_voter,
        "{of_observer} syncs of the observer, {of_voter} of a voter"
    );
    let mut session = ensemble.super_session(VOTERS[0]).expect("a session");
    let last = Request::Write(create(LAST, LAST, 0));
    assert_eq!(session.call(&last).expect("an answer").err, 0);
    let files = ensemble.member(OBSERVER).data_dir().join("version-2");
    wait_for("the last write in the observer's log", SETTLE_LIMIT, || {
        holds(&files, LAST.as_bytes()).then_some(())
    });
    ensemble.member_mut(OBSERVER).kill();
    ensemble.start(OBSERVER);
    ensemble.wait_until_all_serve();
    check::nothing_is_lost(&ensemble, &report);
    check::all_agree(&ensemble);
}

/// Returns whether a log in this directory contains the bytes.
fn holds(dir: &Path, bytes: &[u8]) -> bool {
    let entries = fs::read_dir(dir).expect("the data directory");
    entries.flatten().any(|entry| {
        let is_log = entry.file_name().to_string_lossy().starts_with("log.");
        let content = is_log.then(|| fs::read(entry.path()).unwrap_or_default());
        let content = content.unwrap_or_default();
        content.windows(bytes.len()).any(|window| window == bytes)
    })
}
