//! Commands that read: `get`, `ls`, `stat`, `tree`, `find`, `diff` and `export`.

use std::process::ExitCode;

use ::cli::{DataForm, Direct, check_path};
use clap::Args;

use super::session::{SessionArgs, flag, option, run, words};
use crate::history_tool::source::SourceArgs;
use crate::history_tool::{self, parse_moment};
use crate::tool::ToolError;

/// Prints the data of a znode, now or at a moment of the past
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  V=$(zoarium get /app/version)\n  zoarium get /app/version --at yesterday"
)]
pub(crate) struct CatArgs {
    /// Path of the znode
    #[arg(value_parser = check_path)]
    path: String,
    /// Prints the data after this transaction, or at this time, from the change history
    #[arg(long, value_name = "ZXID|TIME", value_parser = parse_moment)]
    at: Option<String>,
    /// Prints the data in base64
    #[arg(long, short, conflicts_with_all = ["hex", "at"])]
    base64: bool,
    /// Prints the data as a table of hexadecimal numbers
    #[arg(long, short = 'x', conflicts_with = "at")]
    hex: bool,
    #[command(flatten)]
    source: SourceArgs,
}

/// Prints the names of the children of a znode
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  zoarium ls -l /app")]
pub(crate) struct LsArgs {
    /// Path of the parent
    #[arg(default_value = "/", value_parser = check_path)]
    path: String,
    /// Prints versions, sizes and times
    #[arg(long, short)]
    long: bool,
    /// Prints the paths of all znodes below the path
    #[arg(long, short = 'R')]
    recursive: bool,
    #[command(flatten)]
    session: SessionArgs,
}

/// Prints the Stat of a znode
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  zoarium stat /app --output json")]
pub(crate) struct StatArgs {
    /// Path of the znode
    #[arg(value_parser = check_path)]
    path: String,
    #[command(flatten)]
    session: SessionArgs,
}

/// Prints a subtree, now or at a moment of the past
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  zoarium tree /app --depth 2\n  zoarium tree /app --at '2026-11-28 05:51'"
)]
pub(crate) struct TreeArgs {
    /// Top of the subtree
    #[arg(default_value = "/", value_parser = check_path)]
    path: String,
    /// Prints the paths after this transaction, or at this time, from the change history
    #[arg(long, value_name = "ZXID|TIME", value_parser = parse_moment)]
    at: Option<String>,
    /// Number of levels below the top
    #[arg(long, short, conflicts_with = "at")]
    depth: Option<usize>,
    #[command(flatten)]
    source: SourceArgs,
}

/// Prints the paths in a subtree whose last component matches a pattern
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  zoarium find /app --name 'lock-*'")]
pub(crate) struct FindArgs {
    /// Top of the subtree
    #[arg(default_value = "/", value_parser = check_path)]
    path: String,
    /// Pattern with * and ?
    #[arg(long, short, value_name = "GLOB")]
    name: Option<String>,
    #[command(flatten)]
    session: SessionArgs,
}

/// Compares two subtrees, or one subtree at two moments
///
/// With a second path, the command compares two live subtrees, which may belong to different ensembles
/// (HOST:PORT/PATH). The exit code is 1 if they differ. With --from and --to, the command compares two moments
/// of the change history.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  zoarium diff /app zk2:2181/app\n  zoarium diff /app --from yesterday --to now"
)]
pub(crate) struct DiffArgs {
    /// Top of the subtree
    #[arg(default_value = "/")]
    path: String,
    /// Top of the other subtree
    #[arg(conflicts_with_all = ["from", "to"], required_unless_present = "from")]
    other: Option<String>,
    /// Earlier moment
    #[arg(long, value_name = "ZXID|TIME", value_parser = parse_moment, requires = "to")]
    from: Option<String>,
    /// Later moment
    #[arg(long, value_name = "ZXID|TIME", value_parser = parse_moment, requires = "from")]
    to: Option<String>,
    /// Also compares ACLs
    #[arg(long, short, conflicts_with = "from")]
    acl: bool,
    /// Also compares ephemeral znodes
    #[arg(long, short, conflicts_with = "from")]
    ephemerals: bool,
    /// Identity for other ensembles, such as digest:user:password
    #[arg(long, value_name = "SCHEME:DATA", conflicts_with = "from")]
    other_auth: Option<String>,
    #[command(flatten)]
    source: SourceArgs,
}

