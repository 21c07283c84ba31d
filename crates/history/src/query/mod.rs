//! Queries, which are answered page by page.

mod blame;
mod diff;
mod feed;
mod list;
mod memory;
mod origins;
mod resume;
mod scan;
mod tree;

pub use blame::{Blame, ChildBlame};
pub use diff::{Difference, DifferenceKind};
pub use feed::FeedPage;
pub use list::{HistoryQuery, Page};
pub use memory::FeedMemory;
pub use origins::{KnownOrigin, Origins};
pub use resume::PathPosition;
pub use tree::TreeEntry;
