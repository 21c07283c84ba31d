//! The verdict of porcupine, an independent checker, about histories of registers.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use tests::{go_module, run, workspace_root};

use crate::verdict::{Finding, Validity, Verdict};

/// Time limit of the search for each register.
const KEY_SECONDS: u64 = 60;
/// Time limit of the program.
const LIMIT: Duration = Duration::from_secs(1800);

/// Returns the line that porcupine prints about a history: `valid`, `invalid` or `unknown`, with
/// numbers.
///
/// # Errors
/// If the program cannot be built, or the file is not a history of registers.
pub fn judge(history: &Path) -> Result<String, String> {
    let source = workspace_root().join("jepsen/porcupine");
    let program = go_module(&source).map_err(|missing| missing.0)?;
    let mut command = Command::new(program);
    command.arg(KEY_SECONDS.to_string()).arg(history);
    run(&mut command, LIMIT).map(|printed| printed.trim().to_owned())
}

/// Adds the line to a verdict.
pub fn add(line: &str, verdict: &mut Verdict) {
    let validity = match line.split(' ').next() {
        Some("valid") => Validity::Valid,
        Some("invalid") => Validity::Invalid,
        _ => Validity::Unknown,
    };
    if validity != Validity::Valid {
        verdict.findings.push(Finding {
            what: format!("porcupine: {line}"),
            events: Vec::new(),
        });
    }
    verdict.validity = verdict.validity.max(validity);
}
