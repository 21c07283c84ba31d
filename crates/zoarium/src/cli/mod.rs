//! The command line.

mod pages;

use std::ffi::OsString;
use std::process::ExitCode;

use bench::BenchArgs;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Args, CommandFactory, Parser, Subcommand};

use self::pages::{CompletionsArgs, ManArgs};
use crate::data::backup::{self, BackupArgs};
use crate::data::log_tool::{self, LogArgs as LogToolArgs};
use crate::data::purge_tool::{self, PurgeArgs};
use crate::data::restore_tool::{self, RestoreArgs};
use crate::data::snapshot_tool::{self, SnapshotArgs};
use crate::history_tool::restore_path::{self, RestorePathArgs};
use crate::history_tool::{self, HistoryArgs};
use crate::live::client_flags;
use crate::live::watch_tool::{self, WatchArgs};
use crate::live::word::{self, WordArgs};
use crate::live::{
    self, AclArgs, CatArgs, CpArgs, CreateArgs, DiffArgs, ExportArgs, FindArgs, ImportArgs,
    InteractiveArgs, LsArgs, MvArgs, ReconfigArgs, RmArgs, SetArgs, StatArgs, StatusArgs, TopArgs,
    TreeArgs,
};
use crate::setup::admin_token_tool::{self, AdminTokenArgs};
use crate::setup::config_tool::{self, ConfigArgs};
use crate::setup::preflight_tool::{self, PreflightArgs};
use crate::start::container::{self, ContainerArgs};
use crate::start::logging::LogArgs;
use crate::start::quickstart::{self, QuickstartArgs};
use crate::start::server_cmd;
use crate::start::test_server::{self, TestServerArgs};

/// Coordination server with the protocol of Apache ZooKeeper, and its tools.
///
/// Without a command, zoarium runs a server with built-in settings: port 2181, data in ./zoarium-data.
#[derive(Debug, Parser)]
#[command(name = "zoarium", version = metrics::version::PRODUCT, max_term_width = 100)]
struct Cli {
    #[command(subcommand)]
    command: Option<Command>,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Runs a server
    ///
    /// The arguments are a configuration file, or a port and a data directory, or nothing.
    Server(ServerArgs),
    Quickstart(QuickstartArgs),
    Preflight(PreflightArgs),
    Config(ConfigArgs),
    AdminToken(AdminTokenArgs),
    Bench(Box<BenchArgs>),
    /// Prints, checks, truncates and repairs transaction logs
    Log(LogToolArgs),
    /// Prints and checks snapshots
    Snapshot(SnapshotArgs),
    History(Box<HistoryArgs>),
    Shell(InteractiveArgs),
    Status(StatusArgs),
    Top(TopArgs),
    #[command(visible_alias = "cat")]
    Get(CatArgs),
    Ls(LsArgs),
    Stat(StatArgs),
    Set(SetArgs),
    Create(CreateArgs),
    Rm(RmArgs),
    Cp(CpArgs),
    Mv(MvArgs),
    Tree(TreeArgs),
    Find(FindArgs),
    Diff(DiffArgs),
    Acl(AclArgs),
    Export(ExportArgs),
    Import(ImportArgs),
    Reconfig(ReconfigArgs),
    Backup(BackupArgs),
    Purge(PurgeArgs),
    Restore(RestoreArgs),
    RestorePath(RestorePathArgs),
    Watch(WatchArgs),
    /// Sends a four-letter word to a server and prints the answer
    Word(WordArgs),
    Container(ContainerArgs),
    TestServer(TestServerArgs),
    Completions(CompletionsArgs),
    Man(ManArgs),
    /// Starts a shell with the commands of zkCli.sh, or runs one of these commands
    #[command(disable_help_flag = true)]
    Cli(ShellArgs),
}

#[derive(Debug, Args)]
#[command(
    after_help = "Further options: --server is the same as -server, --output text|json|yaml chooses the form of the output, and --help prints the help.\n\nExample:\n  zoarium cli -server localhost:2181 ls /",
    override_usage = "zoarium cli [-server HOST:PORT[,...][/CHROOT]] [-timeout MS] [-r] [-waitforconnection] [-client-configuration FILE] [COMMAND [ARGUMENT]...]"
)]
struct ShellArgs {
    /// Arguments of zkCli.sh; the command `help` lists the commands
    // Passed on unchanged, because the options of zkCli.sh have one hyphen, and unknown options are
    // ignored.
    #[arg(
        trailing_var_arg = true,
        allow_hyphen_values = true,
        value_name = "ARGUMENT"
    )]
    args: Vec<String>,
}

