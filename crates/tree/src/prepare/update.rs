//! Preparation of setData, setACL and check.

use bytes::Bytes;
use jute::Str;
use proto::ErrorCode;
use proto::data::perms;
use proto::request::{PathVersionRequest, SetAclRequest, SetDataRequest};
use proto::txn::{CheckVersionTxn, SetAclTxn, SetDataTxn, Txn};

use super::length::{acl_bytes, buffer_bytes, string_bytes};
use super::overlay::pending::PendingNode;
use super::{Preparation, next_version};
use crate::tree::data_len;
use crate::{auth, path};

/// Length of the resulting version, which follows the other fields, bytes.
const VERSION_BYTES: usize = 4;

impl Preparation<'_> {
    /// Prepares a setData. Checks the quota before the version.
    pub(super) fn set_data(&mut self, request: &SetDataRequest) -> Result<Txn, ErrorCode> {
        self.context.session_check?;
        let path = valid(request.path.as_ref())?;
        let node = self.node(path).ok_or(ErrorCode::NoNode)?;
        self.check_permission(&node, perms::WRITE)?;
        let more = data_len(request.data.as_deref()) - node.data_len;
        self.check_quota_of_change(path, more)?;
        let version = next_version(node.stat.version, request.version)?;
        let txn = self.note_data_set(path, node, request.data.as_ref(), version)?;
        Ok(Txn::SetData(txn))
    }

    pub(super) fn note_data_set(
        &mut self,
        path: &Str,
        mut node: PendingNode,
        data: Option<&Bytes>,
        version: i32,
    ) -> Result<SetDataTxn, ErrorCode> {
        let data_bytes = buffer_bytes(data.map(|data| &**data));
        self.lengthen(string_bytes(path) + data_bytes + VERSION_BYTES)?;
        let old_digest = node.digest;
        node.stat.version = version;
        node.stat.mzxid = self.context.zxid.0;
        node.stat.mtime = self.context.time_ms;
        node.set_data(path, data.map(|data| &**data));
        self.overlay
            .put(path, self.context.zxid, Some(node), old_digest);
        Ok(SetDataTxn {
            path: path.clone(),
            data: data.cloned(),
            version,
        })
    }

    /// Prepares a setACL. Checks the list before it looks up the znode. The expected version is the
    /// aversion.
    pub(super) fn set_acl(&mut self, request: &SetAclRequest) -> Result<Txn, ErrorCode> {
        self.context.session_check?;
        let path = valid(request.path.as_ref())?;
        let settings = &self.tree.settings.auth;
        let identities = self.context.identities;
        let acl = auth::normalise(settings, request.acl.as_deref(), identities)?;
        let mut node = self.node(path).ok_or(ErrorCode::NoNode)?;
        self.check_permission(&node, perms::ADMIN)?;
        let version = next_version(node.stat.aversion, request.version)?;
        self.lengthen(string_bytes(path) + acl_bytes(&acl) + VERSION_BYTES)?;
        let old_digest = node.digest;
        node.change_stat(|stat| stat.aversion = version);
        node.acl = Some(self.overlay.share_acl(&acl));
        self.overlay
            .put(path, self.context.zxid, Some(node), old_digest);
        Ok(Txn::SetAcl(SetAclTxn {
            path: path.clone(),
            acl,
            version,
        }))
    }

    pub(super) fn check(&mut self, request: &PathVersionRequest) -> Result<Txn, ErrorCode> {
        self.context.session_check?;
        let path = valid(request.path.as_ref())?;
        let node = self.node(path).ok_or(ErrorCode::NoNode)?;
        self.check_permission(&node, perms::READ)?;
        let version = next_version(node.stat.version, request.version)?;
        self.lengthen(string_bytes(path) + VERSION_BYTES)?;
        Ok(Txn::Check(CheckVersionTxn {
            path: path.clone(),
            version,
        }))
    }
}

/// Validates a whole path. Null is refused like an invalid path (BadArguments).
fn valid(path: Option<&Str>) -> Result<&Str, ErrorCode> {
    let path = path.ok_or(ErrorCode::BadArguments)?;
    path::validate(path)?;
    Ok(path)
}
