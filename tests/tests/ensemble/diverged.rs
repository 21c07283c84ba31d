//! One byte of one member's tree is changed in its snapshot, with matching checksums. The next
//! transaction detects it: on a learner and on a leader, in each mode of
//! `zoarium.onDigestMismatch`.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use proto::request::Request;
use tests::ensemble::{Ensemble, EnsembleBuilder, check};
use tests::requests::create;
use tests::{Flavour, RawSession, assert_modes, wait_for};

/// Time limit for each expected event.
const SOON: Duration = Duration::from_secs(60);
/// Number of attempts to start an ensemble with all members at the same time.
const ATTEMPTS: usize = 20;
/// Exit code of a server whose data differs from the others.
const OTHER_DATA: i32 = 20;
/// Data of a znode, and the wrong data of one member.
const DATA: &[u8] = b"as all members have it";
const DAMAGED: &[u8] = b"As all members have it";
const LINE: &str = "the digest of this server's tree differs";

/// Lengths of the parts after the tree in a snapshot: a checksum, the digest, a checksum, the last
/// zxid, a checksum.
const CHECKSUM_BYTES: usize = 13;
const DIGEST_BYTES: usize = 20;
const LAST_ZXID_BYTES: usize = 8;

fn adler32(bytes: &[u8]) -> u64 {
    let (a, b) = bytes.iter().fold((1u64, 0u64), |(a, b), byte| {
        let a = (a + u64::from(*byte)) % 65521;
        (a, (b + a) % 65521)
    });
    b << 16 | a
}

fn version_dir(ensemble: &Ensemble, id: u64) -> PathBuf {
    ensemble.member(id).data_dir().join("version-2")
}

fn position(content: &[u8], wanted: &[u8]) -> Option<usize> {
    content
        .windows(wanted.len())
        .position(|bytes| bytes == wanted)
}

/// Returns the snapshot with the highest zxid, if it contains [`DATA`].
fn newest_snapshot(dir: &Path) -> Option<(PathBuf, Vec<u8>)> {
    let entries = fs::read_dir(dir).expect("list a directory");
    let named = entries.filter_map(|entry| {
        let path = entry.expect("an entry").path();
        let zxid = path.file_name()?.to_str()?.strip_prefix("snapshot.")?;
        Some((u64::from_str_radix(zxid, 16).ok()?, path))
    });
    let (_, path) = named.max()?;
    let content = fs::read(&path).ok()?;
    position(&content, DATA)
        .is_some()
        .then_some((path, content))
}

/// Changes one byte of the tree and removes the digest, so that the file is valid.
fn damage(dir: &Path) {
    let (path, mut content) = newest_snapshot(dir).expect("a snapshot with the data");
    let at = position(&content, DATA).expect("the data");
    content[at] = DAMAGED[0];
    let third = content.len() - CHECKSUM_BYTES;
    let second = third - LAST_ZXID_BYTES - CHECKSUM_BYTES;
    let digest = second - DIGEST_BYTES;
    content[digest..digest + 8].fill(0);
    for at in [digest - CHECKSUM_BYTES, second, third] {
        let checksum = adler32(&content[..at]).to_be_bytes();
        content[at..at + 8].copy_from_slice(&checksum);
    }
    fs::write(path, content).expect("write the snapshot");
}

/// Makes a member write a snapshot with all data, and ends it.
fn end_with_snapshot(ensemble: &mut Ensemble, id: u64) {
    ensemble.member_mut(id).terminate();
    ensemble.start(id);
    ensemble.wait_until_all_serve();
    let dir = version_dir(ensemble, id);
    wait_for("a snapshot", SOON, || newest_snapshot(&dir));
    ensemble.member_mut(id).terminate();
}

