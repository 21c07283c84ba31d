//! The change history (`history.enabled`): committed transactions are recorded on a separate
//! thread.
//!
//! ```text
//! core:  Host::applied, for committed transactions only
//!        | bounded queue; transactions that do not fit are skipped
//! history thread: records each transaction that follows the last recorded one; reads missing ones
//!        from the log, and if the log does not contain them, begins a new era with a snapshot
//! ```
//!
//! The server never waits for the history and continues if the history fails. The history thread
//! has a low priority: on a busy server, the history catches up later.

#[cfg(not(feature = "history"))]
mod absent;
#[cfg(feature = "history")]
mod feed;
#[cfg(feature = "history")]
mod thread;

#[cfg(not(feature = "history"))]
pub(crate) use absent::{Feed, Sources, start};
#[cfg(feature = "history")]
pub(crate) use feed::Feed;
#[cfg(feature = "history")]
pub(crate) use thread::{Sources, start};
