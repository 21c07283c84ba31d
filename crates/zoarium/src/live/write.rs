//! Commands that write: `set`, `create`, `rm`, `cp`, `mv`, `import` and `acl`.

use std::process::ExitCode;

use ::cli::{Data, Direct, check_path};
use clap::Args;

use super::session::{SessionArgs, flag, option, words};
use crate::tool::ToolError;

/// Replaces the data of a znode
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  zoarium set /app/version 7\n  zoarium set /app/config - < config.json"
)]
pub(crate) struct SetArgs {
    /// Path of the znode
    #[arg(value_parser = check_path)]
    path: String,
    /// New data; - reads standard input
    #[arg(allow_hyphen_values = true)]
    data: String,
    /// Fails unless the znode has this version
    #[arg(long, short = 'V', value_name = "VERSION")]
    if_version: Option<i32>,
    #[command(flatten)]
    session: SessionArgs,
}

/// Creates a znode and prints its path
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  zoarium create -p /app/config '{}'\n  zoarium create --sequential /app/task-"
)]
pub(crate) struct CreateArgs {
    /// Path of the znode
    path: String,
    /// Data of the znode; - reads standard input
    data: Option<String>,
    /// ACL of the znode, such as world:anyone:r
    #[arg(long, value_name = "SCHEME:ID:PERMS,...")]
    acl: Option<String>,
    /// Lets the server append a number to the path
    #[arg(long, short = 'q')]
    sequential: bool,
    /// Creates a container, which the server deletes after its last child is deleted
    #[arg(long, short, conflicts_with_all = ["sequential", "ttl"])]
    container: bool,
    /// Lets the server delete the znode after this number of milliseconds without changes and children
    #[arg(long, value_name = "MS", value_parser = clap::value_parser!(i64).range(1..))]
    ttl: Option<i64>,
    /// Also creates missing parents
    #[arg(long, short)]
    parents: bool,
    #[command(flatten)]
    session: SessionArgs,
}

/// Deletes a znode, or a subtree
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  zoarium rm -r /app")]
pub(crate) struct RmArgs {
    /// Path of the znode
    #[arg(value_parser = check_path)]
    path: String,
    /// Also deletes all znodes below the path
    #[arg(long, short)]
    recursive: bool,
    /// Also succeeds if the znode does not exist
    #[arg(long, short)]
    force: bool,
    /// Fails unless the znode has this version
    #[arg(
        long,
        short = 'V',
        value_name = "VERSION",
        conflicts_with = "recursive"
    )]
    if_version: Option<i32>,
    #[command(flatten)]
    session: SessionArgs,
}

/// Copies a znode or a subtree, also between ensembles
///
/// Ephemeral znodes are left out, because they belong to their sessions.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  zoarium cp -r /app /app-copy\n  zoarium cp -r /app zk2:2181/app"
)]
pub(crate) struct CpArgs {
    /// Source: PATH, or HOST:PORT/PATH of another ensemble
    from: String,
    /// Target: PATH, or HOST:PORT/PATH of another ensemble
    to: String,
    /// Also copies all znodes below the source
    #[arg(long, short)]
    recursive: bool,
    /// Replaces data and ACLs of existing znodes
    #[arg(long, short)]
    force: bool,
    /// Identity for other ensembles, such as digest:user:password
    #[arg(long, value_name = "SCHEME:DATA")]
    other_auth: Option<String>,
    #[command(flatten)]
    session: SessionArgs,
}

/// Moves a subtree in one transaction
///
/// The whole subtree is moved, or nothing. A subtree that is larger than one transaction (about 1 MB) is
/// refused.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  zoarium mv /app /old/app")]
pub(crate) struct MvArgs {
    /// Path of the subtree
    #[arg(value_parser = check_path)]
    from: String,
    /// New path
    #[arg(value_parser = check_path)]
    to: String,
    #[command(flatten)]
    session: SessionArgs,
}