#[derive(Debug, Args)]
#[command(
    after_help = "Example:\n  zoarium server conf/zoo.cfg",
    override_usage = "zoarium server [--log-format text|json] [--log-levels FILE] [-Dkey=value]... [zoo.cfg | PORT DATADIR [TICKTIME] [MAXCNXNS]]"
)]
struct ServerArgs {
    #[command(flatten)]
    log: LogArgs,
    /// Arguments of Apache ZooKeeper: properties, and then a zoo.cfg, or a port and a data directory
    // Passed on unchanged, because a property begins with a hyphen but is not an option of this
    // command line.
    #[arg(
        trailing_var_arg = true,
        allow_hyphen_values = true,
        value_name = "ARGUMENT"
    )]
    args: Vec<OsString>,
}

/// Runs the command line and returns the exit code. The first argument is the name of the program.
pub(crate) fn run(args: impl Iterator<Item = OsString>) -> ExitCode {
    let args: Vec<OsString> = args.collect();
    let parsed = Cli::try_parse_from(&args);
    match parsed
        .unwrap_or_else(|error| suggest(error, &args).exit())
        .command
    {
        None => server_cmd::run(Vec::new(), LogArgs::default()),
        Some(Command::Server(server)) => server_cmd::run(server.args, server.log),
        Some(Command::Quickstart(args)) => quickstart::run(&args),
        Some(Command::Preflight(args)) => preflight_tool::run(&args),
        Some(Command::Config(args)) => config_tool::run(&args),
        Some(Command::AdminToken(args)) => admin_token_tool::run(&args),
        Some(Command::Bench(args)) => bench::run(&args, metrics::version::PROFILE),
        Some(Command::Log(args)) => log_tool::run(&args),
        Some(Command::Snapshot(args)) => snapshot_tool::run(&args),
        Some(Command::History(args)) => history_tool::run_history(&args),
        Some(Command::Shell(args)) => live::run_interactive(&args),
        Some(Command::Status(args)) => live::run_status(&args),
        Some(Command::Top(args)) => live::run_top(&args),
        Some(Command::Get(args)) => live::run_get(&args),
        Some(Command::Ls(args)) => live::run_ls(&args),
        Some(Command::Stat(args)) => live::run_stat(&args),
        Some(Command::Set(args)) => live::run_set(&args),
        Some(Command::Create(args)) => live::run_create(&args),
        Some(Command::Rm(args)) => live::run_rm(&args),
        Some(Command::Cp(args)) => live::run_cp(&args),
        Some(Command::Mv(args)) => live::run_mv(&args),
        Some(Command::Tree(args)) => live::run_tree(&args),
        Some(Command::Find(args)) => live::run_find(&args),
        Some(Command::Diff(args)) => live::run_diff(&args),
        Some(Command::Acl(args)) => live::run_acl(&args),
        Some(Command::Export(args)) => live::run_export(&args),
        Some(Command::Import(args)) => live::run_import(&args),
        Some(Command::Reconfig(args)) => live::run_reconfig(&args),
        Some(Command::Backup(args)) => backup::run(&args),
        Some(Command::Purge(args)) => purge_tool::run(&args),
        Some(Command::Restore(args)) => restore_tool::run(&args),
        Some(Command::RestorePath(args)) => restore_path::run(&args),
        Some(Command::Watch(args)) => watch_tool::run(&args),
        Some(Command::Word(args)) => word::run(&args),
        Some(Command::TestServer(args)) => test_server::run(args),
        Some(Command::Completions(args)) => pages::run_completions(&args, Cli::command()),
        Some(Command::Man(args)) => pages::run_man(&args, Cli::command()),
        Some(Command::Container(args)) => container::run(&args),
        Some(Command::Cli(args)) => {
            ::cli::run(args.args, metrics::version::FULL, client_flags::of_cli())
        }
    }
}

/// Names that users know from other programs, and the commands with the same effect.
const OTHER_NAMES: &[(&str, &str)] = &[
    ("copy", "cp"),
    ("del", "rm"),
    ("delete", "rm"),
    ("deleteall", "rm"),
    ("dir", "ls"),
    ("getAcl", "acl"),
    ("list", "ls"),
    ("mkdir", "create"),
    ("move", "mv"),
    ("put", "set"),
    ("read", "get"),
    ("remove", "rm"),
    ("rename", "mv"),
    ("setAcl", "acl"),
    ("start", "server"),
    ("touch", "create"),
    ("update", "set"),
    ("write", "set"),
];