fn write(ensemble: &Ensemble, id: u64, path: &str, data: &'static [u8]) {
    let address = ensemble.member(id).client_address().to_string();
    wait_for(&format!("a write through member {id}"), SOON, || {
        let mut session = RawSession::open(&address, None, 30_000).ok()?;
        let written = session.call(&Request::Write(create(path, data, 0))).ok()?;
        session.close().ok();
        (written.err == 0 || written.err == -110).then_some(())
    });
}

fn counts(ensemble: &Ensemble, id: u64) {
    wait_for(&format!("a mismatch at member {id}"), SOON, || {
        let counted = ensemble.member(id).metric("digest_mismatches_count")?;
        (counted != "0").then_some(())
    });
    names_it(ensemble, id);
}

/// Checks that the log reports the mismatch with zxid, path and digests.
fn names_it(ensemble: &Ensemble, id: u64) {
    wait_for(&format!("a line of member {id}"), SOON, || {
        let log = ensemble.member(id).log();
        let line = log.lines().find(|line| line.contains(LINE))?;
        for field in ["zxid=0x", "path=", "recorded=", "computed="] {
            assert!(line.contains(field), "{line}");
        }
        Some(())
    });
}

fn counts_none(ensemble: &Ensemble, id: u64) {
    let counted = ensemble.member(id).metric("digest_mismatches_count");
    assert_eq!(counted.as_deref(), Some("0"), "member {id}");
}

fn ends(ensemble: &mut Ensemble, id: u64) {
    let status = wait_for(&format!("the end of member {id}"), SOON, || {
        ensemble.member_mut(id).ended()
    });
    let log = ensemble.member(id).log();
    assert_eq!(status.code(), Some(OTHER_DATA), "{log}");
    names_it(ensemble, id);
}

/// Returns the directories of wrong trees.
fn kept_trees(ensemble: &Ensemble, id: u64) -> Vec<PathBuf> {
    let entries = fs::read_dir(ensemble.member(id).data_dir()).expect("list a directory");
    let paths = entries.map(|entry| entry.expect("an entry").path());
    let is_kept = |path: &PathBuf| path.to_string_lossy().contains("diverged-");
    paths.filter(is_kept).collect()
}

/// Checks that the member has the data of the others, and that its wrong tree was kept separately.
fn is_repaired(ensemble: &Ensemble, id: u64) {
    let other = if id == 1 { 2 } else { 1 };
    wait_for(&format!("the repair of member {id}"), SOON, || {
        let log = ensemble.member(id).log();
        let (_, repaired) = log
            .rsplit_once("saving this server's tree and loading the leader's snapshot")
            .or_else(|| {
                log.rsplit_once("saving this server's tree and loading the next leader's snapshot")
            })?;
        repaired.contains("in sync with the leader").then_some(())
    });
    let [kept] = &kept_trees(ensemble, id)[..] else {
        panic!("{:?}", kept_trees(ensemble, id));
    };
    let files = fs::read_dir(kept.join("version-2")).expect("list a directory");
    let contents = files.map(|file| fs::read(file.expect("a file").path()).expect("read it"));
    assert!(
        contents
            .into_iter()
            .any(|content| position(&content, DAMAGED).is_some()),
        "the kept tree is not the wrong one"
    );
    let (own, others) = (check::dump(ensemble, id), check::dump(ensemble, other));
    own.assert_same(&others, &format!("the trees of members {id} and {other}"));
    for right in [1, 2, 3].iter().filter(|right| **right != id) {
        assert!(kept_trees(ensemble, *right).is_empty(), "member {right}");
    }
    // As after an inspection by an operator.
    fs::remove_dir_all(kept).expect("remove the kept tree");
}

/// Removes the member's files, so that it receives its leader's snapshot.
fn replace_data(ensemble: &mut Ensemble, id: u64) {
    if ensemble.member(id).is_running() {
        ensemble.member_mut(id).terminate();
    }
    fs::remove_dir_all(version_dir(ensemble, id)).expect("remove the files");
    ensemble.start(id);
    ensemble.wait_until_all_serve();
}

