//! Transactions of an ensemble, read from the files of its servers.
//!
//! ```text
//! file    16 bytes, then records, then zeros
//! record  checksum i64 | length i32 | transaction | 0x42
//! ```

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use bytes::Bytes;
use jute::{Decode, Reader};
use proto::txn::TxnRecord;

const FILE_HEADER_BYTES: usize = 16;
const CHECKSUM_BYTES: usize = 8;
const COUNTER: i64 = 0xffff_ffff;

/// Returns all transactions of a stopped ensemble in order. Fails if one is missing between two
/// others.
///
/// A server that received a snapshot lacks the transactions before the snapshot, so the log of
/// another server fills the gap. Common transactions must be identical, because a server truncates
/// uncommitted transactions before it serves again.
pub(super) fn transactions(data_dirs: &[PathBuf]) -> Vec<TxnRecord> {
    let mut records = BTreeMap::<i64, TxnRecord>::new();
    for file in data_dirs
        .iter()
        .flat_map(|dir| files(&dir.join("version-2")))
    {
        let bytes = Bytes::from(std::fs::read(&file).unwrap());
        for payload in payloads(&bytes) {
            let mut input = Reader::new(payload);
            let record = TxnRecord::decode(&mut input);
            let record = record.unwrap_or_else(|error| panic!("{}: {error}", file.display()));
            let known = records.entry(record.header.zxid.0);
            let known = known.or_insert_with(|| record.clone());
            assert_eq!(*known, record, "{}: not as in another log", file.display());
        }
    }
    let zxids = records.keys().copied();
    for (before, after) in zxids.clone().zip(zxids.skip(1)) {
        let begins_an_epoch = after >> 32 > before >> 32 && after & COUNTER == 1;
        assert!(
            after == before + 1 || begins_an_epoch,
            "transactions are missing from {before:#x} to {after:#x}"
        );
    }
    records.into_values().collect()
}

/// Returns the files `log.<zxid>`, sorted by zxid.
fn files(dir: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(dir).unwrap();
    let mut found: Vec<(u64, PathBuf)> = entries
        .filter_map(|entry| {
            let path = entry.unwrap().path();
            let zxid = path.file_name()?.to_str()?.strip_prefix("log.")?;
            Some((u64::from_str_radix(zxid, 16).ok()?, path))
        })
        .collect();
    found.sort();
    found.into_iter().map(|(_, path)| path).collect()
}

/// Returns the records of a file up to the zeros, or up to a record that a kill has truncated.
fn payloads(bytes: &Bytes) -> Vec<Bytes> {
    let mut found = Vec::new();
    let mut at = FILE_HEADER_BYTES + CHECKSUM_BYTES;
    while let Some(length) = bytes.get(at..).and_then(|rest| rest.first_chunk()) {
        let length = usize::try_from(i32::from_be_bytes(*length)).unwrap();
        let (begin, end) = (at + 4, at + 4 + length);
        if length == 0 || bytes.get(end) != Some(&b'B') {
            break;
        }
        found.push(bytes.slice(begin..end));
        at = end + 1 + CHECKSUM_BYTES;
    }
    found
}
