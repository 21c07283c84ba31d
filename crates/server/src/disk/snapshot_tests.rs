//! Tests of snapshots and of requests for them.

use std::path::Path;
use std::sync::mpsc;

use recovery::LogEnd;
use replica::{Input, State as _};
use storage::{DataDirs, RealDisk};

use super::*;
use crate::assemble::server::{Server, test_server};

const PATIENCE: Duration = Duration::from_secs(30);

/// Returns a second snapshot thread for this server.
fn snapshotter(
    server: &Server,
    dir: &Path,
) -> (Snapshotter<RealDisk>, SnapshotRequests, SnapshotEnd) {
    snapshotter_for(server, dir, Arc::new(|_| {}))
}

fn snapshotter_for(
    server: &Server,
    dir: &Path,
    core: InputSink,
) -> (Snapshotter<RealDisk>, SnapshotRequests, SnapshotEnd) {
    let (disk, dirs) = (Arc::new(RealDisk), DataDirs::unlocked(dir, dir));
    let settings = snapshot_settings(&server.frontend.view.config().storage);
    let log = Arc::new(LogEnd::new(
        server.frontend.view.server_state().tree().last_zxid(),
    ));
    Snapshotter::new(
        SnapshotParts {
            state: server.frontend.view.server_state().clone(),
            metrics: server.metrics.clone(),
            work: SnapshotWork::new(disk, dirs, settings, log, Arc::default()),
        },
        Failure::default(),
        core,
    )
}

fn of(server: &Server, attempt: u64) -> Synchronised {
    let generation = server.frontend.view.server_state().generation();
    Synchronised {
        attempt,
        generation,
    }
}

/// If a role ends before its leader's log is complete, the tree is loaded from disk again. If the
/// snapshot of that role were written nevertheless, memory and disk would contain two different
/// logs.
#[tokio::test]
async fn a_snapshot_of_a_role_that_is_over_is_not_written_and_removes_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let server = test_server(dir.path()).await;
    let version = dir.path().join("version-2");
    let own = version.join("snapshot.7");
    std::fs::write(&own, "x").unwrap();
    let (mut snapshotter, requests, _end) = snapshotter(&server, dir.path());
    let stale = of(&server, 1);
    server.frontend.view.server_state().begin_unestablished();
    requests.request_for_core(of(&server, 2));
    std::fs::remove_file(version.join("snapshot.0")).unwrap();
    assert!(
        snapshotter
            .write(SnapshotReason::Synchronised(stale))
            .unwrap()
            .is_none()
    );
    assert!(own.exists() && !version.join("snapshot.0").exists());
    // The next snapshot contains the current tree.
    drop(requests);
    snapshotter.run();
    assert!(!own.exists() && version.join("snapshot.0").exists());
    server.stop().await;
}

/// Locks the snapshot files on another thread until the returned function is called.
fn lock_files(requests: &SnapshotRequests) -> impl FnOnce() {
    let requests = requests.clone();
    let (held, is_held) = mpsc::channel();
    let (release, released) = mpsc::channel::<()>();
    let holder = std::thread::spawn(move || {
        let _files = requests.lock_files();
        held.send(()).unwrap();
        assert!(released.recv().is_err());
    });
    is_held.recv_timeout(PATIENCE).unwrap();
    move || {
        drop(release);
        holder.join().unwrap();
    }
}

/// The log thread requests a snapshot while it holds its file, so a request must never wait. In
/// this test, two operators wait for a snapshot that cannot finish, and two roles end meanwhile.
#[tokio::test(flavor = "multi_thread")]
async fn no_request_of_the_core_waits_for_a_snapshot_that_takes_long() {
    let dir = tempfile::tempdir().unwrap();
    let server = test_server(dir.path()).await;
    let (sender, inputs) = mpsc::channel();
    let core: InputSink = Arc::new(move |input| sender.send(input).unwrap());
    let (snapshotter, requests, _end) = snapshotter_for(&server, dir.path(), core);
    let holder = lock_files(&requests);
    let operators = [(); 2].map(|()| {
        let requests = requests.clone();
        tokio::spawn(async move { requests.take().await.map(|taken| taken.zxid) })
    });
    let waiting_operators = |requests: &SnapshotRequests| {
        let waiting = requests
            .requests
            .0
            .try_take(|pending| Some(pending.operators.len()));
        waiting.unwrap()
    };
    while waiting_operators(&requests) < 2 {
        tokio::task::yield_now().await;
    }
    let thread = std::thread::spawn(move || snapshotter.run());
    while waiting_operators(&requests) > 1 {
        tokio::task::yield_now().await;
    }
    let (returned, returns) = mpsc::channel();
    let (attempts, log_thread) = (
        [1, 2, 3].map(|attempt| of(&server, attempt)),
        requests.clone(),
    );
    std::thread::spawn(move || {
        for of in attempts {
            log_thread.request_for_core(of);
        }
        log_thread.request();
        returned.send(()).unwrap();
    });
    returns.recv_timeout(PATIENCE).expect("no request waits");
    holder();
    for operator in operators {
        assert_eq!(operator.await.unwrap(), Ok(Zxid::ZERO));
    }
    drop(requests);
    thread.join().unwrap();
    let received: Vec<_> = inputs.try_iter().collect();
    assert!(
        matches!(received[..], [Input::SnapshotWritten { attempt: 3, .. }]),
        "{received:?}"
    );
    server.stop().await;
}

