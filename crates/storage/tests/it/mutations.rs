//! Random changes of files: recovery never panics and never returns data that was not written.
use std::fs;
use std::path::Path;

use crate::common::outcome;
use crate::common::vectors;
use testkit::Random;
use zoarium_storage::RealDisk;
use zoarium_storage::tools::{log, repair, snapshot};

/// Changes tried per file.
const CASES: usize = 800;

/// Makes one random change.
fn mutate(bytes: &mut Vec<u8>, random: &mut Random) {
    if bytes.is_empty() {
        return;
    }
    let at = random.below(bytes.len());
    let end = random.below(64) + at + 1;
    let end = end.min(bytes.len());
    match random.below(7) {
        0 => bytes[at] ^= 1 << random.below(8),
        1 => bytes[at..end]
            .iter_mut()
            .for_each(|byte| *byte = random.byte()),
        2 => drop(bytes.drain(at..end)),
        3 => {
            let new: Vec<u8> = (at..end).map(|_| random.byte()).collect();
            bytes.splice(at..at, new);
        }
        4 => bytes[at..end].fill(0),
        5 => bytes.truncate(at),
        _ => {
            // A plausible number at the position of a length or count.
            let number = [
                0u32,
                1,
                0x42,
                0x7fff_ffff,
                0xffff_ffff,
                0x001f_fffe,
                0x0200_0000,
            ];
            let number = number[random.below(7)];
            for (byte, new) in bytes[at..].iter_mut().zip(number.to_be_bytes()) {
                *byte = new;
            }
        }
    }
}

fn mutated(original: &[u8], random: &mut Random) -> Vec<u8> {
    let mut bytes = original.to_vec();
    for _ in 0..=random.below(3) {
        mutate(&mut bytes, random);
    }
    bytes
}

/// Runs the tools, which may report anything but must return.
fn use_log_tools(path: &Path) {
    let limits = testkit::LIMITS;
    let _ = log::verify(&RealDisk, path, limits);
    let _ = log::print(&RealDisk, path, limits, &mut Vec::new());
    for bad_checksums in [repair::BadChecksums::Cut, repair::BadChecksums::Accept] {
        if let Ok(copied) = repair::repair(&RealDisk, path, bad_checksums, limits) {
            // A repaired file is intact.
            let report = log::verify(&RealDisk, &copied.path, limits).unwrap();
            assert_eq!((report.faults.len(), report.records), (0, copied.records));
            fs::remove_file(copied.path).unwrap();
        }
    }
}

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
            let bytes = mutated(&original, &mut random);
            fs::write(&path, &bytes).unwrap();
            // Each repair waits for the disk, so only some cases use the tools.
            if case % 10 == 0 {
                use_log_tools(&path);
            }
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
            fs::write(&path, &bytes).unwrap();
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
            let bytes = mutated(&original, &mut random);
            fs::write(&path, &bytes).unwrap();
            let _ = snapshot::verify(&RealDisk, &path, testkit::LIMITS);
            let _ = snapshot::print(&RealDisk, &path, testkit::LIMITS, true, &mut Vec::new());
            let (recovered, db) = outcome::load(copy.path())
                .unwrap_or_else(|error| panic!("{dir}, case {case}: {error}"));
            assert_eq!(recovered.last_zxid.0, 8, "{dir}, case {case}");
            assert_eq!(db.digest(), whole.digest(), "{dir}, case {case}");
            assert_eq!(db.sessions, whole.sessions, "{dir}, case {case}");
            assert_eq!(fs::read(&path).unwrap(), bytes);
        }
    }
}
