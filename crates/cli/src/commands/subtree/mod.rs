//! Commands on subtrees: overview, search, copies, differences, export and import.

mod ahead;
pub(super) mod copy;
pub(super) mod diff;
pub(super) mod import;
pub(crate) mod look;
mod place;
pub(crate) mod walk;
