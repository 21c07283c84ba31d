//! Loading of a tree from a snapshot, and writing of one.

pub(crate) mod load;
pub(crate) mod write;
