//! Test that a survey has the result of a recovery and changes nothing.

use std::path::Path;
use std::sync::Arc;

use proto::txn::{CreateTtlTxn, CreateTxn, Txn};
use proto::{Acl, Epoch, Zxid};
use storage::{DataDirs, ReadOnly, RealDisk, RecoverySettings};
use testkit::LIMITS;
use tree::TreeSettings;
use zoarium_datadir::survey;

use crate::support::{self, recovered};

/// Creates a data directory with an empty snapshot and a log with these transactions.
fn directory(dir: &Path, txns: impl IntoIterator<Item = Txn>) -> DataDirs {
    let dirs = support::directory(dir);
    support::write_log(&dirs, Zxid(1), txns, |_| 1);
    dirs
}

fn create(number: i32) -> Txn {
    Txn::Create(CreateTxn {
        path: format!("/n{number}").into(),
        data: Some(vec![7; 10].into()),
        acl: vec![Acl::open()],
        ephemeral: false,
        parent_cversion: number,
    })
}

#[test]
fn a_survey_equals_a_recovery_with_and_without_a_tree() {
    let dir = tempfile::tempdir().unwrap();
    let dirs = directory(dir.path(), [create(1), create(2)]);
    let empty = dirs.log.join("log.7");
    std::fs::write(&empty, "").unwrap();
    let settings = Arc::new(TreeSettings::new(LIMITS));
    let recovery = RecoverySettings::new(LIMITS);
    for makes_tree in [true, false] {
        let found = survey(
            &ReadOnly(RealDisk),
            &dirs,
            &recovery,
            settings.clone(),
            makes_tree,
        );
        let found = found.unwrap();
        assert_eq!(found.recovered.last_zxid, Zxid(2));
        assert_eq!(found.newest_ms, Some(1));
        assert_eq!(found.digest_mismatches, makes_tree.then_some(0));
        assert_eq!(found.unrecognised_ttls, 0);
        assert_eq!(found.epochs.unwrap(), (Epoch(0), Epoch(0)));
    }
    // A start removes this file. The epoch files were not written either.
    assert!(empty.exists());
    assert!(!dirs.snap.join("currentEpoch").exists());
    assert_eq!(recovered(dir.path()).unwrap().last_zxid, Zxid(2));
    assert!(!empty.exists());
}

#[test]
fn unknown_ttl_znodes_are_counted_with_and_without_a_tree() {
    let dir = tempfile::tempdir().unwrap();
    let ttl = Txn::CreateTtl(CreateTtlTxn {
        path: "/ttl".into(),
        data: None,
        acl: vec![Acl::open()],
        parent_cversion: 1,
        ttl: 60_000,
    });
    let dirs = directory(dir.path(), [ttl]);
    let off = Arc::new(TreeSettings::new(LIMITS));
    let on = Arc::new(TreeSettings {
        extended_types: true,
        ..TreeSettings::new(LIMITS)
    });
    let recovery = RecoverySettings::new(LIMITS);
    for makes_tree in [true, false] {
        let count = |settings: &Arc<TreeSettings>| {
            let disk = ReadOnly(RealDisk);
            let found = survey(&disk, &dirs, &recovery, settings.clone(), makes_tree);
            found.unwrap().unrecognised_ttls
        };
        assert_eq!((count(&off), count(&on)), (1, 0), "{makes_tree}");
    }
}
