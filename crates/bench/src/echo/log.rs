//! The log of a server that does nothing but sync: one file, and one sync for all that waits. With followers it is the
//! log of a leader, and what a majority of their files and its own holds is durable.

use std::io;
use std::path::Path;
use std::sync::Arc;

use parking_lot::{Condvar, Mutex};
use tokio::sync::watch;

use super::super::args::Preallocate;
use super::super::error::Result;
use super::super::fsync::Scratch;
use super::super::threads::spawn;
use super::follower;

/// Where connections append what is to be on disk before they answer.
#[derive(Debug, Clone)]
pub(crate) struct Log {
    appended: Arc<Appended>,
    durable: watch::Receiver<u64>,
}

#[derive(Debug)]
struct Appended {
    /// How many records there were since the beginning. Held while they are put, so that all places have them in one
    /// order.
    count: Mutex<u64>,
    places: Vec<Arc<Place>>,
}

/// Records on their way to one file.
#[derive(Debug, Default)]
pub(super) struct Place {
    records: Mutex<Records>,
    more: Condvar,
}

#[derive(Debug, Default)]
struct Records {
    bytes: Vec<u8>,
    /// The number of the last one.
    last: u64,
}

/// How far each file has come, and the majority of them.
#[derive(Debug)]
pub(super) struct Durable(Mutex<Counts>);

#[derive(Debug)]
struct Counts {
    of_places: Vec<u64>,
    /// Gone once a place has failed: whoever waits sees it.
    tell: Option<watch::Sender<u64>>,
}

impl Log {
    /// A file without a name in `dir`, and so many more, each of a follower that is reached over loopback; with the
    /// threads that write them until the process ends.
    pub(crate) fn open(dir: &Path, followers: u32) -> Result<Self> {
        let places: Vec<Arc<Place>> = (0..=followers).map(|_| Arc::default()).collect();
        let (tell, receiver) = watch::channel(0);
        let durable = Arc::new(Durable(Mutex::new(Counts {
            of_places: vec![0; places.len()],
            tell: Some(tell),
        })));
        for (index, place) in places.iter().enumerate() {
            let scratch = Scratch::create(dir, Preallocate::Zeroes)?;
            let (place, durable) = (Arc::clone(place), Arc::clone(&durable));
            match index {
                0 => spawn("echo-log", move || {
                    durable.or_fail(write(scratch, &place, &durable));
                })?,
                _ => follower::start(index, scratch, place, durable)?,
            }
        }
        let count = Mutex::default();
        Ok(Self {
            appended: Arc::new(Appended { count, places }),
            durable: receiver,
        })
    }

    /// Appends a record; returns its number.
    pub(super) fn append(&self, record: &[u8]) -> u64 {
        let mut count = self.appended.count.lock();
        *count += 1;
        for place in &self.appended.places {
            let mut records = place.records.lock();
            records.bytes.extend_from_slice(record);
            records.last = *count;
            place.more.notify_one();
        }
        *count
    }

    /// The number of the last record that is durable, with all before it.
    pub(super) fn durable(&self) -> u64 {
        *self.durable.borrow()
    }

    /// Waits until the record of this number, and all before it, are durable.
    pub(super) async fn synced(&mut self, number: u64) -> io::Result<()> {
        match self.durable.wait_for(|durable| *durable >= number).await {
            Ok(_) => Ok(()),
            Err(_) => Err(io::Error::other("the log cannot be written")),
        }
    }
}

impl Place {
    /// Waits for records and moves all there are to `taken`, which is empty; returns the number of the last one.
    pub(super) fn take(&self, taken: &mut Vec<u8>) -> u64 {
        let mut records = self.records.lock();
        while records.bytes.is_empty() {
            self.more.wait(&mut records);
        }
        std::mem::swap(taken, &mut records.bytes);
        records.last
    }
}

impl Durable {
    /// One place has all records up to this one on disk.
    pub(super) fn advance(&self, place: usize, last: u64) {
        let mut counts = self.0.lock();
        if let Some(count) = counts.of_places.get_mut(place) {
            *count = last;
        }
        let mut sorted = counts.of_places.clone();
        sorted.sort_unstable();
        // As many have that, or more, as are a majority.
        let majority = sorted.get((sorted.len() - 1) / 2).copied().unwrap_or(0);
        if let Some(tell) = &counts.tell {
            tell.send_if_modified(|told| {
                let is_more = majority > *told;
                *told = majority.max(*told);
                is_more
            });
        }
    }

    /// Ends it all if a place has failed.
    pub(super) fn or_fail(&self, worked: Result<()>) {
        if let Err(error) = worked {
            tracing::error!(%error, "cannot write the log");
            self.0.lock().tell = None;
        }
    }
}

fn write(mut scratch: Scratch, place: &Place, durable: &Durable) -> Result<()> {
    let mut bytes = Vec::new();
    loop {
        let last = place.take(&mut bytes);
        scratch.write(&bytes)?;
        bytes.clear();
        durable.advance(0, last);
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::error::BenchError;
    use super::*;

    #[test]
    fn a_record_is_synced_with_all_before_it_and_leaves_no_file() {
        for followers in [0, 2] {
            let dir = tempfile::tempdir().unwrap();
            let log = Log::open(dir.path(), followers).unwrap();
            let numbers: Vec<u64> = (0..1000).map(|_| log.append(&[7; 100])).collect();
            assert!(numbers.iter().copied().eq(1..=1000));
            let runtime = tokio::runtime::Builder::new_current_thread().build();
            let mut waits = log.clone();
            runtime.unwrap().block_on(waits.synced(1000)).unwrap();
            assert_eq!(log.durable(), 1000);
            assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
        }
    }

    #[test]
    fn a_directory_that_is_missing_is_named() {
        let dir = tempfile::tempdir().unwrap();
        let error = Log::open(&dir.path().join("none"), 0).unwrap_err();
        let error = error.to_string();
        assert!(error.starts_with("create "), "{error}");
    }

    #[test]
    fn what_a_majority_has_is_durable() {
        let (tell, told) = watch::channel(0);
        let durable = Durable(Mutex::new(Counts {
            of_places: vec![0; 3],
            tell: Some(tell),
        }));
        let mut seen = Vec::new();
        for (place, last) in [(0, 5), (2, 3), (1, 9), (2, 7)] {
            durable.advance(place, last);
            seen.push(*told.borrow());
        }
        assert_eq!(seen, [0, 3, 5, 7]);
        durable.or_fail(Err(BenchError::Stalled(1)));
        assert!(told.has_changed().is_err());
    }
}
