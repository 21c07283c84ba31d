//! Values exchanged between a replica and its host, and views for operators.

pub(crate) mod effect;
pub(crate) mod host;
pub(crate) mod input;
pub(crate) mod large_bytes;
pub(crate) mod note;
pub(crate) mod settings;
pub(crate) mod view;
