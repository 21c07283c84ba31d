//! Values as text, JSON and YAML.

pub(crate) mod json;
pub(crate) mod text;
pub(crate) mod yaml;
