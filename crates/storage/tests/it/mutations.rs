//! Random changes of files: recovery never panics and never returns data that was not written.
use std::fs;

use crate::common::outcome;
use testkit::{Random, altered, vectors};

/// Changes tried per file.
const CASES: usize = 800;

#[test]
fn randomly_changed_logs_load_a_prefix_or_fail() {
    let Some(vector) = vectors::vector("log-damaged") else {
        return;
    };
    let mut random = Random::new(0x5eed_0004);
    let (mut started, mut refused) = (0, 0);
    for (dir, file, txns) in [
        ("single", "log.1", 5),
        ("pair", "log.1", 8),
        ("pair", "log.6", 8),
    ] {
        let copy = vectors::copy(&vector.dir.join(dir));
        let path = copy.path().join("version-2").join(file);
        let original = fs::read(&path).unwrap();
        for case in 0..CASES {
            let bytes = altered(&original, &mut random);
            fs::write(&path, &bytes).unwrap();
            match outcome::load(copy.path()) {
                Ok((recovered, db)) => {
                    let last = recovered.last_zxid.0;
                    assert_eq!(
                        db.txns,
                        (1..=last).collect::<Vec<_>>(),
                        "{dir}/{file} {case}"
                    );
                    assert!(last <= txns);
                    assert_eq!(db.mismatches, [0i64; 0], "{dir}/{file} {case}");
                    started += 1;
                }
                Err(error) => {
                    assert_eq!(error.exit_code(), 1);
                    refused += 1;
                }
            }
        }
    }
    assert!(
        started > 200 && refused > 400,
        "{started} started, {refused} refused"
    );
}

#[test]
fn randomly_changed_snapshots_are_replaced_by_older_ones() {
    let Some(vector) = vectors::vector("snap-damaged") else {
        return;
    };
    let mut random = Random::new(0x5eed_0005);
    for (dir, file) in [
        ("with-older", "snapshot.5"),
        ("gz", "snapshot.8.gz"),
        ("snappy", "snapshot.8.snappy"),
    ] {
        let copy = vectors::copy(&vector.dir.join(dir));
        let path = copy.path().join("version-2").join(file);
        let original = fs::read(&path).unwrap();
        let (_, whole) = outcome::load(copy.path()).unwrap();
        for case in 0..CASES {
            let bytes = altered(&original, &mut random);
            fs::write(&path, &bytes).unwrap();
            let (recovered, db) = outcome::load(copy.path())
                .unwrap_or_else(|error| panic!("{dir}, case {case}: {error}"));
            assert_eq!(recovered.last_zxid.0, 8, "{dir}, case {case}");
            assert_eq!(db.digest(), whole.digest(), "{dir}, case {case}");
            assert_eq!(db.sessions, whole.sessions, "{dir}, case {case}");
            assert_eq!(fs::read(&path).unwrap(), bytes);
        }
    }
}
