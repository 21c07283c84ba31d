//! The classification into torn, corrupted and missing, beyond the recordings of Java.
use std::fs;
use std::path::PathBuf;
use std::sync::Arc;

use crate::common::db::Db;
use crate::common::outcome::{self, Outcome};
use crate::common::{create, fresh_body, log_path, open, payload};
use jute::Encode;
use proto::Zxid;
use proto::txn::Txn;
use tempfile::TempDir;
use zoarium_storage::{
    Compression, Damage, DataDirs, LogSettings, LogWriter, RealDisk, RecoverySettings,
    SnapshotTrailer, SnapshotWriter, StorageError, note_seam, read_body, truncate,
};

struct Server {
    _dir: TempDir,
    dirs: DataDirs,
}

impl Server {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let dirs = open(dir.path());
        let server = Self { _dir: dir, dirs };
        server.snapshot(0, SnapshotTrailer::default());
        server
    }

    fn snapshot(&self, zxid: i64, trailer: SnapshotTrailer) -> PathBuf {
        let disk = Arc::new(RealDisk);
        let mut writer =
            SnapshotWriter::new(disk, &self.dirs, Zxid(zxid), Compression::None, true).unwrap();
        writer.write(&fresh_body()).unwrap();
        writer.finish(trailer).unwrap()
    }

    fn write(&self, zxids: &[i64]) {
        self.write_sized(zxids, 100);
    }

    fn write_sized(&self, zxids: &[i64], bytes: usize) {
        let payloads: Vec<_> = zxids.iter().map(|zxid| payload(*zxid, bytes)).collect();
        self.write_payloads(zxids, &payloads);
    }

    fn write_payloads(&self, zxids: &[i64], payloads: &[Vec<u8>]) {
        let settings = LogSettings {
            prealloc_bytes: 64 << 10,
            ..LogSettings::new(testkit::LIMITS)
        };
        let mut writer = LogWriter::new(Arc::new(RealDisk), &self.dirs, settings);
        for (zxid, payload) in zxids.iter().zip(payloads) {
            writer.append(Zxid(*zxid), payload).unwrap();
        }
        writer.commit().unwrap();
    }

    fn change(&self, log: i64, change: impl FnOnce(&mut Vec<u8>)) {
        let path = log_path(&self.dirs, log);
        let mut content = fs::read(&path).unwrap();
        change(&mut content);
        fs::write(path, content).unwrap();
    }

    fn start(&self) -> Outcome {
        outcome::load_dirs(&self.dirs, &RecoverySettings::new(testkit::LIMITS))
    }

    fn last(&self) -> i64 {
        self.start().unwrap().0.last_zxid.0
    }
}

/// Returns the length of one framed record with `bytes` of data.
fn framed(bytes: usize) -> usize {
    payload(1, bytes).len() + 13
}

fn damage(outcome: Outcome) -> (u64, Damage) {
    match outcome.unwrap_err() {
        StorageError::LogDamaged { offset, damage, .. } => (offset, damage),
        other => panic!("{other}"),
    }
}

#[test]
fn zeros_in_the_middle_do_not_end_a_log() {
    let server = Server::new();
    server.write(&[1, 2, 3, 4]);
    let record = framed(100);
    server.change(1, |log| log[16 + record..16 + 2 * record].fill(0));
    let (offset, damage) = damage(server.start());
    assert_eq!(offset, (16 + record) as u64);
    let next = (16 + 2 * record) as u64;
    assert_eq!(
        damage,
        Damage::Followed {
            offset: next,
            zxid: Zxid(3)
        }
    );
}

#[test]
fn a_zero_header_before_the_rest_of_its_record_does_not_end_a_log() {
    let server = Server::new();
    server.write(&[1, 2]);
    let record = framed(100);
    server.change(1, |log| log[16 + record..16 + record + 12].fill(0));
    let (_, damage) = damage(server.start());
    assert!(matches!(damage, Damage::Junk { .. }), "{damage:?}");
}

#[test]
fn a_last_record_with_a_lost_sector_is_torn() {
    let server = Server::new();
    server.write(&[1]);
    server.write_sized(&[2], 5000);
    server.change(2, |log| log[1024..1536].fill(0));
    let (recovered, _) = server.start().unwrap();
    assert_eq!(recovered.last_zxid, Zxid(1));
    let (file, tail) = recovered.torn_tail.unwrap();
    assert_eq!(file, log_path(&server.dirs, 2));
    assert_eq!((tail.offset, tail.has_lost_sectors), (16, true));
}

