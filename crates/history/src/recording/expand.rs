//! Expansion of a transaction into its changes to znodes.

use bytes::Bytes;
use hashbrown::HashMap;
use jute::Str;
use prost::Message;
use proto::op::ZnodeChange;
use proto::txn::{Txn, TxnFields, TxnRecord};
use proto::{Acl, SessionId};

use super::filter::PathFilter;
use crate::record::{AclList, Change, Content, Kind, Operation};

/// Origin of a transaction. A member knows it only for its own clients.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Origin {
    /// Address of the client.
    pub client: String,
    /// Identities of the client, each as `scheme:id`, without `world` and without passwords.
    pub identities: Vec<String>,
}

/// Maximum TTL, ms. A create with a longer TTL does not take effect. Source: EphemeralType.
const TTL_MS_MAX: i64 = 0xff_ffff_ffff;

/// Ephemeral znodes and their sessions, for closeSession transactions without a list.
#[derive(Debug, Default)]
pub(crate) struct Ephemerals {
    by_path: HashMap<String, i64>,
    by_session: HashMap<i64, Vec<String>>,
}

impl Ephemerals {
    pub(crate) fn insert(&mut self, path: String, session: i64) {
        self.by_session
            .entry(session)
            .or_default()
            .push(path.clone());
        self.by_path.insert(path, session);
    }

    /// Removes an ephemeral znode. Returns whether it existed.
    pub(crate) fn remove(&mut self, path: &str) -> bool {
        let Some(session) = self.by_path.remove(path) else {
            return false;
        };
        if let Some(paths) = self.by_session.get_mut(&session) {
            paths.retain(|other| other != path);
            if paths.is_empty() {
                self.by_session.remove(&session);
            }
        }
        true
    }

    pub(crate) fn paths(&self) -> impl Iterator<Item = &str> {
        self.by_path.keys().map(String::as_str)
    }

    /// Returns the ephemeral znodes of a session, in order.
    fn of(&self, session: i64) -> Vec<String> {
        let mut paths = self.by_session.get(&session).cloned().unwrap_or_default();
        paths.sort_unstable();
        paths
    }
}

/// Expander of transactions into changes.
pub(crate) struct Expander<'a> {
    pub(crate) filter: &'a PathFilter,
    pub(crate) ephemerals: &'a Ephemerals,
    pub(crate) origin: &'a Origin,
    /// Destination of the changes.
    pub(crate) out: &'a mut Drafts,
    /// Index of the next change in the transaction. Changes that are not recorded are also
    /// numbered, so that members that record different paths use the same position for a change.
    pub(crate) index: u32,
    pub(crate) last_acl: &'a mut LastAcl,
}

/// The ACL that was encoded last, and its encoded form. The next created znode often has the same
/// ACL.
pub(crate) type LastAcl = Option<(Vec<Acl>, Bytes)>;

/// A change whose contents are not stored yet.
#[derive(Debug, Default)]
pub(crate) struct Draft {
    pub(crate) change: Change,
    /// The new data, if the change sets it.
    pub(crate) data: Option<Bytes>,
    /// The new ACL (an `AclList`), if the change sets it.
    pub(crate) acl: Option<Bytes>,
    /// Whether the path is recorded. Ephemeral znodes are also tracked at other paths, because the
    /// end of a session may delete them without a list.
    pub(crate) is_recorded: bool,
}

/// Changes by one transaction. The buffers are reused for the next transaction, because allocating
/// memory would take most of the time per change.
#[derive(Debug, Default)]
pub(crate) struct Drafts {
    slots: Vec<Draft>,
    used: usize,
}

impl Drafts {
    /// Maximum number of changes whose memory is retained.
    const KEPT: usize = 64;
    /// Maximum capacity of a path whose memory is retained, bytes.
    const PATH_BYTES_KEPT: usize = 4 << 10;

    /// Returns the next slot. Its fields have the values from the last use, except for the
    /// contents.
    fn next(&mut self) -> &mut Draft {
        if self.used == self.slots.len() {
            self.slots.push(Draft::default());
        }
        self.used += 1;
        &mut self.slots[self.used - 1]
    }

    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = &mut Draft> {
        self.slots[..self.used].iter_mut()
    }

    /// Removes the changes and their contents. A slice that was kept would keep a whole request in
    /// memory.
    pub(crate) fn clear(&mut self) {
        for draft in &mut self.slots[..self.used] {
            (draft.data, draft.acl) = (None, None);
            (draft.change.data, draft.change.acl) = (None, None);
            if draft.change.path.capacity() > Self::PATH_BYTES_KEPT {
                draft.change.path = String::new();
            }
        }
        self.used = 0;
        self.slots.truncate(Self::KEPT);
    }
}

