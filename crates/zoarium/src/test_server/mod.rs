//! `zoarium test-server`: servers for tests of programs in any language.

use std::io::{self, Read, Write};
use std::process::ExitCode;

use clap::Args;
use serde_json::json;

use crate::ServerError;
use crate::log_output::FlushAtEnd;
use crate::logging::{self, LogArgs};
use crate::testing::TestEnsemble;

/// Starts a server, or an ensemble, for a test
///
/// When the servers serve clients, the command prints one line of JSON: `connectString` for all members, and
/// `members` with one entry per member. When its standard input is closed, for example because its parent
/// process ended, the command stops the servers and deletes their data.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  zoarium test-server --members 3")]
pub(crate) struct TestServerArgs {
    /// Number of voting members; 1 is an ensemble with one member
    #[arg(long, value_name = "COUNT", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=31))]
    members: u32,
    /// Number of observers
    #[arg(long, value_name = "COUNT", default_value_t = 0, value_parser = clap::value_parser!(u32).range(0..=31))]
    observers: u32,
    /// Line of zoo.cfg for all members; the option may be repeated
    #[arg(long = "set", value_name = "KEY=VALUE", value_parser = setting)]
    settings: Vec<(String, String)>,
}

fn setting(text: &str) -> Result<(String, String), String> {
    let (key, value) = text.split_once('=').ok_or("write KEY=VALUE")?;
    Ok((key.trim().to_owned(), value.to_owned()))
}

/// Runs the servers until standard input is closed.
pub(crate) fn run(args: TestServerArgs) -> ExitCode {
    let _flush = FlushAtEnd;
    if let Err(error) = logging::start(LogArgs::default(), "warn") {
        terminal::complain!("zoarium: {error}");
        return ExitCode::from(2);
    }
    let runtime = match tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
    {
        Ok(runtime) => runtime,
        Err(error) => return refuse(&ServerError::Threads(error)),
    };
    let mut builder = TestEnsemble::builder().members(args.members);
    builder = builder.observers(args.observers);
    for (key, value) in args.settings {
        builder = builder.setting(key, value);
    }
    let ensemble = match runtime.block_on(builder.start()) {
        Ok(ensemble) => ensemble,
        Err(error) => return refuse(&error),
    };
    let connect_string = ensemble.connect_string();
    let members: Vec<_> = connect_string.split(',').collect();
    let line = json!({ "connectString": connect_string, "members": members });
    let mut stdout = terminal::stdout();
    // A reader that has closed the output has ended.
    if writeln!(stdout, "{line}")
        .and_then(|()| stdout.flush())
        .is_ok()
    {
        wait_for_the_end(&mut io::stdin());
    }
    match runtime.block_on(ensemble.stop()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => refuse(&error),
    }
}

/// Waits for the end of standard input, and ignores its contents.
fn wait_for_the_end(stdin: &mut impl Read) {
    let mut buffer = [0; 1024];
    loop {
        match stdin.read(&mut buffer) {
            Ok(0) => return,
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(_) => return,
        }
    }
}

fn refuse(error: &ServerError) -> ExitCode {
    terminal::complain!("zoarium: {error}");
    ExitCode::from(match error {
        ServerError::Start { exit_code, .. } | ServerError::Failed { exit_code } => *exit_code,
        ServerError::Settings(_) => 2,
        _ => 1,
    })
}
