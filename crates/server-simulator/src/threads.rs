//! Threads of the servers, outside the runtime.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::os::linux::fs::MetadataExt;
use std::os::unix::fs::FileExt;

const TASKS: &str = "/proc/self/task";

/// The other threads of this process. The clock must not move while one of them can run.
#[derive(Debug, Default)]
pub(crate) struct OtherThreads {
    /// File with the state of each thread.
    states: BTreeMap<u32, File>,
    /// Number of links to the directory of threads when it was last read.
    links: u64,
    /// Thread that was last seen running. It is read first, because reading all states is slow.
    running: Option<u32>,
}

impl OtherThreads {
    /// Waits until all threads sleep. A thread that was woken before is seen as running, unless it
    /// was asleep when its state was read, so all states are read twice.
    pub(crate) fn wait_until_asleep(&mut self) {
        let mut asleep = 0;
        while asleep < 2 {
            asleep = if self.are_asleep() { asleep + 1 } else { 0 };
            if asleep == 0 {
                std::thread::yield_now();
            }
        }
    }

    fn are_asleep(&mut self) -> bool {
        let running = self.running.and_then(|number| self.states.get(&number));
        if running.is_some_and(|state| is_asleep(state) == Some(false)) {
            return false;
        }
        self.running = None;
        let links = fs::metadata(TASKS).map_or(0, |at| at.st_nlink());
        if links != self.links {
            self.links = links;
            self.list();
        }
        let mut are_asleep = true;
        let running = &mut self.running;
        self.states.retain(|number, state| match is_asleep(state) {
            Some(true) => true,
            Some(false) => {
                are_asleep = false;
                *running = Some(*number);
                true
            }
            None => {
                // The thread has ended. Another one may have taken its place in the count.
                self.links = 0;
                are_asleep = false;
                false
            }
        });
        are_asleep
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
            if !self.states.contains_key(&number)
                && let Ok(file) = File::open(entry.path().join("stat"))
            {
                self.states.insert(number, file);
            }
        }
    }
}

/// Returns whether a thread sleeps; `None` if it has ended.
fn is_asleep(stat: &File) -> Option<bool> {
    // The number, the name (up to 15 bytes) and the state.
    let mut text = [0; 40];
    let len = stat.read_at(&mut text, 0).ok()?;
    let text = text.get(..len)?;
    // The name is in parentheses, and may contain parentheses itself.
    let end = text.iter().rposition(|byte| *byte == b')')?;
    let state = text.get(end + 2)?;
    match state {
        b'S' => Some(true),
        b'Z' | b'X' => None,
        _ => Some(false),
    }
}
