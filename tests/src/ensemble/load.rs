//! Concurrent writers, and the longest pause of the writes.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use proto::ErrorCode;
use proto::request::{Request, flags};

use super::writer::{ALIVE, Known, TOP, Writer, WriterReport};
use super::{SESSION_TIMEOUT_MS, SETTLE_LIMIT};
use crate::raw_session::RawSession;
use crate::requests::{create, delete};
use crate::wait::{wait_for, wait_until};

/// Deletions in flight when a load is removed.
const REMOVED_TOGETHER: usize = 200;

/// Number and behaviour of the writers.
#[derive(Debug, Clone)]
pub struct LoadSettings {
    /// Prefix of every writer's name. Consecutive loads need different prefixes.
    pub prefix: String,
    /// Number of writers, each with a separate session.
    pub writers: usize,
    /// Number of pending requests of each writer.
    pub depth: usize,
    /// Minimum time between two requests of one writer.
    pub pace: Duration,
    /// Time without an answer after which a writer moves to the next server.
    pub patience: Duration,
}

impl Default for LoadSettings {
    fn default() -> LoadSettings {
        LoadSettings {
            prefix: "w".to_owned(),
            writers: 3,
            depth: 4,
            pace: Duration::from_millis(8),
            patience: Duration::from_secs(3),
        }
    }
}

impl LoadSettings {
    fn name_of(&self, index: usize) -> String {
        format!("{}{index}", self.prefix)
    }
}

/// State that writers and their test share.
#[derive(Debug)]
pub(super) struct Shared {
    is_stopped: AtomicBool,
    acknowledged: Vec<AtomicU64>,
    pulse: Mutex<Pulse>,
}

/// Time of the last acknowledged write, and the longest time between two.
#[derive(Debug)]
struct Pulse {
    last: Instant,
    longest_gap: Duration,
}

impl Shared {
    pub(super) fn is_stopped(&self) -> bool {
        self.is_stopped.load(Ordering::Relaxed)
    }

    pub(super) fn acknowledge(&self, writer: usize) {
        self.acknowledged[writer].fetch_add(1, Ordering::Relaxed);
        let now = Instant::now();
        let mut pulse = self.pulse.lock().unwrap_or_else(PoisonError::into_inner);
        pulse.longest_gap = pulse.longest_gap.max(now - pulse.last);
        pulse.last = now;
    }
}

/// Running writers, each in a thread.
#[derive(Debug)]
pub struct Load {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<WriterReport>>,
}

/// Results of all writers.
#[derive(Debug, Clone)]
pub struct LoadReport {
    /// Result of each writer.
    pub writers: Vec<WriterReport>,
    /// Longest time without any acknowledged write.
    pub longest_gap: Duration,
}

impl LoadReport {
    /// Returns the number of acknowledged writes.
    pub fn acknowledged(&self) -> u64 {
        self.writers.iter().map(|writer| writer.acknowledged).sum()
    }

    /// Returns the number of writes with an unknown outcome.
    pub fn unknown(&self) -> u64 {
        self.writers.iter().map(|writer| writer.unknown).sum()
    }

    /// Returns the number of sessions that servers reported as expired.
    pub fn sessions_lost(&self) -> u64 {
        self.writers.iter().map(|writer| writer.sessions_lost).sum()
    }

    /// Deletes all znodes of the writers through this session.
    pub fn remove(&self, session: &mut RawSession) {
        for writer in &self.writers {
            let nodes = writer
                .nodes
                .iter()
                .filter(|(_, known)| **known != Known::Absent);
            let mut paths: Vec<_> = nodes.map(|(number, _)| writer.path(*number)).collect();
            paths.extend([writer.register_path(), format!("{TOP}/{}", writer.name)]);
            for some in paths.chunks(REMOVED_TOGETHER) {
                for path in some {
                    session.put(&Request::Write(delete(path, -1)));
                }
                for path in some {
                    let answer = session.take().expect("an answer to a deletion");
                    let gone = ErrorCode::from_i32(answer.err) == Some(ErrorCode::NoNode);
                    assert!(answer.err == 0 || gone, "delete {path}: {answer:?}");
                }
            }
        }
    }

