//! Threads of this process and their states.

use std::fs;

/// Description of a thread at one moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Thread {
    /// Thread id of the operating system.
    pub id: u32,
    /// Name of the thread, truncated by the operating system.
    pub name: String,
    /// State of the thread.
    pub state: ThreadState,
    /// Processor time used, ms.
    pub cpu_ms: u64,
}

/// State of a thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ThreadState {
    /// The thread runs, or waits for a processor.
    Running,
    /// The thread waits for an event.
    Sleeping,
    /// The thread waits for the disk.
    Disk,
    /// Another state, with the letter that the operating system uses.
    Other(char),
}

impl ThreadState {
    fn of(letter: char) -> Self {
        match letter {
            'R' => Self::Running,
            'S' => Self::Sleeping,
            'D' => Self::Disk,
            other => Self::Other(other),
        }
    }

    /// Returns the name of the state.
    pub fn name(self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::Sleeping => "sleeping",
            Self::Disk => "waiting for the disk",
            Self::Other('T' | 't') => "stopped",
            Self::Other(_) => "ending",
        }
    }
}

/// Length of a tick in `/proc/<pid>/stat`, ms. It is always a hundredth of a second on Linux.
const TICK_MS: u64 = 10;

/// Returns the threads of this process, sorted by used processor time in descending order. Returns
/// an empty list if the operating system does not provide them.
pub fn of_this_process() -> Vec<Thread> {
    let Ok(tasks) = fs::read_dir("/proc/self/task") else {
        return Vec::new();
    };
    // The file of a thread disappears if the thread ends meanwhile.
    let stats = tasks.filter_map(|task| fs::read_to_string(task.ok()?.path().join("stat")).ok());
    let mut threads: Vec<Thread> = stats.filter_map(|stat| parse(&stat)).collect();
    threads.sort_by_key(|thread| (std::cmp::Reverse(thread.cpu_ms), thread.id));
    threads
}

/// Parses `id (name) state ...`. The name may contain any character.
fn parse(stat: &str) -> Option<Thread> {
    let (start, fields) = stat.rsplit_once(") ")?;
    let (id, name) = start.split_once(" (")?;
    let mut fields = fields.split(' ');
    let state = ThreadState::of(fields.next()?.chars().next()?);
    // User and system time are the 14th and 15th fields. The state is the third.
    let ticks: Vec<u64> = fields.skip(10).take(2).flat_map(str::parse).collect();
    Some(Thread {
        id: id.parse().ok()?,
        name: name.to_owned(),
        state,
        cpu_ms: ticks.iter().sum::<u64>() * TICK_MS,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_is_found_by_its_name() {
        let (report, told) = std::sync::mpsc::channel::<()>();
        let thread = std::thread::Builder::new().name("waits) (S 1".to_owned());
        let thread = thread.spawn(move || told.recv()).expect("a thread");
        // A thread sets its own name after its start.
        let found = loop {
            let all = of_this_process();
            if let Some(found) = all.into_iter().find(|thread| thread.name == "waits) (S 1") {
                break found;
            }
            std::thread::yield_now();
        };
        assert!(found.id > 0 && found.cpu_ms < 60_000, "{found:?}");
        drop(report);
        assert!(thread.join().expect("its end").is_err());
    }

    #[test]
    fn times_and_state_are_parsed() {
        let line = "17 (core) D 1 2 3 4 5 6 7 8 9 10 150 25 0 0 20 0 5 0 100";
        let thread = parse(line).expect("a thread");
        assert_eq!((thread.id, thread.cpu_ms), (17, 1750));
        assert_eq!(thread.state, ThreadState::Disk);
        assert_eq!(parse("17 core D"), None);
    }
}
