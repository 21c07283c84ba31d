//! Check of ACLs before a write is forwarded (`enableEagerACLCheck`).

use proto::data::perms;
use proto::op::ZnodeChange;
use proto::request::WriteRequest;
use proto::{ErrorCode, Id};

use crate::{Tree, auth, path};

impl Tree {
    /// Returns the reason why this tree refuses a write (NoAuth or InvalidAcl), if it does. The
    /// tree may lag behind the leader's tree. Other errors are detected by the server that orders
    /// the write.
    ///
    /// Source: ZooKeeperServer.authWriteRequest, effectiveACLPath. Differs in one point: nulls,
    /// which end Java's request processor with all waiting requests, are refused only by the
    /// leader.
    pub fn eager_refusal(&self, request: &WriteRequest, identities: &[Id]) -> Option<ErrorCode> {
        let parent = |path: &str| path::split(path).map(|split| split.parent.to_owned());
        let (path, acl, wanted) = match request {
            // createTTL and createContainer are not checked.
            WriteRequest::Create { op, request, .. } if op.change() == ZnodeChange::Create => {
                let path = parent(request.path.as_deref()?);
                (path, Some(&request.acl), perms::CREATE)
            }
            WriteRequest::Delete(request) => {
                (parent(request.path.as_deref()?), None, perms::DELETE)
            }
            WriteRequest::SetData(request) => (
                Some(request.path.as_deref()?.to_owned()),
                None,
                perms::WRITE,
            ),
            WriteRequest::SetAcl(request) => {
                let path = request.path.as_deref()?.to_owned();
                (Some(path), Some(&request.acl), perms::ADMIN)
            }
            _ => return None,
        };
        // The leader refuses a path without a slash with another error.
        let path = path?;
        if let Some(acl) = acl {
            let list = auth::normalise(&self.settings().auth, acl.as_deref(), identities);
            if list == Err(ErrorCode::InvalidAcl) {
                return Some(ErrorCode::InvalidAcl);
            }
        }
        let node = self.lookup(&path)?;
        let acl = self.acl_of(node).map(|acl| &**acl);
        (!self.permits(acl, wanted, identities)).then_some(ErrorCode::NoAuth)
    }
}
