//! Watches: who wants to know about which path.
//!
//! ZooKeeper has two tables, *data* and *child*, and three modes, *standard*, *persistent* and
//! *recursive*, which coexist. Here a connection's interest in a path is one record with a bit
//! for each pair there is. Records hang in two lists, that of their path and that of their
//! connection, so that firing, removing one and removing a connection's all cost what they touch.
//!
//! Any string is a path, and so is null. Source: WatchManager.

mod counts;
mod fire;
mod listing;
mod store;

pub use counts::WatchSummary;
pub use fire::Event;
pub(crate) use fire::{Change, Firing};
pub use listing::{WatchedPaths, Watchers};
pub use store::{SharedWatches, WatcherId, Watches};

/// A set of kinds of watches: bits of table and mode.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Kinds(u8);

impl Kinds {
    pub(crate) const NONE: Self = Self(0);
    /// exists and getData.
    pub(crate) const DATA: Self = Self(1);
    /// getChildren.
    pub(crate) const CHILD: Self = Self(1 << 1);
    const DATA_PERSISTENT: Self = Self(1 << 2);
    const CHILD_PERSISTENT: Self = Self(1 << 3);
    /// addWatch, mode 0: in both tables.
    pub(crate) const PERSISTENT: Self = Self::DATA_PERSISTENT.with(Self::CHILD_PERSISTENT);
    /// addWatch, mode 1: in the data table.
    pub(crate) const RECURSIVE: Self = Self(1 << 4);
    /// All.
    pub(crate) const ANY: Self = Self(0b1_1111);

    const DATA_TABLE: Self = Self::DATA.with(Self::DATA_PERSISTENT).with(Self::RECURSIVE);
    const CHILD_TABLE: Self = Self::CHILD.with(Self::CHILD_PERSISTENT);

    /// What a removeWatches or checkWatches of this type means; `None` if there is no such type.
    pub(crate) fn of_request(watcher_type: i32) -> Option<Self> {
        Some(match watcher_type {
            1 => Self::CHILD,
            2 => Self::DATA,
            3 => Self::ANY,
            4 => Self::PERSISTENT,
            5 => Self::RECURSIVE,
            _ => return None,
        })
    }

    const fn with(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    fn without(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }

    fn meets(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }
}

#[cfg(test)]
mod tests;
