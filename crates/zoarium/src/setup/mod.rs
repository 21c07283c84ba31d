//! Commands that check an installation or create parts of it.

pub(crate) mod admin_token_tool;
pub(crate) mod config_tool;
pub(crate) mod findings;
pub(crate) mod preflight_tool;
