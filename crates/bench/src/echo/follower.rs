//! Followers at the limit. Each is sent groups of records over loopback, writes and syncs all that came, and tells its
//! leader how far it is. What its own clients write it passes on to the leader first, and is told what is committed of
//! that. It knows nothing of the protocol.

use std::io;

use tokio::sync::watch;

use super::super::error::{BenchError, Result};
use super::super::fsync::Scratch;
use super::link::{Groups, Link};

/// Writes and syncs what is proposed.
pub(super) fn follow(mut scratch: Scratch, mut proposed: Groups, acks: &Link) -> Result<()> {
    loop {
        let came = proposed.next();
        let (records, last) = came.map_err(BenchError::io("read what a leader sends"))?;
        scratch.write(records)?;
        acks.put_number(last);
        acks.flush().map_err(BenchError::io("answer a leader"))?;
    }
}

/// Tells those who wait what is committed of what they have passed on.
pub(super) fn hear_commits(mut committed: Groups, tell: &watch::Sender<u64>) -> io::Result<()> {
    loop {
        let (_, last) = committed.next()?;
        tell.send_replace(last);
    }
}
