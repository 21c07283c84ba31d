//! The history of a run as its clients saw it: one JSON object per line, in the order of their
//! shared clock.
//!
//! ```text
//! {"index":7,"time":1203441,"process":3,"type":"invoke","f":"cas","key":"r1","value":[4,17]}
//! {"index":9,"time":1811200,"process":3,"type":"ok","f":"cas","key":"r1","value":[5,17]}
//! {"index":12,"time":2000000,"process":"nemesis","type":"info","f":"kill","value":{"members":[2]}}
//! ```
//!
//! An `invoke` is followed by at most one event of the same process. `ok` means that the call
//! happened, and contains the answer. `fail` means that it certainly did *not* happen, and `info`
//! that the outcome is unknown. A process with an `info` never calls again: its client continues
//! under another number.

use std::fs::{File, OpenOptions};
use std::io::{self, BufRead, BufReader, BufWriter, Seek, SeekFrom, Write};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Longest line that is read, in bytes.
const LINE_BYTES_MAX: u64 = 16 << 20;

/// Meaning of an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// A call begins.
    Invoke,
    /// It happened.
    Ok,
    /// It did not happen.
    Fail,
    /// It may have happened, or the event is not a call.
    Info,
}

/// Author of an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Process {
    /// A client, which has at most one open call.
    Client(u64),
    /// The author of the faults.
    Other(Name),
}

/// Processes that are not clients.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Name {
    /// The author of the faults.
    Nemesis,
}

/// One line of a history.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Event {
    /// Its number, from 0 without a gap.
    pub index: u64,
    /// Nanoseconds since the begin of the run, by a monotonic clock.
    #[serde(rename = "time")]
    pub time_ns: u64,
    /// The process.
    pub process: Process,
    /// Meaning of the event.
    #[serde(rename = "type")]
    pub kind: Kind,
    /// Name of the operation, defined by the workload.
    pub f: String,
    /// Key of the call, if a workload has several keys that are checked separately.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// Arguments or answer, in the form of the workload.
    #[serde(default)]
    pub value: Value,
    /// Reason of the failure or of the unknown outcome.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

impl Event {
    /// Returns the approximate memory of the event. A value in a map counts as a whole node.
    fn bytes(&self) -> u64 {
        let texts = [Some(&self.f), self.key.as_ref(), self.error.as_ref()];
        let texts = texts.into_iter().flatten();
        let own = size_of::<Event>() + texts.map(text_bytes).sum::<usize>();
        (own + heap_bytes(&self.value)) as u64
    }
}

/// Overhead of an allocation.
const ALLOCATION_BYTES: usize = 16;
/// A node of serde's map with space for eleven entries. A small map has one node.
const NODE_BYTES: usize = 640;

fn text_bytes(text: &String) -> usize {
    text.capacity() + ALLOCATION_BYTES
}

fn heap_bytes(value: &Value) -> usize {
    match value {
        Value::String(text) => text_bytes(text),
        Value::Array(values) => {
            let own = values.capacity() * size_of::<Value>() + ALLOCATION_BYTES;
            own + values.iter().map(heap_bytes).sum::<usize>()
        }
        Value::Object(map) => {
            let entries = map.iter();
            let entries = entries.map(|(name, value)| text_bytes(name) + heap_bytes(value));
            (map.len() / 6 + 1) * NODE_BYTES + entries.sum::<usize>()
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => 0,
    }
}

/// Events of a file in memory: all of them, or the first ones.
#[derive(Debug)]
pub struct Held {
    /// The events that fit.
    pub events: Vec<Event>,
    /// Number of the other events.
    pub left_out: u64,
}

/// Reads as much of a history as fits into this memory, and counts the rest.
///
/// # Errors
/// If the file cannot be read, or contains a line that is not an event.
pub fn read_within(path: &Path, bytes_max: u64) -> io::Result<Held> {
    let mut held = Held {
        events: Vec::new(),
        left_out: 0,
    };
    let mut bytes = 0;
    for event in read(path)? {
        let event = event?;
        bytes += event.bytes();
        if bytes > bytes_max {
            held.left_out += 1;
        } else {
            held.events.push(event);
        }
    }
    Ok(held)
}

/// Writes a history during a run. Clones write to one file.
#[derive(Debug, Clone)]
pub struct Recorder(Arc<Shared>);

/// A place in a history, after an event.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct End {
    /// Number of bytes before it.
    pub bytes: u64,
    /// Number of events before it.
    pub events: u64,
    /// Time, by the clock of the history.
    pub time_ns: u64,
}

