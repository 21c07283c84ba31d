//! Recovery of the database from the files, and cuts of the log before it.

pub(crate) mod recover;
pub(crate) mod seam;
pub(crate) mod state;
pub(crate) mod truncate;
