//! A tree that recovery fills, as a server's is.

use std::sync::Arc;

use recovery::Restore;
use tree::TreeSettings;

/// An empty database.
pub(crate) fn restore() -> Restore {
    Restore::new(settings())
}

/// Everything that can be switched on.
pub(crate) fn settings() -> Arc<TreeSettings> {
    Arc::new(TreeSettings {
        extended_types: true,
        enforce_quota: true,
        reconfig_enabled: true,
        ..TreeSettings::new(testkit::LIMITS)
    })
}
