//! The start of a server, from its files to the initial state of its replica.

use std::sync::Arc;

use executor::sync::Mutex;
use recovery::{
    DurableLog, DurableLogSettings, OwnLog, RecoveredTree, SnapshotSettings, complete_start,
};
use replica::members::MemberLists;
use replica::session::SessionIds;
use replica::{Epochs, MemberStart};
use storage::{DataDirs, Disk, Recovered, RecoverySettings, SnapTrigger, StorageError};
use tree::TreeSettings;

use crate::{ServerState, SnapshotWork, WrittenSnapshot};

/// Files of a server that starts, and the settings for reading and writing them.
#[derive(Debug)]
pub struct StartFiles<D: Disk> {
    /// Disk that contains the files.
    pub disk: Arc<D>,
    /// Data directories on the disk.
    pub dirs: DataDirs,
    /// Settings of the log.
    pub history: DurableLogSettings,
    /// Settings of snapshots.
    pub snapshots: SnapshotSettings,
}

/// Function that recovers the tree from the files: [`recovery::recover_tree`], or
/// [`recovery::recover_member`] for a server that can receive its leader's data.
pub type Recover<D> =
    fn(&D, &DataDirs, &RecoverySettings, Arc<TreeSettings>) -> Result<RecoveredTree, StorageError>;

/// Settings of the start, in addition to the files.
#[derive(Debug)]
pub struct StartSettings {
    /// Length of a tick (`tickTime`), ms.
    pub tick_ms: i64,
    /// Generator of ids for new sessions.
    pub session_ids: SessionIds,
    /// Members of the ensemble; `None` without an ensemble.
    pub lists: Option<MemberLists>,
}

/// Result of the start.
#[derive(Debug)]
pub struct Started<D: Disk> {
    /// Tree, watches and sessions.
    pub state: Arc<ServerState>,
    /// Origin of the tree: snapshot, replayed transactions and warnings.
    pub recovered: Recovered,
    /// The log, open for writing.
    pub history: DurableLog<D>,
    /// The queue of snapshots.
    pub snapshots: SnapshotWork<D>,
    /// First snapshot, if none existed.
    pub first: Option<WrittenSnapshot>,
    /// Whether a snapshot is due, which makes the next start shorter.
    pub is_due: bool,
    /// Initial state of the member; `None` without an ensemble.
    pub member: Option<MemberStart>,
}

impl<D: Disk> StartFiles<D> {
    /// Recovers the tree from the files with `recover`, which may remove or rename files.
    ///
    /// # Errors
    /// If `recover` fails.
    pub fn recover(&self, recover: Recover<D>) -> Result<RecoveredTree, StorageError> {
        let (recovery, tree) = (&self.history.recovery, self.history.tree.clone());
        recover(&self.disk, &self.dirs, recovery, tree)
    }

    /// Starts with the recovered tree. Records that an earlier process wrote without a sync are
    /// valid from here on, so they are made durable first.
    ///
    /// # Errors
    /// If files cannot be read or written.
    pub fn begin(
        self,
        found: RecoveredTree,
        settings: StartSettings,
        trigger: impl FnOnce() -> SnapTrigger,
        now_ms: impl Fn() -> i64,
    ) -> Result<Started<D>, StorageError> {
        let Self {
            disk,
            dirs,
            history,
            snapshots,
        } = self;
        let (tree, recovered) = (found.tree, found.recovered);
        storage::make_durable(&*disk, &dirs, &recovered)?;
        let end = tree.last_zxid();
        let ids = settings.session_ids;
        let state = Arc::new(ServerState::new(tree, settings.tick_ms, ids));
        let due = Arc::<Mutex<_>>::default();
        let history = DurableLog::new(disk.clone(), dirs.clone(), history, trigger(), end);
        let log = history.end().clone();
        let mut snapshots = SnapshotWork::<D>::new(disk.clone(), dirs.clone(), snapshots, log, due);
        let mut first = None;
        let write_first = || {
            first = snapshots.write_at_once(&*state, now_ms)?;
            Ok(())
        };
        let is_due = complete_start(&*disk, &dirs, &recovered, write_first)?;
        let member = match settings.lists {
            Some(lists) => Some(member_start(&*disk, &dirs, &recovered, lists)?),
            None => None,
        };
        Ok(Started {
            state,
            history,
            recovered,
            snapshots,
            first,
            is_due,
            member,
        })
    }
}

