//! Data structures that requests, replies, transactions and files have in common.

use jute::{Decode, DecodeError, DecodeRecord, EncodeRecord, Reader, Str};

/// An identity: a scheme and an id within it.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, EncodeRecord, DecodeRecord)]
pub struct Id {
    /// Scheme of the identity, for example `world`, `ip`, `digest`, `sasl`, `x509` or `super`.
    pub scheme: Str,
    /// Id in a format that depends on the scheme.
    pub id: Str,
}

/// An ACL entry: the permissions of one identity.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeRecord, DecodeRecord)]
pub struct Acl {
    /// Permissions, as bits of [`perms`].
    pub perms: i32,
    /// Identity that has the permissions.
    pub id: Id,
}

impl Acl {
    /// Creates an entry.
    pub fn new(perms: i32, scheme: &str, id: &str) -> Self {
        Self {
            perms,
            id: Id {
                scheme: scheme.into(),
                id: id.into(),
            },
        }
    }

    /// Returns the entry that grants world:anyone all permissions.
    pub fn open() -> Self {
        Self::new(perms::ALL, "world", "anyone")
    }
}

/// Permission bits of an ACL entry. Source: ZooDefs.Perms.
pub mod perms {
    /// Permission to read data and list children.
    pub const READ: i32 = 1;
    /// Permission to set data.
    pub const WRITE: i32 = 2;
    /// Permission to create children.
    pub const CREATE: i32 = 4;
    /// Permission to delete children.
    pub const DELETE: i32 = 8;
    /// Permission to set the ACL.
    pub const ADMIN: i32 = 16;
    /// All permissions.
    pub const ALL: i32 = 31;
}

/// An ACL entry as a client sent it, in which scheme and id may be null. It is encoded like
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
        // The most likely strings, because nearly all znodes are open to world:anyone.
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

/// Metadata of a znode for clients, 68 bytes.
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
    /// Session that owns the znode; 0 if the znode is not ephemeral, which includes container and
    /// TTL znodes.
    pub ephemeral_owner: i64,
    /// Length of the data in bytes; 0 for null.
    pub data_length: i32,
    /// Number of direct children.
    pub num_children: i32,
    /// Zxid of the last creation or deletion of a child.
    pub pzxid: i64,
}

/// Metadata of a znode in files, 60 bytes.
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
    /// Number of children ever created, which is not the cversion that clients see.
    pub cversion: i32,
    /// Number of ACL changes.
    pub aversion: i32,
    /// Id of the session that owns the znode, the mark of a container or TTL znode, or 0.
    pub ephemeral_owner: i64,
    /// Zxid of the last creation or deletion of a child.
    pub pzxid: i64,
}