/// The first sector of the record contains only a part of its prefix: of the checksum and the length.
#[test]
fn a_last_record_whose_checksum_lost_its_beginning_is_torn() {
    for prefix_bytes in 5..=10 {
        let offset = 512 - prefix_bytes;
        let first = offset - 16 - framed(0);
        let server = Server::new();
        server.write_payloads(&[1, 2], &[payload(1, first), payload(2, 100)]);
        server.change(1, |log| log[offset..512].fill(0));
        let (recovered, _) = server.start().unwrap();
        assert_eq!(recovered.last_zxid, Zxid(1), "{prefix_bytes}");
        let (_, tail) = recovered.torn_tail.unwrap();
        assert_eq!(
            (tail.offset, tail.has_lost_sectors),
            (offset as u64, true),
            "{prefix_bytes}"
        );
    }
}

#[test]
fn a_flipped_bit_in_a_checksum_at_the_end_of_a_sector_is_damage() {
    for (checksum_bytes, bit) in (5..8).flat_map(|bytes| (0..64).map(move |bit| (bytes, bit))) {
        let offset = 512 - checksum_bytes;
        let first = offset - 16 - framed(0);
        let server = Server::new();
        server.write_payloads(&[1, 2], &[payload(1, first), payload(2, 100)]);
        server.change(1, |log| log[offset + bit / 8] ^= 1 << (bit % 8));
        let (at, damage) = damage(server.start());
        assert_eq!(at, offset as u64);
        assert!(matches!(damage, Damage::Checksum { .. }), "{damage:?}");
    }
}

#[test]
fn a_flipped_bit_in_the_last_record_is_damage() {
    let server = Server::new();
    server.write_sized(&[1], 5000);
    server.change(1, |log| log[2000] ^= 1);
    let (offset, damage) = damage(server.start());
    assert_eq!(offset, 16);
    assert!(matches!(damage, Damage::Checksum { .. }), "{damage:?}");
}

/// A client may store anything, also a copy of a log. A tear in such a record is still a tear.
#[test]
fn records_inside_a_torn_record_do_not_count_if_they_are_old() {
    let server = Server::new();
    let mut inner = Vec::new();
    for zxid in 1..20 {
        let payload = payload(zxid, 50);
        inner.extend(u64::from(adler(&payload)).to_be_bytes());
        inner.extend(u32::try_from(payload.len()).unwrap().to_be_bytes());
        inner.extend(payload);
        inner.push(0x42);
    }
    let zxids: Vec<i64> = (1..=20).collect();
    let mut payloads: Vec<_> = zxids.iter().map(|zxid| payload(*zxid, 50)).collect();
    let mut last = create(20, 0);
    if let Txn::Create(txn) = &mut last.txn {
        txn.data = Some(inner.into());
    }
    payloads[19] = last.to_bytes().to_vec();
    server.write_payloads(&zxids, &payloads);
    let start = 16
        + payloads[..19]
            .iter()
            .map(|payload| payload.len() + 13)
            .sum::<usize>();
    let whole = fs::read(log_path(&server.dirs, 1)).unwrap();
    assert_eq!(server.last(), 20);
    for cut in [start + 20, start + 500, start + 2000] {
        server.change(1, |log| log[cut..].fill(0));
        assert_eq!(server.last(), 19, "zeros from {cut}");
        server.change(1, |log| log.truncate(cut));
        assert_eq!(server.last(), 19, "cut at {cut}");
        server.change(1, |log| log.clone_from(&whole));
    }
}

/// Computes an Adler-32 directly from its definition.
fn adler(bytes: &[u8]) -> u32 {
    let (mut a, mut b) = (1u32, 0u32);
    for byte in bytes {
        a = (a + u32::from(*byte)) % 65521;
        b = (b + a) % 65521;
    }
    b << 16 | a
}

#[test]
fn an_epoch_begins_with_its_first_transaction() {
    let server = Server::new();
    server.write(&[1, 2]);
    server.write(&[0x3_0000_0001, 0x3_0000_0002]);
    assert_eq!(server.last(), 0x3_0000_0002);
    server.write(&[0x4_0000_0002]);
    let error = server.start().unwrap_err();
    match &error {
        StorageError::Gap { last, next, .. } => {
            assert_eq!((last.0, next.0), (0x3_0000_0002, 0x4_0000_0002));
        }
        other => panic!("{other}"),
    }
}

