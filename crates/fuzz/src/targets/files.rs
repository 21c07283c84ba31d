//! Logs and snapshots that a server may read when it starts.

use proto::Zxid;
use std::path::Path;
use storage::{
    Compression, Disk, RecoverySettings, SnapshotFile, list_snapshots, read_body, read_snapshot,
    read_txns_from, recover,
};
use testkit::SimDisk;
use tree::Tree;

use crate::restore::restore;
use crate::seeds::files;
use crate::{Memory, Target, recorded};

/// Memory limit for a start, which reads files in pieces of up to 1 MiB, and creates the tables of
/// a tree with an initial capacity.
const START: Memory = Memory {
    per_byte: 64,
    fixed: 8 << 20,
};

pub(super) const LOG: Target = Target {
    name: "log",
    run: log,
    seeds: log_seeds,
    words: &["ZKLG", "B"],
    repair: Some(repair_log),
    memory: START,
};

pub(super) const SNAPSHOT: Target = Target {
    name: "snapshot",
    run: |data| snapshot("snapshot.0", data),
    seeds: || snapshot_seeds(Compression::None),
    words: &["ZKSN", "\0\0\0\x01/", "/zookeeper/quota"],
    repair: Some(repair_snapshot),
    memory: START,
};

pub(super) const SNAPSHOT_GZIP: Target = Target {
    name: "snapshot_gzip",
    run: |data| snapshot("snapshot.0.gz", data),
    seeds: || snapshot_seeds(Compression::Gzip),
    words: &[],
    repair: None,
    memory: START,
};

pub(super) const SNAPSHOT_SNAPPY: Target = Target {
    name: "snapshot_snappy",
    run: |data| snapshot("snapshot.0.snappy", data),
    seeds: || snapshot_seeds(Compression::Snappy),
    words: &[],
    repair: None,
    memory: START,
};

pub(super) const SNAPSHOT_BODY: Target = Target {
    name: "snapshot_body",
    run: snapshot_body,
    seeds: files::bodies,
    words: &["\0\0\0\x01/", "/a", "/zookeeper"],
    repair: None,
    memory: START,
};

pub(super) const RECOVERY: Target = Target {
    name: "recovery",
    run: recovery,
    seeds: recovery_seeds,
    words: &[],
    repair: Some(repair_recovery),
    memory: START,
};

fn log(data: &[u8]) {
    let path = files::dirs().log.join("log.1");
    let disk = SimDisk::always_safe([(path.as_path(), data)]);
    let Ok(txns) = read_txns_from(&disk, &files::dirs(), Zxid(1), testkit::LIMITS) else {
        return;
    };
    for txn in txns {
        if let Err(error) = txn {
            assert!(
                error.to_string().contains("log.1"),
                "{error} does not name the file"
            );
        }
    }
}

fn log_seeds() -> Vec<Vec<u8>> {
    let mut seeds = files::logs();
    seeds.extend(recorded::files(|name| name.starts_with("log.")));
    seeds
}

/// Corrects the checksums and end bytes of records, up to the first invalid length.
fn repair_log(data: &mut [u8]) {
    let mut rest = data.get_mut(LOG_HEADER_BYTES..).unwrap_or_default();
    while let Some((prefix, behind)) = rest.split_first_chunk_mut::<LOG_PREFIX_BYTES>() {
        let [.., a, b, c, d] = *prefix;
        let len = usize::try_from(i32::from_be_bytes([a, b, c, d])).unwrap_or(usize::MAX);
        if len == 0 || len >= behind.len() {
            return;
        }
        let (payload, end) = behind.split_at_mut(len);
        prefix[..8].copy_from_slice(&checksum(payload));
        end[0] = b'B';
        rest = &mut end[1..];
    }
}

const LOG_HEADER_BYTES: usize = 16;
const LOG_PREFIX_BYTES: usize = 12;

fn checksum(bytes: &[u8]) -> [u8; 8] {
    u64::from(adler2::adler32_slice(bytes)).to_be_bytes()
}

fn snapshot(name: &str, data: &[u8]) {
    let dirs = files::dirs();
    let path = dirs.snap.join(name);
    let disk = SimDisk::always_safe([(path.as_path(), data)]);
    for file in list_snapshots(&disk, &dirs.snap).unwrap_or_default() {
        load(&disk, &file);
    }
}

