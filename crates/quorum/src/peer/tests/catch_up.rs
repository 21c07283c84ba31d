//! Tests of pages of the log.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use jute::Encode;
use proto::leader::LeaderPacket;
use proto::txn::{SetDataTxn, Txn, TxnHeader, TxnRecord};
use proto::{OpCode, SessionId, Zxid};
use replica::{Input, LearnerEvent};
use storage::{DataDirs, LogPages, LogSettings, LogUnusable, LogWriter, RealDisk};
use zab::Record;
use zab::leader::LinkId;

use super::support::{TestMember, bytes_of, raw_learner};
use crate::limits;
use crate::peer::port::catch_up::{LogCursor, log_pages};

fn zxid(epoch: i64, counter: i64) -> Zxid {
    Zxid(epoch << 32 | counter)
}

/// Returns a transaction with about `len` bytes.
fn txn(zxid: Zxid, len: usize) -> Bytes {
    let op = OpCode::SetData;
    let txn = Txn::SetData(SetDataTxn {
        path: "/a".into(),
        data: Some(Bytes::from(vec![1; len])),
        version: 1,
    });
    let header = TxnHeader {
        session: SessionId(1),
        cxid: 0,
        zxid,
        time_ms: 0,
        op: op.number(),
    };
    let record = TxnRecord {
        header,
        txn,
        digest: None,
    };
    record.to_bytes()
}

struct Log {
    dir: tempfile::TempDir,
}

impl Log {
    /// Creates a log. Each list becomes a file.
    fn new(files: &[&[Zxid]], len: usize) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let log = Self { dir };
        log.write(files, len);
        log
    }

    fn write(&self, files: &[&[Zxid]], len: usize) {
        let version_dir = self.dir.path().join("version-2");
        std::fs::create_dir_all(version_dir).unwrap();
        write_log(&self.dirs(), files, len);
    }

    fn dirs(&self) -> DataDirs {
        DataDirs::unlocked(self.dir.path(), self.dir.path())
    }

    fn access(&self, size_factor: f64) -> Access {
        log_pages(self.dirs(), testkit::LIMITS, size_factor)
    }
}

fn write_log(dirs: &DataDirs, files: &[&[Zxid]], len: usize) {
    for zxids in files {
        let settings = LogSettings {
            prealloc_bytes: 64 << 10,
            ..LogSettings::new(testkit::LIMITS)
        };
        let mut writer = LogWriter::new(Arc::new(RealDisk), dirs, settings);
        for zxid in *zxids {
            writer.append(*zxid, &txn(*zxid, len)).unwrap();
        }
        writer.commit().unwrap();
    }
}

fn zxids(records: &[Record]) -> Vec<Zxid> {
    records.iter().map(|record| record.zxid).collect()
}

type Access = LogPages<'static, RealDisk>;

fn read_page(
    access: &Access,
    cursor: &mut Option<LogCursor>,
    from: Zxid,
    upto: Zxid,
) -> Result<Vec<Record>, LogUnusable> {
    let page = access.page(cursor, from, upto)?.into_iter();
    Ok(page.map(|(zxid, txn)| Record::new(zxid, txn)).collect())
}

fn page(access: &Access, from: Zxid, upto: Zxid) -> Result<Vec<Zxid>, String> {
    let mut cursor = None;
    let page = read_page(access, &mut cursor, from, upto);
    page.map(|records| zxids(&records))
        .map_err(|error| error.to_string())
}

#[test]
fn a_page_begins_with_the_last_record_up_to_its_start() {
    let one = [zxid(1, 1), zxid(1, 2), zxid(1, 3)];
    let two = [zxid(1, 4), zxid(1, 5)];
    let three = [zxid(3, 1), zxid(3, 2)];
    let log = Log::new(&[&one, &two, &three], 10);
    let access = log.access(0.0);
    let end = zxid(3, 2);
    let all = [&one[..], &two, &three].concat();
    for (at, from) in all.iter().enumerate() {
        assert_eq!(page(&access, *from, end).unwrap(), all[at..], "{from}");
    }
    // Only the learner has logged this transaction, so the page begins at the position before it.
    for from in [zxid(1, 9), zxid(2, 0), zxid(2, 7), zxid(3, 0)] {
        assert_eq!(page(&access, from, end).unwrap(), all[4..], "{from}");
    }
    assert_eq!(page(&access, zxid(4, 0), zxid(4, 0)).unwrap(), [end]);
    for from in [zxid(0, 7), zxid(1, 0)] {
        let error = page(&access, from, end).unwrap_err();
        assert!(error.contains("begins after"), "{error}");
    }
    let empty = Log::new(&[], 10);
    assert!(page(&empty.access(0.0), zxid(1, 1), end).is_err());
}

#[test]
fn nothing_after_the_requested_end_is_read() {
    let all = [zxid(1, 1), zxid(1, 2), zxid(1, 3), zxid(1, 4)];
    let log = Log::new(&[&all[..2], &all[2..]], 10);
    let last = log.dirs().log.join("log.100000003");
    // Bytes that a writer is currently writing may look like corruption.
    std::fs::write(last, b"ZKLG and then nothing of use").unwrap();
    let access = log.access(0.0);
    assert_eq!(page(&access, all[0], all[1]).unwrap(), all[..2]);
    assert!(page(&access, all[0], all[3]).is_err());
}