#[test]
fn an_empty_log_between_others_is_skipped_if_nothing_is_missing() {
    let server = Server::new();
    server.write(&[1, 2]);
    fs::write(log_path(&server.dirs, 3), "").unwrap();
    server.write(&[4, 5]);
    assert!(matches!(server.start(), Err(StorageError::Gap { .. })));
    assert!(log_path(&server.dirs, 3).exists());
    fs::remove_file(log_path(&server.dirs, 4)).unwrap();
    fs::remove_file(log_path(&server.dirs, 3)).unwrap();
    server.write(&[3]);
    fs::write(log_path(&server.dirs, 4), "").unwrap();
    fs::write(log_path(&server.dirs, 2), "").unwrap();
    assert_eq!(server.last(), 3);
    // Java refuses an empty log that is not the last one, so none may remain.
    assert!(!log_path(&server.dirs, 2).exists());
    assert!(!log_path(&server.dirs, 4).exists());
}

#[test]
fn a_log_by_another_suffix_counts_if_there_is_no_plain_one() {
    let server = Server::new();
    server.write(&[1, 2]);
    server.write(&[3]);
    let fixed = server.dirs.log.join("log.1.fixed");
    fs::rename(log_path(&server.dirs, 1), &fixed).unwrap();
    assert_eq!(server.last(), 3);
    fs::rename(&fixed, server.dirs.log.join("log.1.tmp")).unwrap();
    assert!(matches!(server.start(), Err(StorageError::Gap { .. })));
}

#[test]
fn a_first_snapshot_that_is_cut_means_a_new_database() {
    let server = Server::new();
    let path = server.dirs.snap.join("snapshot.0");
    let whole = fs::read(&path).unwrap();
    for len in [0, 9, 100, whole.len() - 1] {
        fs::write(&path, &whole[..len]).unwrap();
        let (recovered, _) = server.start().unwrap();
        assert_eq!(recovered.last_zxid, Zxid(0), "{len}");
        assert!(recovered.snapshot.is_none() && recovered.empty.is_some());
        assert_eq!(recovered.warnings.len(), 1);
    }
    server.write(&[1]);
    assert!(matches!(
        server.start(),
        Err(StorageError::NoUsableSnapshot { .. })
    ));
}

/// Returns a directory with three transactions of `epoch`, a snapshot of the second one, and no
/// other snapshot. Also returns the path and the content of the snapshot.
fn one_snapshot(epoch: i64) -> (Server, PathBuf, Vec<u8>) {
    let server = Server::new();
    let zxids = [1, 2, 3].map(|counter| (epoch << 32) + counter);
    server.write(&zxids);
    let path = server.snapshot(zxids[1], SnapshotTrailer::default());
    fs::remove_file(server.dirs.snap.join("snapshot.0")).unwrap();
    let whole = fs::read(&path).unwrap();
    (server, path, whole)
}

/// Part of the message that is shown if a member should start without the setting.
const TRUST_OFF: &str = "snapshot.trust.empty=false";

fn start_trusting(server: &Server) -> Outcome {
    let settings = RecoverySettings {
        trust_empty: true,
        ..RecoverySettings::new(testkit::LIMITS)
    };
    outcome::load_dirs(&server.dirs, &settings)
}

/// Java does not try a snapshot that fails the cheap test. It writes its first snapshot without a
/// sync, and a power failure may cut this snapshot on all members.
#[test]
fn trust_in_complete_logs_covers_a_first_snapshot_that_is_cut() {
    for epoch in [0, 1] {
        let (server, path, whole) = one_snapshot(epoch);
        for content in [&whole[..whole.len() - 1], &[]] {
            fs::write(&path, content).unwrap();
            let started = start_trusting(&server);
            let last = started.as_ref().map(|(recovered, _)| recovered.last_zxid);
            let expected = Zxid((epoch << 32) + 3);
            assert_eq!(last.ok(), Some(expected), "{}", outcome::text(&started));
        }
        // The transactions of the snapshot are not in the log.
        fs::write(
            server.dirs.snap.join(format!("snapshot.{epoch}00000009")),
            b"",
        )
        .unwrap();
        let lost = start_trusting(&server);
        let is_refused = matches!(lost, Err(StorageError::SnapshotLost { .. }));
        assert!(is_refused, "{}", outcome::text(&lost));
    }
}

