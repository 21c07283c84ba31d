//! Log append and commit compared with a bare fdatasync, and reading the log.
//!
//! Temporary directories are created in `TMPDIR`, which must be on a disk for meaningful figures.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

use divan::counter::{BytesCount, ItemsCount};
use jute::{Encode, put_buffer, put_str};
use proto::txn::{CreateTxn, Txn, TxnDigest, TxnHeader, TxnRecord};
use proto::{Acl, SessionId, StatPersisted, Zxid};
use tempfile::TempDir;
use zoarium_storage::{
    Compression, ContentError, DataDirs, LogSettings, LogWriter, OpenOptions, RealDisk,
    SnapshotDigest, SnapshotTrailer, SnapshotWriter, State, list_snapshots, read_snapshot,
    read_txns_from,
};

fn main() {
    divan::main();
}

/// Returns a create of 100 bytes of data in the form in which it is logged.
fn payload(zxid: i64) -> Vec<u8> {
    let record = TxnRecord {
        header: TxnHeader {
            session: SessionId(0x1000_0000_0000_0000),
            cxid: 1,
            zxid: Zxid(zxid),
            time_ms: 1_700_000_000_000,
            op: 1,
        },
        txn: Txn::Create(CreateTxn {
            path: format!("/bench/n{zxid:010}").into(),
            data: Some(vec![7; 100].into()),
            acl: vec![Acl::open()],
            ephemeral: false,
            parent_cversion: 1,
        }),
        digest: Some(TxnDigest::new(77)),
    };
    record.to_bytes().to_vec()
}

fn open() -> (TempDir, DataDirs) {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let dirs = DataDirs::open(&RealDisk, dir.path(), dir.path(), OpenOptions::default())
        .expect("an empty directory opens");
    (dir, dirs)
}

const GROUPS: [usize; 3] = [1, 16, 256];

/// The limit of the disk: the same number of bytes, preallocated, with one write and one fdatasync.
#[divan::bench(args = GROUPS, sample_count = 300, sample_size = 1)]
fn bare_write_and_fdatasync(bencher: divan::Bencher<'_, '_>, group: usize) {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let file = File::create(dir.path().join("bare")).expect("a file");
    file.write_all_at(&vec![0; 64 << 20], 0).expect("64 MiB");
    file.sync_all().expect("synced");
    let bytes = vec![7; (payload(1).len() + 13) * group];
    let mut at = 0;
    bencher.counter(ItemsCount::new(group)).bench_local(|| {
        file.write_all_at(&bytes, at).expect("written");
        at += bytes.len() as u64;
        file.sync_data().expect("synced");
    });
}

#[divan::bench(args = GROUPS, sample_count = 300, sample_size = 1)]
fn append_and_commit(bencher: divan::Bencher<'_, '_>, group: usize) {
    let (_dir, dirs) = open();
    let mut writer = LogWriter::new(Arc::new(RealDisk), &dirs, LogSettings::new(testkit::LIMITS));
    let payload = payload(1);
    let mut zxid = 0;
    bencher.counter(ItemsCount::new(group)).bench_local(|| {
        for _ in 0..group {
            zxid += 1;
            writer.append(Zxid(zxid), &payload).expect("appended");
        }
        writer.commit().expect("committed")
    });
}

/// The cost without waiting for the disk.
#[divan::bench(args = GROUPS)]
fn append_and_write_without_sync(bencher: divan::Bencher<'_, '_>, group: usize) {
    let (_dir, dirs) = open();
    let settings = LogSettings {
        force_sync: false,
        log_bytes_max: 64 << 20,
        ..LogSettings::new(testkit::LIMITS)
    };
    let mut writer = LogWriter::new(Arc::new(RealDisk), &dirs, settings);
    let payload = payload(1);
    let mut zxid = 0;
    bencher.counter(ItemsCount::new(group)).bench_local(|| {
        for _ in 0..group {
            zxid += 1;
            writer.append(Zxid(zxid), &payload).expect("appended");
        }
        writer.commit().expect("committed")
    });
}

#[divan::bench(sample_count = 20)]
fn read_100k_txns(bencher: divan::Bencher<'_, '_>) {
    const TXNS: usize = 100_000;
    let (_dir, dirs) = open();
    let mut writer = LogWriter::new(Arc::new(RealDisk), &dirs, LogSettings::new(testkit::LIMITS));
    for zxid in (1..).take(TXNS) {
        writer.append(Zxid(zxid), &payload(zxid)).expect("appended");
    }
    writer.commit().expect("committed");
    let bytes = BytesCount::new(writer.bytes());
    bencher.counter(bytes).bench_local(|| {
        let txns = read_txns_from(&RealDisk, &dirs, Zxid(1), testkit::LIMITS).expect("opened");
        assert_eq!(txns.flatten().count(), TXNS);
    });
}

struct Nothing(usize);

impl State for Nothing {
    fn begin(&mut self) {}
    fn session(&mut self, _: SessionId, _: i32) {}
    fn acl(&mut self, _: i64, _: Vec<Acl>) {}
    fn znode(
        &mut self,
        path: &str,
        _: Option<&[u8]>,
        _: i64,
        _: StatPersisted,
    ) -> Result<(), ContentError> {
        self.0 += path.len();
        Ok(())
    }
    fn snapshot_loaded(&mut self, _: Zxid, _: Option<SnapshotDigest>) -> Result<(), ContentError> {
        Ok(())
    }
    fn txn(&mut self, _: &TxnRecord) {}
}

/// Returns sessions, the ACL table and 100,000 znodes of 100 bytes.
fn body() -> Vec<u8> {
    let mut out = Vec::new();
    0i32.encode(&mut out);
    0i32.encode(&mut out);
    for number in 0..100_000 {
        let path = if number == 0 {
            String::new()
        } else {
            format!("/bench-n{number:010}")
        };
        put_str(Some(&path), &mut out);
        put_buffer(Some(&[7; 100]), &mut out);
        (-1i64).encode(&mut out);
        StatPersisted::default().encode(&mut out);
    }
    put_str(Some("/"), &mut out);
    out
}

const COMPRESSIONS: [&str; 3] = ["", "gz", "snappy"];

fn write(dirs: &DataDirs, compression: &str, body: &[u8]) {
    let compression = Compression::by_name(compression).expect("a known one");
    let disk = Arc::new(RealDisk);
    let mut writer = SnapshotWriter::new(disk, dirs, Zxid(1), compression, false).expect("created");
    for chunk in body.chunks(64 << 10) {
        writer.write(chunk).expect("written");
    }
    writer.finish(SnapshotTrailer::default()).expect("finished");
}

#[divan::bench(args = COMPRESSIONS, sample_count = 10)]
fn write_snapshot_of_100k(bencher: divan::Bencher<'_, '_>, compression: &str) {
    let (_dir, dirs) = open();
    let body = body();
    bencher
        .counter(BytesCount::new(body.len()))
        .bench_local(|| write(&dirs, compression, &body));
}

#[divan::bench(args = COMPRESSIONS, sample_count = 10)]
fn read_snapshot_of_100k(bencher: divan::Bencher<'_, '_>, compression: &str) {
    let (_dir, dirs) = open();
    let body = body();
    write(&dirs, compression, &body);
    let file = list_snapshots(&RealDisk, &dirs.snap)
        .expect("listed")
        .remove(0);
    bencher
        .counter(BytesCount::new(body.len()))
        .bench_local(|| {
            let mut nothing = Nothing(0);
            read_snapshot(&RealDisk, &file, testkit::LIMITS, &mut nothing).expect("read");
            nothing.0
        });
}
