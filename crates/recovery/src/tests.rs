use std::path::Path;

use jute::Encode;
use proto::txn::{CreateTxn, Txn, TxnHeader};
use storage::{
    Compression, EmptyDirectory, LogSettings, LogWriter, OpenOptions, RealDisk, SnapshotTrailer,
    SnapshotWriter, read_body,
};
use testkit::{SimDisk, SyncFault};
use tree::CurrentGeneration;

use super::*;

fn create(zxid: i64) -> TxnRecord {
    let txn = Txn::Create(CreateTxn {
        path: format!("/n{zxid}").into(),
        data: Some(vec![7; 10].into()),
        acl: vec![Acl::open()],
        ephemeral: false,
        parent_cversion: i32::try_from(zxid).unwrap(),
    });
    let header = TxnHeader {
        session: SessionId(1),
        cxid: 0,
        zxid: Zxid(zxid),
        time_ms: 1,
        op: txn.op().number(),
    };
    TxnRecord {
        header,
        txn,
        digest: None,
    }
}

fn body_of(tree: &Tree) -> Vec<u8> {
    let mut out = Vec::new();
    let mut cursor = tree.start_snapshot();
    while tree.snapshot_chunk(&mut cursor, 4096, &mut out) {}
    out
}

fn open(dir: &Path) -> DataDirs {
    DataDirs::open(&RealDisk, dir, dir, OpenOptions::default()).unwrap()
}

/// Recovers a directory with the snapshot of `tree` and transactions with the given zxids and
/// digests.
fn recover_from(
    tree: &Tree,
    trailer: SnapshotTrailer,
    txns: &[(i64, Option<i64>)],
) -> RecoveredTree {
    let dir = tempfile::tempdir().unwrap();
    let dirs = open(dir.path());
    write_files(&dirs, tree, trailer, txns);
    let settings = Arc::new(TreeSettings::new(testkit::LIMITS));
    recover_tree(
        &RealDisk,
        &dirs,
        &RecoverySettings::new(testkit::LIMITS),
        settings,
    )
    .unwrap()
}

fn write_files(
    dirs: &DataDirs,
    tree: &Tree,
    trailer: SnapshotTrailer,
    txns: &[(i64, Option<i64>)],
) {
    let disk = Arc::new(RealDisk);
    let zxid = tree.last_zxid();
    let mut snapshot =
        SnapshotWriter::new(disk.clone(), dirs, zxid, Compression::None, false).unwrap();
    snapshot.write(&body_of(tree)).unwrap();
    snapshot.finish(trailer).unwrap();
    let mut log = LogWriter::new(disk, dirs, LogSettings::new(testkit::LIMITS));
    for (zxid, digest) in txns {
        let digest = digest.map(|digest| TxnDigest {
            version: TxnDigest::VERSION,
            digest,
        });
        let record = TxnRecord {
            digest,
            ..create(*zxid)
        };
        let mut bytes = Vec::new();
        Encode::encode(&record, &mut bytes);
        log.append(Zxid(*zxid), &bytes).unwrap();
    }
    log.commit().unwrap();
}

/// Returns the tree after transactions 1 to `last`.
fn grown(last: i64) -> Tree {
    let mut restore = Restore::new(Arc::new(TreeSettings::new(testkit::LIMITS)));
    for zxid in 1..=last {
        restore.txn(&create(zxid));
    }
    restore.into_tree()
}

fn digest_after(last: i64) -> i64 {
    grown(last).digest().cast_signed()
}

#[test]
fn snapshot_and_log_restore_the_tree() {
    let found = recover_from(
        &grown(2),
        SnapshotTrailer::default(),
        &[(3, None), (4, None)],
    );
    assert_eq!(found.recovered.txns_replayed, 2);
    assert_eq!(found.tree.last_zxid(), Zxid(4));
    assert_eq!(found.tree.digest(), grown(4).digest());
    assert_eq!(found.digest_mismatches, 0);
}

#[test]
fn a_digest_mismatch_is_counted() {
    let right = Some(digest_after(3));
    let none = SnapshotTrailer::default();
    let count = |txns: &[_]| recover_from(&grown(2), none, txns).digest_mismatches;
    assert_eq!(count(&[(3, right), (4, Some(digest_after(4)))]), 0);
    assert_eq!(count(&[(3, right), (4, right)]), 1);
}

