//! A znode's own name component.
//!
//! Most names are short. One of up to 22 bytes lives inside its znode: that saves an allocation,
//! and above all a visit to memory for each name that a lookup compares or a list writes out.

use std::fmt;

/// Longest name that is kept inside.
const INLINE_BYTES_MAX: usize = 22;

/// A name, in 24 bytes if it is short.
pub(crate) struct Name(Repr);

enum Repr {
    Inline {
        len: u8,
        bytes: [u8; INLINE_BYTES_MAX],
    },
    Heap(Box<str>),
}

impl Name {
    /// The name of the root and of free slots.
    pub(crate) const EMPTY: Self = Self(Repr::Inline {
        len: 0,
        bytes: [0; INLINE_BYTES_MAX],
    });

    pub(crate) fn new(name: &str) -> Self {
        let mut bytes = [0; INLINE_BYTES_MAX];
        match (bytes.get_mut(..name.len()), u8::try_from(name.len())) {
            (Some(inline), Ok(len)) => {
                inline.copy_from_slice(name.as_bytes());
                Self(Repr::Inline { len, bytes })
            }
            _ => Self(Repr::Heap(name.into())),
        }
    }

    /// The bytes, for comparing and hashing.
    pub(crate) fn as_bytes(&self) -> &[u8] {
        match &self.0 {
            Repr::Inline { len, bytes } => &bytes[..usize::from(*len)],
            Repr::Heap(name) => name.as_bytes(),
        }
    }

    /// The text; an inline one is checked to be UTF-8 again, which no name fails.
    pub(crate) fn as_str(&self) -> &str {
        match &self.0 {
            Repr::Inline { .. } => std::str::from_utf8(self.as_bytes()).unwrap_or_default(),
            Repr::Heap(name) => name,
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.as_bytes().len()
    }
}

impl fmt::Debug for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.as_str().fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_any_length_come_back() {
        assert_eq!(size_of::<Name>(), 24);
        for len in [0, 1, 21, 22, 23, 24, 300] {
            let text = "x".repeat(len);
            let name = Name::new(&text);
            assert_eq!(
                (name.as_str(), name.as_bytes(), name.len()),
                (&*text, text.as_bytes(), len)
            );
            let is_inline = matches!(name.0, Repr::Inline { .. });
            assert_eq!(is_inline, len <= INLINE_BYTES_MAX);
        }
        let wide = "\u{20ac}\u{e9}".repeat(4);
        assert_eq!(Name::new(&wide).as_str(), wide);
    }
}
