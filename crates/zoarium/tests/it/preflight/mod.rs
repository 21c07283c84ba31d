//! `zoarium preflight` returns the expected verdicts on prepared installations, and a start agrees.

mod beside;
mod further;
mod hostile;
mod installations;
mod printed;
pub(crate) mod site;
mod starts;