/// Starts all members so that member 3 leads and no other member receives its snapshot, which would
/// be a copy of its data. For this, they must have connected before its epoch was established.
fn have_led_by_3(ensemble: &mut Ensemble) {
    let ids = [1, 2, 3];
    let dirs = ids.map(|id| version_dir(ensemble, id));
    let kept = tempfile::tempdir().expect("a directory");
    let copies = ids.map(|id| kept.path().join(id.to_string()));
    for (dir, copy) in dirs.iter().zip(&copies) {
        copy_files(dir, copy);
    }
    for _ in 0..ATTEMPTS {
        ids.iter().for_each(|id| ensemble.start(*id));
        let leader = ensemble.wait_until_all_serve();
        let snapshots = ensemble.member(leader).metric("snap_count");
        if leader == 3 && snapshots.as_deref() == Some("0") {
            return;
        }
        for (id, (dir, copy)) in ids.iter().zip(dirs.iter().zip(&copies)) {
            ensemble.member_mut(*id).terminate();
            fs::remove_dir_all(dir).expect("remove the files");
            copy_files(copy, dir);
        }
    }
    panic!("member 3 does not lead the others without a snapshot");
}

fn copy_files(from: &Path, to: &Path) {
    fs::create_dir_all(to).expect("make a directory");
    let modes = fs::metadata(from).expect("modes").permissions();
    fs::set_permissions(to, modes).expect("the modes of a member's directory");
    for entry in fs::read_dir(from).expect("list a directory") {
        let entry = entry.expect("an entry");
        fs::copy(entry.path(), to.join(entry.file_name())).expect("copy a file");
    }
}

/// Member 1 follows with a corrupt tree, and then member 3 leads with one.
fn diverges(mode: &str) {
    if Flavour::under_test() != Flavour::Zoarium {
        return;
    }
    let builder = EnsembleBuilder::new(&[Flavour::Zoarium; 3]);
    let builder = builder.setting("zoarium.onDigestMismatch", mode);
    let mut ensemble = builder.start_led_by_last_voter().expect("our servers");
    write(&ensemble, 2, "/data", DATA);

    end_with_snapshot(&mut ensemble, 1);
    damage(&version_dir(&ensemble, 1));
    ensemble.start(1);
    ensemble.wait_until_all_serve();
    write(&ensemble, 2, "/shows-learner", b"");
    match mode {
        "stop" => ends(&mut ensemble, 1),
        "repair" => is_repaired(&ensemble, 1),
        _ => counts(&ensemble, 1),
    }
    for right in [2, 3] {
        counts_none(&ensemble, right);
    }
    if mode != "repair" {
        replace_data(&mut ensemble, 1);
    }

    end_with_snapshot(&mut ensemble, 3);
    damage(&version_dir(&ensemble, 3));
    for id in [1, 2] {
        ensemble.member_mut(id).terminate();
    }
    have_led_by_3(&mut ensemble);
    write(&ensemble, 2, "/shows-leader", b"");
    match mode {
        "stop" => {
            ends(&mut ensemble, 3);
            ensemble.wait_until_these_serve(&[1, 2]);
        }
        "repair" => {
            is_repaired(&ensemble, 3);
            ensemble.wait_until_all_serve();
        }
        _ => {
            for id in [1, 2, 3] {
                counts(&ensemble, id);
            }
            assert_eq!(ensemble.leaders(), [3]);
        }
    }
    if mode == "repair" {
        for id in ensemble.ids() {
            assert_modes(&ensemble.member(id).data_dir());
        }
    }
}

#[test]
fn a_member_that_holds_other_data_logs_that() {
    diverges("log");
}

#[test]
fn a_member_that_holds_other_data_ends() {
    diverges("stop");
}

#[test]
fn a_member_that_holds_other_data_repairs_itself_and_no_other() {
    diverges("repair");
}
