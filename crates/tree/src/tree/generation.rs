//! The generation of the history in a tree, and whether the tree is established.
//!
//! The state of a member is *established* while all transactions in its tree are known to be
//! committed. It is not established after a start, after the tree has been replaced, or after a
//! transaction has been applied that a later leader may order this member to truncate. Such state
//! must never become durable as a snapshot, be written to a backup, or be recorded in the change
//! history.
//!
//! A snapshot is written in pieces while transactions are applied. All pieces must come from one
//! [`Generation`]. A generation ends *before* the tree is replaced or contains anything that is not
//! established. A snapshot that began earlier is then discarded.

use std::sync::atomic::{AtomicU64, Ordering};

/// A period in which a tree contains one history.
///
/// Two values belong to the same generation if their numbers are equal. A generation that is not
/// established may become established. The opposite change begins another generation.
#[derive(Debug, Clone, Copy)]
pub struct Generation {
    number: u64,
    is_established: bool,
}

impl Generation {
    /// Returns whether all transactions in the tree were known to be committed.
    pub fn is_established(self) -> bool {
        self.is_established
    }
}

impl PartialEq for Generation {
    fn eq(&self, other: &Self) -> bool {
        self.number == other.number
    }
}

impl Eq for Generation {}

/// Generation of a shared tree. Only the replica changes it.
///
/// A reader must hold the tree's lock while it reads the generation. The replica must begin a
/// generation before it changes the tree, or while it holds the lock exclusively.
#[derive(Debug, Default)]
pub struct CurrentGeneration(
    /// Twice the number of the generation, plus 1 if the generation is established.
    AtomicU64,
);

const ESTABLISHED: u64 = 1;
const NEXT: u64 = 2;

impl CurrentGeneration {
    /// Returns the generation of the tree.
    pub fn get(&self) -> Generation {
        let value = self.0.load(Ordering::Acquire);
        Generation {
            number: value / NEXT,
            is_established: value & ESTABLISHED != 0,
        }
    }

    /// Begins a generation that is not established.
    pub fn begin_unestablished(&self) {
        let next = |value: u64| Some((value & !ESTABLISHED).wrapping_add(NEXT));
        // This never fails, because there is always a next value.
        let _ = self
            .0
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, next);
    }

    /// Marks the generation as established. All transactions in the tree must be known to be
    /// committed.
    pub fn establish(&self) {
        self.0.fetch_or(ESTABLISHED, Ordering::AcqRel);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn establishing_a_generation_does_not_establish_another() {
        let current = CurrentGeneration::default();
        let first = current.get();
        assert!(!first.is_established());
        current.establish();
        let established = current.get();
        assert!(established.is_established());
        assert_eq!(first, established);
        current.begin_unestablished();
        let second = current.get();
        assert!(!second.is_established());
        assert_ne!(second, established);
        current.begin_unestablished();
        assert_ne!(current.get(), second);
    }
}
