//! Questions, answered page by page.

mod blame;
mod diff;
mod list;
mod scan;
mod tree;

pub use blame::{Blame, ChildBlame};
pub use diff::{Difference, DifferenceKind};
pub use list::{HistoryQuery, Page};
pub use tree::TreeEntry;
