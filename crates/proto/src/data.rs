//! What requests, replies, transactions and files share.

use jute::{Decode, DecodeError, DecodeRecord, EncodeRecord, Reader, Str};

/// An identity: a scheme and an id within it.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, EncodeRecord, DecodeRecord)]
pub struct Id {
    /// `world`, `ip`, `digest`, `sasl`, `x509`, `super`...
    pub scheme: Str,
    /// What the scheme says it is.
    pub id: Str,
}

/// Who may do what with a znode.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeRecord, DecodeRecord)]
pub struct Acl {
    /// Bits of [`perms`].
    pub perms: i32,
    /// Who.
    pub id: Id,
}

impl Acl {
    /// An entry.
    pub fn new(perms: i32, scheme: &str, id: &str) -> Self {
        Self {
            perms,
            id: Id {
                scheme: scheme.into(),
                id: id.into(),
            },
        }
    }

    /// world:anyone with all permissions.
    pub fn open() -> Self {
        Self::new(perms::ALL, "world", "anyone")
    }
}

/// Permission bits of an ACL entry. Source: ZooDefs.Perms.
pub mod perms {
    /// Read data and children.
    pub const READ: i32 = 1;
    /// Set data.
    pub const WRITE: i32 = 2;
    /// Create children.
    pub const CREATE: i32 = 4;
    /// Delete children.
    pub const DELETE: i32 = 8;
    /// Set the ACL.
    pub const ADMIN: i32 = 16;
    /// All of them.
    pub const ALL: i32 = 31;
}

/// An ACL entry as a client sent it: any part may be null. Same bytes as [`Acl`].
#[derive(Debug, Clone, PartialEq, Eq, EncodeRecord)]
pub struct RequestAcl {
    /// Bits of [`perms`].
    pub perms: i32,
    /// The scheme.
    pub scheme: Option<Str>,
    /// The id.
    pub id: Option<Str>,
}

impl Decode for RequestAcl {
    const MIN_BYTES: usize = 12;

    fn decode(input: &mut Reader) -> Result<Self, DecodeError> {
        // Nearly all znodes are open to anyone.
        Ok(Self {
            perms: input.i32()?,
            scheme: input.string_likely("world")?,
            id: input.string_likely("anyone")?,
        })
    }
}

impl From<Acl> for RequestAcl {
    fn from(acl: Acl) -> Self {
        Self {
            perms: acl.perms,
            scheme: Some(acl.id.scheme),
            id: Some(acl.id.id),
        }
    }
}

/// A znode's metadata as clients see it: 68 bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, EncodeRecord, DecodeRecord)]
pub struct Stat {
    /// Zxid that created it.
    pub czxid: i64,
    /// Zxid that last set its data.
    pub mzxid: i64,
    /// Creation, ms since 1970.
    pub ctime: i64,
    /// Last change of data, ms since 1970.
    pub mtime: i64,
    /// Changes of data.
    pub version: i32,
    /// Children created plus children deleted.
    pub cversion: i32,
    /// Changes of the ACL.
    pub aversion: i32,
    /// The owning session, 0 if not ephemeral (also for container and TTL znodes).
    pub ephemeral_owner: i64,
    /// Bytes of data; 0 for null.
    pub data_length: i32,
    /// Direct children.
    pub num_children: i32,
    /// Zxid that last created or deleted a child.
    pub pzxid: i64,
}

/// A znode's metadata as files hold it: 60 bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, EncodeRecord, DecodeRecord)]
pub struct StatPersisted {
    /// Zxid that created it.
    pub czxid: i64,
    /// Zxid that last set its data.
    pub mzxid: i64,
    /// Creation, ms since 1970.
    pub ctime: i64,
    /// Last change of data, ms since 1970.
    pub mtime: i64,
    /// Changes of data.
    pub version: i32,
    /// Children ever created (not the cversion that clients see).
    pub cversion: i32,
    /// Changes of the ACL.
    pub aversion: i32,
    /// Session id, or the mark of a container or TTL znode, or 0.
    pub ephemeral_owner: i64,
    /// Zxid that last created or deleted a child.
    pub pzxid: i64,
}