/// Reads the output of `export` from standard input, and creates its znodes
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  zoarium import /copy < app.json")]
pub(crate) struct ImportArgs {
    /// Path below which the znodes are created
    #[arg(value_parser = check_path)]
    path: String,
    /// Replaces data and ACLs of existing znodes
    #[arg(long, short)]
    force: bool,
    #[command(flatten)]
    session: SessionArgs,
}

/// Prints the ACL of a znode, or replaces it
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  zoarium acl /app\n  zoarium acl -R /app world:anyone:r,digest:ann:HASH:cdrwa"
)]
pub(crate) struct AclArgs {
    /// Path of the znode
    #[arg(value_parser = check_path)]
    path: String,
    /// New ACL: entries SCHEME:ID:PERMS, separated by commas, with the permissions cdrwa
    acl: Option<String>,
    /// Also prints or replaces the ACLs of all znodes below the path
    #[arg(long, short = 'R')]
    recursive: bool,
    /// Fails unless the ACL has this version
    #[arg(long, short = 'V', value_name = "VERSION", requires = "acl")]
    if_version: Option<i32>,
    #[command(flatten)]
    session: SessionArgs,
}

/// Returns the data that an argument names. `-` means standard input.
fn data(text: &str) -> Data {
    match text {
        "-" => Data::Stdin,
        text => Data::Bytes(text.as_bytes().to_vec()),
    }
}

/// Runs `set`.
pub(crate) fn run_set(args: &SetArgs) -> ExitCode {
    args.session.run(
        "set",
        Direct::Set {
            path: args.path.clone(),
            data: data(&args.data),
            version: args.if_version.unwrap_or(-1),
        },
    )
}

/// Runs `create`.
pub(crate) fn run_create(args: &CreateArgs) -> ExitCode {
    // The server appends digits to the path of a sequential znode, so the check also appends a
    // digit.
    let whole = if args.sequential {
        format!("{}0", args.path)
    } else {
        args.path.clone()
    };
    if let Err(reason) = check_path(&whole) {
        return ToolError::Usage(format!("{}: {reason}", args.path)).report("create");
    }
    args.session.run(
        "create",
        Direct::Create {
            path: args.path.clone(),
            data: args.data.as_deref().map_or(Data::Null, data),
            acl: args.acl.clone(),
            is_sequential: args.sequential,
            is_container: args.container,
            ttl_ms: args.ttl,
            with_parents: args.parents,
        },
    )
}

/// Runs `rm`.
pub(crate) fn run_rm(args: &RmArgs) -> ExitCode {
    if args.path == "/" {
        return ToolError::Usage("/ cannot be deleted".to_owned()).report("rm");
    }
    args.session.run(
        "rm",
        Direct::Remove {
            path: args.path.clone(),
            version: args.if_version.unwrap_or(-1),
            is_recursive: args.recursive,
            is_forced: args.force,
        },
    )
}

/// Runs `cp`.
pub(crate) fn run_cp(args: &CpArgs) -> ExitCode {
    let mut words = words("cp");
    flag(&mut words, "-r", args.recursive);
    flag(&mut words, "-f", args.force);
    option(&mut words, "-auth", args.other_auth.as_ref());
    words.extend([args.from.clone(), args.to.clone()]);
    args.session.run("cp", Direct::Shell(words))
}

/// Runs `mv`.
pub(crate) fn run_mv(args: &MvArgs) -> ExitCode {
    let (from, to) = (args.from.clone(), args.to.clone());
    args.session.run("mv", Direct::Move { from, to })
}

/// Runs `import`.
pub(crate) fn run_import(args: &ImportArgs) -> ExitCode {
    let mut words = words("import");
    flag(&mut words, "-f", args.force);
    words.push(args.path.clone());
    args.session.run("import", Direct::Shell(words))
}

/// Runs `acl`.
pub(crate) fn run_acl(args: &AclArgs) -> ExitCode {
    args.session.run(
        "acl",
        Direct::Acl {
            path: args.path.clone(),
            acl: args.acl.clone(),
            version: args.if_version.unwrap_or(-1),
            is_recursive: args.recursive,
        },
    )
}
