//! How long the answers to reads are.
//!
//! What a client asks for may be any multiple of what it sends. A host gives each read some room;
//! what does not fit is not made, and its length is told instead, so that the host can find the
//! room and ask again.

use jute::text_len;
use proto::Stat;
use proto::request::{PathWatchRequest, ReadRequest, SetWatchesRequest};

use super::Unanswered;
use crate::Tree;

/// A length in front of a string, a buffer or a vector.
pub(super) const LEN_BYTES: usize = 4;
/// getData's answer without the data.
pub(super) const DATA_REPLY_BYTES: usize = LEN_BYTES + <Stat as jute::Decode>::MIN_BYTES;
/// An event without its path, as it is sent.
const EVENT_BYTES: usize = 32;
/// What an entry of a list of names or paths is taken for before it is looked at.
const EXPECTED_NAME_BYTES: usize = 32;

pub(super) fn string_bytes(text: &str) -> usize {
    LEN_BYTES + text_len(text)
}

/// A list of so many bytes does not fit, with or without a stat behind it.
pub(super) fn with_stat(bytes: usize) -> Unanswered {
    let stat = <Stat as jute::Decode>::MIN_BYTES;
    let bytes = bytes + stat;
    Unanswered::TooLong { bytes }
}

/// Keeps what was appended behind `start` if there is room for it.
pub(super) fn kept(start: usize, room: usize, out: &mut Vec<u8>) -> Result<(), Unanswered> {
    let bytes = out.len() - start;
    if bytes > room {
        out.truncate(start);
        return Err(Unanswered::TooLong { bytes });
    }
    Ok(())
}

impl Tree {
    /// About how many bytes the answer to a read would take now. Cheap: no list is walked.
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
            // Long ones are rare, and what they take is hard to say.
            ReadRequest::MultiRead(_) | ReadRequest::GetEphemerals(_) => {
                self.multi_read_bytes_max()
            }
            ReadRequest::SetWatches(request) => set_watches_bytes_max(request),
            _ => DATA_REPLY_BYTES,
        }
    }
}

/// Bytes of the reply to a setWatches and of all events that may have been missed: one for each
/// path whose watch can have fired meanwhile.
pub fn set_watches_bytes_max(request: &SetWatchesRequest) -> usize {
    let lists = [&request.data, &request.exist, &request.child];
    let paths = lists.into_iter().flatten().flatten().flatten();
    let events: usize = paths.map(|path| EVENT_BYTES + path.len()).sum();
    DATA_REPLY_BYTES + events
}
