//! What recovery fills.

use proto::txn::TxnRecord;
use proto::{Acl, SessionId, StatPersisted, Zxid};

use crate::error::ContentError;

/// The digest section of a snapshot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SnapshotDigest {
    /// The transaction after which the tree has this digest; at least the snapshot's own zxid.
    pub zxid: Zxid,
    /// Version of the digest; only 2 can be compared.
    pub version: i32,
    /// The tree's digest.
    pub digest: i64,
}

/// A database that recovery fills: sessions, the ACL table, znodes, then transactions.
///
/// [`begin`](State::begin) may come more than once: a snapshot that turns out to be damaged on its
/// last byte is given up for an older one, and nothing of it may stay (Java keeps its sessions).
pub trait State {
    /// Forgets everything: the tree is as in a fresh database.
    fn begin(&mut self);

    /// A session of the snapshot.
    fn session(&mut self, id: SessionId, timeout_ms: i32);

    /// An entry of the snapshot's ACL table.
    fn acl(&mut self, id: i64, acl: Vec<Acl>);

    /// A znode of the snapshot. The root's path is empty. Parents come before their children.
    ///
    /// A fuzzy snapshot holds znodes whose `acl` is not in the table; replay registers it.
    ///
    /// # Errors
    /// If the znode cannot be part of a tree: its parent is missing, or it was there already.
    fn znode(
        &mut self,
        path: &str,
        data: Option<&[u8]>,
        acl: i64,
        stat: StatPersisted,
    ) -> Result<(), ContentError>;

    /// The snapshot is complete and its checksums are right. `zxid` is that of its name.
    ///
    /// # Errors
    /// If the parts do not make a database.
    fn snapshot_loaded(
        &mut self,
        zxid: Zxid,
        digest: Option<SnapshotDigest>,
    ) -> Result<(), ContentError>;

    /// A transaction of the log after the snapshot, in the order of the log. Replaying one whose
    /// effects the (fuzzy) snapshot holds already must change nothing.
    ///
    /// Buffers of the record are slices of a read buffer of up to 1 MiB: copy what is kept for
    /// long, or each kept slice holds all of it.
    fn txn(&mut self, record: &TxnRecord);
}

/// Takes everything and keeps nothing: for reading a snapshot only to check it.
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
