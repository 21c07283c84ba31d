use std::path::Path;

use jute::Encode;
use proto::txn::{Txn, TxnHeader};
use recovery::{SnapshotSettings, write_snapshot};
use storage::{Compression, LogSettings, LogWriter, OpenOptions, note_seam};
use testkit::SimDisk;
use tree::{Tree, TreeSettings, Watches};

use super::*;

/// Recorded transactions, grouped by the snapshot that begins their era.
#[derive(Debug, Default, PartialEq, Eq)]
struct Zxids {
    eras: Vec<(i64, Vec<i64>)>,
}

struct Nothing;

impl Znodes for Nothing {
    fn acl(&mut self, _: i64, _: &[Acl]) {}

    fn znode(
        &mut self,
        _: &str,
        _: Option<&[u8]>,
        _: i64,
        _: &StatPersisted,
    ) -> history::Result<()> {
        Ok(())
    }
}

impl Recording for Zxids {
    type Znodes = Nothing;

    fn head(&self) -> Zxid {
        let (begin, zxids) = self.eras.last().unwrap();
        Zxid(*zxids.last().unwrap_or(begin))
    }

    fn is_head(&self, _: &TxnHeader) -> bool {
        true
    }

    fn append(&mut self, record: &TxnRecord, _: &Origin) -> history::Result<()> {
        let (_, zxids) = self.eras.last_mut().unwrap();
        zxids.push(record.header.zxid.0);
        Ok(())
    }

    fn begin_era(&mut self, _: Nothing, at: SnapshotAt) -> history::Result<()> {
        self.eras.push((at.zxid.0, Vec::new()));
        Ok(())
    }

    fn publish(&mut self) -> history::Result<()> {
        Ok(())
    }

    fn checkpoint(&mut self) -> history::Result<()> {
        Ok(())
    }
}

/// A keeper without stored change histories.
struct Memory;

impl HistoryStorage for Memory {
    type History = Zxids;

    fn open(&self) -> history::Result<Zxids> {
        let path = "memory".into();
        Err(HistoryError::Missing { path })
    }

    fn baseline(&self) -> history::Result<Nothing> {
        Ok(Nothing)
    }

    fn create(&self, _: Nothing, at: SnapshotAt) -> history::Result<Zxids> {
        let eras = vec![(at.zxid.0, Vec::new())];
        Ok(Zxids { eras })
    }
}

/// Files of a member.
struct Site {
    disk: Arc<SimDisk>,
    dirs: DataDirs,
    recorder: Recorder<SimDisk>,
}

impl Site {
    fn new() -> Self {
        let (disk, dir) = (Arc::new(SimDisk::default()), Path::new("/data"));
        let dirs = DataDirs::open(&*disk, dir, dir, OpenOptions::default()).unwrap();
        let recorder = Recorder::new(disk.clone(), dirs.clone(), testkit::LIMITS);
        Self {
            disk,
            dirs,
            recorder,
        }
    }

    /// Writes a log file with these transactions.
    fn log(&self, zxids: &[i64]) {
        let settings = LogSettings {
            prealloc_bytes: 0,
            ..LogSettings::new(testkit::LIMITS)
        };
        let mut log = LogWriter::new(self.disk.clone(), &self.dirs, settings);
        for zxid in zxids.iter().copied().map(Zxid) {
            log.append(zxid, &record(zxid).to_bytes()).unwrap();
        }
        log.commit().unwrap();
    }

    /// Writes a snapshot whose last transaction is `zxid`.
    fn snapshot(&self, zxid: i64) {
        self.write(&tree(zxid));
    }

    /// Writes a snapshot as the leader of an epoch without transactions. `last` is the last
    /// transaction before the epoch.
    fn snapshot_of_leader(&self, last: i64, begin: i64) {
        let mut tree = tree(last);
        tree.begin_epoch(Zxid(begin));
        self.write(&tree);
    }

    fn write(&self, tree: &Tree) {
        let settings = SnapshotSettings {
            compression: Compression::None,
            force_sync: false,
            digest_enabled: false,
            serialize_last_zxid: true,
        };
        write_snapshot(self.disk.clone(), self.dirs.clone(), settings, tree).unwrap();
    }

    fn catch_up(&mut self, history: &mut Zxids, upto: i64) {
        let upto = Zxid(upto);
        let caught = self.recorder.catch_up(history, &Memory, upto, upto);
        caught.unwrap();
    }
}

/// Returns a tree whose last transaction is `zxid`.
fn tree(zxid: i64) -> Tree {
    let mut tree = Tree::new(Arc::new(TreeSettings::new(testkit::LIMITS)));
    let record = record(Zxid(zxid));
    tree.apply(&record, &mut Watches::default(), &mut Vec::new());
    tree
}

