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
//!   page, each only what its [`Viewer`] may see. [`feed`](Reader::feed) gives all in its order,
//!   from a [`Position`] on. [`ask`] takes questions as commands put them, [`json`] is how answers look.
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

pub mod ask;
mod baseline;
mod error;
mod expand;
mod files;
mod filling;
mod filter;
mod follow;
mod index;
pub mod json;
mod limits;
mod load;
mod maintain;
mod moment;
mod postings;
mod query;
mod read;
mod recent;
pub mod record;
mod view;
mod viewer;

pub use baseline::{Baseline, SnapshotAt};
pub use error::{HistoryError, Result};
pub use expand::{Origin, kind_of_owner};
pub use filter::PathFilter;
pub use follow::{CatchUp, FromLog, Keeper, Recording, Taken, Znodes, follows, take_applied};
pub use index::{GiveWay, Index, Settings};
pub use limits::{FORMAT, PAGE_RESULTS_MAX, Shape};
pub use load::set_aside;
pub use maintain::Step;
pub use moment::{parse_session, time_text};
pub use proto::position::{Position, parse_zxid};
pub use query::{
    Blame, ChildBlame, Difference, DifferenceKind, FeedMemory, FeedPage, HistoryQuery, Page,
    TreeEntry,
};
pub use read::{Extent, Hole, Moment, Reader};
pub use view::{Effort, Patience};
pub use viewer::Viewer;
