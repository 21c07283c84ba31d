//! `zoarium preflight` judges prepared installations as it was written down before.

mod beside;
mod hostile;
mod installations;
mod printed;
pub(crate) mod site;