/// A restore replaced the state of the log up to the snapshot. A replay of the log would undo it.
#[test]
fn trust_in_complete_logs_does_not_cover_a_state_that_replaced_the_log() {
    for epoch in [0, 1] {
        let (server, path, _) = one_snapshot(epoch);
        fs::write(&path, b"").unwrap();
        note_seam(&RealDisk, &server.dirs, Zxid((epoch << 32) + 2)).unwrap();
        let error = start_trusting(&server).unwrap_err();
        let is_refused = matches!(error, StorageError::NoUsableSnapshot { .. });
        // The logs are not complete, so a member loads its leader's copy.
        assert!(is_refused && error.is_damage(), "{error}");
        assert!(!error.to_string().contains(TRUST_OFF), "{error}");
    }
}

/// The log reaches the snapshot, but the znodes of purged epochs are only in the snapshot. The
/// files are not moved aside: the logs may be complete, and all members may be in the same state.
#[test]
fn trust_in_complete_logs_does_not_cover_a_history_that_may_be_purged() {
    let assert_refused = |server: &Server| {
        let error = start_trusting(server).unwrap_err();
        let is_refused = matches!(error, StorageError::NoUsableSnapshot { .. });
        assert!(is_refused && !error.is_damage(), "{error}");
        assert!(error.to_string().contains(TRUST_OFF), "{error}");
    };
    let (server, _, _) = one_snapshot(1);
    // A purge keeps three snapshots and removes the logs before them.
    for name in ["", ".snappy", ".gz"].map(|suffix| format!("snapshot.100000002{suffix}")) {
        fs::write(server.dirs.snap.join(name), b"").unwrap();
    }
    assert_refused(&server);
    let (server, path, _) = one_snapshot(2);
    fs::write(&path, b"").unwrap();
    assert_refused(&server);
    fs::remove_file(&path).unwrap();
    let (recovered, _) = start_trusting(&server).unwrap();
    assert_eq!(recovered.last_zxid, Zxid(0x2_0000_0003));
}

/// The setting does not concern a corrupted snapshot or a snapshot without logs, so a member loads
/// its leader's copy.
#[test]
fn trust_in_complete_logs_does_not_prevent_a_repair() {
    let assert_damage = |server: &Server| {
        let error = start_trusting(server).unwrap_err();
        let is_refused = matches!(error, StorageError::NoUsableSnapshot { .. });
        assert!(is_refused && error.is_damage(), "{error}");
        assert!(!error.to_string().contains(TRUST_OFF), "{error}");
    };
    let (server, path, mut flipped) = one_snapshot(1);
    flipped[50] ^= 1;
    fs::write(&path, flipped).unwrap();
    assert_damage(&server);
    // A newer snapshot that is cut does not change this.
    fs::write(server.dirs.snap.join("snapshot.100000003"), b"").unwrap();
    assert_damage(&server);
    let (server, path, _) = one_snapshot(1);
    fs::write(&path, b"").unwrap();
    fs::remove_file(log_path(&server.dirs, 0x1_0000_0001)).unwrap();
    assert_damage(&server);
}

#[test]
fn a_corrupt_snapshot_is_replaced_only_if_the_log_reaches_it() {
    let server = Server::new();
    server.write(&[1, 2, 3, 4, 5]);
    let path = server.snapshot(5, SnapshotTrailer::default());
    let mut content = fs::read(&path).unwrap();
    content[50] ^= 1;
    fs::write(&path, content).unwrap();
    let (recovered, db) = server.start().unwrap();
    assert_eq!((recovered.last_zxid, db.txns.len()), (Zxid(5), 5));
    assert_eq!(recovered.warnings.len(), 1);
    fs::remove_file(log_path(&server.dirs, 1)).unwrap();
    match server.start().unwrap_err() {
        StorageError::SnapshotLost {
            path: lost,
            reached,
            ..
        } => assert_eq!((lost, reached), (path, Zxid(0))),
        other => panic!("{other}"),
    }
}

