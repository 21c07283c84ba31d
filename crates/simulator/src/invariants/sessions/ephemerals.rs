//! Invariant: ephemeral znodes are deleted with their session, and none is created without a
//! session.

use proto::txn::{Txn, TxnRecord};
use proto::{SessionId, Sid};
use tree::Tree;

use crate::history::History;
use crate::invariants::CheckResult;

pub(crate) const NAME: &str = "ephemerals end with their session";

/// Checks a transaction that a serving server has applied.
pub(crate) fn applied(sid: Sid, txn: &TxnRecord, tree: &Tree) -> CheckResult {
    let session = txn.header.session;
    if !matches!(txn.txn, Txn::CloseSession { .. }) {
        return Ok(());
    }
    let left = tree.ephemerals().find(|(owner, _)| *owner == session);
    match left.and_then(|(_, mut paths)| paths.next()) {
        Some(path) => Err(format!(
            "session {session} is closed on server {sid}, but its znode {path} still exists"
        )),
        None => Ok(()),
    }
}

/// Checks the last transaction of the history.
pub(crate) fn committed(txn: &TxnRecord, history: &History) -> CheckResult {
    let session = txn.header.session;
    let makes_ephemeral = match &txn.txn {
        Txn::Create(create) | Txn::Create2(create) => create.ephemeral,
        _ => false,
    };
    if makes_ephemeral && !history.sessions.contains_key(&session) {
        let zxid = txn.header.zxid;
        return Err(format!(
            "{zxid} creates an ephemeral of session {session}, which has ended"
        ));
    }
    Ok(())
}

/// Checks, in a quiet ensemble, that the owner of each ephemeral znode exists, and that the server
/// has all ephemeral znodes.
pub(crate) fn at_the_end(sid: Sid, tree: &Tree, history: &History) -> CheckResult {
    for (owner, mut paths) in tree.ephemerals() {
        if !history.sessions.contains_key(&owner) {
            let path = paths.next().map(|path| path.to_string());
            return Err(format!(
                "{path:?} on server {sid} belongs to session {owner}, which has ended"
            ));
        }
    }
    let count: usize = history
        .sessions
        .keys()
        .map(|session: &SessionId| history.owned(*session))
        .sum();
    if count != tree.ephemerals_count() {
        let found = tree.ephemerals_count();
        return Err(format!(
            "server {sid} has {found} ephemerals instead of {count}"
        ));
    }
    Ok(())
}