#[test]
fn each_page_of_a_long_log_continues_after_the_last() {
    let all: Vec<Zxid> = (1..=300).map(|counter| zxid(1, counter)).collect();
    let log = Log::new(&[&all[..120], &all[120..]], 16 << 10);
    let access = log.access(0.0);
    let end = *all.last().unwrap();
    let mut cursor: Option<LogCursor> = None;
    let mut read = vec![all[9]];
    let mut pages = 0;
    while read.last() != Some(&end) {
        let from = *read.last().unwrap();
        let records = read_page(&access, &mut cursor, from, end).unwrap();
        let bytes: usize = records.iter().map(|record| record.txn.len()).sum();
        assert!(bytes < limits::LOG_PAGE_BYTES + (64 << 10), "{bytes}");
        assert_eq!(records[0].zxid, from);
        assert_eq!(records[1].txn, txn(records[1].zxid, 16 << 10));
        read.extend(zxids(&records[1..]));
        pages += 1;
    }
    assert_eq!(read, all[9..]);
    assert!(pages > 3, "{pages}");
    // At the end, the page contains only the last transaction.
    let last = read_page(&access, &mut cursor, end, zxid(1, 999)).unwrap();
    assert_eq!(zxids(&last), [end]);
    // Transactions that are logged meanwhile are found.
    write_log(&log.dirs(), &[&[zxid(1, 301)]], 10);
    let more = read_page(&access, &mut cursor, end, zxid(1, 301)).unwrap();
    assert_eq!(zxids(&more), [end, zxid(1, 301)]);
    // For another position, the log is searched again.
    let again = read_page(&access, &mut cursor, all[2], all[4]).unwrap();
    assert_eq!(zxids(&again), all[2..5]);
}

/// A learner is synchronised while writers continue. Each page ends at the last committed
/// transaction, in the middle of the current file. The next page must not begin at the start of the
/// file.
#[test]
fn a_growing_file_is_read_from_the_end_of_the_last_page() {
    let log = Log::new(&[], 10);
    log.write(&[], 10);
    let dirs = log.dirs();
    let mut writer = LogWriter::new(Arc::new(RealDisk), &dirs, LogSettings::new(testkit::LIMITS));
    let mut write = |counters: std::ops::RangeInclusive<i64>| {
        for counter in counters {
            let zxid = zxid(1, counter);
            writer.append(zxid, &txn(zxid, 10)).unwrap();
        }
        writer.commit().unwrap();
    };
    let access = log.access(0.0);
    let mut cursor: Option<LogCursor> = None;
    write(1..=8);
    let first = read_page(&access, &mut cursor, zxid(1, 1), zxid(1, 5)).unwrap();
    assert_eq!(first.len(), 5);
    assert!(cursor.is_some());
    // These bytes were zero when the previous page was read.
    write(9..=20);
    let second = read_page(&access, &mut cursor, zxid(1, 5), zxid(1, 20)).unwrap();
    let expected: Vec<Zxid> = (5..=20).map(|counter| zxid(1, counter)).collect();
    assert_eq!(zxids(&second), expected);
    assert!(cursor.is_some());
}

#[test]
fn a_log_above_the_snapshot_size_factor_is_not_read() {
    let all = [zxid(1, 1), zxid(1, 2), zxid(1, 3), zxid(1, 4)];
    let log = Log::new(&[&all[..2], &all[2..]], 10);
    // The second file takes 64 KiB. The file in which reading begins does not count.
    let snapshot = log.dirs().snap.join("snapshot.100000002");
    std::fs::write(&snapshot, vec![0; 100 << 10]).unwrap();
    let error = page(&log.access(0.33), all[0], all[3]).unwrap_err();
    assert!(error.contains("bytes of log exceed the limit"), "{error}");
    assert_eq!(page(&log.access(0.33), all[2], all[3]).unwrap(), all[2..]);
    assert_eq!(page(&log.access(0.9), all[0], all[3]).unwrap(), all);
    assert_eq!(page(&log.access(0.0), all[0], all[3]).unwrap(), all);
    // Without a snapshot, there is no size to compare with.
    std::fs::remove_file(snapshot).unwrap();
    assert_eq!(page(&log.access(0.33), all[0], all[3]).unwrap(), all);
}

fn records(site: &TestMember, wanted: LinkId) -> Option<Vec<Zxid>> {
    match site.at_leader().input {
        Input::Learner(_, LearnerEvent::LogRecords { link, records }) if link == wanted => {
            Some(zxids(&records))
        }
        Input::Learner(_, LearnerEvent::LogUnusable { link }) if link == wanted => None,
        other => panic!("{other:?}"),
    }
}

#[test]
fn the_port_reads_the_log_once_there_is_room_on_the_connection() {
    let site = TestMember::new();
    let all: Vec<Zxid> = (1..=3).map(|counter| zxid(1, counter)).collect();
    write_log(&site.dirs(), &[&all], 10);
    let (port, address) = site.open_port();
    let mut learner = raw_learner(address);
    let link = site.learner_connected();
    port.read_log(link, all[0], all[2]);
    assert_eq!(records(&site, link), Some(all.clone()));
    port.read_log(link, zxid(0, 5), all[2]);
    assert_eq!(records(&site, link), None);

    let backlog = LeaderPacket::Proposal {
        zxid: all[1],
        txn: Bytes::from(vec![0; 48 << 20]),
    };
    port.send(link, backlog.clone());
    port.send(link, backlog.clone());
    port.read_log(link, all[1], all[2]);
    assert!(site.at_leader_within(Duration::from_millis(50)).is_none());
    let mut taken = bytes_of(backlog);
    for _ in 0..2 {
        std::io::Read::read_exact(&mut learner, &mut taken).unwrap();
    }
    assert_eq!(records(&site, link), Some(all[1..].to_vec()));
}
