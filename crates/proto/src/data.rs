//! Data shared by requests, replies, transactions and files.

use jute::{Decode, DecodeError, DecodeRecord, EncodeRecord, Reader, Str};

/// An identity: a scheme and an id within it.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, EncodeRecord, DecodeRecord)]
pub struct Id {
    /// Scheme of the identity: `world`, `ip`, `digest`, `sasl`, `x509`, `super`...
    pub scheme: Str,
    /// Id, whose format depends on the scheme.
    pub id: Str,
}

/// An ACL entry: the permissions of one identity.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeRecord, DecodeRecord)]
pub struct Acl {
    /// Permissions, as bits of [`perms`].
    pub perms: i32,
    /// The identity.
    pub id: Id,
}

impl Acl {
    /// Constructs an entry.
    pub fn new(perms: i32, scheme: &str, id: &str) -> Self {
        Self {
            perms,
            id: Id {
                scheme: scheme.into(),
                id: id.into(),
            },
        }
    }

    /// Returns the entry for world:anyone with all permissions.
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
    /// All permissions.
    pub const ALL: i32 = 31;
}

/// An ACL entry as a client sent it: any part may be null. Its encoding equals the encoding of
/// [`Acl`].
#[derive(Debug, Clone, PartialEq, Eq, EncodeRecord)]
pub struct RequestAcl {
    /// Permissions, as bits of [`perms`].
    pub perms: i32,
    /// Scheme of the identity.
    pub scheme: Option<Str>,
    /// Id of the identity.
    pub id: Option<Str>,
}

impl Decode for RequestAcl {
    const MIN_BYTES: usize = 12;

    fn decode(input: &mut Reader) -> Result<Self, DecodeError> {
        // Nearly all znodes are open to world:anyone.
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

/// Metadata of a znode for clients: 68 bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, EncodeRecord, DecodeRecord)]
pub struct Stat {
    /// Zxid of the creation.
    pub czxid: i64,
    /// Zxid of the last data change.
    pub mzxid: i64,
    /// Time of the creation, ms since 1970.
    pub ctime: i64,
    /// Time of the last data change, ms since 1970.
    pub mtime: i64,
    /// Number of data changes.
    pub version: i32,
    /// Number of children created plus number of children deleted.
    pub cversion: i32,
    /// Number of ACL changes.
    pub aversion: i32,
    /// Session that owns the znode; 0 if it is not ephemeral (also for container and TTL znodes).
    pub ephemeral_owner: i64,
    /// Length of the data in bytes; 0 for null.
    pub data_length: i32,
    /// Number of direct children.
    pub num_children: i32,
    /// Zxid of the last creation or deletion of a child.
    pub pzxid: i64,
}

/// Metadata of a znode in files: 60 bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, EncodeRecord, DecodeRecord)]
pub struct StatPersisted {
    /// Zxid of the creation.
    pub czxid: i64,
    /// Zxid of the last data change.
    pub mzxid: i64,
    /// Time of the creation, ms since 1970.
    pub ctime: i64,
    /// Time of the last data change, ms since 1970.
    pub mtime: i64,
    /// Number of data changes.
    pub version: i32,
    /// Number of children ever created (not the cversion that clients see).
    pub cversion: i32,
    /// Number of ACL changes.
    pub aversion: i32,
    /// Session id, or the mark of a container or TTL znode, or 0.
    pub ephemeral_owner: i64,
    /// Zxid of the last creation or deletion of a child.
    pub pzxid: i64,
}
