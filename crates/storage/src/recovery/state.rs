//! The interface of the database that recovery fills.

use proto::txn::TxnRecord;
use proto::{Acl, SessionId, StatPersisted, Zxid};

use crate::error::ContentError;

/// The digest section of a snapshot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SnapshotDigest {
    /// Transaction after which the tree has this digest; at least the snapshot's own zxid.
    pub zxid: Zxid,
    /// Version of the digest. Only version 2 can be compared.
    pub version: i32,
    /// The tree's digest.
    pub digest: i64,
}

/// A database that recovery fills with sessions, the ACL table, znodes, then transactions.
///
/// [`begin`](State::begin) may be called more than once. A snapshot may turn out to be corrupted at
/// its last byte; an older one is then loaded, and nothing of the first may remain (Java keeps its
/// sessions).
pub trait State {
    /// Removes everything: the tree is then as in an empty database.
    fn begin(&mut self);

    /// Adds a session of the snapshot.
    fn session(&mut self, id: SessionId, timeout_ms: i32);

    /// Adds an entry of the snapshot's ACL table.
    fn acl(&mut self, id: i64, acl: Vec<Acl>);

    /// Adds a znode of the snapshot. The root's path is empty. Parents precede their children.
    ///
    /// A fuzzy snapshot may contain znodes whose `acl` is not in the table. Replay adds the missing
    /// entry.
    ///
    /// # Errors
    /// If the znode cannot be part of a tree: its parent is missing, or the path already exists.
    fn znode(
        &mut self,
        path: &str,
        data: Option<&[u8]>,
        acl: i64,
        stat: StatPersisted,
    ) -> Result<(), ContentError>;

    /// Completes the snapshot, whose checksums are correct. `zxid` is the zxid in its name.
    ///
    /// # Errors
    /// If the parts do not form a database.
    fn snapshot_loaded(
        &mut self,
        zxid: Zxid,
        digest: Option<SnapshotDigest>,
    ) -> Result<(), ContentError>;

    /// Applies a transaction of the log after the snapshot, in the order of the log. Replaying a
    /// transaction whose effects are already in the (fuzzy) snapshot must not change anything.
    ///
    /// Buffers of the record are slices of a read buffer of up to 1 MiB. Copy data that is kept for
    /// long: each slice keeps the whole buffer alive.
    fn txn(&mut self, record: &TxnRecord);
}

/// Discards everything, for reading a snapshot only to verify it.
#[derive(Debug, Default)]
pub(crate) struct Discard;

impl State for Discard {
    fn begin(&mut self) {}

    fn session(&mut self, _: SessionId, _: i32) {}

    fn acl(&mut self, _: i64, _: Vec<Acl>) {}

    fn znode(
        &mut self,
        _: &str,
        _: Option<&[u8]>,
        _: i64,
        _: StatPersisted,
    ) -> Result<(), ContentError> {
        Ok(())
    }

    fn snapshot_loaded(&mut self, _: Zxid, _: Option<SnapshotDigest>) -> Result<(), ContentError> {
        Ok(())
    }

    fn txn(&mut self, _: &TxnRecord) {}
}
