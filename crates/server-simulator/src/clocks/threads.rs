//! Threads of the servers, outside the runtime.

use std::fs::{self, File};
use std::os::linux::fs::MetadataExt;
use std::os::unix::fs::FileExt;
use std::time::Duration;

const TASKS: &str = "/proc/self/task";

/// Number of times that the caller yields to a thread that can run, before it sleeps.
const YIELDS: u32 = 10;
/// Real time for which the caller then sleeps. The thread may wait for a processor or for the disk.
const PAUSE: Duration = Duration::from_micros(20);

/// The other threads of this process. The clock must not move while one of them can run.
#[derive(Debug, Default)]
pub(crate) struct OtherThreads {
    /// Threads, beginning with those that ran last, because reading all states is slow.
    threads: Vec<Thread>,
    /// Number of links to the directory of threads when it was last read.
    links: u64,
}

#[derive(Debug)]
struct Thread {
    number: u32,
    /// File with the state of the thread.
    stat: File,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Asleep,
    Awake,
    Ended,
}

impl OtherThreads {
    /// Waits until all threads sleep. A thread may wake another one whose state was read before, so
    /// all states are read twice.
    pub(crate) fn wait_until_asleep(&mut self) {
        let mut passes = 0;
        while passes < 2 {
            let links = fs::metadata(TASKS).map_or(0, |at| at.st_nlink());
            if links != self.links {
                self.links = links;
                self.list();
            }
            passes += 1;
            let mut threads = self.threads.iter();
            let awake = threads.position(|thread| thread.state() != State::Asleep);
            if let Some(at) = awake {
                passes = 0;
                if let Some(front) = self.threads.get_mut(..=at) {
                    front.rotate_right(1);
                }
                self.wait_for_first();
            }
        }
    }

    fn wait_for_first(&mut self) {
        let mut yields = 0;
        while let Some(first) = self.threads.first() {
            match first.state() {
                State::Asleep => return,
                State::Awake if yields < YIELDS => {
                    yields += 1;
                    std::thread::yield_now();
                }
                State::Awake => std::thread::sleep(PAUSE),
                State::Ended => {
                    self.threads.remove(0);
                    // Another thread may have taken its place in the number of links.
                    self.links = 0;
                    return;
                }
            }
        }
    }

    fn list(&mut self) {
        let own = rustix::thread::gettid()
            .as_raw_nonzero()
            .get()
            .unsigned_abs();
        let Ok(entries) = fs::read_dir(TASKS) else {
            return;
        };
        for entry in entries.flatten() {
            let number = entry
                .file_name()
                .to_str()
                .and_then(|name| name.parse().ok());
            let Some(number) = number.filter(|number| *number != own) else {
                continue;
            };
            let is_known = self.threads.iter().any(|known| known.number == number);
            if !is_known && let Ok(stat) = File::open(entry.path().join("stat")) {
                self.threads.push(Thread { number, stat });
            }
        }
    }
}

impl Thread {
    fn state(&self) -> State {
        // The state follows the number and the name, which has at most 15 bytes and no parenthesis.
        let mut text = [0; 48];
        let Ok(len) = self.stat.read_at(&mut text, 0) else {
            return State::Ended;
        };
        let text = text.get(..len).unwrap_or_default();
        let end = text.iter().position(|byte| *byte == b')');
        match end.and_then(|end| text.get(end + 2)) {
            Some(b'S') => State::Asleep,
            Some(b'Z' | b'X') | None => State::Ended,
            Some(_) => State::Awake,
        }
    }
}