/// A learner loaded its leader's snapshot of zxid 5 and died before it removed its own snapshot.
/// The log after it begins with the next epoch, so no zxid shows the missing transactions.
#[test]
fn a_corrupt_snapshot_is_replaced_only_if_the_log_contains_its_zxid() {
    let server = Server::new();
    server.write(&[1, 2]);
    let path = server.snapshot(5, SnapshotTrailer::default());
    server.write(&[0x1_0000_0001, 0x1_0000_0002]);
    assert_eq!(server.last(), 0x1_0000_0002);
    let mut content = fs::read(&path).unwrap();
    content[50] ^= 1;
    fs::write(&path, content).unwrap();
    let error = server.start().unwrap_err();
    assert!(error.is_damage() && error.to_string().contains("the data ends at zxid 0x2"));
    match error {
        StorageError::SnapshotLost {
            path: lost,
            reached,
            ..
        } => assert_eq!((lost, reached), (path, Zxid(2))),
        other => panic!("{other}"),
    }
    // A TRUNC also refuses this log instead of truncating it like a complete one.
    let beyond = server.snapshot(0x1_0000_0002, SnapshotTrailer::default());
    let cut = truncate(
        &RealDisk,
        &server.dirs,
        Zxid(0x1_0000_0001),
        testkit::LIMITS,
    );
    assert!(matches!(cut, Err(StorageError::Truncate { .. })), "{cut:?}");
    assert!(beyond.exists());
    fs::remove_file(beyond).unwrap();
    // With the transactions in between, nothing is missing.
    server.write(&[3, 4, 5]);
    let (recovered, db) = server.start().unwrap();
    assert_eq!((recovered.last_zxid.0, db.txns.len()), (0x1_0000_0002, 7));
}

/// The start of an epoch is not a transaction, so nothing shows that the log leads up to it.
#[test]
fn a_corrupt_snapshot_of_the_start_of_an_epoch_is_never_replaced() {
    let server = Server::new();
    server.write(&[1, 2]);
    let path = server.snapshot(0x1_0000_0000, SnapshotTrailer::default());
    server.write(&[0x1_0000_0001]);
    let mut content = fs::read(&path).unwrap();
    content[50] ^= 1;
    fs::write(&path, content).unwrap();
    let error = server.start().unwrap_err();
    assert!(
        matches!(
            error,
            StorageError::SnapshotLost {
                reached: Zxid(2),
                ..
            }
        ),
        "{error}"
    );
}

#[test]
fn a_log_that_does_not_reach_what_the_snapshot_covers_is_reported() {
    let server = Server::new();
    server.write(&[1, 2, 3]);
    server.snapshot(2, SnapshotTrailer::new(Some((Zxid(4), 0)), Some(Zxid(4))));
    let (recovered, db) = server.start().unwrap();
    assert_eq!((recovered.last_zxid, db.txns), (Zxid(3), vec![3]));
    assert!(
        recovered.warnings[0].contains("up to 0x4"),
        "{:?}",
        recovered.warnings
    );
    server.write(&[4]);
    assert!(server.start().unwrap().0.warnings.is_empty());
}

#[test]
fn a_snapshot_newer_than_all_logs_suffices() {
    let server = Server::new();
    server.write(&[1, 2, 3]);
    server.snapshot(0x1_0000_0007, SnapshotTrailer::default());
    let (recovered, db) = server.start().unwrap();
    assert_eq!(
        (recovered.last_zxid, db.txns.len()),
        (Zxid(0x1_0000_0007), 0)
    );
    server.write(&[0x1_0000_0008]);
    assert_eq!(server.last(), 0x1_0000_0008);
}

/// The bytes after a SNAP packet: no header, no seals, and further bytes at the end.
#[test]
fn a_snapshot_s_body_is_read_from_a_stream() {
    let mut stream = fresh_body();
    let content_end = stream.len() as u64;
    stream.extend(b"signature");
    let mut db = Db::default();
    let name = "leader".as_ref();
    let info = read_body(&stream[..], name, testkit::LIMITS, &mut db).unwrap();
    assert_eq!((info.znodes, info.sessions), (4, 0));
    assert_eq!(info.content_end, content_end);
    assert_eq!(db.nodes, Db::fresh().nodes);
    stream.truncate(stream.len() - b"signature".len() - 3);
    let error = read_body(&stream[..], name, testkit::LIMITS, &mut db).unwrap_err();
    assert!(error.to_string().contains("ends early"), "{error}");
}
