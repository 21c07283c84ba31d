//! The snapshot thread, between the core, which changes the tree, and the log thread.

use std::ops::{Deref, DerefMut};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use executor::sync::Mutex;
use jute::Encode as _;
use proto::txn::{CreateTxn, Txn, TxnHeader, TxnRecord};
use proto::{Acl, SessionId, Zxid};
use recovery::{DurableLog, DurableLogSettings, LogEnd, Reloaded, SnapshotSettings};
use replica::State;
use replica::session::{SessionIds, Sessions};
use storage::{Compression, DataDirs, LogSettings, RecoverySettings, SnapTrigger};
use testkit::SimDisk;
use testkit::interleavings::{check, thread};
use tree::{Generation, Tree, TreeSettings, Watches};
use zoarium_host::{DueSnapshots, ServerState, SnapshotReason, SnapshotWork};

/// Number of transactions.
const TXNS: i64 = 4;

/// Last transaction that stays in the log when the role ends.
const KEPT: i64 = 2;

/// State of the server. Other threads may run before the tree is locked.
struct SharedState {
    state: ServerState,
    /// Last transaction that the snapshot thread has found in the tree.
    seen: AtomicI64,
}

impl SharedState {
    fn new() -> Self {
        let tree = Tree::new(tree_settings());
        Self {
            state: ServerState::new(tree, 2000, SessionIds::new(1, 1)),
            seen: AtomicI64::new(0),
        }
    }

    /// The core applies a committed transaction.
    fn apply(&self, zxid: i64) {
        thread::yield_now();
        let mut tree = self.state.tree_mut();
        tree.apply(&create(zxid), &mut Watches::default(), &mut Vec::new());
    }
}

/// The state as the snapshot thread uses it.
impl State for SharedState {
    fn tree(&self) -> impl Deref<Target = Tree> {
        thread::yield_now();
        let tree = self.state.tree();
        self.seen.store(tree.last_zxid().0, Ordering::SeqCst);
        tree
    }

    fn tree_mut(&self) -> impl DerefMut<Target = Tree> {
        self.state.tree_mut()
    }

    fn replace_tree(&self, tree: Tree) {
        self.state.replace_tree(tree);
    }

    fn generation(&self) -> Generation {
        self.state.generation()
    }

    fn begin_unestablished(&self) {
        self.state.begin_unestablished();
    }

    fn establish(&self) {
        self.state.establish();
    }

    fn watches(&self) -> impl DerefMut<Target = Watches> {
        self.state.watches()
    }

    fn sessions(&self) -> impl DerefMut<Target = Sessions> {
        self.state.sessions()
    }
}

fn tree_settings() -> Arc<TreeSettings> {
    Arc::new(TreeSettings::new(testkit::LIMITS))
}

