//! False lengths do not allocate memory, and a snapshot is never held in memory as a whole.
#![allow(clippy::unwrap_used)]

// This test has its own allocator, so it is a separate program.
#[path = "it/common/mod.rs"]
mod common;

use std::alloc::System;
use std::fs;
use std::io::Write;
use std::path::Path;
use std::sync::Arc;

use cap::Cap;
use common::{fresh_body, open};
use flate2::write::GzEncoder;
use jute::{Encode, put_buffer, put_str};
use proto::txn::TxnRecord;
use proto::{Acl, SessionId, StatPersisted, Zxid};
use zoarium_storage::snapshot::read::SnapshotInfo;
use zoarium_storage::{
    Compression, ContentError, DataDirs, RealDisk, SnapshotDigest, SnapshotFile, SnapshotTrailer,
    SnapshotWriter, State, StorageError, read_snapshot, read_txns_from, verify_snapshot,
};

/// An allocation above the limit fails, which ends the test process.
#[global_allocator]
static ALLOCATOR: Cap<System> = Cap::new(System, usize::MAX);

/// Counts znodes and bytes and stores nothing.
#[derive(Default)]
struct Counter {
    znodes: usize,
    bytes: usize,
}

impl State for Counter {
    fn begin(&mut self) {}
    fn session(&mut self, _: SessionId, _: i32) {}
    fn acl(&mut self, _: i64, _: Vec<Acl>) {}
    fn znode(
        &mut self,
        _: &str,
        data: Option<&[u8]>,
        _: i64,
        _: StatPersisted,
    ) -> Result<(), ContentError> {
        self.znodes += 1;
        self.bytes += data.map_or(0, <[u8]>::len);
        Ok(())
    }
    fn snapshot_loaded(&mut self, _: Zxid, _: Option<SnapshotDigest>) -> Result<(), ContentError> {
        Ok(())
    }
    fn txn(&mut self, _: &TxnRecord) {}
}

const MIB: usize = 1 << 20;

fn limit_memory() {
    ALLOCATOR.set_limit(14 * MIB).unwrap();
}

/// Returns a snapshot's bytes up to a false count or length.
fn liars() -> Vec<(&'static str, Vec<u8>)> {
    let mut header = b"ZKSN".to_vec();
    2i32.encode(&mut header);
    (-1i64).encode(&mut header);
    let with = |fields: &[i32]| {
        let mut bytes = header.clone();
        for field in fields {
            field.encode(&mut bytes);
        }
        bytes.extend([0; 40]);
        bytes.extend([0, 0, 0, 1, b'/']);
        bytes
    };
    vec![
        ("sessions", with(&[i32::MAX])),
        ("negative sessions", with(&[-2])),
        ("ACL entries", with(&[0, i32::MAX])),
        ("ACLs in an entry", with(&[0, 1, 0, 1, i32::MAX])),
        ("scheme", with(&[0, 1, 0, 1, 1, 31, 0x1f_fffe])),
        ("path", with(&[0, 0, 0x1f_fffe])),
        ("long path", with(&[0, 0, i32::MAX])),
        ("data", with(&[0, 0, 0, 0x1f_fffe])),
        ("long data", with(&[0, 0, 0, 0x7000_0000])),
    ]
}

fn verify(path: &Path) -> Result<SnapshotInfo, StorageError> {
    let file = SnapshotFile::find(&RealDisk, path)?;
    verify_snapshot(&RealDisk, &file, testkit::LIMITS)
}

fn read_into(path: &Path, counter: &mut Counter) -> Result<SnapshotInfo, StorageError> {
    let file = SnapshotFile::find(&RealDisk, path)?;
    read_snapshot(&RealDisk, &file, testkit::LIMITS, counter)
}

/// Returns the number of records that can be read.
fn records(dirs: &DataDirs) -> usize {
    let txns = read_txns_from(&RealDisk, dirs, Zxid(0), testkit::LIMITS).unwrap();
    txns.take_while(Result::is_ok).count()
}