fn load<D: Disk>(disk: &D, file: &SnapshotFile) {
    let mut state = restore();
    match read_snapshot(disk, file, testkit::LIMITS, &mut state) {
        Ok(_) => assert_writes_back(&state.into_tree()),
        Err(error) => assert!(error.to_string().contains("snapshot.0"), "{error}"),
    }
}

/// Checks that a tree that was read can be written and read again.
fn assert_writes_back(tree: &Tree) {
    let body = files::body_of(tree);
    let mut again = restore();
    let name = Path::new("the same again");
    let result = read_body(&body[..], name, testkit::LIMITS, &mut again);
    result.expect("the bytes of a tree can be read");
    let again = again
        .finish(tree.last_zxid())
        .expect("the body makes a tree");
    assert_eq!(again.digest(), tree.digest());
    assert_eq!(again.node_count(), tree.node_count());
}

fn snapshot_seeds(compression: Compression) -> Vec<Vec<u8>> {
    let mut seeds = files::snapshots(compression);
    seeds.extend(recorded::files(|name| {
        name.starts_with("snapshot.") && Compression::of_name(name) == compression
    }));
    seeds
}

/// Corrects the seals of a snapshot that contains a digest and a last zxid.
fn repair_snapshot(data: &mut [u8]) {
    for behind in SEALS_FROM_END {
        let Some(at) = data.len().checked_sub(behind) else {
            continue;
        };
        let sum = checksum(&data[..at]);
        data[at..at + 8].copy_from_slice(&sum);
    }
}

/// Distances of the seals from the end of the file, bytes: before the digest, before the last zxid,
/// and at the end.
const SEALS_FROM_END: [usize; 3] = [67, 34, 13];

fn snapshot_body(data: &[u8]) {
    let mut state = restore();
    let name = Path::new("a leader's snapshot");
    if let Err(error) = read_body(data, name, testkit::LIMITS, &mut state) {
        assert!(error.to_string().contains("a leader's snapshot"), "{error}");
    }
}

/// Recovers a snapshot and the log after it. The input consists of the length of the snapshot in
/// four bytes, the snapshot, and the log.
fn recovery(data: &[u8]) {
    let Some((snapshot, log)) = split(data) else {
        return;
    };
    let dirs = files::dirs();
    let paths = [dirs.snap.join("snapshot.0"), dirs.log.join("log.1")];
    let disk = SimDisk::always_safe([(paths[0].as_path(), snapshot), (paths[1].as_path(), log)]);
    let mut state = restore();
    let settings = RecoverySettings {
        trust_empty: log.len() % 2 == 0,
        ..RecoverySettings::new(testkit::LIMITS)
    };
    if let Ok(recovered) = recover(&disk, &dirs, &settings, &mut state) {
        let reached = state.into_tree().last_zxid().max(Zxid::ZERO);
        assert!(recovered.txns_replayed == 0 || reached >= recovered.last_zxid);
    }
    // A non-empty file is never changed.
    assert_eq!(disk.content(&paths[0]).as_deref(), Some(snapshot));
    if !log.is_empty() {
        assert_eq!(disk.content(&paths[1]).as_deref(), Some(log));
    }
}

fn split(data: &[u8]) -> Option<(&[u8], &[u8])> {
    let (len, rest) = data.split_first_chunk()?;
    let len = usize::try_from(u32::from_be_bytes(*len)).ok()?;
    Some(rest.split_at(len.min(rest.len())))
}

fn repair_recovery(data: &mut [u8]) {
    let Some((len, rest)) = data.split_first_chunk_mut() else {
        return;
    };
    let len = u32::from_be_bytes(*len) as usize;
    let (snapshot, log) = rest.split_at_mut(len.min(rest.len()));
    repair_snapshot(snapshot);
    repair_log(log);
}

fn recovery_seeds() -> Vec<Vec<u8>> {
    let snapshots = files::snapshots(Compression::None);
    let logs = files::logs();
    let pair = |snapshot: &[u8], log: &[u8]| {
        let mut out = Vec::new();
        jute::put_buffer(Some(snapshot), &mut out);
        out.extend_from_slice(log);
        out
    };
    let pairs = snapshots
        .iter()
        .flat_map(|s| logs.iter().map(|l| pair(s, l)));
    pairs.collect()
}
