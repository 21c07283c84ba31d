//! The combined meaning of a create's flags, opcode and TTL.
//!
//! Outside a multi, the opcode decides for createContainer and createTTL, and the flags decide for
//! the other creates. In a multi, the container flag makes other creates create a container, too,
//! and a createTTL without a TTL flag is an ordinary create. Source: CreateMode,
//! EphemeralType.validateTTL, Op.Create.

use proto::request::flags;
use proto::{ErrorCode, OpCode};

use super::Grouping;
use crate::nodes::owner::TTL_MS_MAX;

/// Kind of znode that a create creates, and the relevant flags.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct CreateMode {
    pub(super) kind: CreateKind,
    pub(super) is_sequential: bool,
    /// Whether the ephemeral flag is set. A container may have the flag without being ephemeral.
    pub(super) has_ephemeral_flag: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum CreateKind {
    /// A persistent or ephemeral znode, created by create or create2.
    Plain(OpCode),
    Container,
    Ttl {
        ttl_ms: i64,
    },
}

impl CreateMode {
    /// Returns the mode of a create.
    ///
    /// # Errors
    /// BadArguments if the flags are unknown or the TTL does not match them, Unimplemented for the
    /// flags of TTL znodes while extended types are off.
    pub(super) fn of(
        op: OpCode,
        create_flags: i32,
        ttl: i64,
        extended_types: bool,
        place: Grouping,
    ) -> Result<Self, ErrorCode> {
        let is_known = (flags::PERSISTENT..=flags::TTL_SEQUENTIAL).contains(&create_flags);
        let has_ttl_flag = matches!(create_flags, flags::TTL | flags::TTL_SEQUENTIAL);
        let (op, ttl) = match (place, op) {
            (Grouping::InMulti, OpCode::CreateTtl) if !has_ttl_flag => (OpCode::Create, -1),
            other => (other.1, ttl),
        };
        let is_container = match place {
            Grouping::Alone => op == OpCode::CreateContainer,
            Grouping::InMulti => op == OpCode::CreateContainer || create_flags == flags::CONTAINER,
        };
        if !is_known {
            return Err(ErrorCode::BadArguments);
        }
        if has_ttl_flag && !extended_types {
            return Err(ErrorCode::Unimplemented);
        }
        let is_valid_ttl = if has_ttl_flag {
            (1..=TTL_MS_MAX).contains(&ttl)
        } else {
            // A createTTL without the flags and with a negative TTL passes Java's checks but stops
            // the server that applies it.
            ttl < 0 && op != OpCode::CreateTtl
        };
        if !is_valid_ttl {
            return Err(ErrorCode::BadArguments);
        }
        Ok(Self {
            kind: match op {
                _ if is_container => CreateKind::Container,
                OpCode::CreateTtl => CreateKind::Ttl { ttl_ms: ttl },
                plain => CreateKind::Plain(plain),
            },
            is_sequential: matches!(
                create_flags,
                flags::PERSISTENT_SEQUENTIAL | flags::EPHEMERAL_SEQUENTIAL | flags::TTL_SEQUENTIAL
            ),
            has_ephemeral_flag: matches!(
                create_flags,
                flags::EPHEMERAL | flags::EPHEMERAL_SEQUENTIAL
            ),
        })
    }
}
