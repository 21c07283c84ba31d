//! Tree that recovery fills, with a server's settings.

use std::sync::Arc;

use recovery::Restore;
use tree::TreeSettings;

/// Returns an empty tree for recovery.
pub(crate) fn restore() -> Restore {
    Restore::new(settings())
}

/// Returns settings with all features enabled.
pub(crate) fn settings() -> Arc<TreeSettings> {
    Arc::new(TreeSettings {
        extended_types: true,
        enforce_quota: true,
        reconfig_enabled: true,
        ..TreeSettings::new(testkit::LIMITS)
    })
}
