//! Tests of corrupt files with a whole server: it starts with Java's state, or it refuses to start.
//!
//! `storage` replays the tests of every offset. These tests cover the corruptions that were tried
//! on a whole Java server, and misleading file names.

use std::collections::BTreeMap;
use std::fs;
use std::sync::Arc;

use serde_json::Value;
use storage::{
    Compression, Damage, DataDirs, RealDisk, SnapshotTrailer, SnapshotWriter, StorageError,
};

use crate::support::{Directory, bytes, number, vector};

/// Cases in which this server is stricter than Java, or keeps more data; docs/COMPATIBILITY.md,
/// Storage.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Difference {
    /// A wrong length or end byte of a complete record: Java drops the rest of the log.
    DamageThatJavaSkips,
    /// A record whose fields end too early: Java treats it as the end of the log.
    UnreadableRecord,
    /// Transactions are missing after the snapshot: Java starts without them.
    GapAfterSnapshot,
    /// The only snapshot is truncated and there is no log: Java starts with an empty database.
    OnlySnapshotLost,
}

/// Applies an edit: the first bytes of the original, then other bytes.
fn edit(original: &[u8], edit: &Value) -> Vec<u8> {
    let keep = usize::try_from(number(&edit["keep"])).unwrap();
    let mut edited = original[..keep].to_vec();
    edited.extend(bytes(edit["then"].as_str().unwrap()));
    edited
}

/// Starts a server and compares the result with Java's. Returns the difference, if there is one.
fn judge(case: &str, directory: &Directory, recorded: &Value) -> Option<Difference> {
    let java_starts = recorded["starts"] == true;
    let found = directory.recover();
    let served = directory.serve();
    let error = match (found, served) {
        (Ok(found), Ok(started)) => {
            assert!(java_starts, "{case}: started, unlike java");
            let wanted = number(&recorded["last_zxid"]);
            assert_eq!(
                (started.zxid.0, found.tree.last_zxid().0),
                (wanted, wanted),
                "{case}"
            );
            let digest = number(&recorded["digest"]);
            assert_eq!(found.tree.digest().cast_signed(), digest, "{case}");
            return None;
        }
        (Err(error), Err(refusal)) => {
            assert_eq!(refusal.exit_code(), 1, "{case}: {refusal}");
            assert_eq!(refusal.to_string(), error.to_string(), "{case}");
            error
        }
        (found, served) => panic!("{case}: {:?}, {served:?}", found.err()),
    };
    if !java_starts {
        assert_eq!(recorded["exit_code"], 1, "{case}");
        return None;
    }
    Some(match error {
        StorageError::LogDamaged { damage, .. } => match damage {
            Damage::WrongLength { .. } | Damage::EndByte { .. } => Difference::DamageThatJavaSkips,
            Damage::Undecodable { .. } => Difference::UnreadableRecord,
            other => panic!("{case}: {other}"),
        },
        StorageError::Gap { .. } => Difference::GapAfterSnapshot,
        StorageError::NoUsableSnapshot { .. } => Difference::OnlySnapshotLost,
        other => panic!("{case}: {other}"),
    })
}

/// Judges all cases of a group on `file`; `prepare` changes the new copy first.
fn judge_group(
    vector: &crate::support::Vector,
    (sub, file): (&str, &str),
    group: &str,
    prepare: impl Fn(&Directory),
) -> BTreeMap<String, Difference> {
    let edits = &vector.expected[format!("edits_of_{file}")];
    let mut differences = BTreeMap::new();
    let cases = vector.expected["server"][group].as_object().unwrap();
    for (case, recorded) in cases {
        let directory = vector.copy(sub);
        prepare(&directory);
        // The beginnings of both logs were edited in the same way.
        let edits = match edits.get(case) {
            Some(found) => found,
            None => &vector.expected["edits_of_log.1"][case],
        };
        let path = directory.file(file);
        let damaged = edit(&fs::read(&path).unwrap(), edits);
        fs::write(&path, &damaged).unwrap();
        if let Some(difference) = judge(&format!("{group}: {case}"), &directory, recorded) {
            differences.insert(case.clone(), difference);
        }
        // An unreadable file is evidence, so none of its bytes may change.
        let kept = fs::read(&path).ok();
        let is_gone = kept.is_none() && damaged.is_empty() && recorded["starts"] == true;
        assert!(
            is_gone || kept.is_some_and(|kept| kept == damaged),
            "{group}: {case}"
        );
    }
    differences
}

fn named<const N: usize>(cases: [(&str, Difference); N]) -> BTreeMap<String, Difference> {
    cases.map(|(case, it)| (case.to_owned(), it)).into()
}

#[test]
fn damaged_logs() {
    let Some(vector) = vector("log-damaged") else {
        return;
    };
    let group = "single (log.1 is the last log)";
    let differences = judge_group(&vector, ("single", "log.1"), group, |_| ());
    let skips = Difference::DamageThatJavaSkips;
    assert_eq!(
        differences,
        named([
            ("flip low length byte, middle", skips),
            ("flip low length byte, last record", skips),
            ("flip end byte, middle", skips),
            ("flip end byte, last record", skips),
            (
                "setData whose record ends early appended (checksum right)",
                Difference::UnreadableRecord,
            ),
        ])
    );
    let group = "pair, log.1 damaged (log.6 follows)";
    let differences = judge_group(&vector, ("pair", "log.1"), group, |_| ());
    let gap = Difference::GapAfterSnapshot;
    assert_eq!(
        differences,
        named([("header only", gap), ("header and zeros", gap)])
    );
    let group = "pair, log.6 damaged";
    let differences = judge_group(&vector, ("pair", "log.6"), group, |_| ());
    assert_eq!(differences, named([]));
}

