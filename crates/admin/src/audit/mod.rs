//! Audit log in files (`audit.enable`).
//!
//! ```text
//! serving threads: write lines to the AuditLog
//!        | bounded queue (auditlog.queueSize, QUEUE_BYTES_MAX)
//! audit thread: formats the lines, writes to the rolling file
//! ```
//!
//! All queued lines are written to the file before the server ends. The file is not synced.

mod file;
mod writer;

pub use file::check as check_file;
pub use writer::AuditWriter;