#[test]
fn digests_of_transactions_that_a_fuzzy_snapshot_covers_are_not_compared() {
    let fuzzy = |digest| SnapshotTrailer {
        digest: Some((Zxid(4), digest)),
        ..SnapshotTrailer::default()
    };
    let txns = [(3, Some(-1)), (4, Some(-1)), (5, Some(digest_after(5)))];
    let count = |trailer| recover_from(&grown(2), trailer, &txns).digest_mismatches;
    assert_eq!(count(fuzzy(digest_after(4))), 0);
    assert_eq!(count(fuzzy(-1)), 1);
}

/// A snapshot as written by a learner that received a tree while its leader applied further
/// transactions.
#[test]
fn digests_are_not_compared_before_a_tree_from_a_leader_has_caught_up() {
    let nothing_applied = SnapshotTrailer {
        digest: Some((Zxid::ZERO, 0)),
        ..SnapshotTrailer::default()
    };
    let (ahead, right) = (Some(-1), Some(digest_after(4)));
    let count = |txns: &[_]| recover_from(&grown(2), nothing_applied, txns).digest_mismatches;
    assert_eq!(count(&[(3, ahead), (4, right)]), 0);
    assert_eq!(count(&[(3, ahead), (4, right), (5, Some(-1))]), 1);
}

#[test]
fn an_exact_snapshot_is_compared_directly() {
    let exact = |digest| SnapshotTrailer {
        digest: Some((Zxid(2), digest)),
        ..SnapshotTrailer::default()
    };
    let count = |trailer| recover_from(&grown(2), trailer, &[]).digest_mismatches;
    assert_eq!((count(exact(digest_after(2))), count(exact(-1))), (0, 1));
}

#[test]
fn the_body_of_a_leaders_snapshot_ends_at_the_readers_decision() {
    let sent = grown(3);
    let body = body_of(&sent);
    let read = |body: &[u8]| {
        let mut restore = Restore::new(Arc::new(TreeSettings::new(testkit::LIMITS)));
        let name = Path::new("a leader's snapshot");
        read_body(body, name, testkit::LIMITS, &mut restore).map(|_| restore)
    };
    let tree = read(&body).unwrap().finish(Zxid(3)).unwrap();
    assert_eq!((tree.digest(), tree.last_zxid()), (sent.digest(), Zxid(3)));
    assert!(read(&body[..body.len() - 6]).is_err());
    let unread = Restore::new(Arc::new(TreeSettings::new(testkit::LIMITS)));
    assert_eq!(unread.into_tree().last_zxid(), Zxid::ZERO);
}

fn as_member(dirs: &DataDirs) -> Result<RecoveredTree, StorageError> {
    let settings = Arc::new(TreeSettings::new(testkit::LIMITS));
    recover_member(
        &RealDisk,
        dirs,
        &RecoverySettings::new(testkit::LIMITS),
        settings,
    )
}

#[test]
fn a_member_with_damaged_files_starts_with_an_empty_tree_and_no_vote() {
    let dir = tempfile::tempdir().unwrap();
    let dirs = open(dir.path());
    write_files(
        &dirs,
        &grown(2),
        SnapshotTrailer::default(),
        &[(3, None), (4, None)],
    );
    let whole = as_member(&dirs).unwrap();
    assert_eq!(whole.recovered.last_zxid, Zxid(4));
    let log = dirs.log.join("log.3");
    let mut content = std::fs::read(&log).unwrap();
    content[60] ^= 1;
    std::fs::write(&log, &content).unwrap();
    // Each further start has this result.
    for _ in 0..2 {
        let found = as_member(&dirs).unwrap();
        assert_eq!(found.recovered.empty, Some(EmptyDirectory::Untrusted));
        assert_eq!(found.recovered.last_zxid, Zxid(-1));
        assert_eq!(found.tree.last_zxid(), Zxid::ZERO);
        assert_eq!(
            found.tree.digest(),
            Tree::new(Arc::new(TreeSettings::new(testkit::LIMITS))).digest()
        );
    }
    let aside = std::fs::read(dirs.log.join("aside.log.3")).unwrap();
    assert_eq!(aside, content);
    assert!(dirs.snap.join("aside.snapshot.2").exists());
}

#[test]
fn a_member_whose_current_epoch_is_not_certain_does_not_start_and_keeps_its_files() {
    let dir = tempfile::tempdir().unwrap();
    let dirs = open(dir.path());
    write_files(&dirs, &grown(2), SnapshotTrailer::default(), &[(3, None)]);
    Epochs::store_accepted(&RealDisk, &dirs, proto::Epoch(7)).unwrap();
    std::fs::write(dirs.snap.join("currentEpoch"), "").unwrap();
    let names = || {
        let entries = std::fs::read_dir(&dirs.snap).unwrap();
        let names = entries.map(|entry| entry.unwrap().file_name());
        names.collect::<std::collections::BTreeSet<_>>()
    };
    let before = names();
    let found = as_member(&dirs).unwrap();
    let error = Epochs::load(&RealDisk, &dirs, found.recovered.last_zxid).unwrap_err();
    assert!(matches!(error, StorageError::EpochFile { .. }), "{error}");
    assert_eq!(names(), before);
}

