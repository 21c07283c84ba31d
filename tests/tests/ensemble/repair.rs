//! Members whose files were corrupted while they were down. They recover by themselves from their
//! leader, and do not vote before that. A standalone server refuses to start.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tests::ensemble::{Ensemble, EnsembleBuilder, Load, check};
use tests::{Flavour, ServerBuilder, assert_modes, or_skip};

/// Writes of each writer, enough for several logs and snapshots.
const WRITES: u64 = 40;
/// Longer than an election among members with votes.
const WATCHED: Duration = Duration::from_secs(4);
/// Bytes of a log before its first record.
const HEADER_BYTES: usize = 16;
/// Length of checksum and length field before a payload. One byte follows the payload.
const PREFIX_BYTES: usize = 12;
const MARKER: &str = "zoarium.untrusted";

/// Prepares three Zoarium members with small logs and without data. Returns `None` for another
/// flavour.
fn prepared() -> Option<Ensemble> {
    if Flavour::under_test() != Flavour::Zoarium {
        return None;
    }
    let builder = EnsembleBuilder::new(&[Flavour::Zoarium; 3])
        .setting("snapCount", "60")
        .setting("preAllocSize", "64");
    Some(builder.prepare().expect("our servers"))
}

fn version_dir(ensemble: &Ensemble, id: u64) -> PathBuf {
    ensemble.member(id).data_dir().join("version-2")
}

fn names(dir: &Path) -> Vec<String> {
    let entries = fs::read_dir(dir).expect("list a directory");
    let name = |entry: std::io::Result<fs::DirEntry>| {
        let name = entry.expect("an entry").file_name();
        name.into_string().expect("a plain name")
    };
    let mut names: Vec<_> = entries.map(name).collect();
    names.sort();
    names
}

/// Returns the files whose names consist of this word and a zxid, each with its zxid, oldest first.
fn numbered(dir: &Path, word: &str) -> Vec<(u64, PathBuf)> {
    let zxid = |name: &String| {
        let hex = name.strip_prefix(word)?.strip_prefix('.')?;
        u64::from_str_radix(hex, 16).ok()
    };
    let mut found: Vec<_> = names(dir)
        .into_iter()
        .filter_map(|name| Some((zxid(&name)?, dir.join(name))))
        .collect();
    found.sort();
    found
}

fn files(dir: &Path, word: &str) -> Vec<PathBuf> {
    numbered(dir, word)
        .into_iter()
        .map(|(_, path)| path)
        .collect()
}

/// Flips a bit of the record in the middle of the newest log with several records, and returns the
/// file. Removes the snapshots that were taken after the beginning of that log, as if the server
/// had ended before they were written. With them, the record would not have to be read.
fn damage_newest_log(dir: &Path) -> PathBuf {
    for (first, path) in numbered(dir, "log").into_iter().rev() {
        let mut log = fs::read(&path).expect("read a log");
        let mut begins = vec![HEADER_BYTES];
        while let Some(len) = log
            .get(begins[begins.len() - 1]..)
            .and_then(|rest| rest.get(PREFIX_BYTES - 4..PREFIX_BYTES)?.first_chunk::<4>())
            .map(|len| u32::from_be_bytes(*len) as usize)
            .filter(|len| *len > 0)
        {
            begins.push(begins[begins.len() - 1] + PREFIX_BYTES + len + 1);
        }
        if begins.len() > 4 {
            log[begins[begins.len() / 2] + PREFIX_BYTES + 20] ^= 1;
            fs::write(&path, log).expect("damage a log");
            for (zxid, snapshot) in numbered(dir, "snapshot") {
                if zxid >= first {
                    fs::remove_file(snapshot).expect("remove a snapshot");
                }
            }
            return path;
        }
    }
    panic!("no log of several records in {}", dir.display());
}

/// Flips a bit in the middle of every snapshot, so that no older snapshot can replace the newest.
fn damage_snapshots(dir: &Path) -> PathBuf {
    let snapshots = files(dir, "snapshot");
    for path in &snapshots {
        let mut snapshot = fs::read(path).expect("read a snapshot");
        let middle = snapshot.len() / 2;
        snapshot[middle] ^= 1;
        fs::write(path, snapshot).expect("damage a snapshot");
    }
    snapshots.last().expect("a snapshot").clone()
}

/// Checks that a standalone server on a copy of these files refuses to start and reports the
/// reason.
fn assert_refused_alone(dir: &Path, word: &str) {
    let copy = tempfile::tempdir().expect("a directory");
    let version = copy.path().join("version-2");
    fs::create_dir(&version).expect("make a directory");
    for name in names(dir) {
        fs::copy(dir.join(&name), version.join(&name)).expect("copy a file");
    }
    let builder = ServerBuilder::new(Flavour::Zoarium).data_dir(copy.path());
    let started = builder.try_start().expect("our server");
    let failure = started.map(drop).expect_err("a refusal");
    let code = failure.status.and_then(|status| status.code());
    assert_eq!(code, Some(1), "{}", failure.log);
    assert!(failure.log.contains(word), "{}", failure.log);
    // A file that was being written at the kill is empty, and each start removes it.
    let mut kept = names(dir);
    kept.retain(|name| !name.starts_with("unfinished."));
    assert_eq!(names(&version), kept, "it has changed something");
}

