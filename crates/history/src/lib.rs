//! The change history: all changes with their origin and time, and the tree at past moments.
//!
//! Committed transactions are passed to the history in order ([`Index::append`]). The history is
//! *derived*: it can be rebuilt from a snapshot and the log if its files are lost. No server
//! operation waits for the history.
//!
//! * [`Index`] writes the history. Changes are collected in blocks and blocks in files, and small
//!   rows in sled contain the positions of the blocks. [`Index::checkpoint`] makes the changes
//!   durable. [`Index::step`] merges runs and drops old changes in the background.
//! * [`Baseline`] collects the initial znodes of a history from a snapshot.
//! * [`Reader`] answers queries: [`history`](Reader::history), [`blame`](Reader::blame),
//!   [`znode_at`](Reader::znode_at), [`tree_at`](Reader::tree_at) and [`diff`](Reader::diff). Long
//!   answers are divided into pages. An answer contains only data that its [`Viewer`] may see.
//!   [`feed`](Reader::feed) returns all changes in order, from a [`Position`] on. [`ask`] parses
//!   queries of commands, and [`json`] formats answers.
//!
//! ```text
//! <dir>/index/          rows in sled: positions of blocks, runs and eras; end of valid data
//! <dir>/changes.<n>     blocks of changes and long contents
//! <dir>/run.<n>         numbers of blocks by path, session and identity
//! <dir>/base.<n>        initial znodes of an era
//! ```
//!
//! An *era* is a range of transactions without a gap. If transactions were missed because a
//! snapshot from the leader replaced the log, the next era begins, and answers show the gap as a
//! [`Hole`].
//!
//! The records are defined in `proto/history.proto` ([`record::DEFINITION`]). The crate uses files
//! but does not use clocks, threads or sockets. The time is an argument.

mod answers;
mod error;
mod files;
mod index;
mod limits;
mod query;
mod reading;
pub mod record;
mod recording;

pub use answers::ask;
pub use answers::json;
pub use answers::moment::{parse_session, time_text};
pub use error::{HistoryError, Result};
pub use index::Index;
pub use index::load::set_aside;
pub use index::maintain::MaintenanceStep;
pub use index::settings::{IndexSettings, YieldHook};
pub use limits::{FORMAT, ORIGINS_MAX, PAGE_RESULTS_MAX, Shape};
pub use proto::position::{Position, parse_zxid};
pub use query::{
    Blame, ChildBlame, Difference, DifferenceKind, FeedMemory, FeedPage, HistoryQuery, KnownOrigin,
    Origins, Page, PathPosition, TreeEntry,
};
pub use reading::read::{Extent, Hole, Moment, Reader};
pub use reading::view::{ClientPatience, CostLimit};
pub use reading::viewer::Viewer;
pub use recording::baseline::{Baseline, SnapshotAt};
pub use recording::expand::{Origin, kind_of_owner};
pub use recording::filter::PathFilter;
pub use recording::follow::{
    CatchUp, CatchUpResult, HistoryStorage, Recording, TakeResult, Znodes, take_applied,
};