fn record(zxid: Zxid) -> TxnRecord {
    let txn = Txn::CreateSession { timeout_ms: 1 };
    TxnRecord {
        header: TxnHeader {
            session: SessionId(1),
            cxid: 0,
            zxid,
            time_ms: 0,
            op: txn.op().number(),
        },
        txn,
        digest: None,
    }
}

const EPOCH_2: i64 = 0x2_0000_0000;

/// Transaction 5 may never have been committed, and the log may lack committed transactions before
/// the leader's snapshot. The snapshot shows this break until it is removed. The `seam` shows the
/// break permanently.
#[test]
fn the_log_before_a_removed_snapshot_is_another_history() {
    let mut site = Site::new();
    site.log(&[4, 5]);
    note_seam(&*site.disk, &site.dirs, Zxid(EPOCH_2)).unwrap();
    site.log(&[EPOCH_2 + 1, EPOCH_2 + 2]);
    let eras = vec![(3, vec![4])];
    let mut history = Zxids { eras: eras.clone() };
    // Without a snapshot from which to continue, the recorder waits.
    site.catch_up(&mut history, EPOCH_2 + 2);
    assert_eq!(history.eras, eras);
    site.snapshot(EPOCH_2 + 1);
    site.catch_up(&mut history, EPOCH_2 + 2);
    let behind = (EPOCH_2 + 1, vec![EPOCH_2 + 2]);
    assert_eq!(history.eras, [(3, vec![4]), behind]);
}

/// Epoch 2 is empty, and the snapshot from its beginning has been removed. The leader of epoch 3
/// sent a snapshot of the same tree, whose last transaction is from an epoch before epoch 2.
#[test]
fn after_an_empty_epoch_the_log_continues_from_an_older_snapshot() {
    let mut site = Site::new();
    site.log(&[3]);
    note_seam(&*site.disk, &site.dirs, Zxid(4)).unwrap();
    site.snapshot(4);
    let next = 0x3_0000_0001;
    site.log(&[next]);
    let mut history = Zxids {
        eras: vec![(EPOCH_2, Vec::new())],
    };
    site.catch_up(&mut history, next);
    assert_eq!(history.eras, [(EPOCH_2, vec![next])]);
    // In this change history, epoch 2 contains a transaction, which the log lacks.
    let eras = vec![(EPOCH_2 + 1, Vec::new())];
    let mut history = Zxids { eras: eras.clone() };
    site.catch_up(&mut history, next);
    assert_eq!(history.eras, eras);
}

/// The log never contains the begin of an epoch, but the leader's log is whole up to it.
#[test]
fn a_leaders_own_snapshot_from_the_begin_of_its_epoch_is_no_gap() {
    let mut site = Site::new();
    site.snapshot(3);
    site.log(&[4, 5]);
    site.snapshot_of_leader(5, EPOCH_2);
    let mut history = Zxids {
        eras: vec![(3, vec![4])],
    };
    // The server restarts before the first transaction of the epoch. It is idle for a long time.
    site.catch_up(&mut history, EPOCH_2);
    assert_eq!(history.eras, [(3, vec![4, 5])]);
    let read = site.disk.read_bytes();
    site.catch_up(&mut history, EPOCH_2);
    assert_eq!(site.disk.read_bytes(), read, "the log was read again");
    let next = EPOCH_2 + 1;
    site.log(&[next]);
    site.catch_up(&mut history, next);
    assert_eq!(history.eras, [(3, vec![4, 5, next])]);
}

/// In the data directory of a follower of Apache ZooKeeper, only the snapshot shows that the log is
/// not whole. The follower then leads epoch 3 as a member of Zoarium.
#[test]
fn a_followers_snapshot_from_the_begin_of_an_epoch_is_a_gap() {
    let mut site = Site::new();
    site.log(&[4, 5]);
    site.snapshot(EPOCH_2);
    let begin_3 = 0x3_0000_0000;
    site.snapshot_of_leader(EPOCH_2, begin_3);
    site.log(&[begin_3 + 1]);
    let mut history = Zxids {
        eras: vec![(3, vec![4])],
    };
    site.catch_up(&mut history, begin_3 + 1);
    let behind = (EPOCH_2, vec![begin_3 + 1]);
    assert_eq!(history.eras, [(3, vec![4]), behind]);
}

