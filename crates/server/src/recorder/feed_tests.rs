//! The queue between the core and the history thread, under random schedules.

use std::sync::Arc;

use crossbeam_channel::{TryRecvError, bounded};
use proto::SessionId;
use proto::txn::{SetDataTxn, TxnHeader};
use testkit::interleavings::{check, check_fails, thread};

use super::*;

const TXNS: i64 = 6;

/// Size of each transaction. Two of them fit into the queue.
const TXN_BYTES: usize = limits::HISTORY_QUEUE_BYTES / 5 * 2;

/// An error of the history thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fault {
    /// The thread releases the bytes of a group twice.
    ReleasesTwice,
    /// The thread does not release the bytes of a group.
    ReleasesNothing,
}

fn record(zxid: i64, data: &Bytes) -> TxnRecord {
    let txn = Txn::SetData(SetDataTxn {
        path: "/a".into(),
        data: Some(data.clone()),
        version: 1,
    });
    TxnRecord {
        header: TxnHeader {
            session: SessionId(5),
            cxid: 1,
            zxid: Zxid(zxid),
            time_ms: 9,
            op: txn.op().number(),
        },
        txn,
        digest: None,
    }
}

/// The core applies transactions. Those that do not fit into the queue are omitted.
fn apply(mut feed: Feed, data: &Bytes) {
    for zxid in 1..=TXNS {
        feed.applied(&record(zxid, data), None);
        feed.released();
        let queued = feed.progress.queued.load(Ordering::Relaxed);
        assert!(queued <= limits::HISTORY_QUEUE_BYTES, "{queued} bytes wait");
    }
}

fn history(data: &Bytes, fault: Option<Fault>) {
    let progress = Arc::<Progress>::default();
    let (queue, groups) = bounded(limits::HISTORY_GROUPS_MAX);
    let feed = Feed::new(progress.clone(), queue);
    let core = {
        let data = data.clone();
        thread::spawn(move || apply(feed, &data))
    };
    let mut received = Vec::new();
    loop {
        match groups.try_recv() {
            Err(TryRecvError::Empty) => thread::yield_now(),
            Err(TryRecvError::Disconnected) => break,
            Ok(mut group) => {
                let committed = progress.committed();
                for (record, _) in group.txns() {
                    assert!(record.header.zxid <= committed, "not committed");
                    received.push(record.header.zxid);
                }
                if fault != Some(Fault::ReleasesNothing) {
                    progress.release_bytes(group.bytes);
                }
                if fault == Some(Fault::ReleasesTwice) {
                    progress.release_bytes(group.bytes);
                }
            }
        }
    }
    core.join().expect("the core ends");
    assert!(received.is_sorted() && received.len() >= 2, "{received:?}");
    assert_eq!(progress.committed(), Zxid(TXNS));
    assert_eq!(progress.queued.load(Ordering::Relaxed), 0);
}

#[test]
fn shuttle_finds_no_history_queue_that_is_too_long() {
    let data = Bytes::from(vec![0; TXN_BYTES]);
    check(move || history(&data, None));
}

#[test]
fn shuttle_finds_each_error_of_the_history_thread() {
    let data = Bytes::from(vec![0; TXN_BYTES]);
    for fault in [Fault::ReleasesTwice, Fault::ReleasesNothing] {
        let data = data.clone();
        check_fails(&format!("{fault:?}"), move || history(&data, Some(fault)));
    }
}
