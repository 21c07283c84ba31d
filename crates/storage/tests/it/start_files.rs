//! Tests of the marker, the epoch files and the lock.
use std::fs;
use std::process::Command;

use crate::common::outcome;
use crate::common::{fresh_body, open, payload};
use proto::{Epoch, Zxid};
use std::sync::Arc;
use testkit::vectors::{self, number};
use zoarium_storage::{
    Compression, DataDirs, EmptyDirectory, Epochs, LogSettings, LogWriter, OpenOptions, RealDisk,
    RecoverySettings, SnapshotTrailer, SnapshotWriter, StorageError, purge,
    remove_initialize_marker,
};

fn with_data(dirs: &DataDirs) {
    let disk = Arc::new(RealDisk);
    let mut snapshot =
        SnapshotWriter::new(disk.clone(), dirs, Zxid(0), Compression::None, true).unwrap();
    snapshot.write(&fresh_body()).unwrap();
    snapshot.finish(SnapshotTrailer::default()).unwrap();
    let mut writer = LogWriter::new(disk, dirs, LogSettings::new(testkit::LIMITS));
    for zxid in 1..=5 {
        writer.append(Zxid(zxid), &payload(zxid, 1)).unwrap();
    }
    writer.commit().unwrap();
}

#[test]
fn the_initialize_marker() {
    let Some(vector) = vectors::vector("initialize") else {
        return;
    };
    for (case, java) in vector.expected["cases"].as_object().unwrap() {
        let dir = tempfile::tempdir().unwrap();
        let dirs = open(dir.path());
        let has_data = case.starts_with("with data");
        let has_marker = case.ends_with(", marker");
        if has_data {
            with_data(&dirs);
        }
        let marker = dir.path().join("initialize");
        if has_marker {
            fs::write(&marker, "").unwrap();
        }
        let settings = RecoverySettings {
            db_autocreate: case.contains("db.autocreate=true"),
            ..RecoverySettings::new(testkit::LIMITS)
        };
        let (recovered, _) = outcome::load_dirs(&dirs, &settings).unwrap();
        assert_eq!(recovered.last_zxid.0, number(&java["last_zxid"]), "{case}");
        assert_eq!(recovered.has_marker, has_marker, "{case}");
        assert_eq!(recovered.empty.is_some(), !has_data, "{case}");
        let is_untrusted = recovered.empty == Some(EmptyDirectory::Untrusted);
        assert_eq!(is_untrusted, recovered.last_zxid.0 == -1, "{case}");
        // With data the marker is removed immediately, for a new database once there is a snapshot.
        assert_eq!(marker.exists(), has_marker && !has_data, "{case}");
        remove_initialize_marker(&RealDisk, &dirs).unwrap();
        assert!(!marker.exists(), "{case}");
    }
}

#[test]
fn epoch_files() {
    let Some(vector) = vectors::vector("epoch-files") else {
        return;
    };
    let ensemble = vectors::vector("ensemble").unwrap();
    let mut differing = Vec::new();
    for (case, java) in vector.expected["cases"].as_object().unwrap() {
        if case.starts_with("myid") {
            continue;
        }
        let copy = match case.as_str() {
            "data of a standalone server" => {
                let standalone = vectors::vector("log-and-snapshot").unwrap();
                vectors::copy(&standalone.dir.join("data"))
            }
            _ => vectors::copy(&ensemble.dir.join("leader-killed-first")),
        };
        let dir = copy.path().join("version-2");
        for (name, content) in java["changed"].as_object().unwrap() {
            match content.as_str() {
                Some(content) => fs::write(dir.join(name), content).unwrap(),
                None => fs::remove_file(dir.join(name)).unwrap(),
            }
        }
        let dirs = vectors::dirs(copy.path());
        let (recovered, _) =
            outcome::load_dirs(&dirs, &RecoverySettings::new(testkit::LIMITS)).unwrap();
        let ours = Epochs::load(&RealDisk, &dirs, recovered.last_zxid);
        // A crash while a learner was synchronised leaves an epoch below the data's epoch. Java
        // refuses such an epoch and an empty currentEpoch.tmp, or uses a temporary file that is as
        // low as the file it replaces.
        let is_low = |epochs: &Epochs| epochs.current < recovered.last_zxid.epoch();
        // An epoch that the log and `acceptedEpoch` determine is rewritten, while Java refuses it.
        let is_written_again = ["trailing blank", "empty currentEpoch"].contains(&case.as_str());
        if ours.as_ref().is_ok_and(is_low) || ours.is_ok() && is_written_again {
            differing.push(case.as_str());
            continue;
        }
        assert_eq!(ours.is_ok(), java["starts"] == true, "{case}");
        if ours.is_err() {
            continue;
        }
        for (name, content) in java["after"].as_object().unwrap() {
            let after = fs::read_to_string(dir.join(name)).unwrap();
            assert_eq!(after, content.as_str().unwrap(), "{case}: {name}");
        }
        let count = |prefix| vectors::files(&dir, prefix).len();
        let java_count = java["after"].as_object().unwrap().len();
        assert_eq!(
            count("currentEpoch") + count("acceptedEpoch"),
            java_count,
            "{case}"
        );
    }
    differing.sort_unstable();
    assert_eq!(
        differing,
        [
            "currentEpoch below the zxid's",
            "empty currentEpoch",
            "same, tmp also too low",
            "same, tmp empty",
            "trailing blank",
        ]
    );
}

