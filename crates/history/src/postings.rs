//! Which blocks hold changes of a path, of a session, of an identity.
//!
//! A key is one of these, and below it stand numbers of blocks, each with what happened there:
//!
//! ```text
//! 'p' path        's' session, 8 bytes        'i' identity `scheme:id`, or a client's host
//! ```
//!
//! Keys of the last blocks are in memory; then they go to a sorted file, a *run*, and runs of one
//! size are merged into one of the next: what is written for a change grows with the logarithm of
//! their number. An entry of a run is a key and up to a few thousand blocks:
//! `count varint | (block, or what it is more than the one before, varint | kinds u8)...`.

use hashbrown::HashMap;
use hashbrown::hash_map::EntryRef;
use smallvec::{SmallVec, smallvec};

use crate::files::sorted::{put_varint, take_varint};
use crate::record::{Change, Operation};

/// What changes of one path in one block do.
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

/// The kinds of a change.
pub(crate) fn kinds_of(change: &Change) -> u8 {
    match change.operation() {
        Operation::Create => kinds::CREATES | kinds::SETS_DATA | kinds::SETS_ACL,
        Operation::SetData | Operation::Reconfig => kinds::SETS_DATA,
        Operation::SetAcl => kinds::SETS_ACL,
        Operation::Delete | Operation::DeleteByServer | Operation::CloseSession => kinds::DELETES,
        Operation::Unspecified => 0,
    }
}

/// The key of a path.
pub(crate) fn path_key(path: &str) -> Vec<u8> {
    let mut key = Vec::with_capacity(path.len() + 1);
    key.push(b'p');
    key.extend_from_slice(path.as_bytes());
    key
}

/// The path of such a key.
pub(crate) fn key_path(key: &[u8]) -> Option<&str> {
    let (kind, path) = key.split_first()?;
    std::str::from_utf8(path).ok().filter(|_| *kind == b'p')
}

/// The key of a session.
pub(crate) fn session_key(session: i64) -> Vec<u8> {
    let mut key = vec![b's'];
    key.extend_from_slice(&session.to_be_bytes());
    key
}

/// The host of a client's address; none if the client is not known.
pub(crate) fn host(client: &str) -> Option<&str> {
    client.rsplit_once(':').map(|(host, _)| host)
}

/// The key of an identity, or of a client's host.
pub(crate) fn identity_key(identity: &str) -> Vec<u8> {
    let mut key = vec![b'i'];
    key.extend_from_slice(identity.as_bytes());
    key
}

/// Writes postings as the value of an entry.
pub(crate) fn encode(postings: &[Posting], out: &mut Vec<u8>) {
    put_varint(postings.len() as u64, out);
    let mut before = 0;
    for posting in postings {
        put_varint(posting.block - before, out);
        out.push(posting.kinds);
        before = posting.block;
    }
}

/// Appends the postings of an entry; `None` if they do not decode.
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

/// Keys of the blocks that are not in a run yet.
#[derive(Debug, Default)]
pub(crate) struct RecentKeys {
    /// Not in order: each change looks for some, and they are sorted once for many.
    by_key: HashMap<Box<[u8]>, SmallVec<[Posting; 1]>>,
    /// The session of the last change: it is often that of the next, too.
    last_session: Option<(u64, i64)>,
    /// Who made the last change, likewise.
    last_client: LastClient,
    key: Vec<u8>,
}

/// A block, and who made a change in it.
#[derive(Debug, Default)]
struct LastClient {
    block: Option<u64>,
    client: String,
    identities: Vec<String>,
}

impl LastClient {
    /// Whether another one made the change.
    fn replace(&mut self, block: u64, change: &Change) -> bool {
        let is_same = self.block == Some(block)
            && self.client == change.client
            && self.identities == change.identities;
        if !is_same {
            self.block = Some(block);
            self.client.clone_from(&change.client);
            self.identities.clone_from(&change.identities);
        }
        !is_same
    }
}

impl RecentKeys {
    /// Notes all keys of a change.
    pub(crate) fn note(&mut self, block: u64, change: &Change) {
        let kinds = kinds_of(change);
        self.key.clear();
        self.key.push(b'p');
        self.key.extend_from_slice(change.path.as_bytes());
        self.add(block, kinds);
        if self.last_session != Some((block, change.session)) {
            self.last_session = Some((block, change.session));
            self.key.clear();
            self.key.push(b's');
            self.key.extend_from_slice(&change.session.to_be_bytes());
            self.add(block, 0);
        }
        if !self.last_client.replace(block, change) {
            return;
        }
        for who in change
            .identities
            .iter()
            .map(String::as_str)
            .chain(host(&change.client))
        {
            self.key.clear();
            self.key.push(b'i');
            self.key.extend_from_slice(who.as_bytes());
            self.add(block, 0);
        }
    }

    fn add(&mut self, block: u64, kinds: u8) {
        let posting = Posting { block, kinds };
        match self.by_key.entry_ref(&*self.key) {
            EntryRef::Occupied(mut entry) => match entry.get_mut().last_mut() {
                Some(last) if last.block == block => last.kinds |= kinds,
                _ => entry.get_mut().push(posting),
            },
            EntryRef::Vacant(entry) => {
                entry.insert(smallvec![posting]);
            }
        }
    }

    /// The postings of a key.
    pub(crate) fn get(&self, key: &[u8]) -> &[Posting] {
        self.by_key.get(key).map_or(&[], SmallVec::as_slice)
    }

    /// Keys between `from` and `to` (excluded) in order.
    pub(crate) fn between(&self, from: &[u8], to: &[u8]) -> Vec<(&[u8], &[Posting])> {
        let all = self.by_key.iter();
        let all = all.map(|(key, postings)| (&**key, &**postings));
        let mut found: Vec<_> = all.filter(|(key, _)| from <= *key && *key < to).collect();
        found.sort_unstable_by_key(|(key, _)| *key);
        found
    }

    /// All keys in order.
    pub(crate) fn sorted(&self) -> Vec<(&[u8], &[Posting])> {
        let all = self.by_key.iter();
        let mut all: Vec<_> = all.map(|(key, postings)| (&**key, &**postings)).collect();
        all.sort_unstable_by_key(|(key, _)| *key);
        all
    }

    /// None, with room for as many as these are: what comes next is often like what came before.
    pub(crate) fn emptied(&self) -> Self {
        Self {
            by_key: HashMap::with_capacity(self.by_key.len()),
            ..Self::default()
        }
    }
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
