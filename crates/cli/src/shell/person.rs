//! Interactive shell: line editing, history, and completion of commands and paths.

use std::borrow::Cow;
use std::path::PathBuf;
use std::time::Duration;

use client::Client;
use rustyline::completion::{Completer, Pair};
use rustyline::error::ReadlineError;
use rustyline::highlight::Highlighter;
use rustyline::hint::Hinter;
use rustyline::history::SearchDirection;
use rustyline::{Config, Context, Editor, Helper, Validator};
use tokio::runtime::Handle;

use crate::commands::{self, COMMANDS, has_secret};
use crate::failure::Failure;
use crate::parse::path::Chroot;
use crate::shell::Shell;

/// Time limit for the completion of a path, because the user waits for it.
const COMPLETION_MAX: Duration = Duration::from_secs(2);

/// Maximum number of names in a completion.
const NAMES_MAX: usize = 1000;

/// Interval between checks for events while the user types.
const NEWS_EVERY: Duration = Duration::from_millis(100);

/// Context of completions: the runtime and the current session.
#[derive(Helper, Validator)]
struct Completion {
    runtime: Handle,
    session: Option<(Client, Chroot)>,
    /// Current path for relative paths.
    dir: Option<String>,
    /// Whether hints are shown while the user types.
    has_hints: bool,
}

impl Hinter for Completion {
    type Hint = String;

    /// Returns the arguments of a command whose name is complete, or the rest of the latest line in
    /// the history that begins with the typed text.
    fn hint(&self, line: &str, at: usize, context: &Context<'_>) -> Option<String> {
        if !self.has_hints || line.is_empty() || at < line.len() {
            return None;
        }
        if let Some(name) = line.strip_suffix(' ')
            && let Some(arguments) = commands::arguments(name)
        {
            return Some(arguments.to_owned());
        }
        let history = context.history();
        let last = history.len().checked_sub(1)?;
        let found = history.starts_with(line, last, SearchDirection::Reverse);
        let found = found.ok().flatten()?;
        found.entry.get(line.len()..).map(str::to_owned)
    }
}

impl Highlighter for Completion {
    fn highlight_hint<'h>(&self, hint: &'h str) -> Cow<'h, str> {
        Cow::Owned(format!("\x1b[2m{hint}\x1b[0m"))
    }
}

impl Completer for Completion {
    type Candidate = Pair;

    fn complete(
        &self,
        line: &str,
        at: usize,
        _: &Context<'_>,
    ) -> rustyline::Result<(usize, Vec<Pair>)> {
        let line = line.get(..at).unwrap_or_default();
        let start = line.rfind(char::is_whitespace).map_or(0, |blank| blank + 1);
        let word = &line[start..];
        let found = match (start, word.starts_with('/')) {
            (0, _) => {
                let names = COMMANDS.iter().map(|command| command.name.to_owned());
                names.filter(|name| name.starts_with(word)).collect()
            }
            (_, true) => self.paths(word),
            (_, false) => self.relative_paths(word),
        };
        let pair = |text: String| Pair {
            display: text.clone(),
            replacement: text,
        };
        Ok((start, found.into_iter().map(pair).collect()))
    }
}

impl Completion {
    /// Returns the relative paths that begin with the typed text.
    fn relative_paths(&self, word: &str) -> Vec<String> {
        let Some(dir) = &self.dir else {
            return Vec::new();
        };
        let begin = format!("{}/", dir.trim_end_matches('/'));
        let paths = self.paths(&format!("{begin}{word}"));
        let below = paths.iter().filter_map(|path| path.strip_prefix(&begin));
        below.map(str::to_owned).collect()
    }