/// Kills a member and corrupts its files. A standalone server refuses them. In its ensemble, the
/// member sets them aside and receives the data of the others.
fn comes_back(damage: fn(&Path) -> PathBuf, refused_with: &str) {
    let Some(mut ensemble) = prepared() else {
        return;
    };
    for id in [1, 2, 3] {
        ensemble.start(id);
    }
    let leader = ensemble.wait_until_all_serve();
    let load = Load::start(&ensemble.addresses(&[1, 2, 3]));
    load.wait_for_progress(WRITES);
    ensemble.member_mut(leader).kill();
    ensemble.wait_until_all_serve();
    let dir = version_dir(&ensemble, leader);
    let damaged = damage(&dir);
    let bytes = fs::read(&damaged).expect("read the damaged file");
    assert_refused_alone(&dir, refused_with);
    ensemble.start(leader);
    ensemble.wait_until_all_serve();

    let name = damaged.file_name().expect("a name").to_string_lossy();
    let aside = dir.join(format!("aside.{name}"));
    assert_eq!(fs::read(&aside).expect("the file is kept"), bytes);
    assert!(!dir.join(MARKER).exists(), "it votes again");
    let log = ensemble.member(leader).log();
    assert!(
        log.contains("this server does not vote until it has received a snapshot from its leader")
    );
    load.wait_for_progress(WRITES);

    // From then on it is a normal member: it starts from its own files, and is half of a quorum.
    let other = ensemble.ids().into_iter().find(|id| *id != leader);
    let other = other.expect("another member");
    ensemble.member_mut(other).kill();
    ensemble.member_mut(leader).kill();
    ensemble.start(leader);
    ensemble.wait_until_all_serve();
    load.wait_for_progress(WRITES);
    ensemble.start(other);
    ensemble.wait_until_all_serve();
    let report = load.finish();
    check::nothing_is_lost(&ensemble, &report);
    for id in ensemble.ids() {
        assert_modes(&ensemble.member(id).data_dir());
    }
}

#[test]
fn a_member_with_a_damaged_log_is_brought_up_to_date_by_its_leader() {
    comes_back(damage_newest_log, "is damaged at offset");
}

#[test]
fn a_member_with_corrupt_snapshots_is_brought_up_to_date() {
    comes_back(damage_snapshots, "cannot load any snapshot in");
}

/// A leader of Apache ZooKeeper treats a member that reports zxid 0 as an empty member.
#[test]
#[ignore = "runs other people's programs"]
fn a_java_leader_brings_a_corrupt_member_up_to_date() {
    let flavours = [Flavour::Zoarium, Flavour::Apache, Flavour::Apache];
    let builder = EnsembleBuilder::new(&flavours);
    let Some(mut ensemble) = or_skip("a leader of Apache ZooKeeper", builder.start()) else {
        return;
    };
    let load = Load::start(&ensemble.addresses(&[1, 2, 3]));
    load.wait_for_progress(WRITES);
    ensemble.member_mut(1).kill();
    ensemble.wait_until_all_serve();
    load.wait_for_progress(WRITES);
    let dir = version_dir(&ensemble, 1);
    damage_newest_log(&dir);
    ensemble.start(1);
    ensemble.wait_until_all_serve();
    assert!(!dir.join(MARKER).exists(), "it votes again");
    assert!(ensemble.member(1).log().contains("by=\"SNAP\""));
    load.wait_for_progress(WRITES);
    let report = load.finish();
    check::nothing_is_lost(&ensemble, &report);
}

/// Only members 1 and 2 have the data that member 3 lacks. With the rest of its log, member 2 would
/// elect 3 or itself, and the data of member 1 would be lost.
#[test]
fn a_member_without_its_data_does_not_vote() {
    let Some(mut ensemble) = prepared() else {
        return;
    };
    for id in [1, 2] {
        ensemble.start(id);
    }
    ensemble.wait_until_all_serve();
    let load = Load::start(&ensemble.addresses(&[1, 2]));
    load.wait_for_progress(WRITES);
    let report = load.finish();
    for id in [1, 2] {
        ensemble.member_mut(id).kill();
    }
    let dir = version_dir(&ensemble, 2);
    damage_newest_log(&dir);
    for id in [2, 3] {
        ensemble.start(id);
    }
    ensemble.assert_none_serves_for(&[2, 3], WATCHED);
    // It does not vote at its next start either, and a standalone server refuses the files.
    ensemble.member_mut(2).kill();
    assert!(dir.join(MARKER).exists() && files(&dir, "log").is_empty());
    assert_refused_alone(&dir, MARKER);
    ensemble.start(2);
    ensemble.assert_none_serves_for(&[2, 3], WATCHED);
    ensemble.start(1);
    assert_eq!(ensemble.wait_until_all_serve(), 1);
    assert!(!dir.join(MARKER).exists());
    check::nothing_is_lost(&ensemble, &report);
}
