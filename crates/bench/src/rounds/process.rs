//! CPU time, memory and file descriptors of server processes, from Linux's /proc.

use std::fs;
use std::time::Duration;

use crate::error::{BenchError, Result};

/// Process whose resources are measured.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Process {
    pid: u32,
}

/// Memory of a process, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Memory {
    /// Current resident memory.
    pub(crate) resident: u64,
    /// Maximum resident memory so far.
    pub(crate) peak: u64,
}

impl Process {
    /// Returns the process with this id.
    ///
    /// # Errors
    /// If the process does not exist, or the system does not provide its data.
    pub(crate) fn new(pid: u32) -> Result<Self> {
        let process = Self { pid };
        process.cpu_time()?;
        Ok(process)
    }

    /// Returns the process of the generator.
    pub(crate) fn own() -> Result<Self> {
        Self::new(std::process::id())
    }

    /// Returns the user and system time of all threads of the process so far, in steps of a clock
    /// tick (10 ms).
    pub(crate) fn cpu_time(self) -> Result<Duration> {
        let text = self.read("stat")?;
        let ticks = parse_cpu_ticks(&text).ok_or_else(|| self.unreadable("stat"))?;
        let per_second = rustix::param::clock_ticks_per_second().max(1);
        Ok(Duration::from_secs_f64(ticks as f64 / per_second as f64))
    }

    pub(crate) fn memory(self) -> Result<Memory> {
        let text = self.read("status")?;
        let field = |name| parse_kib(&text, name).ok_or_else(|| self.unreadable("status"));
        Ok(Memory {
            resident: field("VmRSS:")?,
            peak: field("VmHWM:")?,
        })
    }

    /// Returns whether the process has an open file whose name contains `name`.
    pub(crate) fn has_open(self, name: &str) -> Result<bool> {
        let path = format!("/proc/{}/fd", self.pid);
        let files = fs::read_dir(&path).map_err(BenchError::io(format!("read {path}")))?;
        // A file that has been closed meanwhile does not count.
        let targets = files.filter_map(|file| fs::read_link(file.ok()?.path()).ok());
        let mut names = targets.filter_map(|target| Some(target.file_name()?.to_owned()));
        Ok(names.any(|open| open.to_string_lossy().contains(name)))
    }

    fn read(self, file: &str) -> Result<String> {
        let path = format!("/proc/{}/{file}", self.pid);
        fs::read_to_string(&path).map_err(BenchError::io(format!("read {path}")))
    }

    fn unreadable(self, file: &str) -> BenchError {
        BenchError::Argument(format!("cannot parse /proc/{}/{file}", self.pid))
    }
}

/// Processes of all servers of one side. Their resources are added up.
#[derive(Debug, Clone, Default)]
pub(crate) struct Processes(Vec<Process>);

impl Processes {
    /// Returns the processes with these ids.
    ///
    /// # Errors
    /// If a process does not exist.
    pub(crate) fn new(pids: &[u32]) -> Result<Self> {
        let processes: Result<_> = pids.iter().copied().map(Process::new).collect();
        processes.map(Self)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the total CPU time, or `None` without processes.
    pub(crate) fn cpu_time(&self) -> Result<Option<Duration>> {
        self.sum(Process::cpu_time, |one, other| one + other)
    }

    /// Returns the total memory, or `None` without processes.
    pub(crate) fn memory(&self) -> Result<Option<Memory>> {
        self.sum(Process::memory, |one, other| Memory {
            resident: one.resident + other.resident,
            peak: one.peak + other.peak,
        })
    }

    /// Returns whether any of the processes has an open file whose name contains `name`.
    pub(crate) fn have_open(&self, name: &str) -> Result<bool> {
        for process in &self.0 {
            if process.has_open(name)? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn sum<T>(
        &self,
        figure: impl Fn(Process) -> Result<T>,
        add: impl Fn(T, T) -> T,
    ) -> Result<Option<T>> {
        let mut all = None;
        for process in &self.0 {
            let own = figure(*process)?;
            all = Some(match all {
                None => own,
                Some(others) => add(others, own),
            });
        }
        Ok(all)
    }
}

/// Returns the user and system time in clock ticks (fields 14 and 15). The name in field 2 may
/// contain spaces and parentheses, so counting starts after its last parenthesis. Source:
/// proc_pid_stat(5).
fn parse_cpu_ticks(stat: &str) -> Option<u64> {
    let (_, behind_name) = stat.rsplit_once(')')?;
    let mut fields = behind_name.split_ascii_whitespace().skip(11);
    let user: u64 = fields.next()?.parse().ok()?;
    let system: u64 = fields.next()?.parse().ok()?;
    Some(user + system)
}

fn parse_kib(status: &str, name: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix(name))?;
    let kib: u64 = line.split_ascii_whitespace().next()?.parse().ok()?;
    Some(kib * 1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn process_fields_are_found_after_an_unusual_name() {
        let stat = "42 (a b) c) S 1 2 3 4 5 6 7 8 9 10 120 34 0 0 20 0";
        assert_eq!(parse_cpu_ticks(stat), Some(154));
        assert_eq!(parse_cpu_ticks("42 nonsense"), None);
        let status = "Name:\tx\nVmHWM:\t  9000 kB\nVmRSS:\t    8 kB\n";
        assert_eq!(parse_kib(status, "VmRSS:"), Some(8192));
        assert_eq!(parse_kib(status, "VmSwap:"), None);
    }

    #[test]
    fn processes_count_together() {
        let own = std::process::id();
        let one = Process::own().unwrap().memory().unwrap();
        let two = Processes::new(&[own, own]).unwrap();
        assert!(two.memory().unwrap().unwrap().peak >= one.peak * 2);
        assert!(two.cpu_time().unwrap().is_some());
        let none = Processes::default();
        assert_eq!(
            (none.memory().unwrap(), none.cpu_time().unwrap()),
            (None, None)
        );
        assert!(Processes::new(&[own, u32::MAX]).is_err());
    }

    #[test]
    fn a_file_is_open_until_it_is_closed() {
        let dir = tempfile::tempdir().unwrap();
        let processes = Processes::new(&[std::process::id()]).unwrap();
        let name = "looked-for.5";
        let file = fs::File::create(dir.path().join(name)).unwrap();
        assert!(processes.have_open("looked-for.").unwrap());
        drop(file);
        assert!(!processes.have_open("looked-for.").unwrap());
    }

    #[test]
    fn this_process_has_memory_and_a_missing_one_is_named() {
        let memory = Process::own().unwrap().memory().unwrap();
        assert!(memory.resident > 0 && memory.peak >= memory.resident);
        let error = Process::new(u32::MAX).unwrap_err().to_string();
        assert!(
            error.starts_with("cannot read /proc/4294967295/stat"),
            "{error}"
        );
    }
}
