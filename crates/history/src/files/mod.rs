//! Files of the history: frames with checksums, segments, sorted files, and the rows of the index.

pub(crate) mod frame;
pub(crate) mod rows;
pub(crate) mod segment;
pub(crate) mod sorted;
pub(crate) mod sorter;
