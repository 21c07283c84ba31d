//! Harness of the workspace-level tests: real server processes, real foreign clients.
//!
//! A test starts a [`Server`], Zoarium or Apache ZooKeeper, in a fresh data directory on a free
//! loopback port. It drives the server from outside: with four-letter words, a foreign client
//! program ([`scenario`]), single requests ([`RawSession`]), or another process such as the
//! conformance suite. A [`Missing`] names a requirement that the machine lacks, and [`or_skip`]
//! turns it into a printed skip.
//!
//! The harness never waits a fixed time: every wait names its condition and has a deadline
//! ([`wait_for`]).

#![allow(
    clippy::missing_panics_doc,
    reason = "a harness reports by panicking in the test"
)]

mod apache;
mod browser;
mod bystander;
pub mod certificates;
mod command;
mod conformance;
mod documented;
mod dump;
pub mod ensemble;
mod faults;
mod foreign;
mod http;
mod kdc;
mod launcher;
mod layout;
mod modes;
pub mod mutants;
mod port;
mod process;
mod programs;
mod raw_session;
pub mod requests;
pub mod scenario;
pub mod secrets;
mod server;
mod skip;
mod terminal;
mod wait;
mod words;
mod zoarium;

pub use apache::{
    apache_3_8_class_path, apache_class_path, curator_examples, curator_tests, java_tool,
    junit_class_path,
};
pub use browser::{Browser, axe};
pub use bystander::Bystander;
pub use command::{fetch, find_tool, run};
pub use conformance::{Comparison, Conformance};
pub use documented::documented;
pub use dump::{Dump, Znode};
pub use faults::Faults;
pub use foreign::{prepare, python_with_kazoo, python_with_kerberos, python_with_protobuf};
pub use http::{HttpAnswer, HttpRequest, http_get};
pub use kdc::{Kdc, REALM};
pub use launcher::Flavour;
pub use layout::{foreign_dir, source_dir, workspace_root};
pub use modes::assert_modes;
pub use port::Port;
pub use process::Process;
pub use programs::{
    RegisterClient, c_program, chart_renderer, go_module, go_program, java_program, kazoo_program,
    register_program, rust_program, told,
};
pub use raw_session::{Answer, Lost, RawSession, handshake};
pub use server::{Server, ServerBuilder, StartFailure};
pub use skip::{Missing, or_skip};
pub use terminal::terminal_pair;
pub use wait::{wait_for, wait_until};
pub use words::{four_letter_word, four_letter_word_at};
pub use zoarium::{kerberos_client, path_with_zoarium, zoarium_binary, zoarium_with_switches};