/// Adds a suggestion to the error about an unknown command: the command that the user may have
/// meant. The parser only suggests names with similar letters, and not after `help`.
fn suggest(mut error: clap::Error, args: &[OsString]) -> clap::Error {
    let is_unknown = error.kind() == ErrorKind::InvalidSubcommand;
    let Some(ContextValue::String(name)) = error.get(ContextKind::InvalidSubcommand) else {
        return error;
    };
    let known = OTHER_NAMES.iter().find(|(other, _)| other == name);
    let mut found = known.map(|(_, command)| (*command).to_owned());
    if found.is_none() && args.get(1).is_some_and(|word| word == "help") {
        let command = Cli::command();
        let names = command.get_subcommands().map(clap::Command::get_name);
        found = ::cli::nearest(name, names).map(str::to_owned);
    }
    if let Some(found) = found.filter(|_| is_unknown) {
        let suggested = ContextValue::Strings(vec![found]);
        error.insert(ContextKind::SuggestedSubcommand, suggested);
    }
    error
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_command_has_a_suggestion() {
        for (line, suggestion) in [
            ("gett /x", "'get'"),
            ("delete /x", "'rm'"),
            ("mkdir /x", "'create'"),
            ("help hisotry", "'history'"),
            ("help remove", "'rm'"),
        ] {
            let words = std::iter::once("zoarium").chain(line.split(' '));
            let args: Vec<OsString> = words.map(OsString::from).collect();
            let error = suggest(Cli::try_parse_from(&args).unwrap_err(), &args);
            assert!(error.to_string().contains(suggestion), "{line}: {error}");
        }
        for (_, command) in OTHER_NAMES {
            let cli = Cli::command();
            assert!(cli.find_subcommand(command).is_some(), "{command}");
        }
    }

    fn server_args(line: &str) -> Vec<String> {
        let words = line.split(' ').map(OsString::from);
        match Cli::try_parse_from(words).unwrap().command {
            Some(Command::Server(server)) => server
                .args
                .iter()
                .map(|arg| arg.to_string_lossy().into_owned())
                .collect(),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn the_definitions_are_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn nothing_is_a_server_with_built_in_settings() {
        assert!(Cli::try_parse_from(["zoarium"]).unwrap().command.is_none());
        assert!(server_args("zoarium server").is_empty());
    }

    #[test]
    fn arguments_of_the_server_are_its_own() {
        let line = "zoarium server -Dzookeeper.a=b -Dc zoo.cfg --odd -x";
        let args = ["-Dzookeeper.a=b", "-Dc", "zoo.cfg", "--odd", "-x"];
        assert_eq!(server_args(line), args);
        assert_eq!(server_args("zoarium server 2181 /data 2000 60").len(), 4);
    }

    #[test]
    fn help_and_version_are_answered() {
        let kind = |line: &str| Cli::try_parse_from(line.split(' ')).unwrap_err().kind();
        assert_eq!(kind("zoarium --version"), ErrorKind::DisplayVersion);
        assert_eq!(kind("zoarium server --help"), ErrorKind::DisplayHelp);
        assert_eq!(kind("zoarium bench get --help"), ErrorKind::DisplayHelp);
        assert_eq!(kind("zoarium nonsense"), ErrorKind::InvalidSubcommand);
    }

    #[test]
    fn the_commands_that_errors_of_storage_name_are_there() {
        let parse = |line: &str| Cli::try_parse_from(line.split(' '));
        assert!(parse("zoarium log --verify version-2/log.1").is_ok());
        assert!(parse("zoarium log --repair version-2/log.1").is_ok());
        assert!(parse("zoarium log --repair --chop 0x5 log.1").is_err());
        assert!(parse("zoarium log --chop 5x log.1").is_err());
        assert!(parse("zoarium log").is_err());
        assert!(parse("zoarium snapshot --verify --json snapshot.1").is_err());
    }

    #[test]
    fn bench_refuses_what_cannot_be() {
        let parse = |line: &str| Cli::try_parse_from(line.split(' '));
        assert!(parse("zoarium bench get --sessions 0").is_err());
        assert!(parse("zoarium bench get --duration soon").is_err());
        assert!(parse("zoarium bench get --ops 5 --duration 1s").is_err());
        assert!(parse("zoarium bench get --versus-pid 1").is_err());
        assert!(parse("zoarium bench clean --root /").is_err());
        let line = "zoarium bench mixed --server a:1 --server b:1 --versus c:1 --read-percent 5";
        assert!(parse(line).is_ok());
    }
}
