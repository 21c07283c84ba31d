//! Meanings of a stored ephemeral owner.
//!
//! ```text
//! 0                     persistent
//! 0x8000000000000000    container
//! 0xFF 0000 ttl[5]      TTL znode (extended types on)
//! 0x8000.. | ttl        TTL znode of 3.5.3 (extended types and the emulation on)
//! anything else         a session
//! ```
//!
//! Source: EphemeralType, EphemeralTypeEmulate353.

use proto::SessionId;

use crate::TreeSettings;

/// Maximum TTL, ms.
pub(crate) const TTL_MS_MAX: i64 = 0xff_ffff_ffff;

const CONTAINER: i64 = i64::MIN;
const EXTENDED_BYTE: i64 = 0xff;
const FEATURE_MASK: i64 = 0x00ff_ff00_0000_0000;
/// Maximum TTL in 3.5.3, ms. Also the mask of the TTL in a stored owner.
const TTL_353_MAX: i64 = 0x0fff_ffff_ffff_ffff;

/// Kind of znode, determined by its stored owner.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Owner {
    /// A persistent znode.
    Persistent,
    /// An ephemeral znode, which is deleted with this session.
    Session(SessionId),
    /// A container, which is deleted after its last child.
    Container,
    /// A TTL znode, which is deleted after it has been unchanged and childless for its TTL.
    Ttl {
        /// TTL, ms.
        ttl_ms: i64,
    },
}

/// Rules for reading and writing owners, copied from the relevant settings.
#[derive(Debug, Clone, Copy)]
pub(crate) struct OwnerRules {
    extended: bool,
    emulate_353: bool,
}

impl OwnerRules {
    pub(crate) fn new(settings: &TreeSettings) -> Self {
        Self {
            extended: settings.extended_types,
            emulate_353: settings.extended_types && settings.emulate_353_ttl,
        }
    }

    /// Returns the meaning of `stored`.
    ///
    /// An extended owner with an unknown feature is read as persistent. Java throws an exception,
    /// but such a znode must not be lost and must not stop a server.
    pub(crate) fn read(self, stored: i64) -> Owner {
        match stored {
            0 => Owner::Persistent,
            CONTAINER => Owner::Container,
            _ if self.extended && is_extended(stored) => {
                if stored & FEATURE_MASK == 0 {
                    let ttl_ms = stored & TTL_MS_MAX;
                    Owner::Ttl { ttl_ms }
                } else {
                    Owner::Persistent
                }
            }
            _ if self.emulate_353 && stored < 0 => Owner::Ttl {
                ttl_ms: stored & TTL_353_MAX,
            },
            session => Owner::Session(SessionId(session)),
        }
    }

    /// Returns the owner that clients see, which is the session, or 0.
    pub(crate) fn visible(self, stored: i64) -> i64 {
        match self.read(stored) {
            Owner::Session(session) => session.0,
            Owner::Persistent | Owner::Container | Owner::Ttl { .. } => 0,
        }
    }

    /// Returns the stored owner of a TTL znode; `None` if the TTL is out of range.
    pub(crate) fn stored_ttl(self, ttl_ms: i64) -> Option<i64> {
        if !(1..=TTL_MS_MAX).contains(&ttl_ms) {
            return None;
        }
        Some(if self.emulate_353 {
            i64::MIN | ttl_ms
        } else {
            (EXTENDED_BYTE << 56) | ttl_ms
        })
    }

    /// Returns whether `stored` is a TTL owner that these settings treat as a session.
    ///
    /// Java then deletes the znode when it starts, because that session does not exist.
    pub(crate) fn is_unrecognised_ttl(self, stored: i64) -> bool {
        !self.extended
            && is_extended(stored)
            && stored & FEATURE_MASK == 0
            && stored & TTL_MS_MAX != 0
    }
}

/// Returns the stored owner of a container.
pub(crate) fn stored_container() -> i64 {
    CONTAINER
}

fn is_extended(stored: i64) -> bool {
    (stored >> 56) & 0xff == EXTENDED_BYTE
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rules(extended: bool, emulate_353: bool) -> OwnerRules {
        OwnerRules {
            extended,
            emulate_353,
        }
    }

    #[test]
    fn owners_are_written_as_java_does() {
        let on = rules(true, false);
        assert_eq!(
            on.stored_ttl(60_000),
            Some(0xff00_0000_0000_ea60_u64.cast_signed())
        );
        assert_eq!(
            on.stored_ttl(TTL_MS_MAX),
            Some(0xff00_00ff_ffff_ffff_u64.cast_signed())
        );
        assert_eq!(
            (on.stored_ttl(0), on.stored_ttl(TTL_MS_MAX + 1)),
            (None, None)
        );
        assert_eq!(on.stored_ttl(-1), None);
    }

    #[test]
    fn a_ttl_owner_is_a_session_unless_extended_types_are_on() {
        let stored = 0xff00_0000_0000_ea60_u64.cast_signed();
        let ttl = Owner::Ttl { ttl_ms: 60_000 };
        assert_eq!(rules(true, false).read(stored), ttl);
        assert_eq!(rules(true, true).read(stored), ttl);
        assert_eq!(
            rules(false, false).read(stored),
            Owner::Session(SessionId(stored))
        );
        assert!(rules(false, false).is_unrecognised_ttl(stored));
        assert_eq!(rules(true, false).visible(stored), 0);
        assert_eq!(rules(false, false).visible(stored), stored);
    }

    #[test]
    fn owners_of_3_5_3_need_the_emulation() {
        let stored = i64::MIN | 500;
        assert_eq!(rules(true, true).read(stored), Owner::Ttl { ttl_ms: 500 });
        assert_eq!(rules(true, true).stored_ttl(500), Some(stored));
        assert_eq!(
            rules(true, false).read(stored),
            Owner::Session(SessionId(stored))
        );
        assert_eq!(rules(true, true).read(i64::MIN), Owner::Container);
        assert_eq!(rules(false, false).read(i64::MIN), Owner::Container);
    }

    #[test]
    fn an_unknown_feature_is_kept() {
        let stored = 0xff01_0000_0000_0001_u64.cast_signed();
        assert_eq!(rules(true, false).read(stored), Owner::Persistent);
    }
}
