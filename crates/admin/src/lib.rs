//! The interfaces of a server for operators: the files of the audit log.
//!
//! A server passes values, views and operations to this crate. This crate does not know how a
//! member decides.

#![cfg_attr(test, allow(clippy::disallowed_methods, reason = "tests may block"))]

pub mod audit;
