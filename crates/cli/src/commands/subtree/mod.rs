//! Commands on subtrees: overview, search, copies, differences, export and import.

pub(super) mod copy;
pub(crate) mod descent;
pub(super) mod diff;
pub(super) mod import;
mod place;
mod read_ahead;
pub(crate) mod search;
pub(crate) mod walk;