#[test]
fn a_member_refuses_corruption_that_its_leader_cannot_repair() {
    let dir = tempfile::tempdir().unwrap();
    let dirs = open(dir.path());
    write_files(&dirs, &grown(2), SnapshotTrailer::default(), &[(3, None)]);
    std::fs::remove_file(dirs.snap.join("snapshot.2")).unwrap();
    let error = as_member(&dirs).unwrap_err();
    assert!(matches!(error, StorageError::NoSnapshot { .. }), "{error}");
    assert!(dirs.log.join("log.3").exists());
}

/// Transactions that were appended and never committed are applied to the tree when a role ends,
/// and a leader may order that they be truncated. A snapshot that began before must not be
/// completed with them.
#[test]
fn a_snapshot_in_progress_is_abandoned_when_its_history_may_change() {
    let dir = tempfile::tempdir().unwrap();
    let dirs = open(dir.path());
    let tree = grown(9);
    let settings = SnapshotSettings {
        compression: Compression::None,
        force_sync: true,
        digest_enabled: true,
        serialize_last_zxid: true,
    };
    let current = CurrentGeneration::default();
    let refused = DurableReader::established(&tree, current.get());
    assert_eq!(refused.err(), Some(NotEstablished));
    current.establish();
    let first = current.get();
    let begin = || {
        let reader = DurableReader::established(&tree, current.get()).unwrap();
        NewSnapshot::new(Arc::new(RealDisk), dirs.clone(), settings, reader).unwrap()
    };
    let (mut chunk, mut snapshot) = (Vec::new(), begin());
    assert_eq!(snapshot.read(&tree, first, 1, &mut chunk), Ok(true));
    current.begin_unestablished();
    let next = current.get();
    assert_eq!(snapshot.read(&tree, next, 1, &mut chunk), Err(TreeReplaced));
    assert!(snapshot.check(first).is_ok());
    assert_eq!(snapshot.check(next), Err(TreeReplaced));
    let ordered_before = DurableReader::taken_over(&tree, next, first);
    assert_eq!(ordered_before.err(), Some(TreeReplaced));
    assert!(DurableReader::taken_over(&tree, next, next).is_ok());
    drop(snapshot);
    assert!(
        storage::list_snapshots(&RealDisk, &dirs.snap)
            .unwrap()
            .is_empty()
    );
    let path = write_snapshot(Arc::new(RealDisk), dirs.clone(), settings, &tree).unwrap();
    assert_eq!(path, dirs.snap.join("snapshot.9"));
    let found = as_member(&dirs).unwrap();
    assert_eq!(found.tree.digest(), tree.digest());
}

/// A leader's history replaces a history that ends at a later zxid. The transactions after the end
/// of the leader's history are removed, and the previous writer writes nothing more.
#[test]
fn the_log_is_cut_for_the_snapshot_that_replaces_it() {
    let dir = tempfile::tempdir().unwrap();
    let dirs = open(dir.path());
    write_files(&dirs, &grown(2), SnapshotTrailer::default(), &[]);
    let settings = DurableLogSettings {
        log: LogSettings::new(testkit::LIMITS),
        recovery: RecoverySettings::new(testkit::LIMITS),
        tree: Arc::new(TreeSettings::new(testkit::LIMITS)),
    };
    let trigger = storage::SnapTrigger::new(1000, 0, 0);
    let end = Zxid(2);
    let mut history = DurableLog::new(Arc::new(RealDisk), dirs.clone(), settings, trigger, end);
    for zxid in 3..=5 {
        let record = create(zxid).to_bytes();
        assert!(!history.append(Zxid(zxid), &record, || 0).unwrap());
    }
    assert_eq!(history.end().get(), end, "nothing more is on disk");
    history.commit().unwrap();
    assert_eq!(history.end().get(), Zxid(5));
    history.cut_for_snapshot(Zxid(4)).unwrap();
    assert_eq!(history.end().get(), Zxid(4));
    let Reloaded::Loaded { found, end } = history.reload(None).unwrap() else {
        panic!("nothing was to be cut")
    };
    assert_eq!((found.recovered.last_zxid, end), (Zxid(4), Zxid(4)));
    // The zxid of the server's own snapshot is above 1. The log is truncated nevertheless, and the
    // snapshot is kept until the leader's snapshot exists.
    history.cut_for_snapshot(Zxid(1)).unwrap();
    assert!(storage::list_logs(&RealDisk, &dirs.log).unwrap().is_empty());
    assert!(matches!(
        history.reload(Some(Zxid(1))),
        Ok(Reloaded::NotCut(_))
    ));
}

