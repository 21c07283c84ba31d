//! The queue of future events, with their times.

use std::cmp::Ordering;
use std::collections::BinaryHeap;

use crate::network::Process;
use crate::server::SimHost;

/// Microseconds since the beginning of the simulation.
pub(crate) type Micros = i64;

/// Continuation of a process after an operation that took time.
pub(crate) type Continuation = Box<dyn FnOnce(&mut SimHost)>;

/// An event at a point in time.
pub(crate) enum Event {
    /// The oldest message of a lane may have arrived.
    Arrival { connection: u64, lane: usize },
    /// A dial has succeeded or failed.
    Dialled { connection: u64 },
    /// One end learns that the connection is broken.
    Broken { connection: u64, end: usize },
    /// A server checks its deadlines.
    Wake { process: Process },
    /// An operation of a server has made progress.
    JobDone {
        process: Process,
        then: Continuation,
    },
    /// An operation of its disk has made progress.
    DiskDone {
        process: Process,
        then: Continuation,
    },
    /// A server queries the oracle.
    Oracle { process: Process },
    /// A client checks its deadlines.
    ClientWake { client: usize },
    /// The clock of a process with a recipe advances.
    Contend { number: usize },
    /// A fault begins or ends.
    Weather,
    /// All servers look for a leader again.
    AllLookAgain,
    /// A stopped server starts.
    Start { server: usize },
}

struct QueuedEvent {
    at: Micros,
    number: u64,
    event: Event,
}

impl PartialEq for QueuedEvent {
    fn eq(&self, other: &Self) -> bool {
        self.number == other.number
    }
}

impl Eq for QueuedEvent {}

impl Ord for QueuedEvent {
    /// Reversed order, because the heap returns the greatest element first.
    fn cmp(&self, other: &Self) -> Ordering {
        (other.at, other.number).cmp(&(self.at, self.number))
    }
}

impl PartialOrd for QueuedEvent {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// Events ordered by time. Events at equal times keep their insertion order.
#[derive(Default)]
pub(crate) struct Queue {
    entries: BinaryHeap<QueuedEvent>,
    number: u64,
    pub(crate) now: Micros,
    pub(crate) taken: u64,
}

impl Queue {
    pub(crate) fn at(&mut self, at: Micros, event: Event) {
        self.number += 1;
        let (at, number) = (at.max(self.now), self.number);
        self.entries.push(QueuedEvent { at, number, event });
    }

    pub(crate) fn after(&mut self, delay: Micros, event: Event) {
        self.at(self.now + delay, event);
    }

    /// Returns the next event if it happens up to `end`. Advances the time to the event or to
    /// `end`.
    pub(crate) fn next(&mut self, end: Micros) -> Option<Event> {
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
