//! The log of a server that does nothing but sync: one file, and one sync for all that waits.

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::thread;

use parking_lot::{Condvar, Mutex};
use tokio::sync::watch;

use super::super::args::Preallocate;
use super::super::error::{BenchError, Result};
use super::super::fsync::Scratch;

/// Where connections append what is to be on disk before they answer.
#[derive(Debug, Clone)]
pub(crate) struct Log {
    waiting: Arc<Waiting>,
    synced: watch::Receiver<u64>,
}

#[derive(Debug, Default)]
struct Waiting {
    /// Bytes that nobody has written yet.
    records: Mutex<Records>,
    more: Condvar,
}

#[derive(Debug, Default)]
struct Records {
    bytes: Vec<u8>,
    /// How many there were since the beginning, these included.
    count: u64,
}

impl Log {
    /// A file without a name in `dir`, and the thread that writes it until the process ends.
    pub(crate) fn open(dir: &Path) -> Result<Self> {
        let scratch = Scratch::create(dir, Preallocate::Zeroes)?;
        let waiting = Arc::new(Waiting::default());
        let (tell, synced) = watch::channel(0);
        let records = Arc::clone(&waiting);
        let builder = thread::Builder::new().name("echo-log".to_owned());
        let spawned = builder.spawn(move || {
            if let Err(error) = write(scratch, &records, &tell) {
                // Whoever waits sees that nobody tells any more.
                tracing::error!(%error, "cannot write the log");
            }
        });
        spawned.map_err(BenchError::io("start a thread"))?;
        Ok(Self { waiting, synced })
    }

    /// Appends a record; returns its number.
    pub(super) fn append(&self, record: &[u8]) -> u64 {
        let mut records = self.waiting.records.lock();
        records.bytes.extend_from_slice(record);
        records.count += 1;
        self.waiting.more.notify_one();
        records.count
    }

    /// Waits until the record of this number, and all before it, are on disk.
    pub(super) async fn synced(&mut self, number: u64) -> io::Result<()> {
        match self.synced.wait_for(|synced| *synced >= number).await {
            Ok(_) => Ok(()),
            Err(_) => Err(io::Error::other("the log cannot be written")),
        }
    }
}

fn write(mut scratch: Scratch, waiting: &Waiting, tell: &watch::Sender<u64>) -> Result<()> {
    let mut bytes = Vec::new();
    loop {
        let count = {
            let mut records = waiting.records.lock();
            while records.bytes.is_empty() {
                waiting.more.wait(&mut records);
            }
            std::mem::swap(&mut bytes, &mut records.bytes);
            records.count
        };
        scratch.write(&bytes)?;
        bytes.clear();
        tell.send_replace(count);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_is_synced_with_all_before_it_and_leaves_no_file() {
        let dir = tempfile::tempdir().unwrap();
        let log = Log::open(dir.path()).unwrap();
        let numbers: Vec<u64> = (0..1000).map(|_| log.append(&[7; 100])).collect();
        assert!(numbers.iter().copied().eq(1..=1000));
        let runtime = tokio::runtime::Builder::new_current_thread().build();
        let mut waits = log.clone();
        runtime.unwrap().block_on(waits.synced(1000)).unwrap();
        assert_eq!(*log.synced.borrow(), 1000);
        assert!(log.waiting.records.lock().bytes.is_empty());
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
        let error = Log::open(&dir.path().join("none")).unwrap_err().to_string();
        assert!(error.starts_with("create "), "{error}");
    }
}
