//! Authentication and TLS.

pub(crate) mod auth;
pub(crate) mod jaas_sections;
pub(crate) mod provider;
pub(crate) mod sasl;
pub(crate) mod session_secrets;
pub(crate) mod tls;
