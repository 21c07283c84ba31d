//! The history in a tree: its generation, and whether all of it is committed.
//!
//! The state of a member is *established* while it is known that everything in its tree is committed. It is
//! not established after a start, when a tree was replaced, and when a transaction was applied that a later
//! leader may order this member to cut off again. Such state must never become durable as a snapshot, go
//! into a backup, or count in the change history.
//!
//! A snapshot is made in pieces while transactions are applied. Every piece must come from the same
//! [`Generation`]. A generation ends *before* the tree is replaced or holds anything that is not
//! established. A snapshot that began earlier is then given up.

use std::sync::atomic::{AtomicU64, Ordering};

/// A period in which a tree holds one history.
///
/// Two values are of the same generation if their numbers are equal. A generation that is not established
/// may become established. The opposite begins another generation.
#[derive(Debug, Clone, Copy)]
pub struct Generation {
    number: u64,
    is_established: bool,
}

impl Generation {
    /// Whether everything in the tree is committed.
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

/// The generation of a tree that is shared. The replica alone changes it.
///
/// A reader must hold the tree while it reads the generation. The replica must begin a generation before it
/// changes the tree, or while it holds the tree alone.
#[derive(Debug, Default)]
pub struct CurrentGeneration(
    /// The number, and in the lowest bit whether it is established.
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
        // It never fails: there is always a next value.
        let _ = self
            .0
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, next);
    }

    /// Notes that everything in the tree is committed.
    pub fn establish(&self) {
        self.0.fetch_or(ESTABLISHED, Ordering::AcqRel);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_generation_becomes_established_and_another_one_is_not() {
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
