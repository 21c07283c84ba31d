//! Settings of the tree.

use crate::auth::AuthSettings;
use crate::nodes::owner::OwnerRules;

/// Settings of the tree, fixed while a server runs.
#[derive(Debug, Clone)]
pub struct TreeSettings {
    /// Whether TTL znodes can be created, and a stored owner whose top byte is 0xFF marks a TTL
    /// znode (`zookeeper.extendedTypesEnabled`).
    pub extended_types: bool,
    /// Whether TTL owners are written and read as in 3.5.3 (`zookeeper.emulate353TTLNodes`).
    pub emulate_353_ttl: bool,
    /// Whether the tree's digest is computed (`zookeeper.digest.enabled`).
    pub digest_enabled: bool,
    /// Whether writes over a hard quota are refused (`zookeeper.enforceQuota`).
    pub enforce_quota: bool,
    /// Whether all clients have all permissions (`zookeeper.skipACL=yes`).
    pub skip_acl: bool,
    /// Whether closeSession transactions list the ephemeral znodes
    /// (`zookeeper.closeSessionTxn.enabled`).
    pub close_session_paths: bool,
    /// Maximum length of a transaction record that all members and all readers of a log accept,
    /// bytes. It is the sum of `jute.maxbuffer` and its extra size (BinaryInputArchive.checkLength,
    /// for the data in a PROPOSAL and for a record in a log). A request with a longer transaction
    /// is refused. A longer closeSession is created without its list of paths.
    pub record_bytes_max: usize,
    /// Whether reconfigurations are permitted (`reconfigEnabled`).
    pub reconfig_enabled: bool,
    /// Whether this server is not a member of an ensemble.
    pub standalone: bool,
    /// Authentication schemes and super users.
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
