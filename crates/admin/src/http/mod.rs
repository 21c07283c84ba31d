//! HTTP/1.1 for the ports for operators: the admin server, the exporter of metrics, and the port
//! for probes.
//!
//! ```text
//!   accept -> (TLS) -> TimedStream -> hyper -> Admission -> Answers::answer -> Workers
//! ```
//!
//! Each port has separate tasks, a limit on concurrent requests, and limits on heads and idle time.
//! The ports share separate threads for longer work. Load on these ports therefore does not affect
//! clients.

mod admission;
mod body;
mod guard;
mod listener;
mod pieces;
mod response;
mod timed_stream;
mod workers;

pub(crate) use guard::{Names, is_from_here};
pub(crate) use listener::{Answers, Caller, PortSettings, listen};
pub use listener::{BindError, PortTask};
pub(crate) use pieces::{Pieces, Source};
pub(crate) use response::{ResponseBody, respond, with_head};
pub(crate) use timed_stream::{Activity, AtWork};
pub use workers::Workers;
pub(crate) use workers::{NotDone, Requester};
