//! The change history: who changed what and when, and the tree as it was.
//!
//! It is fed with committed transactions, in order ([`Index::append`]), and is *derived*: whatever
//! happens to its files, it can be made again from a snapshot and the log. Nothing waits for it.
//!
//! * [`Index`] writes. Changes are gathered in blocks, blocks in files, and small rows in sled say
//!   where they are. [`Index::checkpoint`] makes durable, [`Index::step`] does the work in the
//!   background: it merges and drops.
//! * [`Baseline`] takes the znodes of the snapshot that a history begins with.
//! * [`Reader`] answers: [`history`](Reader::history), [`blame`](Reader::blame),
//!   [`znode_at`](Reader::znode_at), [`tree_at`](Reader::tree_at), [`diff`](Reader::diff), all page by
//!   page, each only what its [`Viewer`] may see.
//!
//! ```text
//! <dir>/index/          rows in sled: where blocks, runs and eras are, and how far they are valid
//! <dir>/changes.<n>     blocks of changes and long contents
//! <dir>/run.<n>         which blocks hold a path, a session, an identity
//! <dir>/base.<n>        znodes that an era begins with
//! ```
//!
//! An *era* is a time without a gap. Where transactions were never seen (a snapshot of the leader took
//! the place of the log), the next era begins, and answers say so ([`Extent`]).
//!
//! Records are those of `proto/history.proto` ([`record::DEFINITION`]). No clocks, threads or sockets;
//! files are its own. Time comes in as an argument.

mod baseline;
mod error;
mod expand;
mod files;
mod filter;
mod index;
mod limits;
mod load;
mod maintain;
mod postings;
mod query;
mod read;
pub mod record;
mod view;

pub use baseline::{Baseline, SnapshotAt};
pub use error::{HistoryError, Result};
pub use expand::Origin;
pub use filter::PathFilter;
pub use index::{Index, Settings};
pub use limits::{FORMAT, PAGE_RESULTS_MAX, Shape};
pub use load::set_aside;
pub use maintain::Step;
pub use query::{Blame, ChildBlame, Difference, DifferenceKind, HistoryQuery, Page, TreeEntry};
pub use read::{Extent, FileOwner, Hole, Moment, Reader, Viewer};
