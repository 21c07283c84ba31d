//! Keys of the blocks that are not in a run yet.
//!
//! In a busy history, most keys occur once, because each create has a different path. Recording a
//! key must therefore be cheap: keys are appended, and sorted only for a run or for a range of
//! keys. A lookup scans the hashes of all keys, which take at most several hundred kilobytes.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::collections::binary_heap::PeekMut;
use std::hash::{BuildHasher, Hasher};

use hashbrown::DefaultHashBuilder;

use super::postings::{Posting, host, kinds_of};
use super::settings::YieldHook;
use crate::files::sorted::shared;
use crate::record::Change;

/// Keys in the order in which they were recorded.
#[derive(Debug)]
pub(crate) struct RecentKeys {
    hasher: DefaultHashBuilder,
    /// Hash of the key of each entry.
    hashes: Vec<u64>,
    entries: Vec<RecentEntry>,
    /// Bytes of all keys, concatenated.
    bytes: Vec<u8>,
    /// Index of the latest entry for each value of the low hash bits, so that a key that is
    /// repeated in a block is usually recorded once.
    latest: Vec<usize>,
}

/// A key in a block. A key may have several entries in a block.
#[derive(Debug, Clone, Copy)]
struct RecentEntry {
    /// Start of the key in `bytes`. The key ends at the start of the next entry's key.
    start: usize,
    posting: Posting,
}

/// Number of slots in `latest`. It usually exceeds the number of entries for a block.
const LATEST: usize = 512;

impl Default for RecentKeys {
    fn default() -> Self {
        Self {
            hasher: DefaultHashBuilder::default(),
            hashes: Vec::new(),
            entries: Vec::new(),
            bytes: Vec::new(),
            latest: vec![usize::MAX; LATEST],
        }
    }
}

impl RecentKeys {
    /// Records all keys of a change.
    pub(crate) fn note(&mut self, block: u64, change: &Change) {
        let of_path = Posting {
            block,
            kinds: kinds_of(change),
        };
        self.add(b'p', change.path.as_bytes(), of_path);
        let by_whom = Posting { block, kinds: 0 };
        self.add(b's', &change.session.to_be_bytes(), by_whom);
        let identities = change.identities.iter().map(String::as_str);
        for who in identities.chain(host(&change.client)) {
            self.add(b'i', who.as_bytes(), by_whom);
        }
    }

    fn add(&mut self, class: u8, key: &[u8], posting: Posting) {
        let hash = self.hash(class, key);
        let slot = slot(hash);
        let latest = self.latest[slot];
        if let Some(entry) = self.entries.get(latest)
            && entry.posting.block == posting.block
            && self.hashes[latest] == hash
            && self.key(latest).split_first() == Some((&class, key))
        {
            self.entries[latest].posting.kinds |= posting.kinds;
            return;
        }
        self.latest[slot] = self.entries.len();
        let start = self.bytes.len();
        self.bytes.push(class);
        self.bytes.extend_from_slice(key);
        self.hashes.push(hash);
        self.entries.push(RecentEntry { start, posting });
    }

    fn hash(&self, class: u8, key: &[u8]) -> u64 {
        let mut hasher = self.hasher.build_hasher();
        hasher.write_u8(class);
        hasher.write(key);
        hasher.finish()
    }

    fn key(&self, entry: usize) -> &[u8] {
        let end = self.entries.get(entry + 1).map(|next| next.start);
        &self.bytes[self.entries[entry].start..end.unwrap_or(self.bytes.len())]
    }

    /// Returns the postings of a key.
    pub(crate) fn get(&self, key: &[u8]) -> Vec<Posting> {
        let mut found = Vec::new();
        let Some((class, rest)) = key.split_first() else {
            return found;
        };
        let wanted = self.hash(*class, rest);
        let with_hash = self.hashes.iter().enumerate();
        for (at, _) in with_hash.filter(|(_, hash)| **hash == wanted) {
            if self.key(at) == key {
                add_to(&mut found, self.entries[at].posting);
            }
        }
        found
    }

