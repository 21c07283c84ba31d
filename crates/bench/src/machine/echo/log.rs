//! Log of a server that only syncs: one file, and one sync for all waiting records. With followers,
//! it is the log of an ensemble, in which a record is durable once a majority of the files contains
//! it.

use std::io;
use std::path::Path;
use std::sync::Arc;

use tokio::sync::watch;

use super::super::fsync::Scratch;
use super::follower::{follow, receive_commits};
use super::leader::Leader;
use super::link::{RecordSender, connect};
use crate::args::Preallocate;
use crate::error::{BenchError, Result};
use crate::rounds::threads::spawn;

/// Log to which connections append records. A request is answered only when its record is durable.
#[derive(Debug, Clone)]
pub(crate) struct Log {
    way: LogRole,
    durable: watch::Receiver<u64>,
}

#[derive(Debug, Clone)]
enum LogRole {
    Leader(Arc<Leader>),
    /// Link to the leader.
    Follower(Arc<RecordSender>),
}

impl Log {
    /// Creates an unnamed file in `dir`, and a further file for each follower. Connects the
    /// followers over loopback. Starts the threads that write the files until the process ends.
    /// Returns the log for clients of the leader, and the log for clients of each follower.
    pub(crate) fn open(dir: &Path, followers: usize) -> Result<(Self, Vec<Self>)> {
        let (mut ends, mut proposals, mut commits, mut logs) = (vec![], vec![], vec![], vec![]);
        for _ in 0..followers {
            let [(propose, acks), (acknowledge, proposed)] = connect()?;
            let [(commit, requests), (pass_on, committed)] = connect()?;
            let (notify, durable) = watch::channel(0);
            proposals.push(propose);
            commits.push(commit);
            logs.push(Self {
                way: LogRole::Follower(Arc::new(pass_on)),
                durable,
            });
            ends.push((acks, acknowledge, proposed, requests, committed, notify));
        }
        let (notify, durable) = watch::channel(0);
        let leader = Arc::new(Leader::new(proposals, commits, notify));
        let scratch = Scratch::create(dir, Preallocate::Zeroes)?;
        start("echo-log", &leader, move |leader| leader.write(scratch))?;
        for (index, ends) in ends.into_iter().enumerate() {
            let (acks, acknowledge, proposed, requests, committed, notify) = ends;
            let scratch = Scratch::create(dir, Preallocate::Zeroes)?;
            start("echo-follow", &leader, move |_| {
                follow(scratch, proposed, &acknowledge)
            })?;
            start("echo-acks", &leader, move |leader| {
                let received = leader.receive_acks(index, acks);
                received.map_err(BenchError::io("receive from a follower"))
            })?;
            start("echo-requests", &leader, move |leader| {
                let received = leader.receive_requests(index, requests);
                received.map_err(BenchError::io("receive from a follower"))
            })?;
            start("echo-commits", &leader, move |_| {
                let received = receive_commits(committed, &notify);
                received.map_err(BenchError::io("receive from a leader"))
            })?;
        }
        let way = LogRole::Leader(leader);
        Ok((Self { way, durable }, logs))
    }

    /// Appends a record, and returns its number. [`Log::flush`] must follow.
    pub(super) fn append(&self, record: &[u8]) -> u64 {
        match &self.way {
            LogRole::Leader(leader) => leader.append(record),
            LogRole::Follower(link) => link.put(record),
        }
    }

    /// Passes the appended records to the threads that write the files or, on a follower, to the
    /// leader.
    pub(super) fn flush(&self) -> io::Result<()> {
        match &self.way {
            LogRole::Leader(leader) => leader.flush(),
            LogRole::Follower(link) => link.flush(),
        }
    }

    /// Returns the number of the last record that is durable together with all earlier records.
    pub(super) fn durable(&self) -> u64 {
        *self.durable.borrow()
    }

    /// Waits until the record with this number and all earlier records are durable.
    pub(super) async fn synced(&mut self, number: u64) -> io::Result<()> {
        match self.durable.wait_for(|durable| *durable >= number).await {
            Ok(_) => Ok(()),
            Err(_) => Err(io::Error::other("the log cannot be written")),
        }
    }
}

/// Starts a thread that fails the whole log if its work fails.
fn start(
    name: &str,
    leader: &Arc<Leader>,
    work: impl FnOnce(&Leader) -> Result<()> + Send + 'static,
) -> Result<()> {
    let leader = Arc::clone(leader);
    spawn(name, move || leader.or_fail(work(&leader)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_is_synced_with_all_before_it_and_leaves_no_file() {
        for followers in [0, 2] {
            let dir = tempfile::tempdir().unwrap();
            let (leader, mut logs) = Log::open(dir.path(), followers).unwrap();
            assert_eq!(logs.len(), followers);
            logs.push(leader);
            for log in &mut logs {
                let numbers: Vec<u64> = (0..1000).map(|_| log.append(&[7; 100])).collect();
                assert!(numbers.is_sorted());
                let last = numbers.last().copied().unwrap();
                log.flush().unwrap();
                let runtime = tokio::runtime::Builder::new_current_thread().build();
                runtime.unwrap().block_on(log.synced(last)).unwrap();
                assert!(log.durable() >= last);
            }
            assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
        }
    }

    #[test]
    fn a_directory_that_is_missing_is_named() {
        let dir = tempfile::tempdir().unwrap();
        let error = Log::open(&dir.path().join("none"), 0).unwrap_err();
        let error = error.to_string();
        assert!(error.starts_with("cannot create "), "{error}");
    }
}