#[test]
fn epochs_are_stored_as_java_stores_them() {
    let dir = tempfile::tempdir().unwrap();
    let dirs = open(dir.path());
    Epochs::store_current(&RealDisk, &dirs, Epoch(3)).unwrap();
    Epochs::store_accepted(&RealDisk, &dirs, Epoch(12)).unwrap();
    assert_eq!(fs::read(dirs.snap.join("currentEpoch")).unwrap(), b"3");
    assert_eq!(fs::read(dirs.snap.join("acceptedEpoch")).unwrap(), b"12");
    assert_eq!(fs::read_dir(&dirs.snap).unwrap().count(), 2);
    let epochs = Epochs::load(&RealDisk, &dirs, Zxid(0x3_0000_0001)).unwrap();
    assert_eq!((epochs.current, epochs.accepted), (Epoch(3), Epoch(12)));
}

/// A learner has its leader's history and promise on disk, and dies (or its disk fails) while it
/// writes the epoch.
#[test]
fn an_unfinished_current_epoch_does_not_prevent_the_start() {
    for torn in ["", "1"] {
        let dir = tempfile::tempdir().unwrap();
        let dirs = open(dir.path());
        Epochs::store_current(&RealDisk, &dirs, Epoch(3)).unwrap();
        Epochs::store_accepted(&RealDisk, &dirs, Epoch(12)).unwrap();
        fs::write(dirs.snap.join("currentEpoch.tmp"), torn).unwrap();
        let epochs = Epochs::load(&RealDisk, &dirs, Zxid(0xc_0000_0001)).unwrap();
        assert_eq!((epochs.current, epochs.accepted), (Epoch(3), Epoch(12)));
    }
}

/// Apache ZooKeeper refuses such a file. Zoarium rewrites the number if the log and the promise
/// leave only one possible epoch.
#[test]
fn a_current_epoch_without_a_number_is_written_again_if_it_is_certain() {
    let last = Zxid(0x5_0000_0002);
    for (accepted, expected) in [("5", Some(Epoch(5))), ("6", None), ("4", None), ("", None)] {
        let dir = tempfile::tempdir().unwrap();
        let dirs = open(dir.path());
        fs::write(dirs.snap.join("currentEpoch"), "").unwrap();
        fs::write(dirs.snap.join("acceptedEpoch"), accepted).unwrap();
        let loaded = Epochs::load(&RealDisk, &dirs, last);
        assert_eq!(
            loaded.ok().map(|epochs| epochs.current),
            expected,
            "{accepted}"
        );
        let written = fs::read_to_string(dirs.snap.join("currentEpoch")).unwrap();
        assert_eq!(written.is_empty(), expected.is_none(), "{accepted}");
    }
}

/// Without the file, the rest of the history would seem to be complete, and a member could be
/// elected with it.
#[test]
fn a_log_that_cannot_be_examined_is_refused_with_its_name() {
    let dir = tempfile::tempdir().unwrap();
    let dirs = open(dir.path());
    with_data(&dirs);
    let newest = dirs.log.join("log.6");
    std::os::unix::fs::symlink("unmounted/log.6", &newest).unwrap();
    let load = || outcome::load_dirs(&dirs, &RecoverySettings::new(testkit::LIMITS));
    let error = load().map(drop).unwrap_err();
    let text = error.to_string();
    assert!(text.contains(&newest.display().to_string()), "{text}");
    // The server exits. It does not move the history aside, because the disk may only be unmounted.
    assert_eq!((error.exit_code(), error.is_damage()), (1, false));
    // A name that does not belong to the history has no effect.
    fs::rename(&newest, dirs.log.join("notes")).unwrap();
    assert_eq!(load().unwrap().0.last_zxid, Zxid(5));
}

