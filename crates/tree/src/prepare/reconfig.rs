//! Preparation of a reconfig, as far as it depends on the tree.

use bytes::Bytes;
use jute::Str;
use proto::ErrorCode;
use proto::data::perms;
use proto::txn::Txn;

use super::Preparation;
use crate::path;

/// Version of the config znode, which never changes.
const CONFIG_VERSION: i32 = -1;

impl Preparation<'_> {
    /// Prepares a reconfig with the leader's `plan`. Source: PrepRequestProcessor.pRequest2Txn.
    pub(super) fn reconfig(&mut self, plan: Result<Bytes, ErrorCode>) -> Result<Txn, ErrorCode> {
        let settings = &self.tree.settings;
        if !settings.reconfig_enabled {
            return Err(ErrorCode::ReconfigDisabled);
        }
        self.context.session_check?;
        if settings.standalone {
            return Err(ErrorCode::Unimplemented);
        }
        let text = plan?;
        let config = Str::from_static(path::CONFIG);
        let node = self.node(&config).ok_or(ErrorCode::NoNode)?;
        self.check_permission(&node, perms::WRITE)?;
        let txn = self.note_data_set(&config, node, Some(&text), CONFIG_VERSION)?;
        Ok(Txn::Reconfig(txn))
    }
}