fn create(zxid: i64) -> TxnRecord {
    let txn = Txn::Create(CreateTxn {
        path: format!("/n{zxid}").into(),
        data: None,
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

/// Files of a server that has just started, with the snapshot of an empty tree.
fn files(state: &SharedState) -> (DurableLog<SimDisk>, SnapshotWork<SimDisk>) {
    let (disk, dir) = (Arc::new(SimDisk::default()), Path::new("/data"));
    let options = storage::OpenOptions::default();
    let dirs = DataDirs::open(&*disk, dir, dir, options).unwrap();
    let settings = SnapshotSettings {
        compression: Compression::None,
        force_sync: true,
        digest_enabled: false,
        serialize_last_zxid: false,
    };
    let first = recovery::write_snapshot(disk.clone(), dirs.clone(), settings, &state.state.tree());
    first.unwrap();
    let history = DurableLogSettings {
        log: LogSettings {
            prealloc_bytes: 0,
            ..LogSettings::new(testkit::LIMITS)
        },
        recovery: RecoverySettings::new(testkit::LIMITS),
        tree: tree_settings(),
    };
    let trigger = SnapTrigger::new(1000, 0, 0);
    let log = DurableLog::new(disk.clone(), dirs.clone(), history, trigger, Zxid::ZERO);
    let end: Arc<LogEnd> = log.end().clone();
    let work = SnapshotWork::new(disk, dirs, settings, end, Arc::default());
    (log, work)
}

/// The log thread writes a transaction.
fn write(log: &mut DurableLog<SimDisk>, zxid: i64) {
    let mut bytes = Vec::new();
    create(zxid).encode(&mut bytes);
    log.append(Zxid(zxid), &bytes, || 0).unwrap();
    log.commit().unwrap();
}

/// The snapshot thread writes the requested snapshots, in small pieces. Returns how many it has
/// written.
fn run_snapshots(
    work: &mut SnapshotWork<SimDisk>,
    state: &SharedState,
    end: &LogEnd,
    files: &Mutex<()>,
) -> usize {
    let mut written = 0;
    while work.next().is_some() {
        let hold_files = || {
            let logged = end.get().0;
            let seen = state.seen.load(Ordering::SeqCst);
            let generation = state.generation();
            assert!(
                seen <= logged || !generation.is_established(),
                "{seen} of {logged} is in a snapshot"
            );
            files.lock()
        };
        let stepped = work.step(state, 100, || 0, hold_files).unwrap();
        written += usize::from(stepped.is_some());
        if work.waits_for_log() {
            thread::yield_now();
        }
    }
    written
}

/// The tree is ahead of the log, because other members form the quorum.
fn slow_disk() {
    let state = Arc::new(SharedState::new());
    let (mut log, mut work) = files(&state);
    let end = log.end().clone();
    state.establish();
    let core = {
        let state = state.clone();
        thread::spawn(move || (1..=TXNS).for_each(|zxid| state.apply(zxid)))
    };
    let log_thread = thread::spawn(move || (1..=TXNS).for_each(|zxid| write(&mut log, zxid)));
    work.request_snapshot(SnapshotReason::Operator);
    let written = run_snapshots(&mut work, &state, &end, &Mutex::new(()));
    assert_eq!(written, 1);
    core.join().unwrap();
    log_thread.join().unwrap();
}

/// The role ends, and the log is cut, while a snapshot is written.
fn cut() {
    let state = Arc::new(SharedState::new());
    let (mut log, mut work) = files(&state);
    let (end, files) = (log.end().clone(), Arc::new(Mutex::new(())));
    state.establish();
    (1..=KEPT).for_each(|zxid| write(&mut log, zxid));
    let core = {
        let (state, files) = (state.clone(), files.clone());
        thread::spawn(move || {
            (1..=KEPT).for_each(|zxid| state.apply(zxid));
            // The following transactions are not committed.
            state.begin_unestablished();
            for zxid in KEPT + 1..=TXNS {
                state.apply(zxid);
                write(&mut log, zxid);
            }
            let held = files.lock();
            let reloaded = log.reload(Some(Zxid(KEPT))).unwrap();
            drop(held);
            assert!(matches!(reloaded, Reloaded::Loaded { .. }));
            log
        })
    };
    work.request_snapshot(SnapshotReason::Operator);
    run_snapshots(&mut work, &state, &end, &files);
    let mut log = core.join().unwrap();
    let Reloaded::Loaded { found, .. } = log.reload(None).unwrap() else {
        panic!("the files cannot be loaded");
    };
    let exists = |zxid: &i64| found.tree.may_read(&format!("/n{zxid}"), &[]).is_some();
    let found: Vec<i64> = (1..=TXNS).filter(exists).collect();
    assert_eq!(found, (1..=KEPT).collect::<Vec<_>>());
}

/// A due snapshot is deferred until the tree is established.
fn deferred() {
    let state = Arc::new(SharedState::new());
    let (log, mut work) = files(&state);
    let (end, due) = (log.end().clone(), work.due().clone());
    let begins = |step: fn(&mut DueSnapshots, i64) -> bool, due: &Mutex<DueSnapshots>| {
        step(&mut due.lock(), 0)
    };
    // Number of requests for the snapshot thread.
    let requests = Arc::new(Mutex::new(0));
    let log_thread = {
        let (due, requests) = (due.clone(), requests.clone());
        thread::spawn(move || *requests.lock() += usize::from(begins(DueSnapshots::begin, &due)))
    };
    let core = {
        let (state, due, requests) = (state.clone(), due.clone(), requests.clone());
        thread::spawn(move || {
            thread::yield_now();
            state.establish();
            *requests.lock() += usize::from(begins(DueSnapshots::resume, &due));
        })
    };
    let mut written = 0;
    while written == 0 {
        let requested = std::mem::take(&mut *requests.lock());
        (0..requested).for_each(|_| work.request_snapshot(SnapshotReason::Due));
        written += run_snapshots(&mut work, &state, &end, &Mutex::new(()));
        thread::yield_now();
    }
    core.join().unwrap();
    log_thread.join().unwrap();
}

#[test]
fn shuttle_finds_no_snapshot_that_is_ahead_of_the_log() {
    check(slow_disk);
}

#[test]
fn shuttle_finds_no_snapshot_with_transactions_that_were_cut() {
    check(cut);
}

#[test]
fn shuttle_finds_no_due_snapshot_that_is_forgotten() {
    check(deferred);
}