    /// Returns the keys from `from` to `to` (excluded) in order, each with its postings.
    pub(crate) fn between(&self, from: &[u8], to: &[u8]) -> Vec<(Vec<u8>, Vec<Posting>)> {
        let all = 0..self.entries.len();
        let within = all.filter(|at| (from..to).contains(&self.key(*at)));
        let within: Vec<_> = within.collect();
        let mut sorted = Sorted::new(self, &within, &YieldHook::default());
        let mut found = Vec::new();
        while let Some((key, postings)) = sorted.next() {
            found.push((key.to_vec(), postings.to_vec()));
        }
        found
    }

    /// Returns all keys, in order.
    pub(crate) fn sorted(&self, yield_hook: &YieldHook) -> Sorted<'_> {
        let all: Vec<_> = (0..self.entries.len()).collect();
        Sorted::new(self, &all, yield_hook)
    }

    /// Returns an empty value with capacity for the same number of keys, because the next blocks
    /// usually resemble the previous ones.
    pub(crate) fn emptied(&self) -> Self {
        Self {
            hashes: Vec::with_capacity(self.hashes.len()),
            entries: Vec::with_capacity(self.entries.len()),
            bytes: Vec::with_capacity(self.bytes.len()),
            ..Self::default()
        }
    }
}

fn slot(hash: u64) -> usize {
    usize::try_from(hash % LATEST as u64).unwrap_or(0)
}

/// Appends a posting. Postings for one block are combined.
fn add_to(postings: &mut Vec<Posting>, posting: Posting) {
    match postings.last_mut() {
        Some(last) if last.block == posting.block => last.kinds |= posting.kinds,
        _ => postings.push(posting),
    }
}

/// Keys in order, each with its postings.
///
/// Sorting all keys in one step would delay other threads by milliseconds. Pieces are therefore
/// sorted separately and merged while they are read.
pub(crate) struct Sorted<'a> {
    keys: &'a RecentKeys,
    pieces: Vec<std::vec::IntoIter<InOrder<'a>>>,
    /// Next entry of each piece, with the number of the piece.
    next: BinaryHeap<Reverse<(InOrder<'a>, usize)>>,
    postings: Vec<Posting>,
}

/// An entry with its sort key. Entries with the same key keep the order of their blocks.
type InOrder<'a> = (Prefix, &'a [u8], usize);

/// Prefix that distinguishes most keys without reading them: the class, and the first 15 bytes
/// after the common prefix of all keys of the class.
type Prefix = u128;

/// Number of entries that are sorted before the thread yields. Sorting them takes tens of
/// microseconds.
const PIECE: usize = 512;

impl<'a> Sorted<'a> {
    fn new(keys: &'a RecentKeys, entries: &[usize], yield_hook: &YieldHook) -> Self {
        let common = Common::of(keys, entries);
        let in_order = |at: &usize| {
            let key = keys.key(*at);
            (common.prefix(key), key, *at)
        };
        let sorted = |piece: &[usize]| {
            let mut piece: Vec<InOrder<'_>> = piece.iter().map(in_order).collect();
            piece.sort_unstable();
            yield_hook.now();
            piece.into_iter()
        };
        let mut pieces: Vec<_> = entries.chunks(PIECE).map(sorted).collect();
        let firsts = pieces.iter_mut().enumerate();
        let next = firsts.filter_map(|(piece, rest)| Some(Reverse((rest.next()?, piece))));
        Self {
            keys,
            next: next.collect(),
            pieces,
            postings: Vec::new(),
        }
    }

    /// Returns the next key and its postings; `None` at the end.
    pub(crate) fn next(&mut self) -> Option<(&[u8], &[Posting])> {
        let Reverse(((_, key, _), _)) = *self.next.peek()?;
        self.postings.clear();
        while let Some(mut top) = self.next.peek_mut()
            && let Reverse(((_, other, at), piece)) = *top
            && other == key
        {
            add_to(&mut self.postings, self.keys.entries[at].posting);
            match self.pieces[piece].next() {
                Some(entry) => *top = Reverse((entry, piece)),
                None => drop(PeekMut::pop(top)),
            }
        }
        Some((key, &self.postings))
    }
}

