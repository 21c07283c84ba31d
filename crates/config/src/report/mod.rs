//! Reports about a configuration: findings, notices, effective values, and the documentation.

pub(crate) mod docs;
pub(crate) mod effective;
pub(crate) mod examine;
pub mod explain;
pub mod finding;
pub(crate) mod origin;
pub(crate) mod review;
pub(crate) mod suggest;
pub(crate) mod verdicts;
