//! The commands `zoarium completions` and `zoarium man`. They generate shell completions and manual
//! pages from the definitions of commands and options.

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Args, Command};
use clap_complete::Shell;
use clap_mangen::Man;

use crate::tool::ToolError;

/// Prints a script with which a shell completes commands and options of zoarium
///
/// For bash: `zoarium completions bash > ~/.local/share/bash-completion/completions/zoarium`
#[derive(Debug, Args)]
#[command(
    after_help = "Example:\n  zoarium completions bash > ~/.local/share/bash-completion/completions/zoarium"
)]
pub(crate) struct CompletionsArgs {
    shell: Shell,
}

/// Writes the manual pages, one per command, to a directory
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  zoarium man ~/.local/share/man/man1")]
pub(crate) struct ManArgs {
    /// Directory, such as ~/.local/share/man/man1
    #[arg(value_name = "DIR")]
    dir: PathBuf,
}

/// Prints the completion script for this command line.
pub(crate) fn run_completions(args: &CompletionsArgs, mut command: Command) -> ExitCode {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut command, "zoarium", &mut script);
    match terminal::stdout().write_all(&script) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => ToolError::Output(error).report("completions"),
    }
}

/// Writes the manual pages for this command line.
pub(crate) fn run_man(args: &ManArgs, mut command: Command) -> ExitCode {
    command.build();
    match write_pages(&args.dir, &command) {
        Ok(count) => {
            terminal::say!("{}: {count} manual pages written", args.dir.display());
            ExitCode::SUCCESS
        }
        Err(error) => ToolError::Refused(format!("{}: {error}", args.dir.display())).report("man"),
    }
}

/// Writes a page for the whole program, and one for each command and subcommand. Returns the number
/// of pages.
fn write_pages(dir: &Path, command: &Command) -> io::Result<usize> {
    fs::create_dir_all(dir)?;
    let mut count = 0;
    let mut left = vec![command.clone()];
    while let Some(command) = left.pop() {
        let commands = command.get_subcommands();
        left.extend(
            commands
                .filter(|command| command.get_name() != "help")
                .cloned(),
        );
        let man = Man::new(command).manual("Zoarium").source("Zoarium");
        let mut page = Vec::new();
        man.render(&mut page)?;
        fs::write(dir.join(man.get_filename()), page)?;
        count += 1;
    }
    Ok(count)
}
