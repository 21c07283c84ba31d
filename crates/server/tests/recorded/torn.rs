//! Tests of a server that was killed while it wrote: its last log ends at any byte of a record.

use std::fs;

use storage::log::scan::{LogScanner, Scanned};
use storage::{RealDisk, TornTail};

use crate::snapshots::Content;
use crate::support::{Directory, vector};

/// Returns the start of each record of a log, and the end of the last.
fn offsets(directory: &Directory, log: &str) -> Vec<usize> {
    let limits = testkit::LIMITS;
    let mut scanner = LogScanner::open(&RealDisk, &directory.file(log), limits).unwrap();
    let mut offsets = vec![scanner.position()];
    while let Scanned::Record(_) = scanner.next_record().unwrap() {
        offsets.push(scanner.position());
    }
    let offsets = offsets.into_iter().map(usize::try_from);
    offsets.collect::<Result<_, _>>().unwrap()
}

fn tear(whole: &[u8], at: usize, tail: Tail) -> Vec<u8> {
    let mut torn = whole[..at].to_vec();
    match tail {
        Tail::Cut => {}
        Tail::Zeros => torn.resize(whole.len(), 0),
        // As after the file has grown by one more step.
        Tail::MoreZeros => torn.resize(whole.len() + (64 << 10), 0),
    }
    torn
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Tail {
    Cut,
    Zeros,
    MoreZeros,
}

/// All transactions before the tear exist, unchanged; the torn one does not.
#[test]
fn a_log_torn_at_every_byte_of_its_last_records_is_recovered() {
    let Some(vector) = vector("txns-all") else {
        return;
    };
    let directory = vector.copy("data");
    let offsets = offsets(&directory, "log.1");
    let path = directory.file("log.1");
    let whole = fs::read(&path).unwrap();
    let last = offsets.len() - 1;
    for record in last - 5..last {
        let (start, end) = (offsets[record], offsets[record + 1]);
        fs::write(&path, &whole[..start]).unwrap();
        let before = directory.recover().unwrap();
        let state = Content::of_tree(&before.tree);
        for at in start..end {
            for tail in [Tail::Cut, Tail::Zeros, Tail::MoreZeros] {
                let torn = tear(&whole, at, tail);
                fs::write(&path, &torn).unwrap();
                let found = directory.recover();
                let found = found.unwrap_or_else(|error| panic!("{at} {tail:?}: {error}"));
                let zxid = found.recovered.last_zxid;
                assert_eq!(zxid, before.recovered.last_zxid, "{at} {tail:?}");
                assert_eq!(found.tree.digest(), before.tree.digest(), "{at} {tail:?}");
                assert_eq!(Content::of_tree(&found.tree), state, "{at} {tail:?}");
                // A tear differs from the end of the log if any byte of the record exists.
                let is_torn = torn[start..].iter().any(|byte| *byte != 0);
                let tail_found = found.recovered.torn_tail.map(|(_, tail)| tail);
                let expected = is_torn.then_some(TornTail {
                    offset: start as u64,
                    has_lost_sectors: false,
                });
                assert_eq!(tail_found, expected, "{at} {tail:?}");
                assert_eq!(
                    fs::read(&path).unwrap(),
                    torn,
                    "{at}: recovery changed the log"
                );
            }
        }
    }
}

/// The server continues after the tear in a new log, which the torn one does not hide.
#[test]
fn a_server_continues_after_a_torn_tail() {
    let Some(vector) = vector("txns-all") else {
        return;
    };
    let directory = vector.copy("data");
    let offsets = offsets(&directory, "log.1");
    let path = directory.file("log.1");
    let whole = fs::read(&path).unwrap();
    let last = *offsets.last_chunk::<2>().unwrap().first().unwrap();
    let torn = tear(&whole, last + 30, Tail::Zeros);
    fs::write(&path, &torn).unwrap();
    let started = directory.serve().unwrap();
    assert_eq!(started.zxid.0, 0x36);
    assert_eq!(fs::read(&path).unwrap(), torn);
    let found = directory.recover().unwrap();
    assert_eq!(found.recovered.last_zxid.0, 0x36);
    assert_eq!(found.recovered.txns_replayed, 0);
    assert_eq!(found.digest_mismatches, 0);
}
