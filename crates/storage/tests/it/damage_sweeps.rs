//! Files corrupted at every offset: the result equals Java's result, or is a safer one that the
//! test names.
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use crate::common::outcome::{self, Outcome};
use serde_json::Value;
use testkit::vectors::{self, number};
use zoarium_storage::{Damage, StorageError};

/// Deliberate differences from Java; docs/COMPATIBILITY.md, section Storage.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Difference {
    /// A complete record has a wrong length or end byte. Java drops the rest of the file and
    /// starts; Zoarium refuses to start.
    DamageThatJavaSkips,
    /// Transactions directly after the snapshot are missing. Java starts; Zoarium refuses to start.
    GapAfterSnapshot,
    /// Java keeps the sessions of a snapshot that failed to load; Zoarium does not.
    NoGhostSessions,
    /// Java's start ends with an exception instead of trying the older snapshot; Zoarium tries it.
    OlderSnapshotTried,
}

fn damaged(original: &[u8], how: &str, at: usize) -> Vec<u8> {
    let mut bytes = original.to_vec();
    match how {
        "cut" => bytes.truncate(at),
        "zero" => bytes[at..].fill(0),
        xor => bytes[at] ^= u8::from_str_radix(xor.strip_prefix("xor").unwrap(), 16).unwrap(),
    }
    bytes
}

/// Checks one result; returns the difference, if there is one.
fn judge(java: &str, ours: &Outcome, whole: &str, at: &str) -> Option<Difference> {
    let text = outcome::text(ours);
    let java_refuses = java.starts_with("refused");
    if java == text || (java_refuses && ours.is_err()) {
        return None;
    }
    match ours {
        Err(StorageError::LogDamaged { damage, .. }) if !java_refuses => {
            assert!(
                matches!(damage, Damage::WrongLength { .. } | Damage::EndByte { .. }),
                "{at}: {damage:?}"
            );
            Some(Difference::DamageThatJavaSkips)
        }
        Err(StorageError::Gap { .. }) if !java_refuses => Some(Difference::GapAfterSnapshot),
        Ok(_) if java_refuses && text == whole => Some(Difference::OlderSnapshotTried),
        Ok((_, db)) => {
            let sessions = |text: &str| text.split("sessions=").nth(1).unwrap().to_string();
            let without = |text: &str| {
                let rest = sessions(text);
                text.replace(&format!("sessions={rest}"), rest.split_once(' ').unwrap().1)
            };
            assert_eq!(without(java), without(&text), "{at}");
            assert_eq!(db.sessions.len(), 2, "{at}");
            Some(Difference::NoGhostSessions)
        }
        Err(_) => panic!("{at}: java {java:?}, ours {text:?}"),
    }
}

/// Replays all rows of one sweep; counts the differences.
fn sweep(
    dir: &Path,
    file: &str,
    how: &str,
    rows: &Value,
    counts: &mut BTreeMap<Difference, usize>,
) {
    let copy = vectors::copy(dir);
    let path = copy.path().join("version-2").join(file);
    let original = fs::read(&path).unwrap();
    let undamaged = outcome::text(&outcome::load(copy.path()));
    for row in rows.as_array().unwrap() {
        let (from, to) = (number(&row["from"]), number(&row["to"]));
        let java = row["result"].as_str().unwrap();
        for at in from..=to {
            let bytes = damaged(&original, how, usize::try_from(at).unwrap());
            fs::write(&path, &bytes).unwrap();
            let ours = outcome::load(copy.path());
            // An older snapshot leads to the complete state, too.
            let whole = match &ours {
                Ok((recovered, _)) => {
                    let snapshot = recovered.snapshot.as_ref().unwrap().zxid;
                    let (head, tail) = undamaged.split_once(" nodes").unwrap();
                    let zxid = head.split_once(' ').unwrap().0;
                    format!("{zxid} snapshot={snapshot} nodes{tail}")
                }
                Err(_) => String::new(),
            };
            let place = format!("{file} {how} at {at}");
            if let Some(difference) = judge(java, &ours, &whole, &place) {
                *counts.entry(difference).or_default() += 1;
            }
            // Recovery does not write to the file; an empty log is removed, as in Java.
            match fs::read(&path) {
                Ok(after) => assert_eq!(after, bytes, "{place}: recovery changed the file"),
                Err(_) => assert!(bytes.is_empty() && file.starts_with("log"), "{place}"),
            }
        }
    }
}

#[test]
fn logs_damaged_at_every_offset() {
    let Some(vector) = vectors::vector("log-damaged") else {
        return;
    };
    let mut counts = BTreeMap::new();
    for group in ["sweeps", "sweeps_pair"] {
        for (name, rows) in vector.expected[group].as_object().unwrap() {
            let (dir, how) = name.split_once('/').unwrap();
            sweep(&vector.dir.join(dir), "log.1", how, rows, &mut counts);
        }
    }
    // Lengths of 5 records: 3 and 2 low bytes, and 5 end bytes, for two kinds of flips. The pair
    // has one kind, of which Java detects all except in the first record.
    assert_eq!(
        counts,
        BTreeMap::from([
            (Difference::DamageThatJavaSkips, 5 * 4 + 5 * 3 + 4),
            (Difference::GapAfterSnapshot, 76 - 16 + 1),
        ])
    );
}

#[test]
fn snapshots_damaged_at_every_offset() {
    let Some(vector) = vectors::vector("snap-damaged") else {
        return;
    };
    let mut counts = BTreeMap::new();
    for (name, rows) in vector.expected["sweeps"].as_object().unwrap() {
        let (dir, how) = name.split_once('/').unwrap();
        let (source, file) = match dir {
            "gz" => ("gz", "snapshot.8.gz"),
            "snappy" => ("snappy", "snapshot.8.snappy"),
            // Without the older snapshot.
            "alone" => ("alone", "snapshot.5"),
            other => (other, "snapshot.5"),
        };
        if source == "alone" {
            let copy = vectors::copy(&vector.dir.join("with-older"));
            fs::remove_file(copy.path().join("version-2/snapshot.0")).unwrap();
            sweep(copy.path(), file, how, rows, &mut counts);
        } else {
            sweep(&vector.dir.join(source), file, how, rows, &mut counts);
        }
    }
    assert_eq!(
        counts.keys().copied().collect::<Vec<_>>(),
        [Difference::NoGhostSessions, Difference::OlderSnapshotTried]
    );
    // The bytes of one ACL count (4 and 3), of a digest version (1), of gz (1).
    assert_eq!(counts[&Difference::OlderSnapshotTried], 9, "{counts:?}");
}
