//! The queue of future events, ordered by time.

use std::cmp::Ordering;
use std::collections::BinaryHeap;

/// Time since the beginning of the simulation, microseconds.
pub type Micros = i64;

/// Number of microseconds in a millisecond.
pub const MS: Micros = 1000;
/// Number of microseconds in a second.
pub const SECOND: Micros = 1000 * MS;

#[derive(Debug)]
struct QueuedEvent<E> {
    at: Micros,
    number: u64,
    event: E,
}

impl<E> PartialEq for QueuedEvent<E> {
    fn eq(&self, other: &Self) -> bool {
        self.number == other.number
    }
}

impl<E> Eq for QueuedEvent<E> {}

impl<E> Ord for QueuedEvent<E> {
    /// Compares in reverse order, because the heap returns the greatest element first.
    fn cmp(&self, other: &Self) -> Ordering {
        (other.at, other.number).cmp(&(self.at, self.number))
    }
}

impl<E> PartialOrd for QueuedEvent<E> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// Events ordered by time. Events with equal times keep their insertion order.
#[derive(Debug)]
pub struct Queue<E> {
    entries: BinaryHeap<QueuedEvent<E>>,
    number: u64,
    /// Current time.
    pub now: Micros,
    /// Number of events removed so far.
    pub taken: u64,
}

impl<E> Default for Queue<E> {
    fn default() -> Self {
        Self {
            entries: BinaryHeap::new(),
            number: 0,
            now: 0,
            taken: 0,
        }
    }
}

impl<E> Queue<E> {
    /// Adds an event at this time, or now if the time is in the past.
    pub fn at(&mut self, at: Micros, event: E) {
        self.number += 1;
        let (at, number) = (at.max(self.now), self.number);
        self.entries.push(QueuedEvent { at, number, event });
    }

    /// Adds an event after this delay.
    pub fn after(&mut self, delay: Micros, event: E) {
        self.at(self.now + delay, event);
    }

    /// Returns all events, in any order.
    pub fn pending(&self) -> impl Iterator<Item = &E> {
        self.entries.iter().map(|entry| &entry.event)
    }

    /// Removes and returns the earliest wanted event if its time is at most `end`. Advances the
    /// time to the event. Earlier events may remain, and happen late.
    pub fn take(&mut self, end: Micros, is_wanted: impl Fn(&E) -> bool) -> Option<E> {
        let mut entries = std::mem::take(&mut self.entries).into_vec();
        let wanted = entries.iter().enumerate();
        let wanted = wanted.filter(|(_, entry)| entry.at <= end && is_wanted(&entry.event));
        let first = wanted.min_by_key(|(_, entry)| (entry.at, entry.number));
        let first = first.map(|(index, _)| index);
        let taken = first.map(|index| entries.swap_remove(index));
        self.entries = entries.into();
        let taken = taken?;
        self.now = self.now.max(taken.at);
        self.taken += 1;
        Some(taken.event)
    }

    /// Removes and returns the next event if its time is at most `end`, and advances the time to
    /// the event. Otherwise advances the time to `end`.
    pub fn next(&mut self, end: Micros) -> Option<E> {
        match self.entries.peek() {
            Some(entry) if entry.at <= end => {}
            _ => {
                self.now = self.now.max(end);
                return None;
            }
        }
        let entry = self.entries.pop()?;
        self.now = entry.at;
        self.taken += 1;
        Some(entry.event)
    }
}
