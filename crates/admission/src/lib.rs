//! Limits on the resources that clients of a server use: connections, requests in progress, bytes
//! and rates.
//!
//! [`Ledger`] has one entry for each kind of limit:
//!
//! | entry | counts | key |
//! |---|---|---|
//! | [`ConnectionCounts`] | connections | server, address |
//! | [`TokenBucket`] | handshakes per time | server |
//! | [`AuthFailures`] | failed logins per minute | address |
//! | [`Permits`], [`RequestThrottle`], [`LargeRequests`] | requests in progress or waiting, their bytes | server |
//! | [`MemoryBudget`], [`BufferedBytes`] | bytes of requests, replies and events | server, connection |
//! | [`Budgets`] | requests and bytes per second, watches, ephemerals | address, identity |
//!
//! The crate contains no sockets, threads or clocks. The time is an argument, in ms of a monotonic
//! clock. A future that waits does not have a timeout, or uses a sleep that the caller provides.

mod budgets;
mod buffered;
mod connections;
mod failures;
mod handshakes;
mod large;
mod ledger;
pub mod limits;
mod memory;
mod permits;
mod throttle;

pub use budgets::{BudgetExceeded, Budgets, ConnectionBudgets, Cost, Share, Turn};
pub use buffered::{BufferReservation, BufferedBytes};
pub use connections::{ConnectionCounts, ConnectionLimits, Refused};
pub use failures::AuthFailures;
pub use handshakes::TokenBucket;
pub use large::{LargeRequest, LargeRequests, LargeRequestsFull};
pub use ledger::Ledger;
pub use memory::{MemoryBudget, MemoryReservation};
pub use permits::Permits;
pub use throttle::{RequestThrottle, WaitingBatch};
