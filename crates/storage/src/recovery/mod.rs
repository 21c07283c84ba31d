//! Recovery of the database from the files, and truncation of the log.

pub(crate) mod recover;
pub(crate) mod seam;
pub(crate) mod state;
pub(crate) mod truncate;