    /// Returns a summary in one line.
    pub fn summary(&self) -> String {
        let lost: u64 = self
            .writers
            .iter()
            .map(|writer| writer.connections_lost)
            .sum();
        format!(
            "{} writes acknowledged, {} unknown, {lost} connections and {} sessions lost, \
             longest write gap {:.2} s",
            self.acknowledged(),
            self.unknown(),
            self.sessions_lost(),
            self.longest_gap.as_secs_f64()
        )
    }
}

impl Load {
    /// Starts writers with the default settings, distributed over these servers.
    pub fn start(addresses: &[String]) -> Load {
        Load::with(addresses, &LoadSettings::default())
    }

    /// Starts writers. Each begins with another of these servers, and moves to the next one when it
    /// loses its connection.
    pub fn with(addresses: &[String], settings: &LoadSettings) -> Load {
        prepare(addresses, settings);
        let pulse = Pulse {
            last: Instant::now(),
            longest_gap: Duration::ZERO,
        };
        let shared = Arc::new(Shared {
            is_stopped: AtomicBool::new(false),
            acknowledged: std::iter::repeat_with(AtomicU64::default)
                .take(settings.writers)
                .collect(),
            pulse: Mutex::new(pulse),
        });
        let threads = (0..settings.writers).map(|index| {
            let mut addresses = addresses.to_vec();
            let first = index % addresses.len();
            addresses.rotate_left(first);
            let name = settings.name_of(index);
            let mut writer = Writer::new(index, name, addresses, Arc::clone(&shared));
            writer.depth = settings.depth;
            writer.pace = settings.pace;
            writer.patience = settings.patience;
            std::thread::spawn(move || writer.run())
        });
        Load {
            threads: threads.collect(),
            shared,
        }
    }

    /// Returns the number of acknowledged writes so far.
    pub fn acknowledged(&self) -> u64 {
        let writers = self.shared.acknowledged.iter();
        writers.map(|count| count.load(Ordering::Relaxed)).sum()
    }

    /// Waits until every writer has `more` further acknowledged writes.
    pub fn wait_for_progress(&self, more: u64) {
        let counts = || -> Vec<u64> {
            let writers = self.shared.acknowledged.iter();
            writers.map(|count| count.load(Ordering::Relaxed)).collect()
        };
        let before = counts();
        let done = wait_until(SETTLE_LIMIT, || {
            let dead = self.threads.iter().any(JoinHandle::is_finished);
            assert!(!dead, "a writer has ended");
            let now = counts();
            let enough = |(now, before): (&u64, &u64)| *now >= before + more;
            now.iter().zip(&before).all(enough).then_some(())
        });
        assert!(
            done.is_some(),
            "not {more} more writes of each within {SETTLE_LIMIT:?}: {before:?}, then {:?}",
            counts()
        );
    }

    /// Stops the writers and returns their results. Panics if a writer received a wrong answer.
    pub fn finish(mut self) -> LoadReport {
        self.shared.is_stopped.store(true, Ordering::Relaxed);
        let threads = std::mem::take(&mut self.threads).into_iter();
        let writers = threads.map(|thread| match thread.join() {
            Ok(report) => report,
            Err(panic) => std::panic::resume_unwind(panic),
        });
        let writers = writers.collect();
        let pulse = self.shared.pulse.lock();
        let longest_gap = pulse.unwrap_or_else(PoisonError::into_inner).longest_gap;
        LoadReport {
            writers,
            longest_gap,
        }
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        // A failed test does not wait for its writers.
        self.shared.is_stopped.store(true, Ordering::Relaxed);
    }
}

/// Creates the directories. Retries until a server accepts the requests.
fn prepare(addresses: &[String], settings: &LoadSettings) {
    let mut paths = vec![TOP.to_owned(), ALIVE.to_owned()];
    for index in 0..settings.writers {
        let top = format!("{TOP}/{}", settings.name_of(index));
        paths.extend([top.clone(), format!("{top}/register")]);
    }
    let mut tries = 0;
    wait_for("directories of the writers", SETTLE_LIMIT, || {
        let address = &addresses[tries % addresses.len()];
        tries += 1;
        let mut session = RawSession::open(address, None, SESSION_TIMEOUT_MS).ok()?;
        for path in &paths {
            let request = Request::Write(create(path, "0", flags::PERSISTENT));
            let answer = session.call(&request).ok()?;
            let exists = ErrorCode::from_i32(answer.err) == Some(ErrorCode::NodeExists);
            assert!(answer.err == 0 || exists, "create {path}: {answer:?}");
        }
        session.close().ok().map(drop)
    });
}
