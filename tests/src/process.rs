//! A child process with its output in a file.

use std::fs::OpenOptions;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

use crate::secrets::search;
use crate::wait::{wait_for, wait_until};

/// Longest wait for a thread that writes lines to a file.
const LOG_WRITER_MAX: Duration = Duration::from_secs(5);

/// Longest wait for the threads of a paused process.
const STOP_MAX: Duration = Duration::from_secs(10);

/// A child process whose output goes to a file. Dropping it kills the process. The output and the
/// logs of a Zoarium server are then searched for secrets.
#[derive(Debug)]
pub struct Process {
    child: Child,
    log: PathBuf,
    /// Positions at which the output and the logs of a Zoarium server begin.
    own: Option<Beginning>,
}

#[derive(Debug)]
struct Beginning {
    /// Bytes of earlier output in the file.
    printed_before: usize,
    /// Its working directory.
    dir: Option<PathBuf>,
}

impl Process {
    /// Starts `command` without input, and appends its output to `log`.
    ///
    /// # Errors
    /// If the log cannot be opened, or the program cannot be started.
    pub fn spawn(command: &mut Command, log: &Path) -> std::io::Result<Process> {
        let output = OpenOptions::new().create(true).append(true).open(log)?;
        let printed_before = usize::try_from(output.metadata()?.len()).unwrap_or(usize::MAX);
        let child = command
            .stdin(Stdio::null())
            .stdout(output.try_clone()?)
            .stderr(output)
            .spawn()?;
        let own = is_ours(command).then(|| Beginning {
            printed_before,
            dir: command.get_current_dir().map(Path::to_path_buf),
        });
        Ok(Process {
            child,
            log: log.to_path_buf(),
            own,
        })
    }

    fn search_for_secrets(&self) {
        let Some(own) = &self.own else {
            return;
        };
        let printed = std::fs::read(&self.log).unwrap_or_default();
        let printed = printed.get(own.printed_before..).unwrap_or_default();
        search(&self.log.display().to_string(), printed);
        assert_never_blocked(printed);
        let dirs = own
            .dir
            .iter()
            .flat_map(|dir| [dir.clone(), dir.join("logs")]);
        let files = dirs.filter_map(|dir| std::fs::read_dir(dir).ok());
        for file in files.flatten().flatten() {
            let path = file.path();
            if path != self.log && file.file_name().to_string_lossy().contains(".log") {
                let logged = std::fs::read(&path).unwrap_or_default();
                search(&path.display().to_string(), &logged);
            }
        }
    }

    /// Returns its process id.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Returns the resident memory in bytes, and resets the peak.
    pub fn reset_peak_memory(&self) -> u64 {
        // 5 resets the peak, according to proc(5).
        let file = format!("/proc/{}/clear_refs", self.id());
        std::fs::write(file, "5").expect("reset the peak of a process of ours");
        self.memory("VmRSS:")
    }

    /// Returns the highest resident memory since [`reset_peak_memory`](Self::reset_peak_memory), in
    /// bytes.
    pub fn peak_memory(&self) -> u64 {
        self.memory("VmHWM:")
    }

    fn memory(&self, key: &str) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.id()));
        let status = status.expect("read the state of a process");
        let line = status.lines().find_map(|line| line.strip_prefix(key));
        let kibibytes = line.and_then(|line| line.trim().strip_suffix(" kB"));
        let kibibytes = kibibytes.and_then(|number| number.parse::<u64>().ok());
        kibibytes.unwrap_or_else(|| panic!("no {key} in {status}")) << 10
    }

    /// Returns all its output so far, including all its log lines.
    pub fn log(&self) -> String {
        self.wait_for_log_writer();
        read_log(&self.log)
    }

    /// Waits until a Zoarium server has written all its log lines.
    pub(crate) fn wait_for_log_writer(&self) {
        if self.own.is_some() {
            // A paused server (SIGSTOP) does not write anything more.
            wait_until(LOG_WRITER_MAX, || (!self.writes_log()).then_some(()));
        }
    }

    /// Returns whether the thread that writes the log has pending lines. Otherwise it sleeps.
    fn writes_log(&self) -> bool {
        let tasks = std::fs::read_dir(format!("/proc/{}/task", self.id()));
        // The fields of proc_pid_stat(5).
        let mut stats = tasks.into_iter().flatten().flatten().filter_map(|task| {
            let stat = std::fs::read_to_string(task.path().join("stat")).ok()?;
            stat.contains("(log-writer)").then_some(stat)
        });
        stats.any(|stat| !stat.contains("(log-writer) S") && !stat.contains("(log-writer) T"))
    }

    /// Returns its exit status, if it has ended.
    pub fn ended(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().expect("ask after a child of ours")
    }

    /// Waits up to `limit` for its end, and returns the exit status.
    pub fn wait(&mut self, limit: Duration) -> Option<ExitStatus> {
        wait_until(limit, || self.ended())
    }

    /// Sends `signal`. Does nothing if the process has ended and was waited for.
    pub fn signal(&mut self, signal: Signal) {
        if self.ended().is_some() {
            return;
        }
        let pid = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw);
        let pid = pid.expect("a process id is a positive number");
        kill_process(pid, signal).expect("signal a child of ours");
    }

    /// Pauses it (SIGSTOP), and waits until its threads have stopped, because they may still run
    /// after the signal is sent.
    pub fn pause(&mut self) {
        self.signal(Signal::STOP);
        let threads = format!("/proc/{}/task", self.child.id());
        wait_for("stop of all threads", STOP_MAX, || {
            // This directory exists only on Linux.
            let threads = std::fs::read_dir(&threads).into_iter().flatten().flatten();
            let mut states = threads.map(|thread| state_of(&thread.path()));
            let has_stopped = states.all(|state| !matches!(state, Some('R' | 'S' | 'D')));
            has_stopped.then_some(())
        });
    }

    /// Kills it immediately (SIGKILL) and waits for its end.
    pub fn kill(&mut self) {
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
        self.search_for_secrets();
    }
}

/// Checks the output for a blocked worker. A task that panics ends alone, so only the output shows
/// it.
fn assert_never_blocked(printed: &[u8]) {
    let printed = String::from_utf8_lossy(printed);
    let found = printed
        .lines()
        .find(|line| line.contains(blocking::MESSAGE));
    assert!(std::thread::panicking() || found.is_none(), "{found:?}");
}

/// Returns whether the command runs Zoarium, also through another program.
pub(crate) fn is_ours(command: &Command) -> bool {
    let mut words = std::iter::once(command.get_program()).chain(command.get_args());
    // The check does not query the path, because that may build the executable with a command.
    words.any(|word| {
        let name = Path::new(word).file_name();
        name == Some("zoarium".as_ref()) || name == Some("zoarium-gssapi".as_ref())
    })
}

/// Returns the contents of a log file so far. An unreadable file counts as empty.
pub(crate) fn read_log(path: &Path) -> String {
    std::fs::read(path)
        .map(|text| String::from_utf8_lossy(&text).into_owned())
        .unwrap_or_default()
}

/// Returns the last lines of a long text.
pub(crate) fn last_lines(text: &str, count: usize) -> String {
    let lines: Vec<&str> = text.lines().collect();
    lines
        .get(lines.len().saturating_sub(count)..)
        .unwrap_or_default()
        .join("\n")
}

/// Returns the state of a thread of Linux, from its directory in /proc.
fn state_of(thread: &Path) -> Option<char> {
    let stat = std::fs::read_to_string(thread.join("stat")).ok()?;
    // The name before it may contain spaces and brackets.
    stat.rsplit_once(") ")?.1.chars().next()
}
