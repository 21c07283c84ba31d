//! Newtypes for numbers, which prevent mix-ups.

use std::fmt;

use jute::{Decode, DecodeError, Encode, Reader};

macro_rules! wire_id {
    ($name:ident, $int:ty) => {
        impl Encode for $name {
            fn encode(&self, out: &mut Vec<u8>) {
                self.0.encode(out);
            }
        }

        impl Decode for $name {
            const MIN_BYTES: usize = <$int as Decode>::MIN_BYTES;

            fn decode(input: &mut Reader) -> Result<Self, DecodeError> {
                <$int as Decode>::decode(input).map(Self)
            }
        }
    };
}

/// Transaction id, with the epoch in the upper 32 bits and a counter in the lower. Printed in hex
/// with `0x`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Zxid(pub i64);

impl Zxid {
    /// Zxid before the first transaction.
    pub const ZERO: Self = Self(0);

    /// Returns the zxid of the `counter`th transaction in an epoch.
    pub fn new(epoch: Epoch, counter: u32) -> Self {
        Self((epoch.0 << 32) | i64::from(counter))
    }

    /// Returns the epoch whose leader assigned this zxid.
    pub fn epoch(self) -> Epoch {
        Epoch(self.0 >> 32)
    }

    /// Returns the position within the epoch.
    pub fn counter(self) -> u32 {
        (self.0.cast_unsigned() & 0xffff_ffff) as u32
    }

    /// Returns the next zxid. If the counter overflows, the epoch's bits change, so a leader must
    /// step down before its counter is exhausted.
    #[must_use]
    pub fn next(self) -> Self {
        Self(self.0.wrapping_add(1))
    }

    /// Returns whether a log that begins with `next` continues a snapshot that ends with this zxid
    /// without a gap. Recovery uses the same rule.
    pub fn is_followed_by(self, next: Self) -> bool {
        next == self.next() || (next.epoch() > self.epoch() && next.counter() == 1)
    }
}

impl fmt::Display for Zxid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#x}", self.0)
    }
}

/// Term of a leader.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Epoch(pub i64);

impl Epoch {
    /// Returns the lower 32 bits, for packets whose epoch has 32 bits. They suffice for every epoch
    /// in a zxid. Source: Learner.registerWithLeader (`putInt((int) epoch)`).
    pub fn lower_half(self) -> i32 {
        ((self.0.cast_unsigned() & 0xffff_ffff) as u32).cast_signed()
    }
}

impl fmt::Display for Epoch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#x}", self.0)
    }
}

/// Round of leader election (`electionEpoch` on the wire). It counts elections since the server's
/// start and is not related to [`Epoch`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct ElectionRound(pub i64);

impl fmt::Display for ElectionRound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

/// Version of a member list, which is the zxid of the reconfiguration that created it. The version
/// of a list that was never reconfigured is 0, or the start of the epoch in which a leader first
/// used it. Printed as hex digits without `0x`, as in files and `/zookeeper/config`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct ConfigVersion(pub i64);

impl ConfigVersion {
    /// Parses hex digits. Returns `None` for any other string and for negative numbers.
    pub fn parse(text: &str) -> Option<Self> {
        // A sign before the digits is accepted, as in Java's `Long.parseLong(text, 16)`.
        let version = i64::from_str_radix(text, 16).ok()?;
        (version >= 0).then_some(Self(version))
    }
}

impl fmt::Display for ConfigVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:x}", self.0)
    }
}

/// Id of a server (`myid`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Sid(pub i64);

impl fmt::Display for Sid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

/// Id of a session; 0 for no session. Printed in hex with `0x`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct SessionId(pub i64);

impl SessionId {
    /// Id in requests by the server itself.
    pub const NONE: Self = Self(0);
}

impl fmt::Display for SessionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#x}", self.0)
    }
}

/// Number that a client assigns to a request. Values up to 0 are reserved.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Xid(pub i32);

impl Xid {
    /// Xid of a watch event.
    pub const EVENT: Self = Self(-1);
    /// Xid of a ping and its reply.
    pub const PING: Self = Self(-2);
    /// Xid of an auth packet, by convention of the clients.
    pub const AUTH: Self = Self(-4);
    /// Xid of setWatches after a reconnect, by convention of the clients.
    pub const SET_WATCHES: Self = Self(-8);
}

impl fmt::Display for Xid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

wire_id!(Zxid, i64);
wire_id!(Sid, i64);
wire_id!(SessionId, i64);
wire_id!(Epoch, i64);
wire_id!(ElectionRound, i64);
wire_id!(Xid, i32);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_zxid_splits_into_epoch_and_counter() {
        let zxid = Zxid::new(Epoch(2), 0xffff_fffe);
        assert_eq!(zxid.0, 0x2_ffff_fffe);
        assert_eq!(
            (zxid.epoch(), zxid.next().counter()),
            (Epoch(2), 0xffff_ffff)
        );
        assert_eq!(zxid.to_string(), "0x2fffffffe");
    }

    #[test]
    fn a_config_version_is_hexadecimal() {
        assert_eq!(ConfigVersion::parse("ff"), Some(ConfigVersion(255)));
        assert_eq!(ConfigVersion(255).to_string(), "ff");
        for text in ["-1", "", "0x1", "g", "8000000000000000"] {
            assert_eq!(ConfigVersion::parse(text), None, "{text}");
        }
    }
}