/// An unfinished truncation is an error, not a refused truncation ([`Reloaded::NotCut`]). The page
/// cache may show data that the disk lacks, so truncated records could reappear after records that
/// this process writes later.
#[test]
fn a_cut_that_cannot_be_made_durable_ends_the_process() {
    let (disk, dir) = (Arc::new(SimDisk::default()), Path::new("/data"));
    let dirs = DataDirs::open(&*disk, dir, dir, OpenOptions::default()).unwrap();
    let snapshot = SnapshotSettings {
        compression: Compression::None,
        force_sync: true,
        digest_enabled: true,
        serialize_last_zxid: true,
    };
    write_snapshot(disk.clone(), dirs.clone(), snapshot, &grown(2)).unwrap();
    let settings = DurableLogSettings {
        log: LogSettings::new(testkit::LIMITS),
        recovery: RecoverySettings::new(testkit::LIMITS),
        tree: Arc::new(TreeSettings::new(testkit::LIMITS)),
    };
    let trigger = storage::SnapTrigger::new(1000, 0, 0);
    let mut history = DurableLog::new(disk.clone(), dirs, settings, trigger, Zxid(2));
    for zxid in 3..=5 {
        let record = create(zxid).to_bytes();
        history.append(Zxid(zxid), &record, || 0).unwrap();
    }
    history.commit().unwrap();
    // This read fails before any file has been changed.
    disk.fail_next_reads(1);
    let kept = history.reload(Some(Zxid(4)));
    assert!(matches!(kept, Ok(Reloaded::NotCut(_))), "{kept:?}");
    disk.fail_next_sync(SyncFault::FailsAndShows);
    let cut = history.reload(Some(Zxid(4)));
    assert!(matches!(cut, Err(StorageError::Io { .. })), "{cut:?}");
}

/// The operator accepts logs without snapshots, so the cut snapshot is not needed. Its bytes are.
#[test]
fn a_cut_snapshot_that_is_not_needed_is_kept() {
    let dir = tempfile::tempdir().unwrap();
    let dirs = open(dir.path());
    let empty = Tree::new(Arc::new(TreeSettings::new(testkit::LIMITS)));
    write_files(
        &dirs,
        &empty,
        SnapshotTrailer::default(),
        &[(1, None), (2, None)],
    );
    std::fs::remove_file(dirs.snap.join("snapshot.0")).unwrap();
    let path = dirs.snap.join("snapshot.2");
    std::fs::write(&path, b"cut").unwrap();
    let recovery = RecoverySettings {
        trust_empty: true,
        ..RecoverySettings::new(testkit::LIMITS)
    };
    let settings = Arc::new(TreeSettings::new(testkit::LIMITS));
    let found = recover_tree(&RealDisk, &dirs, &recovery, settings).unwrap();
    assert_eq!(found.recovered.last_zxid, Zxid(2));
    let write_first = || {
        assert!(!path.exists());
        std::fs::write(&path, b"whole").unwrap();
        Ok(())
    };
    let is_due = complete_start(&RealDisk, &dirs, &found.recovered, write_first).unwrap();
    assert!(!is_due);
    assert_eq!(std::fs::read(&path).unwrap(), b"whole");
    let aside = std::fs::read(dirs.snap.join("damaged.snapshot.2")).unwrap();
    assert_eq!(aside, b"cut");
}

/// Only the change history needs the file with begins of epochs.
#[test]
fn a_snapshot_at_the_begin_of_an_epoch_does_not_need_its_record() {
    let dir = tempfile::tempdir().unwrap();
    let dirs = open(dir.path());
    let unreadable = dirs.snap.join("zoarium.epochs");
    std::fs::create_dir(&unreadable).unwrap();
    let mut tree = grown(2);
    tree.begin_epoch(Zxid::new(proto::Epoch(1), 0));
    let settings = SnapshotSettings {
        compression: Compression::None,
        force_sync: true,
        digest_enabled: true,
        serialize_last_zxid: true,
    };
    let path = write_snapshot(Arc::new(RealDisk), dirs.clone(), settings, &tree).unwrap();
    assert_eq!(path, dirs.snap.join("snapshot.100000000"));
    assert!(path.exists() && unreadable.is_dir());
}
