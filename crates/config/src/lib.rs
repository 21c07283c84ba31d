//! zoo.cfg.
pub mod error;
mod java;
pub mod origin;
pub mod properties;
pub mod registry;
pub mod system_properties;
