//! Lines of the audit log.
//!
//! ```text
//! 2026-11-23 00:02:48,769 INFO o.a.z.a.Slf4jAuditLogger: session=0x1<TAB>user=bob,127.0.0.1<TAB>ip=127.0.0.1<TAB>
//!     operation=create<TAB>znode=/a<TAB>znode_type=persistent<TAB>result=success                       (one line)
//! ```
//!
//! [`AuditedRequest`] contains the data of a request that the audit line needs. [`lines_of`]
//! creates the lines after the request was executed. [`AuditLog`] queues them. The writer of the
//! file has them formatted, and adds the date.
//!
//! Source: AuditHelper, AuditEvent, ZKAuditProvider, and the pattern of conf/logback.xml.

mod group;
mod line;
mod queue;
mod request;

pub use group::{Caller, Level, LineGroup};
pub use line::{line_of_undecodable, lines_of, lines_of_close};
pub use queue::{AuditLog, DatedLines, QUEUE_BYTES_MAX};
pub use request::AuditedRequest;

/// Name of the logger, as the pattern `%c{2}` shortens it.
pub const LOGGER: &str = "o.a.z.a.Slf4jAuditLogger";

/// Tracing target under which the lines also appear, at level debug.
const TARGET: &str = "audit";
