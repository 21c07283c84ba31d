//! Kinds of watches.

/// Set of kinds of watches, as bits for table and mode.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Kinds(pub(super) u8);

impl Kinds {
    pub(crate) const NONE: Self = Self(0);
    /// Set by exists and getData.
    pub(crate) const DATA: Self = Self(1);
    /// Set by getChildren.
    pub(crate) const CHILD: Self = Self(1 << 1);
    pub(super) const DATA_PERSISTENT: Self = Self(1 << 2);
    pub(super) const CHILD_PERSISTENT: Self = Self(1 << 3);
    /// Set by addWatch with mode 0, in both tables.
    pub(crate) const PERSISTENT: Self = Self::DATA_PERSISTENT.with(Self::CHILD_PERSISTENT);
    /// Set by addWatch with mode 1, in the data table.
    pub(crate) const RECURSIVE: Self = Self(1 << 4);
    /// All kinds of watches.
    pub(crate) const ANY: Self = Self(0b1_1111);

    pub(super) const DATA_TABLE: Self =
        Self::DATA.with(Self::DATA_PERSISTENT).with(Self::RECURSIVE);
    pub(super) const CHILD_TABLE: Self = Self::CHILD.with(Self::CHILD_PERSISTENT);

    /// Returns the kinds that a removeWatches or checkWatches with this type refers to; `None` for
    /// an unknown type.
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

    pub(super) const fn with(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    pub(super) fn without(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }

    pub(super) fn meets(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }
}
