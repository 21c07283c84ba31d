//! What the threads of this process do.

use std::fs;

/// A thread, at one moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Thread {
    /// The system's number of it.
    pub id: u32,
    /// Its name, cut by the system.
    pub name: String,
    /// What it does.
    pub state: ThreadState,
    /// Processor time that it has used, ms.
    pub cpu_ms: u64,
}

/// What a thread does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ThreadState {
    /// It runs, or waits for a processor.
    Running,
    /// It waits for something to do.
    Sleeping,
    /// It waits for the disk.
    Disk,
    /// Something else, by the system's letter.
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

    /// In a word.
    pub fn name(self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::Sleeping => "sleeping",
            Self::Disk => "waits for the disk",
            Self::Other('T' | 't') => "stopped",
            Self::Other(_) => "ends",
        }
    }
}

/// Each tick of `/proc/<pid>/stat`, ms: always a hundredth of a second on Linux.
const TICK_MS: u64 = 10;

/// The threads of this process, those that have worked the most first; none where the system does not tell.
pub fn of_this_process() -> Vec<Thread> {
    let Ok(tasks) = fs::read_dir("/proc/self/task") else {
        return Vec::new();
    };
    // One that ends meanwhile has no file any more.
    let stats = tasks.filter_map(|task| fs::read_to_string(task.ok()?.path().join("stat")).ok());
    let mut threads: Vec<Thread> = stats.filter_map(|stat| parse(&stat)).collect();
    threads.sort_by_key(|thread| (std::cmp::Reverse(thread.cpu_ms), thread.id));
    threads
}

/// `id (name) state ...`: the name may hold anything.
fn parse(stat: &str) -> Option<Thread> {
    let (start, fields) = stat.rsplit_once(") ")?;
    let (id, name) = start.split_once(" (")?;
    let mut fields = fields.split(' ');
    let state = ThreadState::of(fields.next()?.chars().next()?);
    // User and system time are the 14th and 15th field, the state is the third.
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
        let (tell, told) = std::sync::mpsc::channel::<()>();
        let thread = std::thread::Builder::new().name("waits) (S 1".to_owned());
        let thread = thread.spawn(move || told.recv()).expect("a thread");
        // Its name is set by itself, after it was begun.
        let found = loop {
            let all = of_this_process();
            if let Some(found) = all.into_iter().find(|thread| thread.name == "waits) (S 1") {
                break found;
            }
            std::thread::yield_now();
        };
        assert!(found.id > 0 && found.cpu_ms < 60_000, "{found:?}");
        drop(tell);
        assert!(thread.join().expect("its end").is_err());
    }

    #[test]
    fn times_and_state_are_read_from_their_places() {
        let line = "17 (core) D 1 2 3 4 5 6 7 8 9 10 150 25 0 0 20 0 5 0 100";
        let thread = parse(line).expect("a thread");
        assert_eq!((thread.id, thread.cpu_ms), (17, 1750));
        assert_eq!(thread.state, ThreadState::Disk);
        assert_eq!(parse("17 core D"), None);
    }
}
