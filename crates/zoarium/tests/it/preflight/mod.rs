//! `zoarium preflight` judges prepared installations as it was written down before, and a start agrees.

mod beside;
mod further;
mod hostile;
mod installations;
mod printed;
pub(crate) mod site;
mod starts;
