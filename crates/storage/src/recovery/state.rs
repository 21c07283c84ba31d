//! Interface of the database that recovery fills.

use proto::txn::TxnRecord;
use proto::{Acl, SessionId, StatPersisted, Zxid};

use crate::error::ContentError;

/// Digest section of a snapshot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SnapshotDigest {
    /// Transaction after which the tree has this digest. It is at least the snapshot's own zxid.
    pub zxid: Zxid,
    /// Version of the digest. Only version 2 can be compared.
    pub version: i32,
    /// Digest of the tree.
    pub digest: i64,
}

/// A database that recovery fills with sessions, the ACL table, znodes, then transactions.
///
/// [`begin`](State::begin) may be called more than once. A snapshot may prove to be corrupted at
/// its last byte. An older snapshot is then loaded, and nothing of the first snapshot may remain
/// (Java keeps its sessions).
pub trait State {
    /// Removes everything, so the tree is as in an empty database.
    fn begin(&mut self);

    /// Adds a session from the snapshot.
    fn session(&mut self, id: SessionId, timeout_ms: i32);

    /// Adds an entry from the snapshot's ACL table.
    fn acl(&mut self, id: i64, acl: Vec<Acl>);

    /// Adds a znode from the snapshot. The root's path is empty. Parents precede their children.
    ///
    /// A fuzzy snapshot may contain znodes whose `acl` is not in the table. Replay adds the missing
    /// entry.
    ///
    /// # Errors
    /// If the znode cannot be part of a tree, because its parent is missing or its path already
    /// exists.
    fn znode(
        &mut self,
        path: &str,
        data: Option<&[u8]>,
        acl: i64,
        stat: StatPersisted,
    ) -> Result<(), ContentError>;

    /// Completes the snapshot after its checksums were verified. `zxid` is the zxid in its name.
    ///
    /// # Errors
    /// If the parts do not form a database.
    fn snapshot_loaded(
        &mut self,
        zxid: Zxid,
        digest: Option<SnapshotDigest>,
    ) -> Result<(), ContentError>;

    /// Applies a transaction from the log after the snapshot, in the order of the log. A replayed
    /// transaction whose effects are already in the (fuzzy) snapshot must not change anything.
    ///
    /// Buffers in the record are slices of a read buffer of up to 1 MiB (more for a longer record).
    /// Copy data that is kept for long, because each slice keeps the whole buffer in memory.
    fn txn(&mut self, record: &TxnRecord);
}

/// A database that discards everything, for reading a snapshot only to verify it.
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
