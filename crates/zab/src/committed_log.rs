//! Newest committed transactions, kept in memory.
//!
//! A learner that was disconnected for a moment misses a few transactions. They are still in this
//! list, so the leader sends them without reading a file. A server keeps the list in every role,
//! because a follower may lead later, and its learners then miss the same few transactions.
//!
//! Source: ZKDatabase.addCommittedProposal.

use std::collections::VecDeque;

use proto::Zxid;

use crate::Record;

/// Maximum size of the kept transactions, bytes. The newest transaction is kept even if it is
/// larger. A learner that misses more is synchronised from the log files.
const BYTES_MAX: usize = 4 << 20;

/// The newest committed transactions, oldest first, at most a given number and 4 MiB of them.
///
/// Invariant: within an epoch, zxids increase without a gap. A transaction that would leave a gap
/// clears the list first.
#[derive(Debug, Clone)]
pub struct CommittedLog {
    records: VecDeque<Record>,
    len_max: usize,
    bytes: usize,
}

impl CommittedLog {
    /// Number of transactions that ZooKeeper keeps by default, which is also its minimum
    /// (`zookeeper.commitLogCount`).
    pub const LEN_DEFAULT: usize = 500;

    /// Creates an empty list that keeps `len_max` transactions, at least one.
    pub fn new(len_max: usize) -> Self {
        Self {
            records: VecDeque::new(),
            len_max: len_max.max(1),
            bytes: 0,
        }
    }

    /// Adds the next committed transaction. Ignores a transaction that is not newer than the last
    /// one in the list.
    pub fn push(&mut self, record: Record) {
        if let Some(last) = self.max() {
            if record.zxid <= last {
                return;
            }
            if !crate::record::follows(last, record.zxid) {
                self.clear();
            }
        }
        self.bytes += record.txn.len();
        self.records.push_back(record);
        while self.records.len() > self.len_max
            || (self.bytes > BYTES_MAX && self.records.len() > 1)
        {
            self.bytes -= self
                .records
                .pop_front()
                .map_or(0, |oldest| oldest.txn.len());
        }
    }

    /// Removes all transactions. Call this when a snapshot has replaced the log.
    pub fn clear(&mut self) {
        self.records.clear();
        self.bytes = 0;
    }

    /// Removes all transactions after `zxid`. Call this when the log was cut after `zxid`.
    pub fn truncate_after(&mut self, zxid: Zxid) {
        let kept = self.index_after(zxid);
        let forgotten = self.records.drain(kept..);
        self.bytes -= forgotten.map(|record| record.txn.len()).sum::<usize>();
    }

    /// Returns the oldest zxid in the list.
    pub fn min(&self) -> Option<Zxid> {
        self.records.front().map(|record| record.zxid)
    }

    /// Returns the newest zxid in the list.
    pub fn max(&self) -> Option<Zxid> {
        self.records.back().map(|record| record.zxid)
    }

    /// Returns the transactions after `zxid`, oldest first.
    pub fn after(&self, zxid: Zxid) -> impl Iterator<Item = &Record> {
        self.records.range(self.index_after(zxid)..)
    }

    /// Returns the newest zxid in the list that is at most `zxid`.
    pub fn last_up_to(&self, zxid: Zxid) -> Option<Zxid> {
        let at = self.index_after(zxid).checked_sub(1)?;
        self.records.get(at).map(|record| record.zxid)
    }

    /// Returns the number of transactions.
    pub fn len(&self) -> usize {
        self.records.len()
    }

    /// Returns whether the list is empty.
    pub fn is_empty(&self) -> bool {
        self.records.is_empty()
    }

    fn index_after(&self, zxid: Zxid) -> usize {
        self.records.partition_point(|record| record.zxid <= zxid)
    }
}

impl Default for CommittedLog {
    fn default() -> Self {
        Self::new(Self::LEN_DEFAULT)
    }
}

#[cfg(test)]
mod tests {
    use proto::Epoch;

    use super::*;

    fn log(len_max: usize, zxids: &[(i64, u32)]) -> CommittedLog {
        let mut log = CommittedLog::new(len_max);
        for (epoch, counter) in zxids {
            log.push(Record::new(Zxid::new(Epoch(*epoch), *counter), &b""[..]));
        }
        log
    }

    fn zxids(log: &CommittedLog) -> Vec<(i64, u32)> {
        let all = log.after(Zxid::ZERO);
        all.map(|record| (record.zxid.epoch().0, record.zxid.counter()))
            .collect()
    }

    #[test]
    fn the_oldest_transactions_are_dropped() {
        let log = log(3, &[(1, 1), (1, 2), (1, 3), (2, 1)]);
        assert_eq!(zxids(&log), [(1, 2), (1, 3), (2, 1)]);
        assert_eq!(log.min(), Some(Zxid::new(Epoch(1), 2)));
        assert_eq!(log.max(), Some(Zxid::new(Epoch(2), 1)));
    }

    #[test]
    fn long_transactions_are_dropped_sooner() {
        let mut log = CommittedLog::new(100);
        let mut push = |counter, bytes| {
            log.push(Record::new(Zxid::new(Epoch(1), counter), vec![0; bytes]));
            log.len()
        };
        assert_eq!(push(1, BYTES_MAX / 2), 1);
        assert_eq!(push(2, BYTES_MAX / 2), 2);
        assert_eq!(push(3, 1), 2);
        assert_eq!(push(4, BYTES_MAX + 1), 1, "the newest is always there");
        assert_eq!(push(5, 1), 1);
        assert_eq!(push(6, 1), 2);
        log.truncate_after(Zxid::new(Epoch(1), 5));
        let mut again = |counter, bytes| {
            log.push(Record::new(Zxid::new(Epoch(1), counter), vec![0; bytes]));
            log.len()
        };
        assert_eq!(
            again(6, BYTES_MAX - 1),
            2,
            "what was cut off is not counted"
        );
        assert_eq!(again(7, 1), 2);
    }

    #[test]
    fn duplicates_are_not_added_and_a_hole_clears_the_list() {
        assert_eq!(zxids(&log(9, &[(1, 1), (1, 2), (1, 1)])), [(1, 1), (1, 2)]);
        assert_eq!(zxids(&log(9, &[(1, 1), (1, 2), (1, 4)])), [(1, 4)]);
    }

    #[test]
    fn positions_between_transactions_are_understood() {
        let mut log = log(9, &[(1, 1), (1, 2), (3, 1)]);
        let between = Zxid::new(Epoch(2), 7);
        assert_eq!(log.last_up_to(between), Some(Zxid::new(Epoch(1), 2)));
        assert_eq!(log.last_up_to(Zxid::ZERO), None);
        assert_eq!(log.after(between).count(), 1);
        log.truncate_after(between);
        assert_eq!(zxids(&log), [(1, 1), (1, 2)]);
        log.truncate_after(Zxid::ZERO);
        assert!(log.is_empty() && log.min().is_none());
    }
}
