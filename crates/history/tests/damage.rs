//! Corrupted files lead to a clear error or to equal answers; never to a panic or a different
//! answer.

#![allow(clippy::unwrap_used, reason = "helpers of tests fail by panicking")]

use std::fs;
use std::path::{Path, PathBuf};

use proto::txn::{CreateTxn, Txn, TxnHeader, TxnRecord};
use proto::{Acl, SessionId, StatPersisted, Zxid};
use zoarium_history::{
    Baseline, HistoryError, HistoryQuery, Index, IndexSettings, Moment, Origin, Shape, SnapshotAt,
    Viewer, set_aside,
};

fn settings(dir: &Path) -> IndexSettings {
    IndexSettings {
        shape: Shape {
            block_changes: 8,
            run_blocks: 4,
            runs_merged: 3,
            segment_bytes: 4 << 10,
        },
        ..IndexSettings::new(dir)
    }
}

fn create_txn(zxid: i64) -> TxnRecord {
    let txn = Txn::Create(CreateTxn {
        path: format!("/node-{zxid}").into(),
        data: Some(vec![u8::try_from(zxid % 251).unwrap(); 300].into()),
        acl: vec![Acl::open()],
        ephemeral: zxid % 9 == 0,
        parent_cversion: 1,
    });
    let header = TxnHeader {
        session: SessionId(7),
        cxid: 1,
        zxid: Zxid(zxid),
        time_ms: 1_700_000_000_000 + zxid,
        op: txn.op().number(),
    };
    TxnRecord {
        header,
        txn,
        digest: None,
    }
}

fn make(dir: &Path, count: i64) -> Index {
    let mut baseline = Baseline::new(&settings(dir)).unwrap();
    baseline
        .znode("/", None, -1, &StatPersisted::default())
        .unwrap();
    let at = SnapshotAt {
        zxid: Zxid(0),
        covers: None,
    };
    let mut index = Index::create(settings(dir), baseline, at).unwrap();
    for zxid in 1..=count {
        index.append(&create_txn(zxid), &Origin::default()).unwrap();
    }
    while index.step(0).unwrap() == zoarium_history::MaintenanceStep::Worked {}
    index.checkpoint().unwrap();
    index
}

/// Returns all answers of a history.
fn everything(settings: IndexSettings) -> Result<(Zxid, String), HistoryError> {
    let index = Index::open(settings)?;
    let reader = index.reader();
    let owner = Viewer::FileOwner {
        shows_secrets: true,
    };
    let mut query = HistoryQuery::of("/");
    query.recursive = true;
    let changes = reader.history(&query, &owner)?;
    let moment = Moment::Zxid(index.head());
    let tree = reader.tree_at("/", moment, None, 1000, &owner)?;
    let text = format!("{:?} {:?}", changes.results, tree.results);
    Ok((index.head(), text))
}

fn files(dir: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(dir).unwrap().flatten() {
        let path = entry.path();
        if path.is_dir() {
            found.extend(files(&path));
        } else if entry.metadata().unwrap().len() > 0 {
            found.push(path);
        }
    }
    found.sort();
    found
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap().flatten() {
        let target = to.join(entry.file_name());
        if entry.path().is_dir() {
            copy(&entry.path(), &target);
        } else {
            fs::copy(entry.path(), target).unwrap();
        }
    }
}

#[test]
fn corruption_anywhere_is_detected_or_harmless() {
    let dir = tempfile::tempdir().unwrap();
    let good = dir.path().join("good");
    let mut index = make(&good, 150);
    // A checkpoint in the middle of a block, and one after it.
    for zxid in 151..=180 {
        index.append(&create_txn(zxid), &Origin::default()).unwrap();
        index.checkpoint().unwrap();
    }
    drop(index);
    let wanted = everything(settings(&good)).unwrap();
    let names = files(&good);
    let mut random = fastrand::Rng::with_seed(4);
    let (mut told, mut same) = (0, 0);
    for _ in 0..80 {
        let bad = dir.path().join("bad");
        let _ = fs::remove_dir_all(&bad);
        copy(&good, &bad);
        let name = &names[random.usize(..names.len())];
        let path = bad.join(name.strip_prefix(&good).unwrap());
        let mut bytes = fs::read(&path).unwrap();
        let at = random.usize(..bytes.len());
        match random.u32(..4) {
            0 => bytes.truncate(at),
            1 => {
                let end = bytes.len().min(at + 512);
                bytes[at..end].fill(0);
            }
            _ => bytes[at] ^= 1 << random.u32(..8),
        }
        fs::write(&path, bytes).unwrap();
        match everything(settings(&bad)) {
            // Rows of an earlier checkpoint: the log contains the later transactions.
            Ok((head, _)) if head < wanted.0 => told += 1,
            Ok(found) => {
                assert_eq!(found, wanted, "{}", path.display());
                same += 1;
            }
            Err(HistoryError::Missing { .. } | HistoryError::Io { .. }) => told += 1,
            Err(error) => {
                assert!(error.is_unusable(), "{error}");
                told += 1;
            }
        }
    }
    assert!(told > 10 && same > 10, "{told} told, {same} same");
}

#[test]
fn an_unusable_history_is_moved_aside_and_rebuilt() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("history");
    drop(make(&path, 60));
    let wanted = everything(settings(&path)).unwrap();
    let run = files(&path).into_iter().find(|file| {
        file.file_name()
            .unwrap()
            .to_string_lossy()
            .starts_with("run.")
    });
    fs::write(run.unwrap(), b"rubbish that is no run").unwrap();
    let error = everything(settings(&path)).unwrap_err();
    assert!(error.is_unusable(), "{error}");
    let aside = set_aside(&path).unwrap();
    assert!(aside.is_dir() && !path.exists());
    drop(make(&path, 60));
    assert_eq!(everything(settings(&path)).unwrap(), wanted);
    // A second time, which replaces the earlier history.
    set_aside(&path).unwrap();
}

#[test]
fn another_version_and_other_patterns_are_reported() {
    let dir = tempfile::tempdir().unwrap();
    drop(make(dir.path(), 5));
    let filter = zoarium_history::PathFilter::new(vec!["/a".to_owned()], Vec::new()).unwrap();
    let other = IndexSettings {
        filter,
        ..settings(dir.path())
    };
    let error = everything(other).unwrap_err();
    assert!(
        matches!(error, HistoryError::OtherPatterns { .. }),
        "{error}"
    );
    let missing = everything(settings(&dir.path().join("nothing"))).unwrap_err();
    assert!(matches!(missing, HistoryError::Missing { .. }));
}

#[test]
fn a_history_can_be_open_only_once() {
    let dir = tempfile::tempdir().unwrap();
    let index = make(dir.path(), 5);
    assert!(Index::open(settings(dir.path())).is_err());
    drop(index);
    assert!(Index::open(settings(dir.path())).is_ok());
}

#[test]
fn transactions_out_of_turn_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let mut index = make(dir.path(), 5);
    let again = index.append(&create_txn(5), &Origin::default());
    assert!(matches!(again, Err(HistoryError::OutOfTurn { .. })));
    assert!(index.is_head(&create_txn(5).header));
    let mut other = create_txn(5).header;
    other.time_ms += 1;
    assert!(!index.is_head(&other));
}
