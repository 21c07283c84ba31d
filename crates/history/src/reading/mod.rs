//! Reading the history: its state, znodes of the past, and permissions.

pub(crate) mod read;
pub(crate) mod view;
pub(crate) mod viewer;
