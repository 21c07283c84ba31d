//! Followers of the echo server. Each follower receives groups of records over loopback, writes and
//! syncs them, and acknowledges them to the leader. It forwards the writes of its own clients to
//! the leader, and the leader reports which of them are committed. A follower does not implement
//! ZooKeeper's protocol.

use std::io;

use tokio::sync::watch;

use super::super::fsync::Scratch;
use super::link::{RecordReader, RecordSender};
use crate::error::{BenchError, Result};

/// Writes, syncs and acknowledges proposed records until an error occurs.
pub(super) fn follow(
    mut scratch: Scratch,
    mut proposed: RecordReader,
    acks: &RecordSender,
) -> Result<()> {
    loop {
        let came = proposed.next();
        let (records, last) = came.map_err(BenchError::io("receive from a leader"))?;
        scratch.write(records)?;
        acks.put_number(last);
        acks.flush().map_err(BenchError::io("answer a leader"))?;
    }
}

/// Publishes the number of the last forwarded record that has been committed, until the link fails.
pub(super) fn receive_commits(
    mut committed: RecordReader,
    notify: &watch::Sender<u64>,
) -> io::Result<()> {
    loop {
        let (_, last) = committed.next()?;
        notify.send_replace(last);
    }
}
