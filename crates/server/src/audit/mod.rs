//! The audit log: a separate file of changes and attempted changes by clients (`audit.enable`).
//!
//! ```text
//! core thread: Trail records requests, builds lines from their results
//!        | bounded queue (auditlog.queueSize, limits::AUDIT_BYTES_MAX)
//! audit thread: adds the date, writes to the rolling file
//! ```
//!
//! Lines are queued before the reply is written, outside the tree's lock. They are on disk when the
//! server ends, or earlier.

mod file;
mod queue;
mod trail;

pub(crate) use file::check as check_file;
pub(crate) use queue::AuditLog;
pub(crate) use trail::Trail;
