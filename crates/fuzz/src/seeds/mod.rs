//! Valid inputs, encoded by Zoarium's own encoders.

pub(crate) mod files;
pub(crate) mod history;
pub(crate) mod peers;
pub(crate) mod requests;
