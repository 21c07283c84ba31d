//! Making transactions out of requests.
//!
//! A request is judged against the tree as it will be when everything proposed so far has been
//! applied: the tree, and over it an [`Overlay`] of the znodes that transactions in flight
//! change. Source: PrepRequestProcessor.

mod create;
mod delete;
mod eager;
mod length;
mod mode;
mod multi;
mod overlay;
mod pending;
mod quota;
mod reconfig;
mod session;
mod update;

use bytes::Bytes;
pub use overlay::Overlay;
use pending::PendingNode;
use proto::mutant::{self, Mutant};
use proto::request::WriteRequest;
use proto::txn::{Txn, TxnDigest, TxnHeader, TxnRecord};
use proto::{ErrorCode, Id, SessionId, Zxid};

use crate::Tree;

/// Who asks, when, and which zxid is next.
#[derive(Debug, Clone, Copy)]
pub struct PrepareContext<'a> {
    /// The session, 0 for the server itself.
    pub session: SessionId,
    /// The request's xid, 0 for the server itself.
    pub cxid: i32,
    /// The transaction's zxid.
    pub zxid: Zxid,
    /// Wall clock, ms since 1970.
    pub time_ms: i64,
    /// What the connection had proved when the request came in.
    pub identities: &'a [Id],
    /// Whether the session may write; each operation looks at it in its own place.
    pub session_check: Result<SessionKind, ErrorCode>,
}

/// Sessions that may write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SessionKind {
    /// Known to the ensemble.
    Global,
    /// Known to this server only: can own no ephemerals.
    Local,
    /// If at all, known to one other server only: can own no ephemerals either.
    Elsewhere,
}

/// Whether an operation stands alone or in a multi; creates differ.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    Alone,
    InMulti,
}

/// One request on its way.
struct Preparation<'a> {
    overlay: &'a mut Overlay,
    tree: &'a Tree,
    context: &'a PrepareContext<'a>,
    /// Of the transaction, as far as it is made.
    bytes: usize,
}

impl Overlay {
    /// Makes the transaction for a request and takes it as proposed.
    ///
    /// Always one with the zxid of `context`: a refused request becomes an error transaction, a
    /// multi with a refused operation stays a multi that changes nothing. The digest is the one
    /// [`Tree::digest`] will have once the record is applied.
    ///
    /// A transaction longer than `record_bytes_max` of the settings is never made. The request
    /// is refused (BadArguments), and a closeSession has no list instead.
    ///
    /// A reconfig of an ensemble is for [`Self::prepare_reconfig`]; here it finds no quorum.
    pub fn prepare(
        &mut self,
        tree: &Tree,
        request: &WriteRequest,
        context: &PrepareContext<'_>,
    ) -> TxnRecord {
        let mut preparation = Preparation::new(self, tree, context);
        let result = match request {
            WriteRequest::Multi(operations) => preparation.multi(operations.as_deref()),
            operation => preparation.operation(operation, Place::Alone),
        };
        self.record(tree, result, context)
    }

    /// Makes the transaction for a reconfig.
    ///
    /// `plan` is the text of the new configuration, or why there can be none: what only the
    /// leader knows (another one in progress, config version, members, quorum). It counts after
    /// the checks that come before, and before the permission, which is checked last.
    pub fn prepare_reconfig(
        &mut self,
        tree: &Tree,
        plan: Result<Bytes, ErrorCode>,
        context: &PrepareContext<'_>,
    ) -> TxnRecord {
        let mut preparation = Preparation::new(self, tree, context);
        let result = preparation.reconfig(plan);
        self.record(tree, result, context)
    }

    /// Makes the transaction for a request that is refused unseen: one that does not decode.
    pub fn refuse(&self, tree: &Tree, error: ErrorCode, context: &PrepareContext<'_>) -> TxnRecord {
        self.record(tree, Err(error), context)
    }

    fn record(
        &self,
        tree: &Tree,
        result: Result<Txn, ErrorCode>,
        context: &PrepareContext<'_>,
    ) -> TxnRecord {
        let txn = result.unwrap_or_else(Txn::error);
        let may_have_digest = match txn {
            Txn::Error { .. } => false,
            // A reader would take the digest for the list that is not there.
            Txn::CloseSession { paths: None } => false,
            _ => tree.settings.digest_enabled,
        };
        TxnRecord {
            header: TxnHeader {
                session: context.session,
                cxid: context.cxid,
                zxid: context.zxid,
                time_ms: context.time_ms,
                op: txn.op().number(),
            },
            txn,
            digest: may_have_digest.then(|| TxnDigest::new(self.digest())),
        }
    }
}

impl<'a> Preparation<'a> {
    fn new(overlay: &'a mut Overlay, tree: &'a Tree, context: &'a PrepareContext<'a>) -> Self {
        Self {
            overlay,
            tree,
            context,
            bytes: length::AROUND_BODY_BYTES,
        }
    }
}

impl Preparation<'_> {
    /// Judges one operation. Nothing is changed if it is refused.
    fn operation(&mut self, operation: &WriteRequest, place: Place) -> Result<Txn, ErrorCode> {
        match operation {
            WriteRequest::Create { op, request, ttl } => self.create(*op, request, *ttl, place),
            WriteRequest::Delete(request) => self.delete(request),
            WriteRequest::SetData(request) => self.set_data(request),
            WriteRequest::Check(request) => self.check(request),
            // A multi with one of the others does not decode.
            _ if place == Place::InMulti => Err(ErrorCode::MarshallingError),
            WriteRequest::SetAcl(request) => self.set_acl(request),
            WriteRequest::DeleteContainer { path } => self.delete_container(path),
            WriteRequest::Reconfig(_) => self.reconfig(Err(ErrorCode::NewConfigNoQuorum)),
            WriteRequest::CreateSession { timeout_ms } => Ok(Txn::CreateSession {
                timeout_ms: *timeout_ms,
            }),
            WriteRequest::CloseSession => Ok(self.close_session()),
            WriteRequest::Multi(_) => Err(ErrorCode::MarshallingError),
        }
    }

    /// The znode of a path, as it will be.
    fn node(&self, path: &str) -> Option<PendingNode> {
        match self.overlay.get(path) {
            Some(pending) => pending.cloned(),
            None => self
                .tree
                .lookup(path)
                .map(|id| PendingNode::of(self.tree, id)),
        }
    }

    fn check_permission(&self, node: &PendingNode, wanted: i32) -> Result<(), ErrorCode> {
        let identities = self.context.identities;
        let is_permitted = self.tree.permits(node.acl.as_deref(), wanted, identities);
        if is_permitted || mutant::is(Mutant::AclIgnored) {
            Ok(())
        } else {
            Err(ErrorCode::NoAuth)
        }
    }
}

/// The version after one that is expected: -1 expects any. Wraps, as in Java.
fn next_version(current: i32, expected: i32) -> Result<i32, ErrorCode> {
    if expected == -1 || expected == current || mutant::is(Mutant::VersionIgnored) {
        Ok(current.wrapping_add(1))
    } else {
        Err(ErrorCode::BadVersion)
    }
}
