//! The same requests get the same answers as from Apache ZooKeeper 3.9.5: recorded ones, and random
//! ones that go to both at the same time.

mod alone;
mod differential;
mod ensemble;

/// Recorded cases in which Zoarium answers otherwise on purpose; `docs/COMPATIBILITY.md` has the
/// reasons.
const DELIBERATE_DIFFERENCES: &[&str] = &["session_wrong_password"];
