//! Tests of printing, checking, repairing and truncating files.
use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use jute::Limits;
use proto::Zxid;
use serde_json::Value;
use storage::{
    Damage, DataDirs, OpenOptions, RealDisk, SnapshotFile, StorageError, verify_snapshot,
};
use testkit::vectors::{self, bytes, number};
use zoarium_datadir::Error;
use zoarium_datadir::log::repair::{self, BadChecksums, RecordFix};
use zoarium_datadir::log::{self, Printed};
use zoarium_datadir::snapshot;

use crate::support::recovered;

fn limits() -> Limits {
    testkit::LIMITS
}

/// Splits text into lines as the recording does: with Python, after unifying the line ends.
fn lines(text: &[u8]) -> Vec<String> {
    let text = String::from_utf8_lossy(text)
        .replace("\r\n", "\n")
        .replace('\r', "\n");
    let breaks = |c: char| {
        matches!(
            c,
            '\n' | '\x0b' | '\x0c' | '\x1c'..='\x1e' | '\u{85}' | '\u{2028}' | '\u{2029}'
        )
    };
    let mut lines: Vec<String> = text.split(breaks).map(str::to_string).collect();
    assert_eq!(lines.pop().as_deref(), Some(""));
    lines
}

fn expected_lines(value: &Value) -> Vec<String> {
    let lines = value.as_array().unwrap().iter();
    lines
        .map(|line| line.as_str().unwrap().to_string())
        .collect()
}

fn verify(path: &Path) -> Result<storage::snapshot::read::SnapshotInfo, StorageError> {
    let file = SnapshotFile::find(&RealDisk, path)?;
    verify_snapshot(&RealDisk, &file, limits())
}

fn printed(path: &Path) -> (Printed, Vec<String>) {
    let mut out = Vec::new();
    let end = log::print(&RealDisk, path, limits(), &mut out).unwrap();
    (end, lines(&out))
}

#[test]
fn logs_are_printed_as_java_prints_them() {
    let mut compared = 0;
    for (name, vector) in vectors::all() {
        let Some(toolkit) = vector.expected["toolkit"].as_object() else {
            continue;
        };
        for (file, expected) in toolkit {
            let (end, lines) = printed(&vector.dir.join(file));
            assert_eq!(end, Printed::End);
            let expected = expected_lines(expected);
            for (ours, java) in lines.iter().zip(&expected) {
                assert_eq!(ours, java, "{name}/{file}");
            }
            assert_eq!(lines.len(), expected.len(), "{name}/{file}");
            compared += 1;
        }
    }
    assert!(vectors::root().is_none() || compared >= 25, "{compared}");
}

#[test]
fn damaged_logs_are_printed_as_far_as_java_prints_them() {
    let Some(vector) = vectors::vector("log-damaged") else {
        return;
    };
    for (case, java) in vector.expected["toolkit_on_damage"].as_object().unwrap() {
        let copy = vectors::copy(&vector.dir.join("single"));
        let path = copy.path().join("version-2/log.1");
        if case == "cut at record+30" {
            let original = fs::read(&path).unwrap();
            fs::write(&path, &original[..354 + 30]).unwrap();
        } else {
            edit(&path, &vector.expected["edits_of_log.1"][case]);
        }
        let (end, lines) = printed(&path);
        let mut expected = expected_lines(&java["dump"]);
        if expected.last().unwrap().starts_with("exit") {
            assert_ne!(end, Printed::End, "{case}");
            expected.pop();
        }
        // Stack traces are not compared.
        expected.retain(|line| !line.starts_with("\tat "));
        for (ours, java) in lines.iter().zip(&expected) {
            assert!(
                ours == java || java.ends_with(ours),
                "{case}: {ours:?}, java {java:?}"
            );
        }
        assert_eq!(lines.len(), expected.len(), "{case}");
    }
}

fn edit(path: &Path, edit: &Value) {
    let mut content = fs::read(path).unwrap();
    content.truncate(usize::try_from(number(&edit["keep"])).unwrap());
    content.extend(bytes(edit["then"].as_str().unwrap()));
    fs::write(path, content).unwrap();
}

