//! Commands about the shell itself.
//!
//! Source: ZooKeeperMain.processZKCmd.

use super::execute;
use crate::failure::Failure;
use crate::options::Given;
use crate::shell::Shell;

/// Ends the session; a command alone begins one first, as Java does.
pub(super) async fn close(shell: &mut Shell) {
    if shell.client("").await.is_ok() || shell.connection().is_some() {
        shell.close().await;
    }
}

pub(super) fn print_watches(shell: &mut Shell, given: &Given) -> Result<(), Failure> {
    match given.word(0) {
        Some(word) => shell.prints_watches = word == "on",
        None => {
            let state = if shell.prints_watches { "on" } else { "off" };
            shell.print(&format!("printwatches is {state}"));
        }
    }
    Ok(())
}

pub(super) async fn redo(shell: &mut Shell, given: &Given) -> Result<(), Failure> {
    let Some(word) = given.word(0) else {
        return Ok(());
    };
    let number: i64 = word.parse().map_err(|_| Failure {
        ends_script: true,
        ..Failure::new(format!(
            "redo needs the number of a command, not \"{word}\""
        ))
    })?;
    let words = usize::try_from(number)
        .ok()
        .and_then(|number| shell.redo(number));
    let out_of_range = || Failure::new("Command index out of range");
    let words = words.ok_or_else(out_of_range)?;
    match words.split_first() {
        Some((name, _)) if name == "redo" => Err(Failure::new("No redoing redos")),
        Some((name, words)) => execute(shell, name, words).await,
        None => Ok(()),
    }
}
