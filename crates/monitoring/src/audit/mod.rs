//! The lines of the audit log.
//!
//! ```text
//! 2026-11-23 00:02:48,769 INFO o.a.z.a.Slf4jAuditLogger: session=0x1<TAB>user=bob,127.0.0.1<TAB>ip=127.0.0.1<TAB>
//!     operation=create<TAB>znode=/a<TAB>znode_type=persistent<TAB>result=success                       (one line)
//! ```
//!
//! [`Asked`] is what of a request its line will need, [`lines_of`] makes the lines once it is known what became
//! of it. Whoever has the log's file puts the date in front.
//!
//! Source: AuditHelper, AuditEvent, ZKAuditProvider, and the pattern of conf/logback.xml.

mod asked;
mod line;

pub use asked::Asked;
pub use line::{
    Caller, Level, Line, line_of_undecodable, lines_of, lines_of_close, server_start, server_stop,
};

/// The logger's name, as the pattern `%c{2}` shortens it.
pub const LOGGER: &str = "o.a.z.a.Slf4jAuditLogger";
