//! Lengths of answers to reads.
//!
//! An answer may be many times longer than its request. A host permits a maximum length for each
//! read. A longer answer is not built. Instead, its length is returned, so that the host can
//! reserve memory and repeat the read.

use jute::text_len;
use proto::Stat;
use proto::request::{PathWatchRequest, ReadRequest, SetWatchesRequest};

use super::ReadFailure;
use crate::Tree;

/// Length of the length field before a string, a buffer or a vector, bytes.
pub(super) const LEN_BYTES: usize = 4;
/// Length of getData's answer without the data, bytes.
pub(super) const DATA_REPLY_BYTES: usize = LEN_BYTES + <Stat as jute::Decode>::MIN_BYTES;
/// Length of an encoded event without its path, bytes.
const EVENT_BYTES: usize = 32;
/// Expected length of an entry in a list of children, bytes.
const EXPECTED_NAME_BYTES: usize = 32;

pub(super) fn string_bytes(text: &str) -> usize {
    LEN_BYTES + text_len(text)
}

/// Returns the error for a list of this length that does not fit. The reported length includes a
/// stat, which follows the list in some replies.
pub(super) fn with_stat(bytes: usize) -> ReadFailure {
    let stat = <Stat as jute::Decode>::MIN_BYTES;
    let bytes = bytes + stat;
    ReadFailure::TooLong { bytes }
}

/// Checks that at most `bytes_max` bytes were appended after `start`. Otherwise, removes them and
/// returns TooLong.
pub(super) fn check_reply_size(
    start: usize,
    bytes_max: usize,
    out: &mut Vec<u8>,
) -> Result<(), ReadFailure> {
    let bytes = out.len() - start;
    if bytes > bytes_max {
        out.truncate(start);
        return Err(ReadFailure::TooLong { bytes });
    }
    Ok(())
}

impl Tree {
    /// Returns the approximate length of the answer to a read, bytes. Does not iterate over
    /// children.
    pub fn expected_bytes(&self, request: &ReadRequest) -> usize {
        let node = |request: &PathWatchRequest| {
            let id = self.lookup(request.path.as_ref()?)?;
            Some(&self.arena[id])
        };
        match request {
            ReadRequest::GetData(request) => {
                DATA_REPLY_BYTES + node(request).map_or(0, |node| node.body.data_len())
            }
            ReadRequest::GetChildren(request) | ReadRequest::GetChildren2(request) => {
                let count = node(request).map_or(0, |node| node.num_children);
                usize::try_from(count)
                    .unwrap_or(usize::MAX)
                    .saturating_mul(EXPECTED_NAME_BYTES)
            }
            // Long answers are rare, and their length is hard to predict.
            ReadRequest::MultiRead(_) | ReadRequest::GetEphemerals(_) => {
                self.multi_read_bytes_max()
            }
            ReadRequest::SetWatches(request) => set_watches_bytes_max(request),
            _ => DATA_REPLY_BYTES,
        }
    }
}

/// Returns the maximum total length of the reply to a setWatches and of the missed events, bytes.
/// Each path with a one-shot watch may cause one event.
pub fn set_watches_bytes_max(request: &SetWatchesRequest) -> usize {
    let lists = [&request.data, &request.exist, &request.child];
    let paths = lists.into_iter().flatten().flatten().flatten();
    let events: usize = paths.map(|path| EVENT_BYTES + path.len()).sum();
    DATA_REPLY_BYTES + events
}
