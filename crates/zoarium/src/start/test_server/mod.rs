//! The command `zoarium test-server`, which runs servers for tests of programs in any language.

mod command;
mod http;
mod orders;
mod stop_signals;

use std::io::Write;
use std::process::ExitCode;

use clap::Args;
use serde_json::json;
use tokio::sync::mpsc;

use self::command::Command;
use self::orders::{Answer, Order};
use self::stop_signals::StopSignals;
use crate::ServerError;
use crate::start::log_output::FlushAtEnd;
use crate::start::logging::{self, LogArgs};
use crate::testing::{TestEnsemble, TestEnsembleBuilder};

/// Number of commands that may wait.
const ORDERS_MAX: usize = 16;

/// Default log levels. They suppress the admin servers' warning about the open ACL of `/`, because
/// an open ACL suits a test.
const LOG_LEVELS: &str = "warn,zoarium_admin::server=error";

/// Keys that the command sets itself, each with the reason or with the option to use instead.
const OWN_KEYS: &[(&str, &str)] = &[
    ("dataDir", "it is a temporary directory"),
    ("clientPort", "use --port"),
    ("admin.enableServer", "the admin servers are always enabled"),
    (
        "admin.serverPort",
        "the first line of output contains the addresses",
    ),
];

/// Starts a server, or an ensemble, for a test
///
/// When the servers serve clients, the command prints one line of JSON: `connectString` for all members, and
/// `members` and `adminAddresses` with one entry per member. Then it reads commands from standard input, one per
/// line, and answers each with a line of JSON. `commandAddress` accepts the same commands as the body of a POST.
/// All ports listen on 127.0.0.1.
///
/// The command stops the servers and deletes their data after a signal (SIGINT, SIGTERM or SIGHUP), when its
/// standard input is closed, and when its parent process ends. A standard input from /dev/null does not count as
/// closed.
#[derive(Debug, Args)]
#[command(after_help = "Commands, for all members or for a list such as 1,2:
  kill, restart, pause, resume [MEMBERS]
  partition MEMBERS [from MEMBERS]   separates members from all others
  heal                               ends the partition
  slow TIME [MEMBERS]                delays each sync of the disk, for example by 50ms; 0ms ends the delay
  expire SESSION                     ends a session, for example 0x1000a3f1e2b0000
  wait                               waits until all members that can serve do so
  status                             returns the leader and the members

Example:
  zoarium test-server --members 3")]
pub(crate) struct TestServerArgs {
    /// Number of voting members; 1 is an ensemble with one member
    #[arg(long, value_name = "COUNT", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=31))]
    members: u32,
    /// Number of observers
    #[arg(long, value_name = "COUNT", default_value_t = 0, value_parser = clap::value_parser!(u32).range(0..=31))]
    observers: u32,
    /// Client port of the first member; further members use the next ports [default: free ports]
    #[arg(long, value_parser = clap::value_parser!(u16).range(1..))]
    port: Option<u16>,
    /// Line of zoo.cfg for all members; the option may be repeated
    #[arg(long = "set", value_name = "KEY=VALUE", value_parser = setting)]
    settings: Vec<(String, String)>,
}

fn setting(text: &str) -> Result<(String, String), String> {
    let (key, value) = text.split_once('=').ok_or("write KEY=VALUE")?;
    let key = key.trim();
    match OWN_KEYS.iter().find(|(own, _)| *own == key) {
        Some((_, instead)) => Err(format!("{key} cannot be set: {instead}")),
        None => Ok((key.to_owned(), value.to_owned())),
    }
}

impl TestServerArgs {
    fn builder(self) -> TestEnsembleBuilder {
        let mut builder = TestEnsemble::builder().members(self.members);
        builder = builder.observers(self.observers).admin_servers();
        if let Some(port) = self.port {
            builder = builder.port(port);
        }
        let settings = self.settings.into_iter();
        settings.fold(builder, |builder, (key, value)| builder.setting(key, value))
    }
}

/// Runs the servers until there is a reason to stop.
pub(crate) fn run(args: TestServerArgs) -> ExitCode {
    let _flush = FlushAtEnd;
    if let Err(error) = logging::start(LogArgs::default(), LOG_LEVELS) {
        terminal::complain!("zoarium: {error}");
        return ExitCode::from(2);
    }
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    let ended = match runtime {
        Ok(runtime) => runtime.block_on(serve(args.builder())),
        Err(error) => Err(ServerError::Threads(error)),
    };
    match ended {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => refuse(&error),
    }
}

async fn serve(builder: TestEnsembleBuilder) -> Result<(), ServerError> {
    let failed = |what| {
        move |error: std::io::Error| ServerError::Test {
            what,
            why: error.to_string(),
        }
    };
    let mut stop_signals = StopSignals::listen().map_err(failed("cannot listen for signals"))?;
    let mut ensemble = tokio::select! {
        () = stop_signals.next() => return Ok(()),
        started = builder.start() => started?,
    };
    let (sender, mut orders) = mpsc::channel(ORDERS_MAX);
    let listening = http::listen(sender.clone()).await;
    let command_address = listening.map_err(failed("cannot listen for commands"))?;
    let mut admin_addresses = Vec::new();
    for id in ensemble.members() {
        admin_addresses.extend(ensemble.admin_address(id)?);
    }
    let connect_string = ensemble.connect_string();
    let line = json!({
        "connectString": connect_string,
        "members": connect_string.split(',').collect::<Vec<_>>(),
        "adminAddresses": admin_addresses,
        "commandAddress": command_address,
    });
    let mut stdout = terminal::stdout();
    let written = writeln!(stdout, "{line}").and_then(|()| stdout.flush());
    // If the output is closed, its reader has ended and sends no commands.
    if written.is_ok() {
        orders::read_stdin(sender).map_err(ServerError::Threads)?;
        follow(&mut ensemble, &mut stop_signals, &mut orders).await;
    }
    ensemble.stop().await
}

/// Executes commands until a signal arrives, standard input is closed, or the parent process ends.
async fn follow(
    ensemble: &mut TestEnsemble,
    stop_signals: &mut StopSignals,
    orders: &mut mpsc::Receiver<Order>,
) {
    loop {
        let order = tokio::select! {
            () = stop_signals.next() => return,
            order = orders.recv() => order,
        };
        let Some(Order::Command { line, answer }) = order else {
            return;
        };
        let parsed = line.parse::<Command>();
        let executing = async {
            let result = parsed?.execute(ensemble).await;
            result.map_err(|error| error.to_string())
        };
        let result = tokio::select! {
            () = stop_signals.next() => return,
            result = executing => result,
        };
        // The client of a command may have closed its connection.
        let _ = answer.send(Answer::new(&line, result));
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
