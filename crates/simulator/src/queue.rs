//! What is going to happen, and when.

use std::cmp::Ordering;
use std::collections::BinaryHeap;

use crate::network::Process;
use crate::server::SimHost;

/// Microseconds since the beginning.
pub(crate) type Micros = i64;

/// What a process does next with what took its time.
pub(crate) type Then = Box<dyn FnOnce(&mut SimHost)>;

/// Something that happens at a moment.
pub(crate) enum Event {
    /// The oldest message of a lane may have arrived.
    Arrival { connection: u64, lane: usize },
    /// A dial has reached its goal, or not.
    Dialled { connection: u64 },
    /// One end learns that the connection is gone.
    Broken { connection: u64, end: usize },
    /// A server looks at its deadlines.
    Wake { process: Process },
    /// What a server has asked for has come further.
    JobDone { process: Process, then: Then },
    /// The same of what its disk does.
    DiskDone { process: Process, then: Then },
    /// A server looks whom the oracle of two names.
    Oracle { process: Process },
    /// A client looks at its deadlines.
    ClientWake { client: usize },
    /// The clock of a process with a recipe moves.
    Contend { number: usize },
    /// The weather does something.
    Weather,
    /// Everybody looks for a leader again.
    AllLookAgain,
    /// A server that is down is started.
    Start { server: usize },
}

struct Entry {
    at: Micros,
    number: u64,
    event: Event,
}

impl PartialEq for Entry {
    fn eq(&self, other: &Self) -> bool {
        self.number == other.number
    }
}

impl Eq for Entry {}

impl Ord for Entry {
    /// Reversed: the heap gives the greatest first.
    fn cmp(&self, other: &Self) -> Ordering {
        (other.at, other.number).cmp(&(self.at, self.number))
    }
}

impl PartialOrd for Entry {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// Events in the order of their times; of equal times in the order they were put in.
#[derive(Default)]
pub(crate) struct Queue {
    entries: BinaryHeap<Entry>,
    number: u64,
    pub(crate) now: Micros,
    pub(crate) taken: u64,
}

impl Queue {
    pub(crate) fn at(&mut self, at: Micros, event: Event) {
        self.number += 1;
        let (at, number) = (at.max(self.now), self.number);
        self.entries.push(Entry { at, number, event });
    }

    pub(crate) fn after(&mut self, delay: Micros, event: Event) {
        self.at(self.now + delay, event);
    }

    /// The next event, if it happens up to `end`; time moves on to it, or to the end.
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