/// Creates the initial state of a member whose start is [complete](complete_start).
fn member_start<D: Disk>(
    disk: &D,
    dirs: &DataDirs,
    recovered: &Recovered,
    lists: MemberLists,
) -> Result<MemberStart, StorageError> {
    let OwnLog {
        epochs,
        last_logged,
        log_whole_from,
        is_trusted,
    } = OwnLog::load(disk, dirs, recovered)?;
    Ok(MemberStart {
        lists,
        epochs: Epochs {
            accepted: epochs.accepted,
            current: epochs.current,
        },
        last_logged,
        log_whole_from,
        is_trusted,
    })
}

#[cfg(test)]
mod tests {
    use jute::Encode;
    use proto::txn::{Txn, TxnHeader, TxnRecord};
    use proto::{Epoch, SessionId, Zxid};
    use recovery::recover_tree;
    use replica::State;
    use storage::{Compression, LogSettings, OpenOptions, RealDisk};
    use tree::Watches;

    use super::*;
    use crate::SnapshotReason;

    const TICK_MS: i64 = 2000;

    fn start(dir: &std::path::Path) -> Started<RealDisk> {
        let disk = Arc::new(RealDisk);
        let options = OpenOptions { autocreate: true };
        let files = StartFiles {
            dirs: DataDirs::open(&*disk, dir, dir, options).unwrap(),
            disk,
            history: DurableLogSettings {
                log: LogSettings::new(testkit::LIMITS),
                recovery: RecoverySettings::new(testkit::LIMITS),
                tree: Arc::new(TreeSettings::new(testkit::LIMITS)),
            },
            snapshots: SnapshotSettings {
                compression: Compression::None,
                force_sync: true,
                digest_enabled: true,
                serialize_last_zxid: true,
            },
        };
        let found = files.recover(recover_tree).unwrap();
        let settings = StartSettings {
            tick_ms: TICK_MS,
            session_ids: SessionIds::new(1, 1),
            lists: None,
        };
        let trigger = || SnapTrigger::new(100, 0, 1);
        files.begin(found, settings, trigger, || 0).unwrap()
    }

    fn record(session: SessionId, zxid: Zxid) -> TxnRecord {
        let txn = Txn::CreateSession { timeout_ms: 4000 };
        TxnRecord {
            header: TxnHeader {
                session,
                cxid: 0,
                zxid,
                time_ms: 0,
                op: txn.op().number(),
            },
            txn,
            digest: None,
        }
    }

    /// Appends a transaction that is not on disk before the next commit.
    fn append(history: &mut DurableLog<RealDisk>, session: SessionId, zxid: Zxid) {
        let mut logged = Vec::new();
        record(session, zxid).encode(&mut logged);
        history.append(zxid, &logged, || 1).unwrap();
    }

    #[test]
    fn a_server_continues_after_its_log_and_starts_with_a_snapshot() {
        let dir = tempfile::tempdir().unwrap();
        let (session, zxid) = (SessionId(7), Zxid(1));
        {
            let mut first = start(dir.path());
            let written = first.first.take().map(|written| written.zxid);
            assert_eq!((written, first.is_due), (Some(Zxid::ZERO), false));
            append(&mut first.history, session, zxid);
            first.history.commit().unwrap();
        }
        let again = start(dir.path());
        // A second snapshot is due, to make the next start shorter. The server writes it while it
        // serves clients.
        assert_eq!((again.first.is_none(), again.is_due), (true, true));
        assert_eq!(again.history.appended(), zxid);
        assert!(again.state.tree().session_timeout_ms(session).is_some());
        assert_eq!(again.snapshots.next(), None);
    }

    /// Writes all requested snapshots. Returns the zxid of each.
    fn write_all(started: &mut Started<RealDisk>) -> Vec<Zxid> {
        let mut written = Vec::new();
        for steps in 0.. {
            if started.snapshots.next().is_none() {
                break;
            }
            assert!(steps < 1000, "a snapshot is not finished");
            let step = started
                .snapshots
                .step(&*started.state, 1, || 0, || ())
                .unwrap();
            written.extend(step.map(|written| written.zxid));
        }
        written
    }

