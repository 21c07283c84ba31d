//! `zoarium cli`: the commands of zkCli.sh with the same output and exit codes, and additional
//! commands.
//!
//! * [`run`] is the entry point, which runs a single command, the lines of standard input, or an
//!   interactive shell.
//! * `commands` contains the table of commands and a module for each group. `parse` parses their
//!   words as Apache Commons CLI does. `failure` contains the error messages.
//! * `shell` contains the state between commands, and `connection` the session and its watches.
//!
//! Source: ZooKeeperMain and org.apache.zookeeper.cli of Apache ZooKeeper 3.9.5.
//! docs/COMPATIBILITY.md lists the differences.

mod commands;
mod connection;
mod direct;
pub mod exit;
mod failure;
mod locate;
mod output;
mod parse;
mod shell;

use std::io::{self, BufRead, IsTerminal};
use std::process::ExitCode;
use std::sync::OnceLock;

pub use direct::{Data, DataForm, Direct, Target, check_path, run_direct};
pub use output::yaml::yaml;
pub use parse::suggest::nearest;
pub use shell::start::{ClientSettings, Format, SaslClient};

use shell::start::CliArguments;
use shell::{Shell, person};

static VERSION: OnceLock<String> = OnceLock::new();

/// Returns the output of `version`.
fn version() -> &'static str {
    VERSION.get().map_or("unknown", String::as_str)
}

/// Executes the command at the end of `words`, or the commands from standard input. The command
/// `version` prints `version`. `settings` are for TLS and the login.
pub fn run(words: Vec<String>, version: &str, settings: ClientSettings) -> ExitCode {
    VERSION.get_or_init(|| version.to_owned());
    let start = match CliArguments::parse(words) {
        Ok(mut start) => {
            start.settings = settings;
            start
        }
        Err(failure) => {
            terminal::complain!("{}", failure.text);
            return ExitCode::from(failure.code);
        }
    };
    if start.wants_help {
        return help(&start);
    }
    // The main thread waits for a user or a pipe. The other thread drives the connection.
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build();
    match runtime {
        Ok(runtime) => {
            let code = runtime.block_on(serve(start));
            // A thread that is still reading from the terminal is abandoned.
            runtime.shutdown_background();
            ExitCode::from(code)
        }
        Err(error) => {
            terminal::complain!("zoarium: cannot start threads: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Prints the help without a connection.
fn help(start: &CliArguments) -> ExitCode {
    match commands::help(start.command.first().map(String::as_str)) {
        Ok(text) => {
            terminal::say!("{}", text.trim_end());
            ExitCode::SUCCESS
        }
        Err(failure) => {
            terminal::complain!("{}", failure.text);
            ExitCode::from(failure.code)
        }
    }
}

async fn serve(start: CliArguments) -> u8 {
    let mut shell = Shell::new(start);
    let start = shell.start.clone();
    let is_own = |name: &String| commands::is_own(name);
    if start.format.is_structured() || start.command.first().is_some_and(is_own) {
        // The output of this command may be read by other programs.
        shell.prints_watches = false;
    } else {
        shell.print(&format!("Connecting to {}", start.server));
    }
    if let Err(failure) = start.options(&start.server) {
        shell.print_error(&failure.text);
        return failure.code;
    }
    if start.waits_for_connection
        && let Err(failure) = shell.connect_now().await
    {
        shell.print_error(&failure.text);
        return failure.code;
    }
    if !start.command.is_empty() {
        shell.run(&start.command).await;
        shell.leave().await;
        return shell.exit_code();
    }
    if start.format.is_structured() {
        read_lines(&mut shell).await;
        shell.leave().await;
        return shell.exit_code();
    }
    shell.print("Welcome to ZooKeeper!");
    if io::stdin().is_terminal() && terminal::stdout().is_terminal() {
        shell.print("JLine support is enabled");
        if let Err(failure) = person::run(&mut shell).await {
            shell.print_error(&failure.text);
            return failure.code;
        }
    } else {
        shell.print("JLine support is disabled");
        read_lines(&mut shell).await;
    }
    shell.leave().await;
    shell.exit_code()
}

/// Executes commands from a pipe or a file.
async fn read_lines(shell: &mut Shell) {
    let mut line = Vec::new();
    while !shell.is_over && !shell.has_failed_output() {
        line.clear();
        match io::stdin().lock().read_until(b'\n', &mut line) {
            Ok(0) => return,
            Ok(_) => {}
            Err(error) => {
                return shell.print_error(&format!("cannot read standard input: {error}"));
            }
        }
        let text = String::from_utf8_lossy(&line);
        shell.line(text.trim_end_matches(['\n', '\r'])).await;
    }
}
