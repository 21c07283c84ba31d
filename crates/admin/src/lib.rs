//! Interfaces of a server for its operators: HTTP ports, the audit log, and traces of writes.
//!
//! * [`server`] is the admin server, with its commands and the web console.
//! * [`ports`] are the exporter of metrics for Prometheus, and a separate port for probes.
//! * [`audit`] writes the files of the audit log. `traces` sends traces of writes to a collector.
//! * [`token`] manages the administrators' credential.
//! * [`http`] contains the parts that all ports share.
//!
//! A server passes this crate a view of its state, and the operations that commands request
//! ([`served::Served`]). This crate contains no logic of consensus.

// Requests and answers come from other programs, so nothing in them may cause a panic.
#![warn(clippy::indexing_slicing)]
#![cfg_attr(
    not(feature = "history"),
    allow(dead_code, reason = "limits and helpers of the change history")
)]
#![cfg_attr(test, allow(clippy::disallowed_methods, reason = "tests may block"))]

mod answer;
pub mod audit;
mod commands;
mod console;
pub mod http;
pub mod limits;
pub mod ports;
pub mod served;
pub mod server;
pub mod token;
#[cfg(feature = "traces")]
pub mod traces;