    #[test]
    fn only_an_established_tree_is_in_snapshots_and_due_ones_wait() {
        let dir = tempfile::tempdir().unwrap();
        let mut started = start(dir.path());
        let due = started.snapshots.due().clone();
        assert!(due.lock().begin(0));
        started.snapshots.request_snapshot(SnapshotReason::Due);
        started.snapshots.request_snapshot(SnapshotReason::Operator);
        assert!(write_all(&mut started).is_empty());
        started.state.establish();
        assert!(due.lock().resume(0), "it was deferred");
        started.snapshots.request_snapshot(SnapshotReason::Due);
        started.snapshots.request_snapshot(SnapshotReason::Operator);
        assert_eq!(write_all(&mut started), [Zxid::ZERO, Zxid::ZERO]);
        // A snapshot that was begun is discarded, and begins again once the tree is established.
        assert!(due.lock().begin(0));
        started.snapshots.request_snapshot(SnapshotReason::Due);
        let step = |started: &mut Started<RealDisk>| {
            let step = started.snapshots.step(&*started.state, 1, || 0, || ());
            step.unwrap().map(|written| written.zxid)
        };
        assert_eq!(step(&mut started), None);
        assert!(started.snapshots.writing().is_some());
        started.state.begin_unestablished();
        assert!(write_all(&mut started).is_empty());
        // The tree may be established before a snapshot is deferred.
        assert!(due.lock().resume(0));
        started.snapshots.request_snapshot(SnapshotReason::Due);
        assert_eq!(step(&mut started), None);
        assert!(due.lock().resume(0));
        started.snapshots.request_snapshot(SnapshotReason::Due);
        started.state.establish();
        assert_eq!(write_all(&mut started), [Zxid::ZERO]);
    }

    /// If the snapshot got its name earlier, a power failure could leave a log with a gap.
    #[test]
    fn a_snapshot_gets_its_name_after_everything_in_it_is_in_the_log() {
        let dir = tempfile::tempdir().unwrap();
        let mut started = start(dir.path());
        let named = |zxid: u64| {
            dir.path()
                .join(format!("version-2/snapshot.{zxid:x}"))
                .exists()
        };
        started.state.establish();
        let apply = |started: &mut Started<RealDisk>, zxid| {
            let mut tree = started.state.tree_mut();
            tree.apply(
                &record(SessionId(7), zxid),
                &mut Watches::new(),
                &mut Vec::new(),
            );
        };
        let until_whole = |started: &mut Started<RealDisk>| {
            while !started.snapshots.waits_for_log() {
                let step = started.snapshots.step(&*started.state, 1, || 0, || ());
                assert!(step.unwrap().is_none());
            }
        };
        // Other members form a quorum, so the transaction is applied before it is on this disk.
        apply(&mut started, Zxid(1));
        started.snapshots.request_snapshot(SnapshotReason::Operator);
        until_whole(&mut started);
        append(&mut started.history, SessionId(7), Zxid(1));
        // The transaction is still not on disk.
        let step = started.snapshots.step(&*started.state, 1, || 0, || ());
        assert!(step.unwrap().is_none() && started.snapshots.waits_for_log() && !named(1));
        started.history.commit().unwrap();
        assert_eq!(write_all(&mut started), [Zxid(1)]);
        assert!(named(1));
        // A new leader's tree has the begin of its epoch, which the log never contains.
        let begin = Zxid::new(Epoch(1), 0);
        started.state.tree_mut().begin_epoch(begin);
        started.snapshots.request_snapshot(SnapshotReason::Operator);
        assert_eq!(write_all(&mut started), [begin]);
        // A snapshot that waits for the log is abandoned when the server's role ends.
        apply(&mut started, begin.next());
        started.snapshots.request_snapshot(SnapshotReason::Operator);
        until_whole(&mut started);
        started.state.begin_unestablished();
        assert!(write_all(&mut started).is_empty());
        assert!(!named(0x1_0000_0001) && started.snapshots.writing().is_none());
    }
}
