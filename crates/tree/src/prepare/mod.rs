//! Conversion of requests to transactions.
//!
//! A request is checked against the state after all proposed transactions. That state consists of
//! the tree and an [`Overlay`] with the znodes changed by transactions in flight. Source:
//! PrepRequestProcessor.

mod create;
mod delete;
mod eager;
mod length;
mod mode;
mod multi;
mod overlay;
mod quota;
mod reconfig;
mod session;
mod update;

use bytes::Bytes;
pub use overlay::Overlay;
use overlay::pending::PendingNode;
use proto::request::WriteRequest;
use proto::txn::{Txn, TxnDigest, TxnHeader, TxnRecord};
use proto::{ErrorCode, Id, SessionId, Zxid};

use crate::Tree;

/// Caller and time of a request, and the next zxid.
#[derive(Debug, Clone, Copy)]
pub struct PrepareContext<'a> {
    /// Id of the session; 0 for the server itself.
    pub session: SessionId,
    /// Xid of the request; 0 for the server itself.
    pub cxid: i32,
    /// Zxid of the transaction.
    pub zxid: Zxid,
    /// Wall-clock time, ms since 1970.
    pub time_ms: i64,
    /// Identities of the connection when the request arrived.
    pub identities: &'a [Id],
    /// Result of the check whether the session may write. Each operation reports its error at its
    /// own position among the other checks.
    pub session_check: Result<SessionKind, ErrorCode>,
}

/// Kind of session that may write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SessionKind {
    /// A session that is known to the ensemble.
    Global,
    /// A session that is known only to this server, so it cannot own ephemeral znodes.
    Local,
    /// A session that is known to at most one other server, so it cannot own ephemeral znodes
    /// either.
    Elsewhere,
}

/// Whether an operation is separate or part of a multi. Creates differ between the two.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Grouping {
    Alone,
    InMulti,
}

/// A request that is being prepared.
struct Preparation<'a> {
    overlay: &'a mut Overlay,
    tree: &'a Tree,
    context: &'a PrepareContext<'a>,
    /// Length of the transaction so far, bytes.
    bytes: usize,
}

impl Overlay {
    /// Prepares the transaction for a request and records it as proposed.
    ///
    /// The result always has the zxid of `context`. A refused request becomes an error transaction.
    /// A multi with a refused operation remains a multi that changes nothing. The digest is the
    /// value of [`Tree::digest`] after the record is applied.
    ///
    /// A transaction longer than `record_bytes_max` in the settings is never created. The request
    /// is refused (BadArguments), except that a closeSession is created without its list.
    ///
    /// Use [`Self::prepare_reconfig`] for a reconfig of an ensemble, because this function refuses
    /// every reconfig (NewConfigNoQuorum).
    pub fn prepare(
        &mut self,
        tree: &Tree,
        request: &WriteRequest,
        context: &PrepareContext<'_>,
    ) -> TxnRecord {
        let mut preparation = Preparation::new(self, tree, context);
        let result = match request {
            WriteRequest::Multi(operations) => preparation.multi(operations.as_deref()),
            operation => preparation.operation(operation, Grouping::Alone),
        };
        self.record(tree, result, context)
    }

    /// Prepares the transaction for a reconfig.
    ///
    /// `plan` is the text of the new configuration, or an error that only the leader can detect
    /// (another reconfig in progress, config version, members, quorum). That error is returned
    /// after the errors from earlier checks and before the permission is checked.
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

    /// Prepares the transaction for a request that is refused without a check because it cannot be
    /// decoded.
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
            // A reader would parse the digest as the missing list.
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
    /// Prepares one operation. If it is refused, the overlay is not changed.
    fn operation(&mut self, operation: &WriteRequest, place: Grouping) -> Result<Txn, ErrorCode> {
        match operation {
            WriteRequest::Create { op, request, ttl } => self.create(*op, request, *ttl, place),
            WriteRequest::Delete(request) => self.delete(request),
            WriteRequest::SetData(request) => self.set_data(request),
            WriteRequest::Check(request) => self.check(request),
            // A multi that contains one of the other operations cannot be decoded.
            _ if place == Grouping::InMulti => Err(ErrorCode::MarshallingError),
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

    /// Returns the znode at a path in the state after all transactions in flight.
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
        if self.tree.permits(node.acl.as_deref(), wanted, identities) {
            Ok(())
        } else {
            Err(ErrorCode::NoAuth)
        }
    }
}

/// Returns the version after `current` if `expected` equals `current` or is -1. Wraps, as in Java.
fn next_version(current: i32, expected: i32) -> Result<i32, ErrorCode> {
    if expected == -1 || expected == current {
        Ok(current.wrapping_add(1))
    } else {
        Err(ErrorCode::BadVersion)
    }
}