#[derive(Debug)]
struct Shared {
    start: Instant,
    /// Time of the history when the recorder started.
    offset_ns: u64,
    written: Mutex<Written>,
}

#[derive(Debug)]
struct Written {
    file: BufWriter<File>,
    next: u64,
    failure: Option<io::Error>,
}

impl Shared {
    fn now_ns(&self) -> u64 {
        let elapsed_ns = u64::try_from(self.start.elapsed().as_nanos()).unwrap_or(u64::MAX);
        self.offset_ns.saturating_add(elapsed_ns)
    }
}

impl Recorder {
    /// Creates the file.
    ///
    /// # Errors
    /// If it cannot be created.
    pub fn create(path: &Path) -> io::Result<Recorder> {
        File::create(path)?;
        Recorder::resume(path, End::default())
    }

    /// Continues a history after this place. Later events are removed.
    ///
    /// # Errors
    /// If the file does not exist, or cannot be written.
    pub fn resume(path: &Path, end: End) -> io::Result<Recorder> {
        let mut file = OpenOptions::new().write(true).open(path)?;
        file.set_len(end.bytes)?;
        file.seek(SeekFrom::End(0))?;
        let written = Written {
            file: BufWriter::new(file),
            next: end.events,
            failure: None,
        };
        Ok(Recorder(Arc::new(Shared {
            start: Instant::now(),
            offset_ns: end.time_ns,
            written: Mutex::new(written),
        })))
    }

    /// Flushes all events, and returns the end of the history.
    ///
    /// # Errors
    /// Under the conditions of [`flush`](Self::flush).
    pub fn end(&self) -> io::Result<End> {
        self.flush()?;
        let mut written = self
            .0
            .written
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        Ok(End {
            bytes: written.file.get_mut().stream_position()?,
            events: written.next,
            time_ns: self.0.now_ns(),
        })
    }

    /// Writes one event and returns its index.
    pub fn record(
        &self,
        process: Process,
        kind: Kind,
        f: &str,
        key: Option<&str>,
        value: Value,
        error: Option<String>,
    ) -> u64 {
        let mut written = self
            .0
            .written
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        // The clock is read under the lock, so that times and indexes have one order.
        let time_ns = self.0.now_ns();
        let event = Event {
            index: written.next,
            time_ns,
            process,
            kind,
            f: f.to_owned(),
            key: key.map(str::to_owned),
            value,
            error,
        };
        written.next += 1;
        let result = serde_json::to_writer(&mut written.file, &event)
            .map_err(io::Error::from)
            .and_then(|()| written.file.write_all(b"\n"));
        if let Err(failure) = result {
            written.failure.get_or_insert(failure);
        }
        event.index
    }

    /// Flushes all events to the file.
    ///
    /// # Errors
    /// The first failure since the begin: a history with a gap proves nothing.
    pub fn flush(&self) -> io::Result<()> {
        let mut written = self
            .0
            .written
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        match written.failure.take() {
            Some(failure) => Err(failure),
            None => written.file.flush(),
        }
    }
}