/// Every flipped bit of a length or end byte is repaired to the original, byte for byte.
#[test]
fn a_wrong_length_or_end_byte_is_repaired_without_loss() {
    let Some(vector) = vectors::vector("log-damaged") else {
        return;
    };
    let copy = vectors::copy(&vector.dir.join("single"));
    let path = copy.path().join("version-2/log.1");
    let original = fs::read(&path).unwrap();
    for row in vector.expected["logs"]["single/version-2/log.1"]
        .as_array()
        .unwrap()
    {
        if row["offset"].is_null() {
            continue;
        }
        let at = |value: &Value| usize::try_from(number(value)).unwrap();
        let (offset, len) = (at(&row["offset"]), at(&row["length"]));
        let fields = (offset + 8..offset + 12).chain([offset + 12 + len]);
        for byte in fields {
            for bit in 0..8 {
                let mut damaged = original.clone();
                damaged[byte] ^= 1 << bit;
                fs::write(&path, &damaged).unwrap();
                let place = format!("byte {byte}, bit {bit}");
                let refused = recovered(copy.path()).unwrap_err();
                assert!(
                    matches!(refused, StorageError::LogDamaged { .. }),
                    "{place}"
                );
                let report = log::verify(&RealDisk, &path, limits()).unwrap();
                assert_eq!(report.faults.len(), 1, "{place}");
                assert_eq!(report.faults[0].0, offset as u64, "{place}");
                let repaired =
                    repair::repair(&RealDisk, &path, BadChecksums::Cut, limits()).unwrap();
                assert!(fs::read(&repaired.path).unwrap() == original, "{place}");
                assert_eq!((repaired.records, repaired.last), (5, Some(Zxid(5))));
                assert!(matches!(
                    repaired.fixes[..],
                    [RecordFix::Length { .. } | RecordFix::EndByte { .. }]
                ));
                assert_eq!(fs::read(&path).unwrap(), damaged, "{place}");
            }
        }
    }
}

#[test]
fn a_wrong_checksum_cuts_or_is_accepted() {
    let Some(vector) = vectors::vector("log-damaged") else {
        return;
    };
    let copy = vectors::copy(&vector.dir.join("single"));
    let path = copy.path().join("version-2/log.1");
    edit(
        &path,
        &vector.expected["edits_of_log.1"]["flip payload byte, middle"],
    );
    let damaged = fs::read(&path).unwrap();
    let report = log::verify(&RealDisk, &path, limits()).unwrap();
    assert!(matches!(
        report.faults[..],
        [(180, Damage::Checksum { .. })]
    ));
    assert_eq!((report.records, report.gaps), (4, vec![(Zxid(2), Zxid(4))]));

    let cut = repair::repair(&RealDisk, &path, BadChecksums::Cut, limits()).unwrap();
    assert_eq!((cut.records, cut.last), (2, Some(Zxid(2))));
    assert!(
        matches!(
            &cut.fixes[..],
            [RecordFix::Cut {
                offset: 180,
                bytes: 277,
                reason: Some(_)
            }]
        ),
        "{:?}",
        cut.fixes
    );
    let accepted = repair::repair(&RealDisk, &path, BadChecksums::Accept, limits()).unwrap();
    assert_eq!((accepted.records, accepted.last), (5, Some(Zxid(5))));
    assert_eq!(
        accepted.fixes,
        [RecordFix::Checksum {
            offset: 180,
            zxid: Zxid(3)
        }]
    );

    // The copy in the log's directory does not affect recovery, and replaces the log on demand.
    assert!(recovered(copy.path()).is_err());
    let lock = repair::lock(&path).unwrap();
    let kept = repair::replace(&RealDisk, &path, &accepted.path, &lock).unwrap();
    drop(lock);
    assert!(kept.ends_with("damaged.log.1"));
    assert_eq!(fs::read(&kept).unwrap(), damaged);
    assert!(!accepted.path.exists());
    assert_eq!(recovered(copy.path()).unwrap().last_zxid, Zxid(5));
    assert!(
        repair::replace(&RealDisk, &path, &kept, &repair::lock(&path).unwrap()).is_err(),
        "the original is never lost"
    );
}

#[test]
fn a_torn_log_is_valid_and_its_copy_ends_before_the_tear() {
    let Some(vector) = vectors::vector("log-damaged") else {
        return;
    };
    let copy = vectors::copy(&vector.dir.join("torn-then-written"));
    let path = copy.path().join("version-2/log.1");
    let report = log::verify(&RealDisk, &path, limits()).unwrap();
    assert!(report.is_good());
    assert_eq!((report.torn_at, report.end), (Some(354), 354));
    let copied = repair::repair(&RealDisk, &path, BadChecksums::Cut, limits()).unwrap();
    assert_eq!(copied.last, Some(Zxid(4)));
    assert_eq!(fs::metadata(&copied.path).unwrap().len(), 354);
    assert!(matches!(
        copied.fixes[..],
        [RecordFix::Cut { reason: None, .. }]
    ));
}

