//! The audit log: what clients have changed or tried to, in a file of its own (`audit.enable`).
//!
//! ```text
//! core thread: Trail notes requests, makes lines of what became of them
//!        | bounded queue (auditlog.queueSize, limits::AUDIT_BYTES_MAX)
//! audit thread: date in front, into the file, which rolls
//! ```
//!
//! Lines are handed over before the reply is written, outside the tree's lock, and on disk at the
//! latest when the server ends.

mod file;
mod queue;
mod trail;

pub(crate) use file::check as check_file;
pub(crate) use queue::AuditLog;
pub(crate) use trail::Trail;
