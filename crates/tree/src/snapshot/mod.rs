//! Building a tree from a snapshot, and writing one.

pub(crate) mod load;
pub(crate) mod write;
