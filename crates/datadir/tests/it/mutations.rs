//! Random changes of files, on which the tools may report anything but must return.

use std::fs;
use std::path::Path;

use storage::RealDisk;
use testkit::{LIMITS, Random, altered, vectors};
use zoarium_datadir::log::repair::{self, BadChecksums};
use zoarium_datadir::{log, snapshot};

fn use_log_tools(path: &Path) {
    let _ = log::verify(&RealDisk, path, LIMITS);
    let _ = log::print(&RealDisk, path, LIMITS, &mut Vec::new());
    for bad_checksums in [BadChecksums::Cut, BadChecksums::Accept] {
        if let Ok(copied) = repair::repair(&RealDisk, path, bad_checksums, LIMITS) {
            // A repaired file is intact.
            let report = log::verify(&RealDisk, &copied.path, LIMITS).unwrap();
            assert_eq!((report.faults.len(), report.records), (0, copied.records));
            fs::remove_file(copied.path).unwrap();
        }
    }
}

/// Each repair waits for the disk, so there are few cases.
#[test]
fn randomly_changed_logs_are_repaired_or_refused() {
    let Some(vector) = vectors::vector("log-damaged") else {
        return;
    };
    let mut random = Random::new(0x5eed_0004);
    for (dir, file) in [("single", "log.1"), ("pair", "log.1"), ("pair", "log.6")] {
        let copy = vectors::copy(&vector.dir.join(dir));
        let path = copy.path().join("version-2").join(file);
        let original = fs::read(&path).unwrap();
        for _ in 0..80 {
            fs::write(&path, altered(&original, &mut random)).unwrap();
            use_log_tools(&path);
        }
    }
}

#[test]
fn randomly_changed_snapshots_are_printed_or_refused() {
    let Some(vector) = vectors::vector("snap-damaged") else {
        return;
    };
    let mut random = Random::new(0x5eed_0005);
    let (mut printed, mut refused) = (0, 0);
    for (dir, file) in [
        ("with-older", "snapshot.5"),
        ("gz", "snapshot.8.gz"),
        ("snappy", "snapshot.8.snappy"),
    ] {
        let copy = vectors::copy(&vector.dir.join(dir));
        let path = copy.path().join("version-2").join(file);
        let original = fs::read(&path).unwrap();
        let whole = snapshot::print(&RealDisk, &path, LIMITS, true, &mut Vec::new());
        for _ in 0..800 {
            let bytes = altered(&original, &mut random);
            fs::write(&path, &bytes).unwrap();
            let as_text = snapshot::print(&RealDisk, &path, LIMITS, true, &mut Vec::new());
            let as_json = snapshot::print_json(&RealDisk, &path, LIMITS, &mut Vec::new());
            let sizes = snapshot::subtrees(&RealDisk, &path, LIMITS);
            assert_eq!(as_text.is_ok(), as_json.is_ok());
            assert_eq!(as_text.is_ok(), sizes.is_ok());
            match as_text {
                Ok(info) => {
                    assert_eq!(
                        Some(info.znodes),
                        whole.as_ref().ok().map(|whole| whole.znodes)
                    );
                    printed += 1;
                }
                Err(_) => refused += 1,
            }
            assert_eq!(fs::read(&path).unwrap(), bytes);
        }
    }
    assert!(refused > 1000, "{printed} printed, {refused} refused");
}
