//! Specific corruptions and unusual directories: the result equals Java's result, or is a safer one
//! that the test names.
use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use crate::common::outcome::{self, Outcome};
use serde_json::Value;
use tempfile::TempDir;
use testkit::vectors::{self, Vector, bytes, number};
use zoarium_storage::{DataDirs, OpenOptions, RealDisk, RecoverySettings, StorageError};

/// Applies an edit to a file: keeps its first bytes and appends others.
fn edit(path: &Path, edit: &Value) {
    let mut content = fs::read(path).unwrap();
    content.truncate(usize::try_from(number(&edit["keep"])).unwrap());
    content.extend(bytes(edit["then"].as_str().unwrap()));
    fs::write(path, content).unwrap();
}

fn file(copy: &TempDir, name: &str) -> std::path::PathBuf {
    copy.path().join("version-2").join(name)
}

/// Returns whether our result equals the result of Java's start.
fn same_as_java(java: &Value, ours: &Outcome) -> bool {
    match ours {
        Err(_) => java["starts"] == false,
        Ok((recovered, db)) => {
            java["starts"] == true
                && recovered.last_zxid.0 == number(&java["last_zxid"])
                && db.digest() == number(&java["digest"])
        }
    }
}

/// Checks the cases of a group and returns the names of those that differ. All of them must be
/// refusals where Java starts with less data.
fn differing(
    vector: &Vector,
    group: &str,
    source: &str,
    damaged: &str,
    remove: &[&str],
) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    let edits = &vector.expected[format!("edits_of_{damaged}")];
    for (name, java) in vector.expected["server"][group].as_object().unwrap() {
        let copy = vectors::copy(&vector.dir.join(source));
        for other in remove {
            fs::remove_file(file(&copy, other)).unwrap();
        }
        edit(&file(&copy, damaged), &edits[name]);
        let before = fs::read(file(&copy, damaged)).unwrap();
        let ours = outcome::load(copy.path());
        if !same_as_java(java, &ours) {
            assert!(
                ours.is_err() && java["starts"] == true,
                "{group}: {name}: ours {}, java {java}",
                outcome::text(&ours)
            );
            names.insert(name.clone());
        }
        if let Err(error) = ours {
            assert_eq!(error.exit_code(), 1, "{name}");
        }
        // Recovery does not change a corrupted file.
        assert!(before.is_empty() || fs::read(file(&copy, damaged)).unwrap() == before);
    }
    names
}

fn set(names: &[&str]) -> BTreeSet<String> {
    names.iter().map(ToString::to_string).collect()
}

#[test]
fn damaged_logs() {
    let Some(vector) = vectors::vector("log-damaged") else {
        return;
    };
    // Java silently drops the record or the rest of the file.
    let skipped = [
        "flip low length byte, middle",
        "flip low length byte, last record",
        "flip end byte, middle",
        "flip end byte, last record",
        "setData whose record ends early appended (checksum right)",
    ];
    let single = differing(
        &vector,
        "single (log.1 is the last log)",
        "single",
        "log.1",
        &[],
    );
    assert_eq!(single, set(&skipped));
    let pair = differing(
        &vector,
        "pair, log.1 damaged (log.6 follows)",
        "pair",
        "log.1",
        &[],
    );
    // Java starts with the transactions of log.6 alone.
    assert_eq!(pair, set(&["header only", "header and zeros"]));
    let last = differing(&vector, "pair, log.6 damaged", "pair", "log.6", &[]);
    assert_eq!(last, set(&[]));
}

#[test]
fn errors_name_file_offset_and_a_hint() {
    let Some(vector) = vectors::vector("log-damaged") else {
        return;
    };
    let copy = vectors::copy(&vector.dir.join("single"));
    let edits = &vector.expected["edits_of_log.1"];
    edit(
        &file(&copy, "log.1"),
        &edits["flip low length byte, middle"],
    );
    let text = outcome::load(copy.path()).unwrap_err().to_string();
    for part in [
        file(&copy, "log.1").to_str().unwrap(),
        "offset 180",
        "length is 63",
        "a record of 62 bytes",
        "up to zxid 0x2",
        "zoarium log --repair --replace",
    ] {
        assert!(text.contains(part), "{part:?} in {text:?}");
    }
    let copy_with_gap = vectors::copy(&vector.dir.join("single"));
    edit(
        &file(&copy_with_gap, "log.1"),
        &edits["zxid 9 appended (a gap)"],
    );
    let text = outcome::load(copy_with_gap.path()).unwrap_err().to_string();
    assert!(text.contains("zoarium log --chop 0x5 --replace"), "{text}");
    let copy = vectors::copy(&vector.dir.join("pair"));
    edit(&file(&copy, "log.1"), &edits["cut at record+12"]);
    let text = outcome::load(copy.path()).unwrap_err().to_string();
    let [first, second] = ["log.1", "log.6"].map(|name| file(&copy, name).display().to_string());
    for part in [
        first.as_str(),
        second.as_str(),
        "0x6",
        "0x4",
        "torn at offset 354",
    ] {
        assert!(text.contains(part), "{part:?} in {text:?}");
    }
}

