//! Runs a tool to its end.

use std::fs::File;
use std::io::{self, Read, Seek};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process_group};

use crate::process::is_ours;
use crate::secrets::search;
use crate::skip::Missing;
use crate::wait::wait_until;

/// Maximum number of attempts with a package manager.
const FETCH_TRIES: usize = 3;
/// Time limit for one attempt.
const FETCH_LIMIT: Duration = Duration::from_secs(5 * 60);

/// Returns the first executable file called `name` on `PATH`.
///
/// # Errors
/// [`Missing`] with the name of the tool.
pub fn find_tool(name: &str) -> Result<PathBuf, Missing> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path)
        .map(|dir| dir.join(name))
        .find(|file| is_executable(file))
        .ok_or_else(|| Missing(format!("{name} is not on PATH")))
}

fn is_executable(file: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt;
    file.metadata()
        .is_ok_and(|meta| meta.is_file() && meta.permissions().mode() & 0o111 != 0)
}

/// Starts `command` in a separate process group. Its output goes to the returned file.
fn spawn_apart(command: &mut Command) -> io::Result<(File, Child)> {
    let printed = tempfile::tempfile()?;
    let child = command
        .stdin(Stdio::null())
        .stdout(printed.try_clone()?)
        .stderr(printed.try_clone()?)
        .process_group(0)
        .spawn()?;
    Ok((printed, child))
}

/// Runs a package manager, repeatedly if a registry does not respond.
///
/// # Errors
/// [`Missing`] with the output of the last attempt.
pub fn fetch(command: &mut Command) -> Result<(), Missing> {
    let mut outcome = Ok(());
    for _ in 0..FETCH_TRIES {
        outcome = run(command, FETCH_LIMIT).map(drop).map_err(Missing);
        if outcome.is_ok() {
            break;
        }
    }
    outcome
}

/// Runs `command` without input to its end, and returns its output, both streams together.
///
/// # Errors
/// If the command fails. The error contains the command, its exit status and its output. A command
/// that exceeds `limit` is killed with all its child processes.
pub fn run(command: &mut Command, limit: Duration) -> Result<String, String> {
    let (mut printed, mut child) =
        spawn_apart(command).map_err(|error| format!("{command:?} did not start: {error}"))?;
    let ended = wait_until(limit, || child.try_wait().transpose());
    if ended.is_none() {
        if let Some(group) = i32::try_from(child.id()).ok().and_then(Pid::from_raw) {
            kill_process_group(group, Signal::KILL).ok();
        }
        child.wait().ok();
    }
    let mut text = Vec::new();
    printed
        .rewind()
        .and_then(|()| printed.read_to_end(&mut text))
        .ok();
    if is_ours(command) {
        search("a tool of ours", &text);
    }
    let text = String::from_utf8_lossy(&text).into_owned();
    match ended {
        Some(Ok(status)) if status.success() => Ok(text),
        Some(Ok(status)) => Err(format!("{command:?} ended with {status}:\n{text}")),
        Some(Err(error)) => Err(format!("{command:?} cannot be waited for: {error}")),
        None => Err(format!("{command:?} was killed after {limit:?}:\n{text}")),
    }
}
