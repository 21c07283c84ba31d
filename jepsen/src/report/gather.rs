//! The data of a report, in memory that does not grow with the history.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::io;
use std::path::Path;

use crate::history::{self, Event, Kind, Process};

/// Points of a plot from left to right.
pub(super) const BUCKETS: usize = 240;
/// Latencies that are kept per bucket, evenly spread over it.
const LATENCIES_MAX: usize = 256;
/// Maximum number of shown faults.
const FAULTS_MAX: usize = 500;

/// A fault, from its first to its last event.
#[derive(Debug)]
pub(super) struct Fault {
    pub(super) name: String,
    pub(super) what: String,
    pub(super) from_ns: u64,
    pub(super) to_ns: u64,
}

/// Events of one interval.
#[derive(Debug, Default)]
pub(super) struct Bucket {
    pub(super) ok: u64,
    pub(super) fail: u64,
    pub(super) info: u64,
    latencies_ns: Vec<u64>,
    /// One of this many latencies is kept.
    every: usize,
    seen: usize,
}

impl Bucket {
    /// Returns the latency that this percentage of the calls does not exceed, 0 to 100.
    pub(super) fn latency_ns(&self, percent: usize) -> Option<u64> {
        let mut sorted = self.latencies_ns.clone();
        sorted.sort_unstable();
        let last = sorted.len().checked_sub(1)?;
        sorted.get(last * percent / 100).copied()
    }

    fn add_latency(&mut self, latency_ns: u64) {
        self.every = self.every.max(1);
        if self.seen.is_multiple_of(self.every) {
            self.latencies_ns.push(latency_ns);
        }
        self.seen += 1;
        if self.latencies_ns.len() >= LATENCIES_MAX {
            let mut at = 0;
            self.latencies_ns.retain(|_| {
                at += 1;
                at % 2 == 1
            });
            self.every *= 2;
        }
    }
}

/// The data of a history that a report needs.
#[derive(Debug, Default)]
pub(super) struct Gathered {
    pub(super) end_ns: u64,
    pub(super) faults: Vec<Fault>,
    pub(super) buckets: Vec<Bucket>,
    /// Ends of calls by operation: ok, fail and info.
    pub(super) counts: BTreeMap<String, [u64; 3]>,
    /// The requested events, and the other event of their calls.
    pub(super) events: BTreeMap<u64, Event>,
}

/// Reads a history twice: first for its length and its faults, and then for the other data.
pub(super) fn gather(path: &Path, wanted: &BTreeSet<u64>) -> io::Result<Gathered> {
    let mut gathered = Gathered::default();
    let mut numbered: HashMap<String, usize> = HashMap::new();
    for event in history::read(path)? {
        let event = event?;
        gathered.end_ns = gathered.end_ns.max(event.time_ns);
        if matches!(event.process, Process::Other(_)) {
            gathered.add_fault(&event, &mut numbered);
        }
    }
    let open_ended = gathered.end_ns;
    for fault in &mut gathered.faults {
        // A fault that was never reverted, or that has only a begin.
        if fault.to_ns == u64::MAX {
            fault.to_ns = open_ended;
        }
    }
    gathered.buckets.resize_with(BUCKETS, Bucket::default);
    let mut open: HashMap<Process, Event> = HashMap::new();
    for event in history::read(path)? {
        gathered.add_event(event?, &mut open, wanted);
    }
    Ok(gathered)
}

impl Gathered {
    /// Returns the length of the interval of one bucket.
    pub(super) fn bucket_ns(&self) -> u64 {
        (self.end_ns / BUCKETS as u64 + 1).max(1)
    }

    fn add_fault(&mut self, event: &Event, numbered: &mut HashMap<String, usize>) {
        let number = event.value.get("fault").map(ToString::to_string);
        let known = number.as_ref().and_then(|number| numbered.get(number));
        if let Some(fault) = known.and_then(|at| self.faults.get_mut(*at)) {
            fault.to_ns = event.time_ns;
            return;
        }
        if self.faults.len() >= FAULTS_MAX {
            return;
        }
        let to_ns = match number {
            Some(number) => {
                numbered.insert(number, self.faults.len());
                u64::MAX
            }
            None => event.time_ns,
        };
        self.faults.push(Fault {
            name: event.f.clone(),
            what: event.value.to_string(),
            from_ns: event.time_ns,
            to_ns,
        });
    }

    fn add_event(
        &mut self,
        event: Event,
        open: &mut HashMap<Process, Event>,
        wanted: &BTreeSet<u64>,
    ) {
        let is_client = matches!(event.process, Process::Client(_));
        if is_client && event.kind == Kind::Invoke {
            open.insert(event.process, event);
            return;
        }
        let call = open.remove(&event.process);
        let is_wanted = |event: &Event| wanted.contains(&event.index);
        if is_client {
            let began = call.as_ref().map_or(event.time_ns, |call| call.time_ns);
            self.count(&event, event.time_ns.saturating_sub(began));
        }
        if is_wanted(&event) || call.as_ref().is_some_and(is_wanted) {
            if let Some(call) = call {
                self.events.insert(call.index, call);
            }
            self.events.insert(event.index, event);
        }
    }

    fn count(&mut self, event: &Event, latency_ns: u64) {
        let at = usize::try_from(event.time_ns / self.bucket_ns()).unwrap_or(usize::MAX);
        let counts = self.counts.entry(event.f.clone()).or_default();
        let Some(bucket) = self.buckets.get_mut(at) else {
            return;
        };
        match event.kind {
            Kind::Ok => {
                counts[0] += 1;
                bucket.ok += 1;
                bucket.add_latency(latency_ns);
            }
            Kind::Fail => {
                counts[1] += 1;
                bucket.fail += 1;
            }
            Kind::Info | Kind::Invoke => {
                counts[2] += 1;
                bucket.info += 1;
            }
        }
    }
}
