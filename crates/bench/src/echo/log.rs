//! The log of a server that does nothing but sync: one file, and one sync for all that waits. With followers it is the
//! log of an ensemble: what a majority of their files and the leader's holds is durable.

use std::io;
use std::path::Path;
use std::sync::Arc;

use tokio::sync::watch;

use super::super::args::Preallocate;
use super::super::error::{BenchError, Result};
use super::super::fsync::Scratch;
use super::super::threads::spawn;
use super::follower::{follow, hear_commits};
use super::leader::Leader;
use super::link::{Link, connect};

/// Where connections append what is to be on disk before they answer.
#[derive(Debug, Clone)]
pub(crate) struct Log {
    way: Way,
    durable: watch::Receiver<u64>,
}

#[derive(Debug, Clone)]
enum Way {
    Leader(Arc<Leader>),
    /// To the leader.
    Follower(Arc<Link>),
}

impl Log {
    /// A file without a name in `dir`, and so many more, each of a follower that is reached over loopback; with the
    /// threads that write them until the process ends. The log of the leader, and those of followers with clients.
    pub(crate) fn open(dir: &Path, followers: usize) -> Result<(Self, Vec<Self>)> {
        let (mut ends, mut proposals, mut commits, mut logs) = (vec![], vec![], vec![], vec![]);
        for _ in 0..followers {
            let [(propose, acks), (acknowledge, proposed)] = connect()?;
            let [(commit, requests), (pass_on, committed)] = connect()?;
            let (tell, durable) = watch::channel(0);
            proposals.push(propose);
            commits.push(commit);
            logs.push(Self {
                way: Way::Follower(Arc::new(pass_on)),
                durable,
            });
            ends.push((acks, acknowledge, proposed, requests, committed, tell));
        }
        let (tell, durable) = watch::channel(0);
        let leader = Arc::new(Leader::new(proposals, commits, tell));
        let scratch = Scratch::create(dir, Preallocate::Zeroes)?;
        start("echo-log", &leader, move |leader| leader.write(scratch))?;
        for (index, ends) in ends.into_iter().enumerate() {
            let (acks, acknowledge, proposed, requests, committed, tell) = ends;
            let scratch = Scratch::create(dir, Preallocate::Zeroes)?;
            start("echo-follow", &leader, move |_| {
                follow(scratch, proposed, &acknowledge)
            })?;
            start("echo-acks", &leader, move |leader| {
                let heard = leader.hear_acks(index, acks);
                heard.map_err(BenchError::io("hear a follower"))
            })?;
            start("echo-requests", &leader, move |leader| {
                let heard = leader.hear_requests(index, requests);
                heard.map_err(BenchError::io("hear a follower"))
            })?;
            start("echo-commits", &leader, move |_| {
                let heard = hear_commits(committed, &tell);
                heard.map_err(BenchError::io("hear a leader"))
            })?;
        }
        let way = Way::Leader(leader);
        Ok((Self { way, durable }, logs))
    }

    /// Appends a record; returns its number. [`Log::flush`] must follow.
    pub(super) fn append(&self, record: &[u8]) -> u64 {
        match &self.way {
            Way::Leader(leader) => leader.append(record),
            Way::Follower(link) => link.put(record),
        }
    }

    /// Sees to it that what was appended is written.
    pub(super) fn flush(&self) -> io::Result<()> {
        match &self.way {
            Way::Leader(leader) => leader.flush(),
            Way::Follower(link) => link.flush(),
        }
    }

    /// The number of the last record that is durable, with all before it.
    pub(super) fn durable(&self) -> u64 {
        *self.durable.borrow()
    }

    /// Waits until the record of this number, and all before it, are durable.
    pub(super) async fn synced(&mut self, number: u64) -> io::Result<()> {
        match self.durable.wait_for(|durable| *durable >= number).await {
            Ok(_) => Ok(()),
            Err(_) => Err(io::Error::other("the log cannot be written")),
        }
    }
}

/// Starts a thread that ends it all if its work fails.
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
        assert!(error.starts_with("create "), "{error}");
    }
}
