//! Invariant (access control): no client can do more than an ACL permits, and permitted requests
//! are not refused.
//!
//! The check uses a separate rule: an entry of the ACL permits an operation if it names everyone or
//! one of the client's identities. Super users may do everything.

use std::collections::BTreeMap;

use proto::data::perms;
use proto::request::ReadRequest;
use proto::txn::{Txn, TxnRecord};
use proto::{Acl, ErrorCode, SessionId, Zxid};
use tree::auth::{DigestAlgorithm, digest_id};

use crate::history::{History, NodeState, has_failed, parent_of};
use crate::invariants::CheckResult;
use crate::invariants::reads::{ReadReply, SYSTEM};

/// Identity that a client presents.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Identity {
    /// An ordinary user.
    User,
    /// A super user, who may do everything.
    Super,
}

impl Identity {
    /// Returns the user name and the password.
    pub(crate) fn credentials(self) -> &'static str {
        match self {
            Self::User => "user:secret",
            Self::Super => "super:secret",
        }
    }

    /// Returns the identity as an ACL contains it.
    pub(crate) fn id(self) -> String {
        digest_id(DigestAlgorithm::Sha1, self.credentials().as_bytes())
    }

    /// Returns the number of identities that the client receives by authentication.
    pub(crate) fn ids(self) -> usize {
        match self {
            Self::User => 1,
            Self::Super => 2,
        }
    }
}

/// Returns the ACL that permits only [`Identity::User`].
pub(crate) fn private() -> Acl {
    Acl::new(perms::ALL, "digest", &Identity::User.id())
}

/// Identity with which each request was sent.
#[derive(Debug, Default)]
pub(crate) struct Access {
    asked: BTreeMap<(SessionId, i32), Option<Identity>>,
}

impl Access {
    pub(crate) const NAME: &str = "clients do only what the ACLs permit";

    /// Records the identity with which a client sends a request.
    pub(crate) fn asks(&mut self, session: SessionId, cxid: i32, identity: Option<Identity>) {
        self.asked.insert((session, cxid), identity);
    }

    /// Checks the last transaction of the history.
    pub(crate) fn committed(&self, txn: &TxnRecord, history: &History) -> CheckResult {
        let header = &txn.header;
        let Some(identity) = self.asked.get(&(header.session, header.cxid)) else {
            return Ok(());
        };
        if has_failed(&txn.txn) || *identity == Some(Identity::Super) {
            return Ok(());
        }
        let parts = match &txn.txn {
            Txn::Multi(txns) => &txns[..],
            txn => std::slice::from_ref(txn),
        };
        let before = Zxid(header.zxid.0 - 1);
        for part in parts {
            let Some((path, wanted)) = needs(part) else {
                continue;
            };
            // The model lacks the root and the znodes that the same multi creates, so they are not
            // checked.
            let node = history.get(path, before);
            if node.is_some_and(|node| !permits(&node.acl, wanted, *identity)) {
                return Err(format!(
                    "{} changes {path} without the permission of session {} ({identity:?})",
                    header.zxid, header.session
                ));
            }
            if matches!(part, Txn::Reconfig(_)) {
                let zxid = header.zxid;
                return Err(format!(
                    "{zxid} changes the member list for the identity {identity:?} without super rights"
                ));
            }
        }
        Ok(())
    }
}

/// Returns the znode whose ACL applies to a change, and the required permissions.
fn needs(txn: &Txn) -> Option<(&str, i32)> {
    let (path, wanted) = match txn {
        Txn::Create(create) | Txn::Create2(create) => (parent_of(&create.path), perms::CREATE),
        Txn::CreateContainer(create) => (parent_of(&create.path), perms::CREATE),
        Txn::CreateTtl(create) => (parent_of(&create.path), perms::CREATE),
        Txn::Delete { path } => (parent_of(path), perms::DELETE),
        Txn::SetData(set) | Txn::Reconfig(set) => (&*set.path, perms::WRITE),
        Txn::SetAcl(set) => (&*set.path, perms::ADMIN),
        _ => return None,
    };
    (matches!(txn, Txn::Reconfig(_)) || !path.starts_with(SYSTEM)).then_some((path, wanted))
}

fn permits(acl: &[Acl], wanted: i32, identity: Option<Identity>) -> bool {
    let lets = |entry: &&Acl| entry.perms & wanted != 0;
    let is_everybody = |entry: &Acl| &*entry.id.scheme == "world";
    if identity == Some(Identity::Super) || acl.iter().filter(lets).any(is_everybody) {
        return true;
    }
    let id = identity.map(Identity::id);
    acl.iter()
        .filter(lets)
        .any(|entry| Some(&*entry.id.id) == id.as_deref())
}

/// Checks that a read of an existing znode was refused if, and only if, the client may not read the
/// znode.
pub(crate) fn reads(
    path: &str,
    told: ReadReply<'_>,
    node: &NodeState,
    request: &ReadRequest,
) -> CheckResult {
    let wanted = match request {
        ReadRequest::GetAcl(_) => perms::READ | perms::ADMIN,
        _ => perms::READ,
    };
    let may = permits(&node.acl, wanted, told.identity);
    let is_refused = told.result == &Err(ErrorCode::NoAuth);
    if may != is_refused {
        return Ok(());
    }
    let (session, identity, zxid) = (told.session, told.identity, told.zxid);
    Err(format!(
        "session {session} ({identity:?}): may read {path} at {zxid}: {may}, was refused: {is_refused}"
    ))
}