/// A link to an old file may dangle for years. Starts and purges do not read the file.
#[test]
fn files_that_are_not_needed_are_not_examined() {
    let dir = tempfile::tempdir().unwrap();
    let dirs = open(dir.path());
    with_data(&dirs);
    for zxid in 3..=5 {
        let disk = Arc::new(RealDisk);
        let mut snapshot =
            SnapshotWriter::new(disk, &dirs, Zxid(zxid), Compression::None, true).unwrap();
        snapshot.write(&fresh_body()).unwrap();
        snapshot.finish(SnapshotTrailer::default()).unwrap();
    }
    let old = ["snapshot.2", "log.0"].map(|name| dirs.log.join(name));
    for path in &old {
        std::os::unix::fs::symlink("unmounted/file", path).unwrap();
    }
    let loaded = outcome::load_dirs(&dirs, &RecoverySettings::new(testkit::LIMITS));
    assert_eq!(loaded.unwrap().0.last_zxid, Zxid(5));
    let removed = purge(&RealDisk, &dirs, 3, testkit::LIMITS).unwrap();
    assert!(old.iter().all(|path| removed.contains(path)), "{removed:?}");
    // The newest snapshot is needed.
    std::os::unix::fs::symlink("unmounted/file", dirs.snap.join("snapshot.6")).unwrap();
    let refused = outcome::load_dirs(&dirs, &RecoverySettings::new(testkit::LIMITS));
    let error = refused.map(drop).unwrap_err();
    assert_eq!((error.exit_code(), error.is_damage()), (1, false));
}

#[test]
fn a_directory_that_cannot_be_created_is_refused_with_the_reason() {
    let dir = tempfile::tempdir().unwrap();
    let (data, link) = (dir.path().join("data"), dir.path().join("link"));
    std::os::unix::fs::symlink("nowhere", &link).unwrap();
    let try_open = |log, options| DataDirs::open(&RealDisk, &data, log, options).map(drop);
    let error = try_open(&link, OpenOptions::default()).unwrap_err();
    assert_eq!(error.exit_code(), 3);
    let text = error.to_string();
    assert!(
        text.contains("is a link to nowhere, which does not exist"),
        "{text}"
    );
    let options = OpenOptions { autocreate: false };
    let text = try_open(&data, options).unwrap_err().to_string();
    assert!(text.contains("autocreate is false"), "{text}");
    assert!(!data.exists(), "nothing is created before a refusal");
}

/// Not a test: the next test runs it in another process, where it holds the lock until its input
/// ends.
#[test]
fn child_that_holds_the_lock() {
    let Ok(dir) = std::env::var("STORAGE_TEST_DIR") else {
        return;
    };
    let _dirs = open(dir.as_ref());
    println!("locked");
    std::io::read_to_string(std::io::stdin()).unwrap();
}

#[test]
fn a_directory_in_use_is_refused_until_its_holder_dies() {
    use std::io::{BufRead, BufReader};
    let dir = tempfile::tempdir().unwrap();
    let mut holder = Command::new(std::env::current_exe().unwrap())
        .args([
            "--exact",
            "start_files::child_that_holds_the_lock",
            "--nocapture",
        ])
        .env("STORAGE_TEST_DIR", dir.path())
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(holder.stdout.take().unwrap()).lines();
    lines
        .find(|line| line.as_ref().unwrap().contains("locked"))
        .unwrap()
        .unwrap();
    let try_open = || DataDirs::open(&RealDisk, dir.path(), dir.path(), OpenOptions::default());
    let error = try_open().unwrap_err();
    assert!(matches!(error, StorageError::InUse { .. }), "{error}");
    assert_eq!(error.exit_code(), 3);
    // After SIGKILL nothing is cleaned up, and still the lock is free.
    holder.kill().unwrap();
    holder.wait().unwrap();
    let dirs = try_open().unwrap();
    assert!(matches!(
        try_open().unwrap_err(),
        StorageError::InUse { .. }
    ));
    let clone = dirs.clone();
    drop(dirs);
    assert!(try_open().is_err());
    drop(clone);
    try_open().unwrap();
}

#[test]
fn a_missing_directory_is_created_only_if_that_is_wanted() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("a/b");
    let off = OpenOptions { autocreate: false };
    let error = DataDirs::open(&RealDisk, &data, &data, off).unwrap_err();
    assert!(matches!(error, StorageError::Directory { .. }), "{error}");
    assert_eq!(error.exit_code(), 3);
    assert!(!data.exists());
    DataDirs::open(&RealDisk, &data, &data, OpenOptions::default()).unwrap();
    assert!(data.join("version-2").is_dir());
    fs::write(dir.path().join("file"), "").unwrap();
    let error = DataDirs::open(
        &RealDisk,
        &dir.path().join("file"),
        &data,
        OpenOptions::default(),
    )
    .unwrap_err();
    assert_eq!(error.exit_code(), 3);
}