#[test]
fn memory_is_bounded_for_any_file() {
    let dir = tempfile::tempdir().unwrap();
    let dirs = open(dir.path());
    limit_memory();

    for (what, bytes) in liars() {
        let path = dirs.snap.join("snapshot.1");
        fs::write(&path, &bytes).unwrap();
        let error = verify(&path).unwrap_err();
        assert!(
            error.to_string().contains("damaged at offset"),
            "{what}: {error}"
        );
    }

    // 40 MiB of zeros as 40 KiB of gzip, read as sessions.
    let path = dirs.snap.join("snapshot.1.gz");
    let mut gzip = GzEncoder::new(
        fs::File::create(&path).unwrap(),
        flate2::Compression::new(6),
    );
    gzip.write_all(&liars()[0].1[..20]).unwrap();
    for _ in 0..40 {
        gzip.write_all(&vec![0; MIB]).unwrap();
    }
    gzip.finish().unwrap();
    let read = read_into(&path, &mut Counter::default());
    assert!(read.unwrap_err().to_string().contains("ends early"));

    // A snappy block with a claimed length of 2 GiB.
    let path = dirs.snap.join("snapshot.1.snappy");
    let mut bytes = b"\x82SNAPPY\0\0\0\0\x01\0\0\0\x01\0\0\0\x08".to_vec();
    bytes.extend([0xff, 0xff, 0xff, 0xff, 0x07, 0, 0, 0]);
    fs::write(&path, &bytes).unwrap();
    let error = verify(&path).unwrap_err();
    assert!(error.to_string().contains("a snappy block has"), "{error}");

    // A log whose record has a claimed length of 60 MiB, in a small file and in a sparse one of 20
    // MiB.
    let path = dirs.log.join("log.1");
    let mut bytes = b"ZKLG\0\0\0\x02\0\0\0\0\0\0\0\0".to_vec();
    bytes.extend(77i64.to_be_bytes());
    bytes.extend((60i32 << 20).to_be_bytes());
    bytes.extend([1; 40]);
    fs::write(&path, &bytes).unwrap();
    assert_eq!(records(&dirs), 0);
    fs::File::options()
        .write(true)
        .open(&path)
        .unwrap()
        .set_len(20 << 20)
        .unwrap();
    assert_eq!(records(&dirs), 0);

    for compression in [Compression::None, Compression::Gzip, Compression::Snappy] {
        large_snapshot(&dirs, compression);
    }
}

/// Writes and reads 30 MB of znodes with half as much memory.
fn large_snapshot(dirs: &DataDirs, compression: Compression) {
    const ZNODES: usize = 30_000;
    const DATA: [u8; 1000] = [7; 1000];
    let disk = Arc::new(RealDisk);
    let mut writer = SnapshotWriter::new(disk, dirs, Zxid(9), compression, false).unwrap();
    let fresh = fresh_body();
    writer.write(&fresh[..fresh.len() - 5]).unwrap();
    let mut chunk = Vec::new();
    for number in 0..ZNODES {
        put_str(Some(&format!("/n{number}")), &mut chunk);
        put_buffer(Some(&DATA), &mut chunk);
        1i64.encode(&mut chunk);
        StatPersisted::default().encode(&mut chunk);
        if chunk.len() > 100_000 {
            writer.write(&chunk).unwrap();
            chunk.clear();
        }
    }
    writer.write(&chunk).unwrap();
    writer.write(&fresh[fresh.len() - 5..]).unwrap();
    let path = writer
        .finish(SnapshotTrailer::new(Some((Zxid(9), 0)), Some(Zxid(9))))
        .unwrap();
    let mut counter = Counter::default();
    let info = read_into(&path, &mut counter).unwrap();
    assert_eq!(
        (counter.znodes, counter.bytes),
        (ZNODES + 4, ZNODES * DATA.len())
    );
    assert_eq!(info.znodes, counter.znodes as u64);
}