/// Prints a subtree as lines of JSON, which `import` reads
///
/// Ephemeral znodes are left out, because they belong to their sessions.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  zoarium export /app > app.json")]
pub(crate) struct ExportArgs {
    /// Top of the subtree
    #[arg(value_parser = check_path)]
    path: String,
    #[command(flatten)]
    session: SessionArgs,
}

/// Runs `get`.
pub(crate) fn run_get(args: &CatArgs) -> ExitCode {
    let name = "get";
    if let Some(at) = &args.at {
        return history_tool::run_cat(&args.path, at, &args.source);
    }
    if let Some(refused) = refuse_files(name, &args.source) {
        return refused;
    }
    let form = match (args.base64, args.hex) {
        (true, _) => DataForm::Base64,
        (_, true) => DataForm::Hex,
        _ => DataForm::Raw,
    };
    let path = args.path.clone();
    let direct = Direct::Get { path, form };
    run(name, args.source.address(), args.source.output, direct)
}

/// Refuses files without a moment, because files contain only past states.
fn refuse_files(name: &str, source: &SourceArgs) -> Option<ExitCode> {
    let text = "--data-dir and --history-dir require a moment (--at)".to_owned();
    source
        .names_files()
        .then(|| ToolError::Usage(text).report(name))
}

/// Runs `ls`.
pub(crate) fn run_ls(args: &LsArgs) -> ExitCode {
    args.session.run(
        "ls",
        Direct::List {
            path: args.path.clone(),
            is_long: args.long,
            is_recursive: args.recursive,
        },
    )
}

/// Runs `stat`.
pub(crate) fn run_stat(args: &StatArgs) -> ExitCode {
    let path = args.path.clone();
    args.session.run("stat", Direct::Stat { path })
}

/// Runs `tree`.
pub(crate) fn run_tree(args: &TreeArgs) -> ExitCode {
    let name = "tree";
    if let Some(at) = &args.at {
        return history_tool::run_tree(&args.path, at, &args.source);
    }
    if let Some(refused) = refuse_files(name, &args.source) {
        return refused;
    }
    let mut words = words(name);
    option(&mut words, "-d", args.depth);
    words.push(args.path.clone());
    let direct = Direct::Shell(words);
    run(name, args.source.address(), args.source.output, direct)
}

/// Runs `find`.
pub(crate) fn run_find(args: &FindArgs) -> ExitCode {
    let mut words = words("find");
    option(&mut words, "-name", args.name.as_ref());
    words.push(args.path.clone());
    args.session.run("find", Direct::Shell(words))
}

/// Runs `diff`.
pub(crate) fn run_diff(args: &DiffArgs) -> ExitCode {
    let name = "diff";
    if let (Some(from), Some(to)) = (&args.from, &args.to) {
        return history_tool::run_diff(&args.path, from, to, &args.source);
    }
    if let Some(refused) = refuse_files(name, &args.source) {
        return refused;
    }
    let mut words = words(name);
    flag(&mut words, "-a", args.acl);
    flag(&mut words, "-e", args.ephemerals);
    option(&mut words, "-auth", args.other_auth.as_ref());
    words.push(args.path.clone());
    words.extend(args.other.clone());
    let direct = Direct::Shell(words);
    run(name, args.source.address(), args.source.output, direct)
}

/// Runs `export`.
pub(crate) fn run_export(args: &ExportArgs) -> ExitCode {
    let mut words = words("export");
    words.push(args.path.clone());
    args.session.run("export", Direct::Shell(words))
}