#[test]
fn a_tear_with_a_log_written_after_it_loads() {
    let Some(vector) = vectors::vector("log-damaged") else {
        return;
    };
    let copy = vectors::copy(&vector.dir.join("torn-then-written"));
    let all = outcome::load(copy.path());
    assert!(same_as_java(&vector.expected["torn_then_written"], &all));
    // Without the newest snapshot, recovery reads both logs.
    fs::remove_file(file(&copy, "snapshot.4")).unwrap();
    let replayed = outcome::load(copy.path());
    assert!(same_as_java(
        &vector.expected["torn_then_written"],
        &replayed
    ));
    assert_eq!(replayed.unwrap().0.txns_replayed, 6);
}

#[test]
fn damaged_snapshots() {
    let Some(vector) = vectors::vector("snap-damaged") else {
        return;
    };
    let with_older = differing(
        &vector,
        "older snapshot and all logs present",
        "with-older",
        "snapshot.5",
        &[],
    );
    assert_eq!(with_older, set(&[]));
    let no_older = differing(
        &vector,
        "no older snapshot, logs present",
        "with-older",
        "snapshot.5",
        &["snapshot.0"],
    );
    assert_eq!(no_older, set(&[]));
    let alone = differing(
        &vector,
        "no older snapshot, no logs",
        "with-older",
        "snapshot.5",
        &["snapshot.0", "log.1", "log.6"],
    );
    // Java starts empty.
    assert_eq!(alone, set(&["cut to half", "empty"]));
}

