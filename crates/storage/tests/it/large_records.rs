//! Corruption in records that a raised `jute.maxbuffer` allows.

use std::fs;
use std::io::{Seek, SeekFrom, Write};
use std::path::PathBuf;
use std::sync::Arc;

use jute::{Encode, Limits};
use proto::Zxid;
use tempfile::TempDir;
use zoarium_storage::{
    Compression, Damage, DataDirs, LogSettings, LogWriter, RealDisk, RecoverySettings,
    SnapshotTrailer, SnapshotWriter, StorageError, read_body,
};

use crate::common::db::Db;
use crate::common::outcome::{self, Outcome};
use crate::common::{fresh_body, log_path, open, payload};

const HEADER_BYTES: u64 = 16;
/// Length of the checksum and length before a payload, and of the end byte after it.
const FRAME_BYTES: u64 = 13;

/// A data directory of a server with a raised limit.
struct Server {
    _dir: TempDir,
    dirs: DataDirs,
    limits: Limits,
}

impl Server {
    /// Creates a server whose `jute.maxbuffer` is `max_buffer`, with one log that contains a create
    /// for each of `data_bytes`.
    fn with_creates(max_buffer: usize, data_bytes: &[usize]) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let dirs = open(dir.path());
        let limits = Limits::from_max_buffer(max_buffer, max_buffer);
        let mut snapshot =
            SnapshotWriter::new(Arc::new(RealDisk), &dirs, Zxid(0), Compression::None, true)
                .unwrap();
        snapshot.write(&fresh_body()).unwrap();
        snapshot.finish(SnapshotTrailer::default()).unwrap();
        let settings = LogSettings {
            limits,
            ..LogSettings::new(testkit::LIMITS)
        };
        let mut writer = LogWriter::new(Arc::new(RealDisk), &dirs, settings);
        for (zxid, bytes) in (1..).zip(data_bytes) {
            writer.append(Zxid(zxid), &payload(zxid, *bytes)).unwrap();
            writer.commit().unwrap();
        }
        Self {
            _dir: dir,
            dirs,
            limits,
        }
    }

    fn log(&self) -> PathBuf {
        log_path(&self.dirs, 1)
    }

    /// Overwrites bytes of the log.
    fn write(&self, offset: u64, bytes: &[u8]) {
        let mut file = fs::OpenOptions::new().write(true).open(self.log()).unwrap();
        file.seek(SeekFrom::Start(offset)).unwrap();
        file.write_all(bytes).unwrap();
    }

    /// Sets another length in the record at `offset`.
    fn set_length(&self, offset: u64, len: u64) {
        self.write(offset + 8, &u32::try_from(len).unwrap().to_be_bytes());
    }

    fn start(&self) -> Outcome {
        let settings = RecoverySettings {
            limits: self.limits,
            ..RecoverySettings::new(testkit::LIMITS)
        };
        outcome::load_dirs(&self.dirs, &settings)
    }

    fn damage(&self) -> Option<Damage> {
        match self.start() {
            Ok(_) => None,
            Err(StorageError::LogDamaged { damage, .. }) => Some(damage),
            Err(other) => panic!("{other}"),
        }
    }
}

fn payload_bytes(data_bytes: usize) -> u64 {
    payload(1, data_bytes).len() as u64
}

#[test]
fn a_wrong_length_of_the_last_record_is_damage_at_any_size() {
    // Below the default limit, above it, and above the group size of a writer.
    for data_bytes in [1_900_000, 2_200_000, 9_000_000, 20_000_000] {
        let server = Server::with_creates(32 << 20, &[100, data_bytes]);
        assert_eq!(server.start().unwrap().0.last_zxid, Zxid(2));
        let offset = HEADER_BYTES + FRAME_BYTES + payload_bytes(100);
        let actual = payload_bytes(data_bytes);
        // The last of them claims more bytes than the file has.
        for found in [actual - 4, actual + 4, actual + (1 << 20), 60 << 20] {
            server.set_length(offset, found);
            let expected = Damage::WrongLength {
                found: i32::try_from(found).unwrap(),
                actual: u32::try_from(actual).unwrap(),
            };
            let damage = server.damage();
            assert_eq!(damage, Some(expected), "{data_bytes} bytes as {found}");
        }
    }
}

/// Checksum and length do not show where the first record ended. The second record shows that the
/// first was complete.
#[test]
fn a_large_record_after_a_damaged_large_record_is_found() {
    let server = Server::with_creates(32 << 20, &[20_000_000, 20_000_000]);
    server.write(HEADER_BYTES + 4, &[1, 2, 3, 4]);
    server.set_length(HEADER_BYTES, 60 << 20);
    let expected = Damage::Followed {
        offset: HEADER_BYTES + FRAME_BYTES + payload_bytes(20_000_000),
        zxid: Zxid(2),
    };
    assert_eq!(server.damage(), Some(expected));
}

#[test]
fn a_torn_large_record_is_still_torn() {
    let server = Server::with_creates(32 << 20, &[100, 20_000_000]);
    let end = HEADER_BYTES + 2 * FRAME_BYTES + payload_bytes(100) + payload_bytes(20_000_000);
    // A power failure loses a sector; a killed process leaves a prefix.
    server.write(1 << 20, &[0; 512]);
    let (recovered, _) = server.start().unwrap();
    let (_, tail) = recovered.torn_tail.unwrap();
    assert_eq!(
        (recovered.last_zxid, tail.has_lost_sectors),
        (Zxid(1), true)
    );
    let file = fs::OpenOptions::new()
        .write(true)
        .open(server.log())
        .unwrap();
    file.set_len(end - 1000).unwrap();
    let (recovered, _) = server.start().unwrap();
    assert_eq!(recovered.last_zxid, Zxid(1));
    assert!(recovered.torn_tail.is_some());
}

/// If the snapshot counted as damaged, a member of an ensemble would move its intact history aside.
#[test]
fn a_snapshot_is_loaded_with_a_lower_limit_than_that_of_its_writer() {
    let data_bytes = 3 << 20;
    let dir = tempfile::tempdir().unwrap();
    let dirs = open(dir.path());
    let mut body = fresh_body();
    let end_marker = body.split_off(body.len() - 5);
    jute::put_str(Some("/large"), &mut body);
    jute::put_buffer(Some(&vec![7; data_bytes]), &mut body);
    1i64.encode(&mut body);
    proto::StatPersisted::default().encode(&mut body);
    body.extend(end_marker);
    let mut snapshot =
        SnapshotWriter::new(Arc::new(RealDisk), &dirs, Zxid(5), Compression::None, true).unwrap();
    snapshot.write(&body).unwrap();
    snapshot.finish(SnapshotTrailer::default()).unwrap();
    let lower = Limits::from_max_buffer(1 << 20, 1 << 20);
    let (recovered, db) = outcome::load_dirs(&dirs, &RecoverySettings::new(lower)).unwrap();
    assert_eq!(recovered.last_zxid, Zxid(5));
    let data = |db: &Db| db.nodes["/large"].data.as_ref().map(|data| data.len());
    assert_eq!(data(&db), Some(data_bytes));
    // The leader sends the same znode to a member that needs a snapshot.
    let mut received = Db::default();
    read_body(&body[..], "leader".as_ref(), lower, &mut received).unwrap();
    assert_eq!(data(&received), Some(data_bytes));
}