/// Lengths of the common prefix of all keys in a class, by class.
struct Common([usize; 256]);

impl Common {
    fn of(keys: &RecentKeys, entries: &[usize]) -> Self {
        let mut common = [0; 256];
        let mut firsts: [Option<&[u8]>; 256] = [None; 256];
        for key in entries.iter().map(|at| keys.key(*at)) {
            let Some(class) = key.first().map(|class| usize::from(*class)) else {
                continue;
            };
            match firsts[class] {
                None => (firsts[class], common[class]) = (Some(key), key.len()),
                Some(first) => {
                    common[class] = shared(&first[..common[class]], key);
                }
            }
        }
        Self(common)
    }

    fn prefix(&self, key: &[u8]) -> Prefix {
        let Some(class) = key.first() else {
            return 0;
        };
        let behind = &key[self.0[usize::from(*class)]..];
        let mut bytes = [0; 16];
        bytes[0] = *class;
        let taken = behind.len().min(15);
        bytes[1..=taken].copy_from_slice(&behind[..taken]);
        u128::from_be_bytes(bytes)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::index::postings::{identity_key, path_key, session_key};
    use crate::record::Operation;

    fn change(path: &str, operation: Operation, session: i64) -> Change {
        Change {
            path: path.to_owned(),
            operation: operation.into(),
            session,
            client: format!("10.0.0.{}:{session}", session % 3),
            identities: vec![format!("digest:user-{}", session % 2)],
            ..Change::default()
        }
    }

    /// Returns the postings of all keys in the changes, by key.
    fn plain(changes: &[(u64, Change)]) -> BTreeMap<Vec<u8>, Vec<Posting>> {
        let mut plain = BTreeMap::<Vec<u8>, Vec<Posting>>::new();
        for (block, change) in changes {
            let block = *block;
            let mut add = |key: Vec<u8>, kinds| {
                add_to(plain.entry(key).or_default(), Posting { block, kinds });
            };
            add(path_key(&change.path), kinds_of(change));
            add(session_key(change.session), 0);
            add(identity_key(&change.identities[0]), 0);
            add(identity_key(host(&change.client).unwrap()), 0);
        }
        plain
    }

    #[test]
    fn keys_are_found_and_sorted_with_any_prefix() {
        let mut random = fastrand::Rng::with_seed(11);
        for round in 0..20_u32 {
            // More paths than are remembered for a block, including paths that differ late or end
            // early.
            let paths: Vec<String> = (0..[3, 40, 5000][round as usize % 3])
                .map(|n: u32| match n % 4 {
                    0 => format!("/{}", "a".repeat(n as usize % 40)),
                    1 => format!("/a/very/long/way/to/what/differs/{n:09}"),
                    2 => format!("/a/very/long/way/to/what/differs/{n}"),
                    _ => format!("/a/very/long/way/to/what/differs/{:09}/b", n / 8),
                })
                .collect();
            let operations = [Operation::Create, Operation::SetData, Operation::Delete];
            let mut keys = RecentKeys::default().emptied();
            let changes: Vec<_> = (0..4000_u64)
                .map(|n| {
                    let path = &paths[random.usize(..paths.len())];
                    let operation = operations[random.usize(..operations.len())];
                    (n / 1000, change(path, operation, random.i64(0..40)))
                })
                .collect();
            for (block, change) in &changes {
                keys.note(*block, change);
            }
            let plain = plain(&changes);
            for (key, postings) in &plain {
                assert_eq!(keys.get(key), *postings);
            }
            assert!(keys.get(b"p/nowhere").is_empty());
            let mut sorted = keys.sorted(&YieldHook::default());
            for (key, postings) in &plain {
                assert_eq!(sorted.next(), Some((&**key, &**postings)));
            }
            assert_eq!(sorted.next(), None);
            let within = |key: &[u8]| key >= &b"p/a"[..] && key < &b"p/a/very/m"[..];
            let wanted: Vec<_> = plain.into_iter().filter(|(key, _)| within(key)).collect();
            assert_eq!(keys.between(b"p/a", b"p/a/very/m"), wanted);
        }
    }
}