#[test]
fn a_log_is_cut_at_a_zxid() {
    let Some(vector) = vectors::vector("log-damaged") else {
        return;
    };
    let copy = vectors::copy(&vector.dir.join("single"));
    let path = copy.path().join("version-2/log.1");
    let chopped = repair::chop(&RealDisk, &path, Zxid(3), limits()).unwrap();
    assert!(chopped.path.ends_with("chopped.log.1"));
    assert_eq!((chopped.records, chopped.last), (3, Some(Zxid(3))));
    let original = fs::read(&path).unwrap();
    assert_eq!(fs::read(&chopped.path).unwrap(), original[..255]);
    assert_eq!(recovered(copy.path()).unwrap().last_zxid, Zxid(5));
    edit(
        &path,
        &vector.expected["edits_of_log.1"]["flip payload byte, middle"],
    );
    let error = repair::chop(&RealDisk, &path, Zxid(3), limits()).unwrap_err();
    assert!(
        matches!(error, StorageError::LogDamaged { offset: 180, .. }),
        "{error}"
    );
}

#[test]
fn a_snapshot_is_checked_and_printed() {
    let Some(vector) = vectors::vector("log-and-snapshot") else {
        return;
    };
    let dir = vector.dir.join("data/version-2");
    let path = dir.join("snapshot.39");
    let info = verify(&path).unwrap();
    let mut out = Vec::new();
    snapshot::print(&RealDisk, &path, limits(), false, &mut out).unwrap();
    let text = String::from_utf8(out).unwrap();
    assert!(text.starts_with(&format!(
        "ZNode Details (count={}):\n----\n/\n",
        info.znodes + 1
    )));
    for part in [
        "  cZxid = 0x00000000000000\n  ctime = Thu Jan 01 00:00:00 UTC 1970\n",
        "----\n/zookeeper/config\n",
        "  aclVersion = -1\n",
        "----\nSession Details (sid, timeout, ephemeralCount):\n0x1",
        "----\nLast zxid: 0x39\n",
    ] {
        assert!(text.contains(part), "{part:?} in {text}");
    }
    let mut with_data = Vec::new();
    snapshot::print(
        &RealDisk,
        &dir.join("snapshot.0"),
        limits(),
        true,
        &mut with_data,
    )
    .unwrap();
    assert!(
        String::from_utf8(with_data)
            .unwrap()
            .contains("  data = \n")
    );

    let copy = vectors::copy(&vector.dir.join("data"));
    let path = copy.path().join("version-2/snapshot.39");
    let mut content = fs::read(&path).unwrap();
    content[1000] ^= 4;
    fs::write(&path, content).unwrap();
    let error = verify(&path).unwrap_err();
    assert!(
        matches!(error, StorageError::SnapshotDamaged { .. }),
        "{error}"
    );
}

/// A server would continue to write to the replaced file.
#[test]
fn a_log_of_a_running_server_is_locked() {
    let home = tempfile::tempdir().unwrap();
    let dir = home.path();
    let running = DataDirs::open(&RealDisk, dir, dir, OpenOptions::default()).unwrap();
    let log = dir.join("version-2/log.1");
    // Links to the directory, and a directory that a link replaced.
    let links = tempfile::tempdir().unwrap();
    let (link, moved) = (links.path().join("logs"), tempfile::tempdir().unwrap());
    symlink(dir.join("version-2"), &link).unwrap();
    let data = links.path().join("data");
    fs::create_dir(&data).unwrap();
    symlink(moved.path(), data.join("version-2")).unwrap();
    let other = DataDirs::open(&RealDisk, &data, &data, OpenOptions::default()).unwrap();
    let paths = [log, link.join("log.1"), data.join("version-2/log.1")];
    for path in &paths {
        let locked = repair::lock(path);
        let is_in_use = matches!(locked, Err(Error::Storage(StorageError::InUse { .. })));
        assert!(is_in_use, "{}: {locked:?}", path.display());
    }
    drop((running, other));
    for path in paths {
        assert!(repair::lock(&path).unwrap().is_held());
    }
    // The directory does not show which server uses it.
    assert!(!repair::lock(&moved.path().join("log.1")).unwrap().is_held());
}