#[test]
fn a_log_written_after_a_tear() {
    let Some(vector) = vector("log-damaged") else {
        return;
    };
    let directory = vector.copy("torn-then-written");
    let recorded = &vector.expected["torn_then_written"];
    assert_eq!(judge("torn, then written", &directory, recorded), None);
}

#[test]
fn damaged_snapshots() {
    let Some(vector) = vector("snap-damaged") else {
        return;
    };
    let file = ("with-older", "snapshot.5");
    let group = "older snapshot and all logs present";
    assert_eq!(judge_group(&vector, file, group, |_| ()), named([]));
    let remove = |directory: &Directory, names: &[&str]| {
        for name in names {
            fs::remove_file(directory.file(name)).unwrap();
        }
    };
    let group = "no older snapshot, logs present";
    let differences = judge_group(&vector, file, group, |copy| remove(copy, &["snapshot.0"]));
    assert_eq!(differences, named([]));
    let group = "no older snapshot, no logs";
    let alone = ["snapshot.0", "log.1", "log.6"];
    let differences = judge_group(&vector, file, group, |copy| remove(copy, &alone));
    let lost = Difference::OnlySnapshotLost;
    assert_eq!(differences, named([("cut to half", lost), ("empty", lost)]));
}

/// The snapshot that the start writes has the name of the corrupt one. Neither may be lost.
#[test]
fn a_damaged_snapshot_of_the_last_transaction_is_kept() {
    let Some(vector) = vector("snap-damaged") else {
        return;
    };
    let directory = vector.copy("with-older");
    let mut damaged = fs::read(directory.file("snapshot.5")).unwrap();
    damaged[100] ^= 1;
    fs::write(directory.file("snapshot.8"), &damaged).unwrap();
    assert_eq!(directory.serve().unwrap().zxid.0, 8);
    assert_eq!(
        fs::read(directory.file("damaged.snapshot.8")).unwrap(),
        damaged
    );
    let found = directory.recover().unwrap();
    assert_eq!(found.recovered.snapshot.unwrap().zxid.0, 8);
    assert_eq!(found.recovered.txns_replayed, 0);
    let digest = number(&vector.expected["state"]["digest"]);
    assert_eq!(found.tree.digest().cast_signed(), digest);
}

/// A snapshot whose content was changed together with its checksum.
#[test]
fn an_altered_history_is_reported_but_served() {
    let Some(vector) = vector("snap-sections") else {
        return;
    };
    let directory = vector.copy("both");
    let found = directory.recover().unwrap();
    assert_eq!(found.digest_mismatches, 0);
    let (zxid, digest) = (found.tree.last_zxid(), found.tree.digest().cast_signed());
    let (mut cursor, mut body) = (found.tree.start_snapshot(), Vec::new());
    while found.tree.snapshot_chunk(&mut cursor, 4096, &mut body) {}
    let dirs = DataDirs::unlocked(directory.data(), directory.data());
    let disk = Arc::new(RealDisk);
    for (recorded, mismatches) in [(digest, 0), (digest ^ 1, 1)] {
        let none = Compression::None;
        let mut writer = SnapshotWriter::new(disk.clone(), &dirs, zxid, none, true).unwrap();
        writer.write(&body).unwrap();
        let trailer = SnapshotTrailer::new(Some((zxid, recorded)), Some(zxid));
        writer.finish(trailer).unwrap();
        assert_eq!(directory.recover().unwrap().digest_mismatches, mismatches);
        assert_eq!(directory.serve().unwrap().zxid, zxid);
    }
}

/// Snapshots and logs under other names; each case names the resulting files.
#[test]
fn files_with_misleading_names() {
    let Some(vector) = vector("snap-damaged") else {
        return;
    };
    let mut unlike_java = Vec::new();
    for (case, recorded) in vector.expected["names"].as_object().unwrap() {
        let directory = vector.copy("with-older");
        let (_, names) = case.trim_end_matches(']').split_once('[').unwrap();
        arrange(&directory, &names.split(", ").collect::<Vec<_>>());
        let ours = match directory.recover() {
            Ok(found) => format!(
                "zxid={:#x} snapshot={:#x} nodes={} sessions={} digest={:#x}",
                found.recovered.last_zxid.0,
                found.recovered.snapshot.unwrap().zxid.0,
                found.tree.node_count(),
                found.tree.sessions().len(),
                found.tree.digest(),
            ),
            Err(error) => format!("refused: {error}"),
        };
        if ours != recorded.as_str().unwrap() {
            unlike_java.push((case.split(" [").next().unwrap().to_owned(), ours));
        }
    }
    let cases: Vec<&str> = unlike_java.iter().map(|(case, _)| &**case).collect();
    assert_eq!(cases, ["plain bytes named .gz", "snapshot.fff.tmp (copy)"]);
    // Java drops the content of a corrupt snapshot that the log does not contain. The number in its
    // name may be wrong, but that cannot be detected.
    assert!(unlike_java[0].1.contains("cannot load snapshot"));
    // Java accepts any complete file as the newest snapshot, and this one claims zxid 0xfff.
    assert!(unlike_java[1].1.starts_with("zxid=0x8 snapshot=0x5 "));
}

/// Creates exactly these files. A missing one is a copy of the original with the same prefix.
fn arrange(directory: &Directory, names: &[&str]) {
    let original = |name: &str| match name {
        name if name.starts_with("log.") => "log.1",
        _ => "snapshot.5",
    };
    for name in names {
        let path = directory.file(name);
        if !path.exists() {
            fs::copy(directory.file(original(name)), path).unwrap();
        }
    }
    for name in directory.files() {
        if !names.contains(&name.as_str()) {
            fs::remove_file(directory.file(&name)).unwrap();
        }
    }
}
