//! Settings of the tree.

use crate::auth::AuthSettings;
use crate::nodes::owner::OwnerRules;

/// Settings of the tree; fixed while a server runs.
#[derive(Debug, Clone)]
pub struct TreeSettings {
    /// `zookeeper.extendedTypesEnabled`: TTL znodes can be created, and a stored owner whose top
    /// byte is 0xFF marks a TTL znode.
    pub extended_types: bool,
    /// `zookeeper.emulate353TTLNodes`: TTL owners are written and read as 3.5.3 did.
    pub emulate_353_ttl: bool,
    /// `zookeeper.digest.enabled`: the tree's digest is computed.
    pub digest_enabled: bool,
    /// `zookeeper.enforceQuota`: hard quotas refuse writes.
    pub enforce_quota: bool,
    /// `zookeeper.skipACL=yes`: all clients have all permissions.
    pub skip_acl: bool,
    /// `zookeeper.closeSessionTxn.enabled`: closeSession transactions list the ephemerals.
    pub close_session_paths: bool,
    /// Length in bytes of the longest transaction record that all members and all readers of a log
    /// accept: `jute.maxbuffer` and its extra size (BinaryInputArchive.checkLength, for the data of
    /// a PROPOSAL and for a record of a log). A request with a longer transaction is refused; a
    /// closeSession is made without its list.
    pub record_bytes_max: usize,
    /// `reconfigEnabled`.
    pub reconfig_enabled: bool,
    /// Whether this server is not a member of an ensemble.
    pub standalone: bool,
    /// Schemes and super users.
    pub auth: AuthSettings,
}

impl TreeSettings {
    /// Returns the default settings with these limits.
    pub fn new(limits: jute::Limits) -> Self {
        Self {
            extended_types: false,
            emulate_353_ttl: false,
            digest_enabled: true,
            enforce_quota: false,
            skip_acl: false,
            close_session_paths: true,
            record_bytes_max: limits.field_bytes_max,
            reconfig_enabled: false,
            standalone: true,
            auth: AuthSettings::default(),
        }
    }

    /// Returns whether a znode's stored owner is a TTL owner that these settings treat as a
    /// session.
    pub fn is_unrecognised_ttl(&self, stored_owner: i64) -> bool {
        OwnerRules::new(self).is_unrecognised_ttl(stored_owner)
    }
}