#[test]
fn unusual_file_names() {
    let Some(vector) = vectors::vector("snap-damaged") else {
        return;
    };
    let mut differing = Vec::new();
    for (case, java) in vector.expected["names"].as_object().unwrap() {
        let copy = vectors::copy(&vector.dir.join("with-older"));
        let (source, name) = match case.split(" [").next().unwrap() {
            "snapshot.5 renamed snapshot.3" => ("snapshot.5", "snapshot.3"),
            "snapshot.5 renamed snapshot.ff" => ("snapshot.5", "snapshot.ff"),
            "snapshot.5.tmp beside it" => ("snapshot.5", "snapshot.5.tmp"),
            "snapshot.fff.tmp (copy)" => ("snapshot.5", "snapshot.fff.tmp"),
            "snapshot.5 upper case" => ("snapshot.5", "snapshot.0A"),
            "snapshot.zz (copy)" => ("snapshot.5", "snapshot.zz"),
            "snapshot (copy)" => ("snapshot.5", "snapshot"),
            "plain bytes named .gz" => ("snapshot.5", "snapshot.ff.gz"),
            "log.1.fixed beside log.1" => ("log.1", "log.1.fixed"),
            "log.1 renamed log.3" => ("log.1", "log.3"),
            "log.1 renamed log.0" => ("log.1", "log.0"),
            other => panic!("unknown case {other:?}"),
        };
        fs::copy(file(&copy, source), file(&copy, name)).unwrap();
        if case.contains("renamed") {
            fs::remove_file(file(&copy, source)).unwrap();
        }
        let ours = outcome::load(copy.path());
        if outcome::text(&ours) != java.as_str().unwrap() {
            differing.push((name, ours));
        }
    }
    let names: BTreeSet<_> = differing.iter().map(|(name, _)| *name).collect();
    // An unfinished file is not loaded. A snapshot that claims to reach 0xff and cannot be read is
    // not skipped.
    assert_eq!(
        names,
        BTreeSet::from(["snapshot.fff.tmp", "snapshot.ff.gz"])
    );
    for (name, ours) in &differing {
        match (*name, ours) {
            ("snapshot.fff.tmp", Ok((recovered, _))) => assert_eq!(recovered.last_zxid.0, 8),
            ("snapshot.ff.gz", Err(StorageError::SnapshotLost { reached, .. })) => {
                assert_eq!(reached.0, 8);
            }
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn snapshots_with_any_sections_load() {
    let Some(sections) = vectors::vector("snap-sections") else {
        return;
    };
    for (name, sub, digest, last_zxid) in [
        ("snap-sections", "both", true, true),
        ("snap-sections", "restarted", true, true),
        ("snap-no-digest", "data", false, true),
        ("snap-no-lastzxid", "data", true, false),
        ("snap-neither", "data", false, false),
    ] {
        let vector = vectors::vector(name).unwrap();
        let copy = vectors::copy(&vector.dir.join(sub));
        let (recovered, db) = outcome::load(copy.path()).unwrap();
        let info = recovered.snapshot_info;
        assert_eq!(info.digest.is_some(), digest, "{name}");
        assert_eq!(info.last_zxid.is_some(), last_zxid, "{name}");
        if sub == "both" {
            assert_eq!(info.digest.unwrap().digest, db.digest());
            assert_eq!(db.digest(), number(&sections.expected["state"]["digest"]));
        }
    }
    // Java refuses four of the sixteen combinations; Zoarium does not depend on these settings.
    let matrix = sections.expected["matrix"].as_object().unwrap();
    let refused = matrix.values().filter(|row| row["starts"] == false).count();
    assert_eq!((matrix.len(), refused), (16, 4));
}

#[test]
fn missing_logs() {
    let Some(vector) = vectors::vector("rolled") else {
        return;
    };
    let snapshots = ["0", "e", "1f", "2f", "3d", "4c", "57"];
    for (case, java) in vector.expected["cases"].as_object().unwrap() {
        let copy = vectors::copy(&vector.dir.join("data"));
        let (missing, kept): (Option<&str>, &[&str]) = match case.as_str() {
            "without log.31, newest snapshot kept" => (Some("log.31"), &["57"]),
            "without log.31, only snapshot.0 kept" => (Some("log.31"), &["0"]),
            "all logs, only snapshot.0 kept" => (None, &["0"]),
            _ => (Some("log.4e"), &["57"]),
        };
        for zxid in snapshots.iter().filter(|zxid| !kept.contains(zxid)) {
            fs::remove_file(file(&copy, &format!("snapshot.{zxid}"))).unwrap();
        }
        if let Some(name) = missing {
            fs::remove_file(file(&copy, name)).unwrap();
        }
        let ours = outcome::load(copy.path());
        if missing == Some("log.4e") {
            // Java starts without transaction 0x58 and only warns about the digest.
            assert_eq!(java["starts"], true);
            assert!(
                matches!(&ours, Err(StorageError::Gap { last, next, .. })
                    if (last.0, next.0) == (0x57, 0x59)),
                "{}",
                outcome::text(&ours)
            );
        } else {
            assert!(
                same_as_java(java, &ours),
                "{case}: {}",
                outcome::text(&ours)
            );
        }
    }
}

#[test]
fn logs_without_a_snapshot() {
    let Some(vector) = vectors::vector("log-only") else {
        return;
    };
    let copy = vectors::copy(&vector.dir.join("data"));
    let refused = outcome::load(copy.path());
    assert!(matches!(refused, Err(StorageError::NoSnapshot { .. })));
    let settings = RecoverySettings {
        trust_empty: true,
        ..RecoverySettings::new(testkit::LIMITS)
    };
    let dirs = vectors::dirs(copy.path());
    let trusted = outcome::load_dirs(&dirs, &settings);
    assert!(same_as_java(&vector.expected["with_trust_empty"], &trusted));
}

#[test]
fn two_directories() {
    let Some(vector) = vectors::vector("dirs-split") else {
        return;
    };
    for (case, java) in vector.expected["cases"].as_object().unwrap() {
        let data = vectors::copy(&vector.dir.join("data"));
        let log = vectors::copy(&vector.dir.join("datalog"));
        let mut options = OpenOptions::default();
        let remove_all = |dir: &TempDir| fs::remove_dir_all(dir.path().join("version-2")).unwrap();
        let put = |dir: &TempDir, name: &str| fs::write(dir.path().join(name), "").unwrap();
        match case.as_str() {
            "log file in dataDir" => put(&data, "version-2/log.1"),
            "snapshot in dataLogDir" => put(&log, "version-2/snapshot.0"),
            "log.txt in dataDir" => put(&data, "version-2/log.txt"),
            "logs in dataDir" => put(&data, "version-2/logs"),
            "dataLogDir empty" => remove_all(&log),
            "dataDir empty" => remove_all(&data),
            "dataDir empty, datadir.autocreate=false" => {
                remove_all(&data);
                options.autocreate = false;
            }
            "initialize in dataDir" => put(&data, "initialize"),
            "initialize in dataLogDir" => put(&log, "initialize"),
            other => panic!("unknown case {other:?}"),
        }
        let ours = DataDirs::open(&RealDisk, data.path(), log.path(), options)
            .and_then(|dirs| outcome::load_dirs(&dirs, &RecoverySettings::new(testkit::LIMITS)));
        assert!(
            same_as_java(java, &ours),
            "{case}: {}",
            outcome::text(&ours)
        );
        if let Err(error) = ours {
            assert_eq!(
                i64::from(error.exit_code()),
                number(&java["exit_code"]),
                "{case}"
            );
        }
        assert_eq!(
            data.path().join("initialize").exists(),
            case == "initialize in dataDir"
        );
        assert!(!log.path().join("initialize").exists(), "{case}");
    }
}
