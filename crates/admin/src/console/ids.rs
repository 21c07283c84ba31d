//! Session ids as a visitor sees them.
//!
//! Without `zoarium.sessionSecretFile` the password of a session can be computed from its id.
//! Therefore a page shows whole ids only to administrators.

use super::shown::hex;

/// Number of hex digits of an id that every visitor sees.
const DIGITS: usize = 8;
/// Length of the prefix `0x`.
const PREFIX: usize = 2;

/// Form in which a visitor sees session ids.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SessionIds {
    are_whole: bool,
}

impl SessionIds {
    pub(crate) fn new(is_administrator: bool) -> Self {
        Self {
            are_whole: is_administrator,
        }
    }

    /// Formats a session id. Visitors that are not administrators see only its first digits.
    pub(crate) fn text(self, id: i64) -> String {
        let whole = hex(id);
        match whole.get(..PREFIX + DIGITS) {
            Some(begin) if !self.are_whole && begin.len() < whole.len() => format!("{begin}…"),
            _ => whole,
        }
    }

    /// Formats the owner in a Stat. An owner that is not a session is never shortened.
    pub(crate) fn owner(self, owner: i64) -> String {
        if is_session(owner) {
            self.text(owner)
        } else {
            hex(owner)
        }
    }
}

/// Returns whether the owner in a Stat is a session, as opposed to 0 or the mark of a container or
/// TTL znode.
pub(crate) fn is_session(owner: i64) -> bool {
    !matches!(owner, 0 | i64::MIN) && owner >> 56 != -1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_administrators_see_whole_ids() {
        let (all, others) = (SessionIds::new(true), SessionIds::new(false));
        let id = 0x0100_2f3e_91ab_0007;
        assert_eq!(all.text(id), "0x1002f3e91ab0007");
        assert_eq!(others.text(id), "0x1002f3e9…");
        assert_eq!(others.text(0x1234_5678), "0x12345678");
        let of_200 = (200 << 56) | 0x1234;
        assert_eq!(others.owner(of_200), "0xc8000000…");
        // No owner, a container and a TTL znode.
        for owner in [0, i64::MIN, (0xff << 56) | 60_000] {
            assert_eq!(others.owner(owner), hex(owner));
        }
    }
}
