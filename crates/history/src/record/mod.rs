//! Records defined in `proto/history.proto`, and their conversion from Zoarium's types.

/// Code that prost generates from `proto/history.proto`. It is committed because the generator
/// takes a sixth of the time of a first build. The test `generated_records` compares it with the
/// definition.
#[rustfmt::skip]
#[allow(missing_docs, clippy::all, clippy::pedantic, unreachable_pub)]
mod generated;

use std::path::Path;

use bytes::Bytes;
use prost::Message;
use proto::position::Position;
use proto::{Acl, Zxid};

use crate::recording::expand::hash_of;

pub use generated::{AclEntry, AclList, Change, Content, ExportedChange, Kind, Operation, Znode};
pub(crate) use generated::{Block, BlockRow, Era, IndexRow, RunRow};

/// Content of `proto/history.proto`, for readers of an export.
pub const DEFINITION: &str = include_str!("../../proto/history.proto");

/// Text that replaces the hash of a password.
const MASK: &str = "***";

impl AclList {
    /// Converts from the list in a transaction.
    pub fn from_acl(acl: &[Acl]) -> Self {
        let entries = acl.iter().map(|entry| AclEntry {
            perms: entry.perms,
            scheme: entry.id.scheme.to_string(),
            id: entry.id.id.to_string(),
        });
        Self {
            entries: entries.collect(),
        }
    }

    /// Converts to the list that the tree uses.
    pub fn to_acl(&self) -> Vec<Acl> {
        let entries = self.entries.iter();
        entries
            .map(|entry| Acl::new(entry.perms, &entry.scheme, &entry.id))
            .collect()
    }

    /// Returns the list without hashes of passwords.
    #[must_use]
    pub fn masked(mut self) -> Self {
        for entry in &mut self.entries {
            if (entry.scheme == "digest" || entry.scheme == "super")
                && let Some((user, _)) = entry.id.split_once(':')
            {
                entry.id = format!("{user}:{MASK}");
            }
        }
        self
    }
}

impl Content {
    /// Returns the bytes if the record contains them.
    pub fn bytes(&self) -> Option<&Bytes> {
        self.inline.as_ref()
    }

    /// Returns whether both contents have the same bytes. One era may have stored bytes that
    /// another era omitted.
    fn is_same(&self, other: &Self) -> bool {
        if self.inline.is_some() == other.inline.is_some() {
            return self == other;
        }
        let hash = |content: &Self| match &content.inline {
            Some(bytes) => Bytes::copy_from_slice(&hash_of(bytes)),
            None => content.hash.clone(),
        };
        self.size == other.size && hash(self) == hash(other)
    }
}

/// Returns the ACL in a content, or `None` if its bytes are missing or invalid.
fn list_of(content: Option<&Content>) -> Option<AclList> {
    AclList::decode(content?.bytes()?.clone()).ok()
}

/// Decodes the ACL in a content. Returns an empty ACL if the bytes are missing.
pub(crate) fn acl_list(content: Option<&Content>) -> crate::Result<AclList> {
    match content.and_then(Content::bytes) {
        Some(bytes) => decode(bytes.clone(), Path::new("an ACL")),
        None => Ok(AclList::default()),
    }
}

impl Znode {
    /// Returns whether both states have the same stat, data and ACL.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        let stat = |znode: &Self| Self {
            data: None,
            acl: None,
            ..znode.clone()
        };
        let is_content_same = |one: &Option<Content>, other: &Option<Content>| match (one, other) {
            (Some(one), Some(other)) => one.is_same(other),
            (one, other) => one == other,
        };
        stat(self) == stat(other)
            && is_content_same(&self.data, &other.data)
            && is_content_same(&self.acl, &other.acl)
    }

    /// Returns the ACL if it is known.
    pub fn acl_list(&self) -> Option<AclList> {
        list_of(self.acl.as_ref())
    }
}

impl Change {
    /// Returns the new ACL, or `None` if the change does not set an ACL or does not contain its
    /// bytes.
    pub fn acl_list(&self) -> Option<AclList> {
        list_of(self.acl.as_ref())
    }

    /// Returns the position of the change in the order of all changes.
    pub fn position(&self) -> Position {
        Position {
            zxid: Zxid(self.zxid),
            index: self.index,
        }
    }

    /// Returns whether the change deletes the znode.
    pub fn is_delete(&self) -> bool {
        matches!(
            self.operation(),
            Operation::Delete | Operation::DeleteByServer | Operation::CloseSession
        )
    }

    /// Returns whether the change sets the data.
    pub fn sets_data(&self) -> bool {
        matches!(
            self.operation(),
            Operation::Create | Operation::SetData | Operation::Reconfig
        )
    }

    /// Returns whether the change sets the ACL.
    pub fn sets_acl(&self) -> bool {
        matches!(self.operation(), Operation::Create | Operation::SetAcl)
    }
}

impl Operation {
    /// Returns the name that commands use.
    pub fn name(self) -> &'static str {
        match self {
            Self::Unspecified => "unspecified",
            Self::Create => "create",
            Self::SetData => "set",
            Self::SetAcl => "setAcl",
            Self::Delete => "delete",
            Self::DeleteByServer => "deleteByServer",
            Self::CloseSession => "closeSession",
            Self::Reconfig => "reconfig",
        }
    }

    /// All operations that are recorded.
    pub const ALL: [Self; 7] = [
        Self::Create,
        Self::SetData,
        Self::SetAcl,
        Self::Delete,
        Self::DeleteByServer,
        Self::CloseSession,
        Self::Reconfig,
    ];

    /// Returns the operation with this name.
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL
            .into_iter()
            .find(|operation| operation.name() == name)
    }
}

/// Decodes a record whose checksum was correct. Returns an error for corruption if this fails.
pub(crate) fn decode<M: Message + Default>(bytes: Bytes, path: &Path) -> crate::Result<M> {
    M::decode(bytes).map_err(|error| crate::HistoryError::damaged(path, error.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_password_hashes_are_masked() {
        let acl = [
            Acl::new(31, "digest", "ann:aGFzaA=="),
            Acl::new(1, "ip", "10.0.0.1"),
            Acl::new(1, "digest", "odd"),
        ];
        let masked = AclList::from_acl(&acl).masked();
        let ids: Vec<&str> = masked.entries.iter().map(|entry| &*entry.id).collect();
        assert_eq!(ids, ["ann:***", "10.0.0.1", "odd"]);
        assert_eq!(AclList::from_acl(&acl).to_acl(), acl);
    }

    #[test]
    fn operations_are_found_by_their_names() {
        for operation in Operation::ALL {
            assert_eq!(Operation::parse(operation.name()), Some(operation));
        }
        assert_eq!(Operation::parse("unspecified"), None);
    }
}
