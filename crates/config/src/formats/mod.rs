//! Formats of files and values.

pub mod env_file;
pub mod jaas;
pub(crate) mod java;
pub mod kerberos;
pub mod properties;
pub(crate) mod raw;
pub(crate) mod system_properties;