impl Expander<'_> {
    /// Appends the changes by a committed transaction. Its versions and paths are final.
    pub(crate) fn expand(&mut self, record: &TxnRecord) {
        match &record.txn {
            Txn::Multi(txns) => {
                if txns.iter().any(|txn| matches!(txn, Txn::Error { .. })) {
                    return;
                }
                for txn in txns {
                    self.expand_one(record, txn);
                }
            }
            txn => self.expand_one(record, txn),
        }
    }

    fn expand_one(&mut self, record: &TxnRecord, txn: &Txn) {
        let fields = txn.fields();
        let path = fields.path.map(|path| &**path).unwrap_or_default();
        match txn.op().change() {
            ZnodeChange::None => {}
            ZnodeChange::Create if fields.is_ephemeral => {
                self.create(record, path, &fields, Kind::Ephemeral);
            }
            ZnodeChange::Create => self.create(record, path, &fields, Kind::Persistent),
            ZnodeChange::CreateContainer => self.create(record, path, &fields, Kind::Container),
            ZnodeChange::CreateTtl => {
                if (1..=TTL_MS_MAX).contains(&fields.ttl_ms) {
                    self.create(record, path, &fields, Kind::Ttl);
                }
            }
            ZnodeChange::Delete => self.delete(record, path, Operation::Delete),
            ZnodeChange::DeleteByServer => self.delete(record, path, Operation::DeleteByServer),
            ZnodeChange::CloseSession => self.close(record, fields.paths.unwrap_or_default()),
            ZnodeChange::SetData => self.set_data(record, path, &fields, Operation::SetData),
            ZnodeChange::Reconfig => self.set_data(record, path, &fields, Operation::Reconfig),
            ZnodeChange::SetAcl => {
                let bytes = self.acl_bytes(fields.acl);
                let draft = self.change(record, path, Operation::SetAcl);
                draft.change.aversion = fields.version;
                draft.acl = Some(bytes);
            }
        }
    }

    fn create(&mut self, record: &TxnRecord, path: &str, fields: &TxnFields<'_>, kind: Kind) {
        let acl = self.acl_bytes(fields.acl);
        let draft = self.change(record, path, Operation::Create);
        draft.change.set_kind(kind);
        draft.change.ttl_ms = fields.ttl_ms;
        draft.data = fields.data.cloned();
        draft.acl = Some(acl);
    }

    fn set_data(
        &mut self,
        record: &TxnRecord,
        path: &str,
        fields: &TxnFields<'_>,
        operation: Operation,
    ) {
        let draft = self.change(record, path, operation);
        draft.change.version = fields.version;
        draft.data = fields.data.cloned();
    }

    fn acl_bytes(&mut self, acl: &[Acl]) -> Bytes {
        if let Some((last, bytes)) = self.last_acl
            && *last == acl
        {
            return bytes.clone();
        }
        let bytes = acl_bytes(acl);
        *self.last_acl = Some((acl.to_vec(), bytes.clone()));
        bytes
    }

    fn delete(&mut self, record: &TxnRecord, path: &str, operation: Operation) {
        // The tree refuses to delete these znodes. Source: DataTree.deleteNode.
        if matches!(
            path,
            "/" | "/zookeeper" | "/zookeeper/quota" | "/zookeeper/config"
        ) {
            return;
        }
        self.change(record, path, operation);
    }

    /// Appends the deletions of the listed ephemeral znodes, then of the session's other ephemeral
    /// znodes. Source: DataTree.killSession.
    fn close(&mut self, record: &TxnRecord, listed: &[Str]) {
        for path in listed {
            self.delete(record, path, Operation::CloseSession);
        }
        for path in self.ephemerals.of(record.header.session.0) {
            if !listed.iter().any(|other| **other == *path) {
                self.delete(record, &path, Operation::CloseSession);
            }
        }
    }

    fn change(&mut self, record: &TxnRecord, path: &str, operation: Operation) -> &mut Draft {
        let index = self.index;
        self.index += 1;
        let is_recorded = self.filter.is_recorded(path);
        let header = &record.header;
        let draft = self.out.next();
        draft.is_recorded = is_recorded;
        let mut kept = std::mem::take(&mut draft.change);
        kept.client.clone_from(&self.origin.client);
        kept.identities.clone_from(&self.origin.identities);
        kept.path.clear();
        kept.path.push_str(path);
        draft.change = Change {
            zxid: header.zxid.0,
            index,
            time_ms: header.time_ms,
            session: header.session.0,
            cxid: header.cxid,
            client: kept.client,
            identities: kept.identities,
            operation: operation.into(),
            path: kept.path,
            ..Change::default()
        };
        draft
    }
}

/// Encodes an ACL as the bytes of a content.
pub(crate) fn acl_bytes(acl: &[Acl]) -> Bytes {
    AclList::from_acl(acl).encode_to_vec().into()
}

/// Returns the kind, the owner session and the TTL (ms) that a stored owner encodes. Source:
/// EphemeralType.
pub fn kind_of_owner(stored: i64) -> (Kind, SessionId, i64) {
    const EXTENDED: i64 = 0xff;
    const FEATURES: i64 = 0x00ff_ff00_0000_0000;
    let none = SessionId(0);
    match stored {
        0 => (Kind::Persistent, none, 0),
        i64::MIN => (Kind::Container, none, 0),
        _ if (stored >> 56) & 0xff == EXTENDED => {
            if stored & FEATURES == 0 {
                (Kind::Ttl, none, stored & TTL_MS_MAX)
            } else {
                (Kind::Persistent, none, 0)
            }
        }
        session => (Kind::Ephemeral, SessionId(session), 0),
    }
}

/// Returns the first 16 bytes of the SHA-256 of a content.
pub(crate) fn hash_of(bytes: &[u8]) -> [u8; 16] {
    use sha2::Digest;
    let mut hash = [0; 16];
    hash.copy_from_slice(&sha2::Sha256::digest(bytes)[..16]);
    hash
}

/// Returns a content that is stored in the record.
pub(crate) fn inline(bytes: Bytes) -> Content {
    Content {
        size: bytes.len() as u64,
        inline: Some(bytes),
        ..Content::default()
    }
}
