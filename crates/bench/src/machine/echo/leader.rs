//! Leader of the echo servers. It writes records to its own file, sends them to followers, and
//! tracks which records a majority has.

use std::collections::VecDeque;
use std::io;

use parking_lot::{Condvar, Mutex};
use tokio::sync::watch;

use super::super::fsync::Scratch;
use super::link::{RecordReader, RecordSender};
use crate::error::{BenchError, Result};

#[derive(Debug)]
pub(super) struct Leader {
    /// Lock that is held while a record is appended, so that all files have the same order of
    /// records.
    order: Mutex<()>,
    file: PendingRecords,
    /// Links that send records to the followers.
    proposals: Vec<RecordSender>,
    counts: Mutex<Counts>,
    /// Links that report committed records to the followers, for their clients.
    commits: Vec<RecordSender>,
}

/// Records that wait to be written to the leader's file.
#[derive(Debug, Default)]
struct PendingRecords {
    records: Mutex<Records>,
    more: Condvar,
}

#[derive(Debug, Default)]
struct Records {
    bytes: Vec<u8>,
    /// Number of the last appended record.
    last: u64,
}

/// Number of records in each file, and the clients and groups that wait for a majority.
#[derive(Debug)]
struct Counts {
    /// Number of the last record in each file. The leader's file is first.
    of_files: Vec<u64>,
    /// Sender that wakes waiting clients. It is dropped when a file or a link fails, so that the
    /// clients notice the failure.
    notify: Option<watch::Sender<u64>>,
    /// Uncommitted groups that each follower has forwarded. The leader appends a group as one
    /// record. Each pair contains the leader's number of this record, and the follower's number of
    /// the last record in the group.
    passed_on: Vec<VecDeque<(u64, u64)>>,
}

impl Leader {
    /// Creates a leader. The links are in the order of the followers. `notify` publishes the number
    /// of the last record that a majority has, for clients of the leader.
    pub(super) fn new(
        proposals: Vec<RecordSender>,
        commits: Vec<RecordSender>,
        notify: watch::Sender<u64>,
    ) -> Self {
        let counts = Counts {
            of_files: vec![0; 1 + proposals.len()],
            notify: Some(notify),
            passed_on: vec![VecDeque::new(); commits.len()],
        };
        Self {
            order: Mutex::default(),
            file: PendingRecords::default(),
            proposals,
            counts: Mutex::new(counts),
            commits,
        }
    }

    /// Appends a record, and returns its number. [`Leader::flush`] must follow.
    pub(super) fn append(&self, record: &[u8]) -> u64 {
        let _order = self.order.lock();
        for link in &self.proposals {
            link.put(record);
        }
        let mut records = self.file.records.lock();
        records.bytes.extend_from_slice(record);
        records.last += 1;
        records.last
    }

    /// Sends the appended records to the followers, and wakes the thread that writes the file.
    pub(super) fn flush(&self) -> io::Result<()> {
        self.proposals.iter().try_for_each(RecordSender::flush)?;
        self.file.more.notify_one();
        Ok(())
    }

    /// Writes appended records to the leader's file until an error occurs.
    pub(super) fn write(&self, mut scratch: Scratch) -> Result<()> {
        let mut bytes = Vec::new();
        loop {
            let last = self.file.take(&mut bytes);
            scratch.write(&bytes)?;
            bytes.clear();
            let notified = self.advance(0, last);
            notified.map_err(BenchError::io("send to a follower"))?;
        }
    }

    /// Receives the acknowledgements for a follower's file until the link fails.
    pub(super) fn receive_acks(&self, follower: usize, mut acks: RecordReader) -> io::Result<()> {
        loop {
            let (_, last) = acks.next()?;
            self.advance(1 + follower, last)?;
        }
    }

    /// Receives and appends the writes of a follower's clients until the link fails.
    pub(super) fn receive_requests(
        &self,
        follower: usize,
        mut requests: RecordReader,
    ) -> io::Result<()> {
        loop {
            let (records, last) = requests.next()?;
            let number = self.append(records);
            if let Some(passed_on) = self.counts.lock().passed_on.get_mut(follower) {
                passed_on.push_back((number, last));
            }
            self.flush()?;
            // A majority may have synced the record before the record was added to `passed_on`.
            self.commit()?;
        }
    }

    /// Notes that a file has all records up to `last` on disk, and publishes which are committed.
    fn advance(&self, file: usize, last: u64) -> io::Result<()> {
        if let Some(count) = self.counts.lock().of_files.get_mut(file) {
            *count = last;
        }
        self.commit()
    }

    /// Publishes which records are committed, to clients of the leader and to followers.
    fn commit(&self) -> io::Result<()> {
        let mut counts = self.counts.lock();
        let majority = counts.majority();
        if let Some(notify) = &counts.notify {
            notify.send_if_modified(|notified| {
                let is_more = majority > *notified;
                *notified = majority.max(*notified);
                is_more
            });
        }
        for (passed_on, link) in counts.passed_on.iter_mut().zip(&self.commits) {
            let is_committed = |group: &(u64, u64)| group.0 <= majority;
            while let Some((_, last)) = passed_on.front().copied().filter(is_committed) {
                passed_on.pop_front();
                link.put_number(last);
            }
        }
        drop(counts);
        self.commits.iter().try_for_each(RecordSender::flush)
    }

    /// Logs a failure of the work, and makes the requests of all waiting clients fail.
    pub(super) fn or_fail(&self, worked: Result<()>) {
        if let Err(error) = worked {
            tracing::error!(%error, "cannot write the log");
            self.counts.lock().notify = None;
            self.commits.iter().for_each(RecordSender::close);
        }
    }
}

impl PendingRecords {
    /// Waits for records, and moves all of them to the empty buffer `taken`. Returns the number of
    /// the last record.
    fn take(&self, taken: &mut Vec<u8>) -> u64 {
        let mut records = self.records.lock();
        while records.bytes.is_empty() {
            self.more.wait(&mut records);
        }
        std::mem::swap(taken, &mut records.bytes);
        records.last
    }
}

impl Counts {
    /// Returns the number of the last record that a majority has.
    fn majority(&self) -> u64 {
        let mut sorted = self.of_files.clone();
        sorted.sort_unstable();
        // A majority of the files contains this record or a later record.
        sorted.get((sorted.len() - 1) / 2).copied().unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::super::link::connect;
    use super::*;

    #[test]
    fn records_on_a_majority_are_reported_to_all_waiters() {
        let [(proposals, _acks), _follower] = connect().unwrap();
        let [(others, _others_acks), _other] = connect().unwrap();
        let [(commits, requests), (passes_on, mut committed)] = connect().unwrap();
        let (notify, notified) = watch::channel(0);
        let leader = Leader::new(vec![proposals, others], vec![commits], notify);
        let mut seen = Vec::new();
        for (file, last) in [(0, 5), (2, 3), (1, 9), (2, 7)] {
            leader.advance(file, last).unwrap();
            seen.push(*notified.borrow());
        }
        assert_eq!(seen, [0, 3, 5, 7]);
        assert_eq!(leader.append(&[7; 10]), 1);
        std::thread::scope(|scope| {
            scope.spawn(|| leader.receive_requests(0, requests));
            passes_on.put(&[7; 10]);
            assert_eq!(passes_on.put(&[7; 10]), 2);
            passes_on.flush().unwrap();
            // A majority has already acknowledged records with higher numbers.
            assert_eq!(committed.next().unwrap().1, 2);
            leader.or_fail(Err(BenchError::Stalled(1)));
            assert!(committed.next().is_err());
        });
        assert!(notified.has_changed().is_err());
    }
}
