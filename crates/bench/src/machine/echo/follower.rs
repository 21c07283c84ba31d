//! Followers for the measured limit. Each receives groups of records over loopback, writes and
//! syncs them, and acknowledges to its leader. It forwards the writes of its own clients to the
//! leader, and learns from the leader which of them are committed. It does not implement the
//! protocol.

use std::io;

use tokio::sync::watch;

use super::super::fsync::Scratch;
use super::link::{RecordReader, RecordSender};
use crate::error::{BenchError, Result};

/// Writes and syncs the proposals.
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

/// Publishes which forwarded records are committed.
pub(super) fn hear_commits(
    mut committed: RecordReader,
    tell: &watch::Sender<u64>,
) -> io::Result<()> {
    loop {
        let (_, last) = committed.next()?;
        tell.send_replace(last);
    }
}