    /// Returns the absolute paths that begin with the typed text.
    fn paths(&self, word: &str) -> Vec<String> {
        let Some((client, chroot)) = &self.session else {
            return Vec::new();
        };
        let (parent, begin) = word.rsplit_once('/').unwrap_or_default();
        let asked = if parent.is_empty() { "/" } else { parent };
        let outside = chroot.with_chroot(asked);
        let answer = self.runtime.block_on(async {
            tokio::time::timeout(COMPLETION_MAX, client.get_children(&outside)).await
        });
        let names = answer.ok().and_then(Result::ok).unwrap_or_default();
        // The terminal would execute any control characters.
        let fitting = names
            .iter()
            .filter(|name| name.starts_with(begin) && !name.contains(char::is_control));
        let mut paths: Vec<String> = fitting
            .take(NAMES_MAX)
            .map(|name| format!("{parent}/{name}"))
            .collect();
        paths.sort_unstable();
        paths
    }
}

type Lines = Editor<Completion, rustyline::history::FileHistory>;

/// Reads commands from a terminal until `quit` or the end of input.
///
/// # Errors
/// If the terminal cannot be read.
pub(crate) async fn run(shell: &mut Shell) -> Result<(), Failure> {
    let wrong = |error: ReadlineError| Failure::new(format!("cannot read the terminal: {error}"));
    let config = Config::builder().auto_add_history(false).build();
    let mut lines = Lines::with_config(config).map_err(wrong)?;
    let file = history_file();
    if let Some(file) = &file {
        // The history file does not exist at the first start.
        let _ = lines.load_history(file);
        forget_secrets(&mut lines);
    }
    shell.talks_to_a_person = true;
    if let Err(failure) = shell.connect_now().await {
        shell.print_error(&failure.text);
    }
    while !shell.is_over && !shell.has_failed_output() {
        let session = shell.session();
        lines.set_helper(Some(Completion {
            runtime: Handle::current(),
            session,
            dir: shell.dir.clone(),
            has_hints: shell.is_friendly,
        }));
        let prompt = shell.prompt();
        let reading = tokio::task::spawn_blocking(move || {
            let line = lines.readline(&prompt);
            (lines, line)
        });
        let line;
        (lines, line) = wait_for(shell, reading).await?;
        match line {
            Ok(line) => {
                if !has_secret(&line) {
                    // A failure to record a line in the history is not a reason to end.
                    let _ = lines.add_history_entry(line.as_str());
                }
                shell.line(&line).await;
            }
            // Ctrl-C deletes the typed text, and Ctrl-D ends the shell.
            Err(ReadlineError::Interrupted) => {}
            Err(ReadlineError::Eof) => break,
            Err(error) => return Err(wrong(error)),
        }
    }
    if let Some(file) = &file {
        // If the home directory is read-only, only the history is lost.
        let _ = lines.save_history(file);
    }
    Ok(())
}

/// Removes lines with secrets that an earlier version has stored.
fn forget_secrets(lines: &mut Lines) {
    let all: Vec<String> = lines.history().iter().cloned().collect();
    if !all.iter().any(|line| has_secret(line)) {
        return;
    }
    if lines.clear_history().is_ok() {
        for line in all.iter().filter(|line| !has_secret(line)) {
            let _ = lines.add_history_entry(line.as_str());
        }
    }
}

/// Waits for a line, and meanwhile shows the events of watches: below the typed text, with a new
/// prompt, as zkCli.sh does. (rustyline's method for this purpose, up to version 18, leaves keys
/// unread that arrived together.)
async fn wait_for<T: Send + 'static>(
    shell: &mut Shell,
    mut reading: tokio::task::JoinHandle<T>,
) -> Result<T, Failure> {
    loop {
        tokio::select! {
            read = &mut reading => {
                return read.map_err(|error| Failure::new(format!("cannot read the terminal: {error}")));
            }
            () = tokio::time::sleep(NEWS_EVERY) => {
                if shell.print_events() {
                    shell.print_prompt();
                }
            }
        }
    }
}

/// Returns the path of the history file in the user's home directory, or `None` if `HOME` is not
/// set.
fn history_file() -> Option<PathBuf> {
    let home = std::env::var_os("HOME").filter(|home| !home.is_empty())?;
    Some(PathBuf::from(home).join(".zoarium_cli_history"))
}