/// While the `seam` is not committed, the log before it may contain other breaks.
#[test]
fn nothing_is_read_before_the_seam_is_committed() {
    let mut site = Site::new();
    site.log(&[4, 5]);
    note_seam(&*site.disk, &site.dirs, Zxid(EPOCH_2)).unwrap();
    let eras = vec![(3, Vec::new())];
    let mut history = Zxids { eras: eras.clone() };
    site.catch_up(&mut history, 5);
    assert_eq!(history.eras, eras);
}

/// The process crashed before the other snapshots were removed.
#[test]
fn a_new_history_begins_after_the_seam() {
    let site = Site::new();
    site.snapshot(3);
    site.log(&[4, 5]);
    note_seam(&*site.disk, &site.dirs, Zxid(EPOCH_2)).unwrap();
    site.log(&[EPOCH_2 + 1]);
    let open = |committed| site.recorder.open(&Memory, Zxid(committed)).unwrap();
    assert_eq!(open(EPOCH_2 + 1), None);
    site.snapshot(EPOCH_2 + 1);
    let begun = open(EPOCH_2 + 1).map(|history| history.eras);
    assert_eq!(begun, Some(vec![(EPOCH_2 + 1, Vec::new())]));
}

/// The log is known to be continuous only from the zxid at which the check began. A change history
/// that ends earlier needs another check.
#[test]
fn a_new_history_checks_the_log_again() {
    let mut site = Site::new();
    site.snapshot(3);
    site.log(&[4, 5]);
    site.log(&[EPOCH_2 + 1, EPOCH_2 + 2]);
    site.snapshot(EPOCH_2);
    let eras = vec![(EPOCH_2 + 1, Vec::new())];
    site.catch_up(&mut Zxids { eras }, EPOCH_2 + 2);
    let eras = vec![(3, Vec::new())];
    let mut history = Zxids { eras };
    site.catch_up(&mut history, EPOCH_2 + 2);
    let behind = (EPOCH_2, vec![EPOCH_2 + 1, EPOCH_2 + 2]);
    assert_eq!(history.eras, [(3, Vec::new()), behind]);
}

/// A server that stops does not wait for the rest of a long log.
#[test]
fn a_long_log_is_read_in_turns() {
    let mut site = Site::new();
    site.snapshot(1);
    let turn = i64::try_from(TURN).unwrap();
    let last = turn + 3;
    let logged: Vec<i64> = (2..=last).collect();
    site.log(&logged);
    let mut history = Zxids {
        eras: vec![(1, Vec::new())],
    };
    // The first turn ends before the log is checked.
    for head in [1, turn + 1] {
        site.catch_up(&mut history, last);
        assert_eq!(history.head(), Zxid(head));
        assert!(site.recorder.is_behind());
    }
    site.catch_up(&mut history, last);
    assert_eq!(history.eras, [(1, logged)]);
    assert!(!site.recorder.is_behind());
}

/// While the member reads the log, other transactions are written.
#[test]
fn a_backlog_is_read_a_constant_number_of_times() {
    const FILES: i64 = 50;
    let mut site = Site::new();
    site.snapshot(0);
    let turn = i64::try_from(TURN).unwrap();
    for file in 0..FILES {
        let logged: Vec<i64> = (file * turn + 1..=(file + 1) * turn).collect();
        site.log(&logged);
    }
    let last = FILES * turn;
    let before = site.disk.read_bytes();
    let txns = read_txns_from(&*site.disk, &site.dirs, Zxid(1), testkit::LIMITS).unwrap();
    assert!(txns.map(Result::unwrap).count() > 0);
    let once = site.disk.read_bytes() - before;
    let mut history = Zxids {
        eras: vec![(0, Vec::new())],
    };
    let mut upto = last - turn;
    while history.head() < Zxid(last) {
        site.catch_up(&mut history, upto);
        upto = last.min(upto + 1);
    }
    assert_eq!(history.eras, [(0, (1..=last).collect())]);
    let read = site.disk.read_bytes() - before;
    assert!(read < 6 * once, "{read} bytes of a log of {once} bytes");
}

#[test]
fn the_log_is_read_as_far_as_it_is_committed_and_written() {
    let mut recorder = Site::new().recorder;
    let mut readable = |committed, end| recorder.readable(Zxid(committed), Zxid(end));
    assert_eq!(readable(5, 7), Some(Zxid(5)));
    // Other members committed transactions before this member wrote them.
    assert_eq!(readable(9, 7), None);
    assert_eq!(readable(12, 8), None);
    // The awaited transaction is written, although the other members have meanwhile committed more.
    assert_eq!(readable(15, 10), Some(Zxid(9)));
    assert_eq!(readable(16, 10), None);
    assert_eq!(readable(16, 16), Some(Zxid(16)));
    assert_eq!(recorder.awaited, None);
}
