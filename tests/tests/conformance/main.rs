//! The answers equal those of Apache ZooKeeper 3.9.5, for recorded requests and for random requests
//! to both servers.

mod alone;
mod differential;
mod ensemble;

/// Recorded cases in which Zoarium's answer deliberately differs. `docs/COMPATIBILITY.md` contains
/// the reasons.
const DELIBERATE_DIFFERENCES: &[&str] = &["session_wrong_password"];
