//! Postings, which list the blocks with changes to a path, in a session or by an identity.
//!
//! The entry of a key lists the numbers of blocks, each with the kinds of changes in the block. A
//! key has one of these forms:
//!
//! ```text
//! 'p' path        's' session, 8 bytes        'i' identity `scheme:id`, or a client's host
//! ```
//!
//! Keys of the last blocks are in memory. When the number of these blocks reaches a limit, their
//! keys are written to a sorted file, a *run*. Several runs of one level are merged into one run of
//! the next level. The number of bytes written per change therefore grows with the logarithm of the
//! number of changes. An entry of a run consists of a key and up to a few thousand blocks:
//! `count varint | (block, or its difference from the previous block, varint | kinds u8)...`.

use crate::files::sorted::{put_varint, take_varint};
use crate::record::{Change, Operation};

/// Kinds of changes to one path in one block.
pub(crate) mod kinds {
    pub(crate) const CREATES: u8 = 1;
    pub(crate) const SETS_DATA: u8 = 2;
    pub(crate) const SETS_ACL: u8 = 4;
    pub(crate) const DELETES: u8 = 8;
}

/// A block and the kinds of changes in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Posting {
    pub(crate) block: u64,
    pub(crate) kinds: u8,
}

/// Returns the kinds of a change.
pub(crate) fn kinds_of(change: &Change) -> u8 {
    match change.operation() {
        Operation::Create => kinds::CREATES | kinds::SETS_DATA | kinds::SETS_ACL,
        Operation::SetData | Operation::Reconfig => kinds::SETS_DATA,
        Operation::SetAcl => kinds::SETS_ACL,
        Operation::Delete | Operation::DeleteByServer | Operation::CloseSession => kinds::DELETES,
        Operation::Unspecified => 0,
    }
}

/// Returns the key of a path.
pub(crate) fn path_key(path: &str) -> Vec<u8> {
    let mut key = Vec::with_capacity(path.len() + 1);
    key.push(b'p');
    key.extend_from_slice(path.as_bytes());
    key
}

/// Returns the path in a key; `None` if the key is not the key of a path.
pub(crate) fn key_path(key: &[u8]) -> Option<&str> {
    let (kind, path) = key.split_first()?;
    std::str::from_utf8(path).ok().filter(|_| *kind == b'p')
}

/// Returns the key of a session.
pub(crate) fn session_key(session: i64) -> Vec<u8> {
    let mut key = vec![b's'];
    key.extend_from_slice(&session.to_be_bytes());
    key
}

/// Returns the host in a client's address; `None` if the client is unknown.
pub(crate) fn host(client: &str) -> Option<&str> {
    client.rsplit_once(':').map(|(host, _)| host)
}

/// Returns the key of an identity or of a client's host.
pub(crate) fn identity_key(identity: &str) -> Vec<u8> {
    let mut key = vec![b'i'];
    key.extend_from_slice(identity.as_bytes());
    key
}

/// Encodes postings as the value of an entry.
pub(crate) fn encode(postings: &[Posting], out: &mut Vec<u8>) {
    put_varint(postings.len() as u64, out);
    let mut before = 0;
    for posting in postings {
        put_varint(posting.block - before, out);
        out.push(posting.kinds);
        before = posting.block;
    }
}

/// Decodes the postings in an entry and appends them. Returns `None` if they cannot be decoded.
pub(crate) fn decode(mut value: &[u8], out: &mut Vec<Posting>) -> Option<()> {
    let count = take_varint(&mut value)?;
    let mut block = 0_u64;
    for _ in 0..count {
        block = block.checked_add(take_varint(&mut value)?)?;
        let (kinds, rest) = value.split_first()?;
        value = rest;
        out.push(Posting {
            block,
            kinds: *kinds,
        });
    }
    value.is_empty().then_some(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn postings_are_read_as_they_were_written() {
        let postings: Vec<Posting> = [(0, 1), (1, 2), (300, 15), (1 << 40, 0)]
            .map(|(block, kinds)| Posting { block, kinds })
            .to_vec();
        let mut value = Vec::new();
        encode(&postings, &mut value);
        let mut read = Vec::new();
        assert_eq!(decode(&value, &mut read), Some(()));
        assert_eq!(read, postings);
        for end in 0..value.len() {
            assert_eq!(decode(&value[..end], &mut Vec::new()), None, "{end}");
        }
    }
}
