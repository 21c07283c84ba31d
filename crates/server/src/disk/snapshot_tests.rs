//! Snapshots and those who ask for them.

use std::path::Path;

use replica::State as _;
use storage::DataDirs;

use super::*;
use crate::assemble::server::{Server, test_server};

/// A further snapshot thread's, of this server.
fn snapshotter(server: &Server, dir: &Path) -> (Snapshotter, SnapshotRequests, SnapshotEnd) {
    let place = (
        Arc::new(SwitchedDisk::default()),
        DataDirs::unlocked(dir, dir),
    );
    let settings = snapshot_settings(&server.clients.settings.config.storage);
    Snapshotter::new(
        SnapshotParts {
            state: server.clients.state.clone(),
            metrics: server.clients.metrics.clone(),
            work: SnapshotWork::new(place, settings, Arc::default()),
        },
        Failure::default(),
        Arc::new(|_| {}),
    )
}

fn of(server: &Server, attempt: u64) -> Synchronised {
    let generation = server.clients.state.generation();
    Synchronised {
        attempt,
        generation,
    }
}

/// The tree is loaded from disk again when a role ends before its leader's history is there:
/// were that written nevertheless, memory and disk would hold two histories.
#[tokio::test]
async fn a_snapshot_of_a_role_that_is_over_is_not_written_and_removes_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let server = test_server(dir.path()).await;
    let version = dir.path().join("version-2");
    let own = version.join("snapshot.7");
    std::fs::write(&own, "x").unwrap();
    let (mut snapshotter, requests, _end) = snapshotter(&server, dir.path());
    requests.request_for_core(of(&server, 1));
    server.clients.state.give_up_snapshots();
    requests.request_for_core(of(&server, 2));
    let stale = snapshotter.requests.try_recv().unwrap();
    let Reason::Synchronised(stale) = stale else {
        panic!("a snapshot that is due")
    };
    std::fs::remove_file(version.join("snapshot.0")).unwrap();
    assert!(
        snapshotter
            .write(Wanted::Synchronised(stale))
            .unwrap()
            .is_none()
    );
    assert!(own.exists() && !version.join("snapshot.0").exists());
    // The next one is of the tree that there is.
    drop(requests);
    snapshotter.run();
    assert!(!own.exists() && version.join("snapshot.0").exists());
    server.stop().await;
}

/// Two roles have ended while one snapshot was written: the queue is full of what they asked for.
#[tokio::test]
async fn a_request_that_finds_no_room_keeps_none_away_that_come_later() {
    let dir = tempfile::tempdir().unwrap();
    let server = test_server(dir.path()).await;
    let (snapshotter, requests, _end) = snapshotter(&server, dir.path());
    requests.request_for_core(of(&server, 1));
    requests.request_for_core(of(&server, 2));
    requests.request();
    assert_eq!(snapshotter.requests.try_iter().count(), 2);
    requests.request();
    assert!(matches!(snapshotter.requests.try_recv(), Ok(Reason::Due)));
    // It is not begun a second time before it is written.
    requests.request();
    assert!(snapshotter.requests.is_empty());
    drop(snapshotter);
    server.stop().await;
}

/// What a leader's tree is taken over with is never put off.
#[tokio::test]
async fn while_snapshots_rest_the_core_gets_its_own_and_later_a_due_one_begins() {
    let dir = tempfile::tempdir().unwrap();
    let server = test_server(dir.path()).await;
    let (snapshotter, requests, _end) = snapshotter(&server, dir.path());
    let (hour_ms, now_ms) = (3_600_000, clock::session_ms());
    requests.due.lock().note_written(now_ms, now_ms + hour_ms);
    requests.request();
    assert!(snapshotter.requests.is_empty());
    requests.request_for_core(of(&server, 1));
    let asked = snapshotter.requests.try_recv();
    assert!(matches!(asked, Ok(Reason::Synchronised(of)) if of.attempt == 1));
    requests.due.lock().note_written(now_ms, now_ms);
    requests.request();
    assert!(matches!(snapshotter.requests.try_recv(), Ok(Reason::Due)));
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
        // Someone can still ask: the thread does not end by itself.
        let mut take = || snapshotter.write(Wanted::Asked).unwrap();
        let first = take().map(|written| written.zxid);
        while !abandoned.load(Ordering::Acquire) {
            std::thread::yield_now();
        }
        (first, take().map(|written| written.zxid))
    });
    tokio::task::spawn_blocking(move || end.wait(Duration::from_millis(50)))
        .await
        .unwrap();
    drop(requests);
    assert_eq!(thread.join().unwrap(), (Some(Zxid::ZERO), None));
    assert_eq!(files(), ["snapshot.0"]);
    server.stop().await;
}