/// Reads the events of a file, one after the other.
///
/// # Errors
/// If the file cannot be opened. An item is an error if its line is too long or is not an event.
pub fn read(path: &Path) -> io::Result<impl Iterator<Item = io::Result<Event>>> {
    let mut file = BufReader::new(File::open(path)?);
    let mut number = 0_u64;
    Ok(std::iter::from_fn(move || {
        let mut line = Vec::new();
        let mut bounded = io::Read::take(&mut file, LINE_BYTES_MAX);
        number += 1;
        match bounded.read_until(b'\n', &mut line) {
            Err(error) => Some(Err(error)),
            Ok(0) => None,
            Ok(_) => Some(serde_json::from_slice(&line).map_err(|error| {
                let text = format!("line {number} is not an event of a history: {error}");
                io::Error::new(io::ErrorKind::InvalidData, text)
            })),
        }
    }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn what_is_recorded_is_read_again() {
        let dir = tempfile::tempdir().expect("directory");
        let path = dir.path().join("history.jsonl");
        let recorder = Recorder::create(&path).expect("create");
        let client = Process::Client(3);
        recorder.record(
            client,
            Kind::Invoke,
            "cas",
            Some("r1"),
            json!([4, 17]),
            None,
        );
        recorder.record(
            client,
            Kind::Info,
            "cas",
            Some("r1"),
            Value::Null,
            Some("lost".into()),
        );
        let nemesis = Process::Other(Name::Nemesis);
        recorder.record(
            nemesis,
            Kind::Info,
            "kill",
            None,
            json!({"members": [2]}),
            None,
        );
        recorder.flush().expect("flush");
        let events: Vec<_> = read(&path)
            .expect("open")
            .map(|event| event.expect("event"))
            .collect();
        assert_eq!(
            events.iter().map(|event| event.index).collect::<Vec<_>>(),
            [0, 1, 2]
        );
        assert_eq!((events[0].process, events[2].process), (client, nemesis));
        assert_eq!(events[1].error.as_deref(), Some("lost"));
        assert!(events.is_sorted_by_key(|event| event.time_ns));
    }

    #[test]
    fn a_resumed_history_has_no_gap_and_nothing_after_its_end() {
        let dir = tempfile::tempdir().expect("directory");
        let path = dir.path().join("history.jsonl");
        let add = |recorder: &Recorder, f| {
            let client = Process::Client(1);
            recorder.record(client, Kind::Invoke, f, None, Value::Null, None);
        };
        let recorder = Recorder::create(&path).expect("create");
        add(&recorder, "first");
        let end = recorder.end().expect("an end");
        add(&recorder, "lost");
        recorder.flush().expect("flush");
        let recorder = Recorder::resume(&path, end).expect("resume");
        add(&recorder, "second");
        recorder.flush().expect("flush");
        let events = read(&path)
            .expect("open")
            .map(|event| event.expect("event"));
        let events: Vec<_> = events.collect();
        let names = events.iter().map(|event| (event.index, event.f.as_str()));
        assert_eq!(names.collect::<Vec<_>>(), [(0, "first"), (1, "second")]);
        assert!(events[1].time_ns >= end.time_ns);
    }

    #[test]
    fn a_line_that_is_no_event_is_named() {
        let dir = tempfile::tempdir().expect("directory");
        let path = dir.path().join("history.jsonl");
        std::fs::write(&path, "{\"index\":0}\n").expect("write");
        let error = read(&path)
            .expect("open")
            .next()
            .expect("a line")
            .expect_err("no event");
        assert!(error.to_string().contains("line 1"), "{error}");
    }

    #[test]
    fn what_does_not_fit_is_counted() {
        let dir = tempfile::tempdir().expect("directory");
        let path = dir.path().join("history.jsonl");
        let recorder = Recorder::create(&path).expect("create");
        for process in 0..100 {
            let value = json!([1, "two", {"three": 3}]);
            recorder.record(
                Process::Client(process),
                Kind::Invoke,
                "f",
                None,
                value,
                None,
            );
        }
        recorder.flush().expect("flush");
        let all = read_within(&path, u64::MAX).expect("read");
        assert_eq!((all.events.len(), all.left_out), (100, 0));
        let one = all.events[0].bytes();
        assert!((NODE_BYTES as u64..2000).contains(&one), "{one}");
        let some = read_within(&path, 10 * one).expect("read");
        assert_eq!((some.events.len(), some.left_out), (10, 90));
        assert_eq!(some.events, all.events[..10]);
    }
}
