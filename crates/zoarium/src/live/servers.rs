//! Commands about the servers: `status`, `top` and `reconfig`.

use std::path::PathBuf;
use std::process::ExitCode;

use ::cli::Direct;
use clap::{Args, ValueEnum};

use super::session::{SessionArgs, flag, option, words};
use crate::live::address::AddressArgs;
use crate::tool::ToolError;

/// Prints a table of servers, and whether they are healthy
///
/// Exit codes: 0 healthy, 8 degraded (the ensemble serves, but not all members do), 7 down.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  zoarium status --all -s zk1:2181")]
pub(crate) struct StatusArgs {
    /// Queries all members of the ensemble instead of only the named servers
    #[arg(long, short)]
    all: bool,
    #[command(flatten)]
    session: SessionArgs,
}

/// Shows members and busy clients, and refreshes them until q or Ctrl-C
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  zoarium top\n  zoarium top -n 1 --output json")]
pub(crate) struct TopArgs {
    /// Seconds between two samples, from 0.1 to 3600
    #[arg(long, short = 'd', default_value_t = 2.0, value_parser = interval)]
    interval: f64,
    /// Number of samples; by default unlimited
    #[arg(long, short = 'n')]
    count: Option<u64>,
    /// Property by which clients are grouped
    #[arg(long, value_enum, default_value = "address")]
    by: By,
    #[command(flatten)]
    session: SessionArgs,
}

/// Property by which clients are grouped.
#[derive(Debug, Clone, Copy, ValueEnum)]
enum By {
    /// Address of the client
    Address,
    /// Identity of the client
    Identity,
}

/// Prints the member list, or changes it
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  zoarium reconfig\n  zoarium reconfig --add '4=zk4:2888:3888;2181' --remove 3"
)]
pub(crate) struct ReconfigArgs {
    /// Member that joins, or whose addresses change: `ID=HOST:PORT:PORT[:ROLE];PORT`
    #[arg(long, value_name = "MEMBER")]
    add: Vec<String>,
    /// Ids of members that leave
    #[arg(long, value_name = "ID,...")]
    remove: Vec<String>,
    /// All members of the new list
    #[arg(long, value_name = "MEMBER,...", conflicts_with_all = ["add", "remove", "file"])]
    members: Option<String>,
    /// File with the lines server.ID=... of the new list
    #[arg(long, conflicts_with_all = ["add", "remove"])]
    file: Option<PathBuf>,
    /// Fails unless the list has this version (hexadecimal)
    #[arg(long, short = 'V', value_name = "VERSION")]
    if_version: Option<String>,
    #[command(flatten)]
    session: SessionArgs,
}

/// Starts an interactive shell with completion, hints, a history, and relative paths after `cd`
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  zoarium shell -s localhost:2181")]
pub(crate) struct InteractiveArgs {
    #[command(flatten)]
    session: SessionArgs,
}

/// Runs `shell`.
pub(crate) fn run_interactive(args: &InteractiveArgs) -> ExitCode {
    args.session.run("shell", Direct::Interactive)
}

fn interval(text: &str) -> Result<f64, String> {
    let seconds = text.parse().ok();
    seconds
        .filter(|seconds| (0.1..=3600.0).contains(seconds))
        .ok_or_else(|| "the interval must be between 0.1 and 3600 seconds".to_owned())
}

/// Runs `status`.
pub(crate) fn run_status(args: &StatusArgs) -> ExitCode {
    match named_admins(&args.session.address) {
        Ok(admins) => {
            let is_all = args.all;
            args.session
                .run("status", Direct::Status { is_all, admins })
        }
        Err(error) => error.report("status"),
    }
}

/// Returns the admin ports that the command line names.
fn named_admins(address: &AddressArgs) -> Result<Vec<String>, ToolError> {
    if address.names_admin_port()? {
        address.admin_servers()
    } else {
        Ok(Vec::new())
    }
}

/// Runs `top`.
pub(crate) fn run_top(args: &TopArgs) -> ExitCode {
    match top_words(args) {
        Ok(words) => args.session.run("top", Direct::Shell(words)),
        Err(error) => error.report("top"),
    }
}

fn top_words(args: &TopArgs) -> Result<Vec<String>, ToolError> {
    let mut words = words("top");
    option(&mut words, "-d", Some(args.interval));
    option(&mut words, "-n", args.count);
    let by = match args.by {
        By::Address => "address",
        By::Identity => "identity",
    };
    option(&mut words, "-by", Some(by));
    let address = &args.session.address;
    let admins = named_admins(address)?;
    let identity = address.authorization(&admins)?;
    option(
        &mut words,
        "-auth",
        identity.map(|identity| identity.replacen(' ', ":", 1)),
    );
    flag(&mut words, "-tls", address.has_tls());
    option(
        &mut words,
        "-a",
        (!admins.is_empty()).then(|| admins.join(",")),
    );
    Ok(words)
}

/// Runs `reconfig`.
pub(crate) fn run_reconfig(args: &ReconfigArgs) -> ExitCode {
    if let Some(file) = &args.file
        && let Err(error) = std::fs::metadata(file)
    {
        let text = format!("cannot read {}: {error}", file.display());
        return ToolError::Refused(text).report("reconfig");
    }
    let mut words = words("reconfig");
    let list = |items: &[String]| (!items.is_empty()).then(|| items.join(","));
    option(&mut words, "-add", list(&args.add));
    option(&mut words, "-remove", list(&args.remove));
    option(&mut words, "-members", args.members.as_ref());
    option(
        &mut words,
        "-file",
        args.file.as_ref().map(|file| file.display()),
    );
    if words.len() == 1 {
        return args.session.run("reconfig", Direct::Members);
    }
    option(&mut words, "-v", args.if_version.as_ref());
    args.session.run("reconfig", Direct::Shell(words))
}
