//! Logs and snapshots, as a server writes them.

use std::path::Path;
use std::sync::Arc;

use jute::Encode;
use proto::Zxid;
use storage::{Compression, DataDirs, LogSettings, LogWriter, SnapshotTrailer, SnapshotWriter};
use testkit::SimDisk;
use tree::Tree;

use super::history::{history, of_old_releases};

/// Returns the directories that are used on every disk in memory.
pub(crate) fn dirs() -> DataDirs {
    DataDirs::unlocked(Path::new("data"), Path::new("data"))
}

/// Returns a log with the first `txns` transactions of the history, and a little preallocated
/// space.
fn log_of(txns: usize) -> Vec<u8> {
    let (mut records, _) = history();
    records.extend(of_old_releases());
    records.truncate(txns);
    let disk = Arc::new(SimDisk::default());
    let settings = LogSettings {
        prealloc_bytes: 64,
        ..LogSettings::new(testkit::LIMITS)
    };
    let mut writer = LogWriter::new(disk.clone(), &dirs(), settings);
    for (record, zxid) in records.iter_mut().zip(1..) {
        record.header.zxid = Zxid(zxid);
        let appended = writer.append(record.header.zxid, &record.to_bytes());
        appended.expect("writes to a disk in memory do not fail");
    }
    writer
        .commit()
        .expect("writes to a disk in memory do not fail");
    let path = dirs().log.join("log.1");
    disk.content(&path)
        .expect("the file name contains the first zxid")
}

/// Returns logs of the whole history and of parts of it.
pub(crate) fn logs() -> Vec<Vec<u8>> {
    [1, 3, 8, usize::MAX].map(log_of).to_vec()
}

/// Returns the sessions, ACL table and znodes in the form in which they follow a SNAP packet.
pub(crate) fn body_of(tree: &Tree) -> Vec<u8> {
    let mut out = Vec::new();
    let mut cursor = tree.start_snapshot();
    while tree.snapshot_chunk(&mut cursor, 512, &mut out) {}
    out
}

/// Returns bodies of snapshots.
pub(crate) fn bodies() -> Vec<Vec<u8>> {
    let empty = Tree::new(crate::restore::settings());
    let (_, full) = history();
    vec![body_of(&empty), body_of(&full)]
}

/// Returns whole snapshots, with and without the sections after the znodes.
pub(crate) fn snapshots(compression: Compression) -> Vec<Vec<u8>> {
    let both = SnapshotTrailer::new(Some((Zxid(0x16), 0x1234_5678)), Some(Zxid(0x16)));
    let neither = SnapshotTrailer::default();
    let bodies = bodies().into_iter();
    let pairs = bodies.flat_map(|body| [(body.clone(), both), (body, neither)]);
    pairs
        .map(|(body, trailer)| snapshot(&body, trailer, compression))
        .collect()
}

fn snapshot(body: &[u8], trailer: SnapshotTrailer, compression: Compression) -> Vec<u8> {
    let disk = Arc::new(SimDisk::default());
    let path = SnapshotWriter::new(disk.clone(), &dirs(), Zxid(0), compression, true)
        .and_then(|mut writer| {
            writer.write(body)?;
            writer.finish(trailer)
        })
        .expect("writes to a disk in memory do not fail");
    disk.content(&path)
        .expect("the snapshot has been published")
}