/// Transactions that a learner applies before UPTODATE may be truncated later, so operators do not
/// receive them. A due snapshot is written later.
#[tokio::test]
async fn an_operator_gets_no_snapshot_of_an_unestablished_tree() {
    let dir = tempfile::tempdir().unwrap();
    let server = test_server(dir.path()).await;
    let snapshot = dir.path().join("version-2/snapshot.0");
    std::fs::remove_file(&snapshot).unwrap();
    let (mut snapshotter, requests, _end) = snapshotter(&server, dir.path());
    assert!(
        server
            .frontend
            .view
            .server_state()
            .generation()
            .is_established()
    );
    server.frontend.view.server_state().begin_unestablished();
    let refused = snapshotter.take_for_operator().unwrap_err();
    assert!(refused.contains("not in a quorum"), "{refused}");
    requests.request();
    let due = snapshotter.requests.try_take(PendingRequests::take);
    assert!(matches!(due, Some(RequestReason::Due)));
    assert!(snapshotter.write(SnapshotReason::Due).unwrap().is_none());
    assert!(!snapshot.exists());
    server.frontend.view.server_state().establish();
    requests.resume();
    let due = snapshotter.requests.try_take(PendingRequests::take);
    assert!(matches!(due, Some(RequestReason::Due)));
    assert!(snapshotter.write(SnapshotReason::Due).unwrap().is_some());
    assert!(snapshotter.take_for_operator().is_ok() && snapshot.exists());
    drop(snapshotter);
    server.stop().await;
}

/// A due snapshot that is requested twice begins once, even after requests of the core.
#[tokio::test]
async fn requests_of_the_core_leave_a_due_one_its_slot() {
    let dir = tempfile::tempdir().unwrap();
    let server = test_server(dir.path()).await;
    let (snapshotter, requests, _end) = snapshotter(&server, dir.path());
    let next = || snapshotter.requests.try_take(PendingRequests::take);
    requests.request();
    requests.request();
    requests.request_for_core(of(&server, 1));
    requests.request_for_core(of(&server, 2));
    let first = next();
    assert!(matches!(first, Some(RequestReason::Synchronised(of)) if of.attempt == 2));
    assert!(matches!(next(), Some(RequestReason::Due)));
    assert!(next().is_none());
    drop(snapshotter);
    assert!(
        requests.take().await.is_err(),
        "the snapshot thread has ended"
    );
    server.stop().await;
}

/// The snapshot that establishes a leader's tree is never delayed.
#[tokio::test]
async fn while_snapshots_rest_the_core_gets_its_own_and_later_a_due_one_begins() {
    let dir = tempfile::tempdir().unwrap();
    let server = test_server(dir.path()).await;
    let (snapshotter, requests, _end) = snapshotter(&server, dir.path());
    let (hour_ms, now_ms) = (3_600_000, clock::session_ms());
    requests.due.lock().note_written(now_ms, now_ms + hour_ms);
    requests.request();
    assert!(snapshotter.has_no_pending_request());
    requests.request_for_core(of(&server, 1));
    let next = snapshotter.requests.try_take(PendingRequests::take);
    assert!(matches!(next, Some(RequestReason::Synchronised(of)) if of.attempt == 1));
    requests.due.lock().note_written(now_ms, now_ms);
    requests.request();
    let due = snapshotter.requests.try_take(PendingRequests::take);
    assert!(matches!(due, Some(RequestReason::Due)));
    drop(snapshotter);
    server.stop().await;
}

#[tokio::test]
async fn a_snapshot_under_way_does_not_outlast_its_grace() {
    let dir = tempfile::tempdir().unwrap();
    let server = test_server(dir.path()).await;
    let files = || {
        let entries = std::fs::read_dir(dir.path().join("version-2")).unwrap();
        entries
            .map(|entry| entry.unwrap().file_name())
            .collect::<Vec<_>>()
    };
    assert_eq!(files(), ["snapshot.0"]);
    std::fs::remove_file(dir.path().join("version-2/snapshot.0")).unwrap();
    let (mut snapshotter, requests, end) = snapshotter(&server, dir.path());
    let abandoned = end.abandoned.clone();
    let thread = std::thread::spawn(move || {
        // Requests are still possible, because the thread does not end by itself.
        let mut take = || snapshotter.write(SnapshotReason::Operator).unwrap();
        let first = take().map(|written| written.zxid);
        while !abandoned.load(Ordering::Acquire) {
            std::thread::yield_now();
        }
        (first, take().map(|written| written.zxid))
    });
    blocking::run(move || end.wait(Duration::from_millis(50)))
        .await
        .unwrap();
    drop(requests);
    assert_eq!(thread.join().unwrap(), (Some(Zxid::ZERO), None));
    assert_eq!(files(), ["snapshot.0"]);
    server.stop().await;
}
