//! From a transaction to the changes of znodes that it makes.

use bytes::Bytes;
use hashbrown::HashMap;
use jute::Str;
use prost::Message;
use proto::txn::{Txn, TxnRecord};
use proto::{Acl, SessionId};

use crate::filter::PathFilter;
use crate::record::{AclList, Change, Content, Kind, Operation};

/// Who asked for a transaction, as far as this member knows: it does of its own clients only.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Origin {
    /// The client's address.
    pub client: String,
    /// What it had proved, each as `scheme:id`; without `world` and without passwords.
    pub identities: Vec<String>,
}

/// Longest TTL, ms. One beyond it never took effect. Source: EphemeralType.
const TTL_MS_MAX: i64 = 0xff_ffff_ffff;

/// Ephemerals and their sessions, for sessions that end without a list of theirs.
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

    /// Whether it was there.
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

    /// Those of a session, in order.
    fn of(&self, session: i64) -> Vec<String> {
        let mut paths = self.by_session.get(&session).cloned().unwrap_or_default();
        paths.sort_unstable();
        paths
    }
}

/// Makes changes out of transactions.
pub(crate) struct Expander<'a> {
    pub(crate) filter: &'a PathFilter,
    pub(crate) ephemerals: &'a Ephemerals,
    pub(crate) origin: &'a Origin,
    /// Where they go.
    pub(crate) out: &'a mut Vec<Draft>,
}

/// A change whose contents are not stored yet.
#[derive(Debug)]
pub(crate) struct Draft {
    pub(crate) change: Change,
    /// The new data, if the change sets it.
    pub(crate) data: Option<Bytes>,
    /// The new ACL (an `AclList`), if the change sets it.
    pub(crate) acl: Option<Bytes>,
}

impl Expander<'_> {
    /// Appends what a committed transaction changes. Versions and paths in it are final.
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
            Txn::CloseSession { paths } => self.close(record, paths.as_deref().unwrap_or_default()),
            txn => self.expand_one(record, txn),
        }
    }

    fn expand_one(&mut self, record: &TxnRecord, txn: &Txn) {
        match txn {
            Txn::Create(txn) | Txn::CreateV0(txn) | Txn::Create2(txn) => {
                let kind = if txn.ephemeral {
                    Kind::Ephemeral
                } else {
                    Kind::Persistent
                };
                self.create(record, &txn.path, txn.data.as_ref(), &txn.acl, kind, 0);
            }
            Txn::CreateContainer(txn) => {
                let kind = Kind::Container;
                self.create(record, &txn.path, txn.data.as_ref(), &txn.acl, kind, 0);
            }
            Txn::CreateTtl(txn) => {
                if (1..=TTL_MS_MAX).contains(&txn.ttl) {
                    let (data, kind) = (txn.data.as_ref(), Kind::Ttl);
                    self.create(record, &txn.path, data, &txn.acl, kind, txn.ttl);
                }
            }
            Txn::Delete { path } => self.delete(record, path, Operation::Delete),
            Txn::DeleteContainer { path } => {
                self.delete(record, path, Operation::DeleteByServer);
            }
            Txn::SetData(set) | Txn::Reconfig(set) => {
                let operation = match txn {
                    Txn::Reconfig(_) => Operation::Reconfig,
                    _ => Operation::SetData,
                };
                let made = self.change(record, &set.path, operation);
                if let Some(draft) = made {
                    draft.change.version = set.version;
                    draft.data = set.data.clone();
                }
            }
            Txn::SetAcl(set) => {
                if let Some(draft) = self.change(record, &set.path, Operation::SetAcl) {
                    draft.change.aversion = set.version;
                    draft.acl = Some(acl_bytes(&set.acl));
                }
            }
            Txn::CreateSession { .. }
            | Txn::CloseSession { .. }
            | Txn::Error { .. }
            | Txn::Check(_)
            | Txn::Multi(_) => {}
        }
    }

    fn create(
        &mut self,
        record: &TxnRecord,
        path: &Str,
        data: Option<&Bytes>,
        acl: &[Acl],
        kind: Kind,
        ttl_ms: i64,
    ) {
        if let Some(draft) = self.change(record, path, Operation::Create) {
            draft.change.set_kind(kind);
            draft.change.ttl_ms = ttl_ms;
            draft.data = data.cloned();
            draft.acl = Some(acl_bytes(acl));
        }
    }

    fn delete(&mut self, record: &TxnRecord, path: &str, operation: Operation) {
        // The tree refuses to lose these. Source: DataTree.deleteNode.
        if matches!(
            path,
            "/" | "/zookeeper" | "/zookeeper/quota" | "/zookeeper/config"
        ) {
            return;
        }
        self.change(record, path, operation);
    }

    /// The listed ones first, then what else the session owned. Source: DataTree.killSession.
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

    fn change(
        &mut self,
        record: &TxnRecord,
        path: &str,
        operation: Operation,
    ) -> Option<&mut Draft> {
        if !self.filter.takes(path) {
            return None;
        }
        let header = &record.header;
        let zxid = header.zxid.0;
        let index = match self.out.last() {
            Some(last) if last.change.zxid == zxid => last.change.index + 1,
            _ => 0,
        };
        let change = Change {
            zxid,
            index,
            time_ms: header.time_ms,
            session: header.session.0,
            cxid: header.cxid,
            client: self.origin.client.clone(),
            identities: self.origin.identities.clone(),
            operation: operation.into(),
            path: path.to_owned(),
            ..Change::default()
        };
        self.out.push(Draft {
            change,
            data: None,
            acl: None,
        });
        self.out.last_mut()
    }
}

/// An ACL as a content.
pub(crate) fn acl_bytes(acl: &[Acl]) -> Bytes {
    AclList::from_acl(acl).encode_to_vec().into()
}

/// Kind, owner and TTL of a stored owner. Source: EphemeralType.
pub(crate) fn kind_of_owner(stored: i64) -> (Kind, SessionId, i64) {
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

/// A content that is known only by its size and hash.
pub(crate) fn hash_of(bytes: &[u8]) -> [u8; 16] {
    use sha2::Digest;
    let mut hash = [0; 16];
    hash.copy_from_slice(&sha2::Sha256::digest(bytes)[..16]);
    hash
}

/// A content that lies in the record.
pub(crate) fn inline(bytes: Bytes) -> Content {
    Content {
        size: bytes.len() as u64,
        inline: Some(bytes),
        ..Content::default()
    }
}
