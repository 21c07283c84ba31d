//! Pages that end within a transaction whose changes are in several blocks.

#![allow(clippy::unwrap_used, reason = "helpers of tests fail by panicking")]

use std::path::Path;

use proto::txn::{CreateTxn, Txn, TxnHeader, TxnRecord};
use proto::{Acl, SessionId, StatPersisted, Zxid};
use zoarium_history::record::{Change, ExportedChange};
use zoarium_history::{
    Baseline, ClientPatience, CostLimit, HistoryQuery, Index, IndexSettings, Origin, Position,
    Shape, SnapshotAt, Viewer,
};

const OWNER: Viewer<'static> = Viewer::FileOwner {
    shows_secrets: true,
};

/// Creates a history with three transactions that create this number of znodes each, and one change
/// per block.
fn history(dir: &Path, count: usize) -> Index {
    let settings = IndexSettings {
        shape: Shape {
            block_changes: 1,
            ..Shape::default()
        },
        ..IndexSettings::new(dir)
    };
    let mut baseline = Baseline::new(&settings).unwrap();
    let stat = StatPersisted::default();
    baseline.znode("/", None, -1, &stat).unwrap();
    let at = SnapshotAt {
        zxid: Zxid(0),
        covers: None,
    };
    let mut index = Index::create(settings, baseline, at).unwrap();
    for zxid in 1..=3 {
        let create = |number: usize| {
            Txn::Create(CreateTxn {
                path: format!("/{zxid}-{number:04}").into(),
                data: None,
                acl: vec![Acl::open()],
                ephemeral: false,
                parent_cversion: 1,
            })
        };
        let txn = Txn::Multi((0..count).map(create).collect());
        let header = TxnHeader {
            session: SessionId(7),
            cxid: 1,
            zxid: Zxid(zxid),
            time_ms: zxid,
            op: txn.op().number(),
        };
        let record = TxnRecord {
            header,
            txn,
            digest: None,
        };
        index.append(&record, &Origin::default()).unwrap();
    }
    index.publish().unwrap();
    index
}

fn positions(results: Vec<ExportedChange>) -> impl Iterator<Item = Position> {
    let changes = results.into_iter().filter_map(|result| result.change);
    changes.map(|change: Change| change.position())
}

fn all(count: u32) -> Vec<Position> {
    let position = |zxid, index| Position {
        zxid: Zxid(zxid),
        index,
    };
    let zxids = 1..=3;
    zxids
        .flat_map(|zxid| (0..count).map(move |index| position(zxid, index)))
        .collect()
}

#[test]
fn pages_of_a_query_continue_within_a_transaction() {
    let dir = tempfile::tempdir().unwrap();
    let index = history(dir.path(), 4);
    // The time of each page is over when it begins.
    let reader = index.reader();
    let reader = reader.within(CostLimit::new(|| ClientPatience::Spent));
    for newest_first in [false, true] {
        let mut query = HistoryQuery::of("/");
        (query.recursive, query.newest_first) = (true, newest_first);
        let mut wanted = all(4);
        if newest_first {
            wanted.reverse();
        }
        let (mut found, mut pages) = (Vec::new(), 0);
        loop {
            let page = reader.history(&query, &OWNER).unwrap();
            found.extend(positions(page.results));
            pages += 1;
            assert!(pages < 30, "the pages do not end: {:?}", page.next);
            match page.next {
                Some(next) => query.after = Some(next),
                None => break,
            }
        }
        assert_eq!(found, wanted, "newest first: {newest_first}");
    }
}

/// A page of a feed reads a limited number of blocks.
#[test]
fn a_feed_continues_within_a_large_transaction() {
    let dir = tempfile::tempdir().unwrap();
    let index = history(dir.path(), 200);
    let mut query = HistoryQuery::of("/");
    query.recursive = true;
    let (mut found, mut after) = (Vec::new(), Position::after(Zxid(0)));
    while after < Position::after(Zxid(3)) {
        let page = index.reader().feed(&query, after, &OWNER).unwrap();
        assert!(page.position > after, "the feed does not pass {after}");
        found.extend(positions(page.results));
        after = page.position;
    }
    assert_eq!(found, all(200));
}
