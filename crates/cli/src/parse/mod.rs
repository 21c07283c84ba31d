//! Words, options and paths that a user typed, and suggestions for misspelt names.

pub(crate) mod options;
pub(crate) mod path;
pub(crate) mod suggest;
pub(crate) mod words;
