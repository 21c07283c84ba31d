//! Name component, data and owner of a znode.
//!
//! Most names are short. A name of up to 23 bytes is stored in the znode itself, which saves a
//! cache miss for each name that a lookup compares or a getChildren reply contains. Rare parts,
//! which are longer names and owners, precede the data in its block, so other znodes do not pay for
//! them.

/// Length of the longest name that is stored in the znode itself, bytes.
const SHORT_BYTES_MAX: usize = 23;

// Bits in `Body::form`.
/// Length of a short name, or [`LONG`].
const NAME_LEN: u8 = 0x1f;
/// The name is in the block, preceded by its length in four bytes.
const LONG: u8 = NAME_LEN;
/// The block begins with an owner of eight bytes.
const OWNED: u8 = 0x20;
/// There is data, possibly empty.
const DATA: u8 = 0x40;
/// The znode is counted in the digest. See [`Body::is_counted`].
const COUNTED: u8 = 0x80;

const OWNER_BYTES: usize = 8;
const NAME_LEN_BYTES: usize = 4;

/// Name, data and owner, in 40 bytes and a block of memory.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct Body {
    form: u8,
    short: [u8; SHORT_BYTES_MAX],
    block: Box<[u8]>,
}

impl Body {
    /// Creates a body. `owner` is the stored owner; 0 for none.
    pub(crate) fn new(name: &str, data: Option<&[u8]>, owner: i64) -> Self {
        let mut body = Self::empty();
        let mut front = Vec::new();
        if owner != 0 {
            body.form |= OWNED;
            front.extend_from_slice(&owner.to_be_bytes());
        }
        match (body.short.get_mut(..name.len()), u8::try_from(name.len())) {
            (Some(short), Ok(len)) => {
                short.copy_from_slice(name.as_bytes());
                body.form |= len;
            }
            _ => {
                body.form |= LONG;
                let len = u32::try_from(name.len()).expect("a length of jute has at most 31 bits");
                front.extend_from_slice(&len.to_be_bytes());
                front.extend_from_slice(name.as_bytes());
            }
        }
        body.form |= if data.is_some() { DATA } else { 0 };
        body.block = block(&front, data.unwrap_or_default());
        body
    }

    /// Returns the body of a free slot, with an empty name and an empty block.
    pub(crate) fn empty() -> Self {
        Self {
            form: 0,
            short: [0; SHORT_BYTES_MAX],
            block: Box::default(),
        }
    }

    /// Returns the bytes of the name, for comparison and hashing.
    pub(crate) fn name_bytes(&self) -> &[u8] {
        match self.form & NAME_LEN {
            LONG => {
                let (start, len) = self.long_name();
                &self.block[start..start + len]
            }
            len => &self.short[..usize::from(len)],
        }
    }

    /// Returns the name. The bytes are validated as UTF-8 again, which never fails for a name.
    pub(crate) fn name(&self) -> &str {
        std::str::from_utf8(self.name_bytes()).unwrap_or_default()
    }

    /// Returns the stored owner; 0 if there is none.
    pub(crate) fn owner(&self) -> i64 {
        match self.block.first_chunk() {
            Some(owner) if self.form & OWNED != 0 => i64::from_be_bytes(*owner),
            _ => 0,
        }
    }

    /// Returns the data. Null and empty differ.
    pub(crate) fn data(&self) -> Option<&[u8]> {
        (self.form & DATA != 0).then(|| &self.block[self.data_start()..])
    }

    /// Returns the length of the data in bytes; 0 for null.
    pub(crate) fn data_len(&self) -> usize {
        self.block.len() - self.data_start()
    }

    /// Replaces the data, in place if the length does not change.
    pub(crate) fn set_data(&mut self, data: Option<&[u8]>) {
        self.form &= !DATA;
        self.form |= if data.is_some() { DATA } else { 0 };
        let (start, data) = (self.data_start(), data.unwrap_or_default());
        let (kept, old) = self.block.split_at_mut(start);
        if old.len() == data.len() {
            old.copy_from_slice(data);
        } else {
            self.block = block(kept, data);
        }
    }

    /// Returns whether the tree's digest includes the znode. The flag is stored here because a bit
    /// is free.
    pub(crate) fn is_counted(&self) -> bool {
        self.form & COUNTED != 0
    }

    /// Marks the znode as included in the tree's digest.
    pub(crate) fn count(&mut self) {
        self.form |= COUNTED;
    }

    fn data_start(&self) -> usize {
        if self.form & NAME_LEN == LONG {
            let (start, len) = self.long_name();
            start + len
        } else {
            self.owner_bytes()
        }
    }

    fn owner_bytes(&self) -> usize {
        if self.form & OWNED == 0 {
            0
        } else {
            OWNER_BYTES
        }
    }

    /// Returns the position of a long name in the block, and its length.
    fn long_name(&self) -> (usize, usize) {
        let owner = self.owner_bytes();
        let start = owner + NAME_LEN_BYTES;
        let mut len = [0; NAME_LEN_BYTES];
        len.copy_from_slice(&self.block[owner..start]);
        (start, u32::from_be_bytes(len) as usize)
    }
}

/// Returns a block with `data` after `front`. `front` is nearly always empty.
fn block(front: &[u8], data: &[u8]) -> Box<[u8]> {
    if front.is_empty() {
        return data.into();
    }
    [front, data].concat().into()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn check(body: &Body, name: &str, data: Option<&[u8]>, owner: i64) {
        assert_eq!((body.name(), body.name_bytes()), (name, name.as_bytes()));
        assert_eq!((body.data(), body.owner()), (data, owner));
        assert_eq!(body.data_len(), data.map_or(0, <[u8]>::len));
        assert_eq!(body.form & NAME_LEN != LONG, name.len() <= SHORT_BYTES_MAX);
    }

    proptest! {
        #[test]
        fn stored_values_round_trip(
            name in prop_oneof!["[a-z\u{e9}]{0,30}", "\u{20ac}{90}", "[a-z]{22,25}"],
            owner in prop_oneof![Just(0), any::<i64>()],
            values in proptest::collection::vec(
                proptest::option::of(proptest::collection::vec(any::<u8>(), 0..20)), 1..6),
        ) {
            let mut body = Body::new(&name, values[0].as_deref(), owner);
            check(&body, &name, values[0].as_deref(), owner);
            prop_assert!(!body.is_counted());
            body.count();
            for data in &values {
                body.set_data(data.as_deref());
                check(&body, &name, data.as_deref(), owner);
                prop_assert!(body.is_counted());
            }
        }
    }

    #[test]
    fn data_of_the_same_length_takes_the_same_memory() {
        for name in ["n", "a name of more than 23 bytes"] {
            let mut body = Body::new(name, Some(b"one"), 7);
            let before = body.block.as_ptr();
            body.set_data(Some(b"two"));
            assert_eq!(body.block.as_ptr(), before);
            check(&body, name, Some(b"two"), 7);
        }
    }

    #[test]
    fn empty_values_take_no_memory() {
        let mut body = Body::new("n", None, 0);
        body.set_data(Some(b""));
        assert_eq!((body.data(), body.block.len()), (Some(&[][..]), 0));
        check(&Body::empty(), "", None, 0);
    }
}
