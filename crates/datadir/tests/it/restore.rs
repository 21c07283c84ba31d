//! Tests of the moment at which a restore ends if the log has gaps or is corrupt.

use std::fs;
use std::path::Path;

use history::Moment;
use proto::Zxid;
use proto::txn::Txn;
use storage::{DataDirs, RealDisk, list_logs, read_txns_from};
use testkit::LIMITS;
use zoarium_datadir::{ReadSettings, RestoreRequest, Source, restore};

use crate::support::{directory, write_log};

/// Returns the time of a transaction in these tests.
fn time_of(zxid: Zxid) -> i64 {
    zxid.0 * 10
}

fn write(dirs: &DataDirs, zxids: std::ops::RangeInclusive<i64>) {
    let first = Zxid(*zxids.start());
    let txns = zxids.map(|_| Txn::CreateSession { timeout_ms: 1 });
    write_log(dirs, first, txns, time_of);
}

/// Returns the last transaction of the restored directory, or the error.
fn restored(dirs: &DataDirs, at: Moment) -> Result<i64, String> {
    let to = tempfile::tempdir().unwrap();
    let request = RestoreRequest {
        source: Source::Files {
            dirs: dirs.clone(),
            at,
        },
        to: to.path().join("restored"),
        to_log: None,
        settings: ReadSettings {
            limits: LIMITS,
            on_skipped: |error| panic!("{error}"),
        },
    };
    restore(&request)
        .map(|restored| restored.zxid.0)
        .map_err(|error| error.to_string())
}

/// A learner that received its leader's snapshot has such a gap.
#[test]
fn a_moment_in_a_gap_of_the_log_is_refused_and_a_later_moment_is_not() {
    let dir = tempfile::tempdir().unwrap();
    let dirs = directory(dir.path());
    write(&dirs, 1..=3);
    let received = dirs.snap.join("snapshot.a");
    fs::copy(dirs.snap.join("snapshot.0"), received).unwrap();
    let unknown = "the log does not contain the transactions between 0x3 and 0xa, so the state at the moment of --at is unknown; use --at 0x3 for an earlier state, or --at 0xa for a later state";
    // The log ends before the snapshot.
    assert_eq!(restored(&dirs, Moment::Time(500)).unwrap_err(), unknown);
    write(&dirs, 0xb..=0xd);
    for (time, zxid) in [(10, 1), (29, 2), (110, 0xb), (125, 0xc), (500, 0xd)] {
        assert_eq!(restored(&dirs, Moment::Time(time)), Ok(zxid));
    }
    for time in [30, 109] {
        assert_eq!(restored(&dirs, Moment::Time(time)).unwrap_err(), unknown);
    }
    for zxid in [3, 0xa, 0xb, 0xd] {
        assert_eq!(restored(&dirs, Moment::Zxid(Zxid(zxid))), Ok(zxid));
    }
    let missing = restored(&dirs, Moment::Zxid(Zxid(5))).unwrap_err();
    assert_eq!(missing, unknown);
    let early = restored(&dirs, Moment::Time(9)).unwrap_err();
    assert!(early.contains("is newer than the moment"), "{early}");
}

fn corrupt(dirs: &DataDirs, zxid: Zxid) {
    let mut txns = read_txns_from(&RealDisk, dirs, zxid, LIMITS).unwrap();
    let offset = txns.next().unwrap().unwrap().offset;
    let path: &Path = &list_logs(&RealDisk, &dirs.log).unwrap()[0].path;
    let mut bytes = fs::read(path).unwrap();
    bytes[usize::try_from(offset).unwrap() + 20] ^= 1;
    fs::write(path, bytes).unwrap();
}

#[test]
fn corruption_matters_only_if_it_may_hide_transactions_up_to_the_moment() {
    let dir = tempfile::tempdir().unwrap();
    let dirs = directory(dir.path());
    write(&dirs, 1..=6);
    corrupt(&dirs, Zxid(4));
    assert_eq!(restored(&dirs, Moment::Time(25)), Ok(2));
    for zxid in [2, 3] {
        assert_eq!(restored(&dirs, Moment::Zxid(Zxid(zxid))), Ok(zxid));
    }
    for at in [Moment::Time(30), Moment::Time(500), Moment::Zxid(Zxid(5))] {
        let error = restored(&dirs, at).unwrap_err();
        assert!(error.contains("is damaged at offset"), "{error}");
    }
}
