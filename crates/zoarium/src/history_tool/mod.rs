//! The command `zoarium history`, and `get`, `tree` and `diff` for past moments.

mod export;
mod merge;
pub(crate) mod origin_lookups;
pub(crate) mod origins;
pub(crate) mod restore_path;
pub(crate) mod source;
pub(crate) mod text;

use std::io::Write;
use std::process::ExitCode;

use ::cli::check_path;
use clap::{Args, Subcommand};
use history::ask::Question;
use history::parse_session;
use history::record::Operation;
use history::{Moment, json::hex};

use self::source::{Parameters, SourceArgs};
use crate::tool::ToolError;
use crate::tool::output::{Output, write_stdout};

/// Prints who changed a znode, and when
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  zoarium history /app --since yesterday --diff")]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
pub(crate) struct HistoryArgs {
    #[command(subcommand)]
    command: Option<HistoryCommand>,
    #[command(flatten)]
    list: ListArgs,
}

#[derive(Debug, Subcommand)]
enum HistoryCommand {
    /// Prints who last changed the data, the ACL and each child of a znode
    Blame(BlameArgs),
    Export(export::ExportArgs),
}

#[derive(Debug, Args)]
struct BlameArgs {
    /// Path of the znode
    #[arg(value_parser = check_path)]
    path: String,
    #[command(flatten)]
    source: SourceArgs,
}

#[derive(Debug, Args)]
struct ListArgs {
    /// Path of the znode
    #[arg(required = true, value_parser = check_path)]
    path: Option<String>,
    #[command(flatten)]
    source: SourceArgs,
    /// Prints only changes from this moment on
    #[arg(long, value_name = "ZXID|TIME", value_parser = parse_moment)]
    since: Option<String>,
    /// Prints only changes up to this moment
    #[arg(long, value_name = "ZXID|TIME", value_parser = parse_moment)]
    until: Option<String>,
    #[command(flatten)]
    filter: FilterArgs,
    /// Also prints changes of all znodes below the path
    #[arg(long, short)]
    recursive: bool,
    /// Prints the oldest change first
    #[arg(long)]
    reverse: bool,
    /// Maximum number of changes
    #[arg(long, default_value_t = 100)]
    limit: usize,
}

/// Selected changes, and their details.
#[derive(Debug, Args)]
pub(crate) struct FilterArgs {
    /// Prints only changes by this identity (scheme:id) or from this host
    #[arg(long, value_name = "WHO")]
    pub(crate) by: Option<String>,
    /// Prints only changes in this session
    #[arg(long, value_name = "0xID", value_parser = parse_session)]
    pub(crate) session: Option<i64>,
    /// Prints only this operation: create, set, setAcl, delete, deleteByServer, closeSession, reconfig
    #[arg(long, value_name = "OPERATION", value_parser = parse_operation)]
    pub(crate) op: Vec<Operation>,
    /// Prints data and ACL before and after each change
    #[arg(long)]
    pub(crate) diff: bool,
}

/// Parses a moment that the user typed. The result is a zxid or a time in UTC, which every server
/// accepts.
pub(crate) fn parse_moment(text: &str) -> Result<String, String> {
    Ok(match typed_moment(text)? {
        Moment::Zxid(zxid) => format!("{:#x}", zxid.0),
        Moment::Time(ms) => history::time_text(ms),
    })
}

/// Parses a moment that the user typed.
pub(crate) fn typed_moment(text: &str) -> Result<Moment, String> {
    Moment::parse_typed(text, &jiff::Zoned::now())
}

fn parse_operation(text: &str) -> Result<Operation, String> {
    let names = || Operation::ALL.map(Operation::name).join(", ");
    Operation::parse(text)
        .ok_or_else(|| format!("not an operation; known operations are {}", names()))
}

/// Runs the command.
pub(crate) fn run_history(args: &HistoryArgs) -> ExitCode {
    report("history", |out| match (&args.command, &args.list.path) {
        (Some(HistoryCommand::Blame(args)), _) => blame(args, out),
        (Some(HistoryCommand::Export(args)), _) => export::export(args, out),
        (None, Some(path)) => list(path, &args.list, out),
        (None, None) => Err(ToolError::Usage("name the path of a znode".to_owned())),
    })
}

/// Runs `get` for a past moment.
pub(crate) fn run_cat(path: &str, at: &str, source: &SourceArgs) -> ExitCode {
    report("get", |out| cat(path, at, source, out))
}

/// Runs `tree` for a past moment.
pub(crate) fn run_tree(path: &str, at: &str, source: &SourceArgs) -> ExitCode {
    report("tree", |out| tree(path, at, source, out))
}

/// Runs `diff` for two past moments.
pub(crate) fn run_diff(path: &str, from: &str, to: &str, source: &SourceArgs) -> ExitCode {
    report("diff", |out| diff(path, from, to, source, out))
}

fn report(tool: &str, write: impl FnOnce(&mut dyn Write) -> Result<(), ToolError>) -> ExitCode {
    match write_stdout(write) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => error.report(tool),
    }
}

impl FilterArgs {
    /// Returns the parameters that select changes.
    pub(crate) fn parameters(&self) -> Parameters {
        let parameters = Parameters::default()
            .with("by", self.by.as_ref())
            .with("session", self.session.map(hex))
            .with("diff", self.diff.then_some(true));
        self.op.iter().fold(parameters, |parameters, op| {
            parameters.with("op", Some(op.name()))
        })
    }
}

fn list(path: &str, args: &ListArgs, out: &mut dyn Write) -> Result<(), ToolError> {
    let parameters = args
        .filter
        .parameters()
        .with("path", Some(path))
        .with("recursive", args.recursive.then_some(true))
        .with("since", args.since.as_ref())
        .with("until", args.until.as_ref())
        .with("oldest_first", args.reverse.then_some(true));
    let (mut source, output) = (args.source.open()?, args.source.output);
    if args.limit == 0 {
        return Ok(());
    }
    let write = |result: &_| match output {
        Output::Json | Output::Yaml => Ok(output.write_line(result, out)?),
        Output::Table => text::write_change(result, out),
    };
    let last = source.pages(Question::Changes, parameters, args.limit, write)?;
    if output != Output::Table {
        return Ok(());
    }
    if last["next"].is_null() {
        text::write_extent(&last, out)?;
    }
    text::write_missing_members(&last, out)
}

fn blame(args: &BlameArgs, out: &mut dyn Write) -> Result<(), ToolError> {
    let parameters = Parameters::default().with("path", Some(&args.path));
    let output = args.source.output;
    let mut is_first = true;
    let write = |result: &_| match output {
        Output::Json | Output::Yaml => Ok(output.write_line(result, out)?),
        Output::Table => text::write_blame(result, std::mem::take(&mut is_first), out),
    };
    let mut source = args.source.open()?;
    let last = source.pages(Question::Blame, parameters, usize::MAX, write)?;
    match output {
        Output::Table => text::write_missing_members(&last, out),
        Output::Json | Output::Yaml => Ok(()),
    }
}

fn cat(path: &str, at: &str, source: &SourceArgs, out: &mut dyn Write) -> Result<(), ToolError> {
    let parameters = Parameters::default()
        .with("path", Some(path))
        .with("at", Some(at));
    let output = source.output;
    let write = |znode: &serde_json::Value| {
        if output != Output::Table {
            return Ok(output.write_line(znode, out)?);
        }
        match text::data_bytes(&znode["data"]) {
            Some(bytes) => Ok(out.write_all(&bytes)?),
            None if znode["data"].is_null() => Ok(()),
            None => Err(ToolError::NotFound(format!(
                "the change history does not contain the data of {path} ({} bytes)",
                znode["data"]["size"]
            ))),
        }
    };
    source.open()?.pages(Question::Cat, parameters, 1, write)?;
    Ok(())
}

fn tree(path: &str, at: &str, source: &SourceArgs, out: &mut dyn Write) -> Result<(), ToolError> {
    let parameters = Parameters::default()
        .with("path", Some(path))
        .with("at", Some(at));
    let output = source.output;
    let write = |znode: &serde_json::Value| match output {
        Output::Json | Output::Yaml => Ok(output.write_line(znode, out)?),
        Output::Table => Ok(writeln!(
            out,
            "{}",
            znode["path"].as_str().unwrap_or_default()
        )?),
    };
    let mut source = source.open()?;
    source.pages(Question::Tree, parameters, usize::MAX, write)?;
    Ok(())
}

fn diff(
    path: &str,
    from: &str,
    to: &str,
    source: &SourceArgs,
    out: &mut dyn Write,
) -> Result<(), ToolError> {
    let parameters = Parameters::default()
        .with("path", Some(path))
        .with("from", Some(from))
        .with("to", Some(to));
    let output = source.output;
    let write = |one: &_| match output {
        Output::Json | Output::Yaml => Ok(output.write_line(one, out)?),
        Output::Table => text::write_difference(one, out),
    };
    let mut source = source.open()?;
    source.pages(Question::Diff, parameters, usize::MAX, write)?;
    Ok(())
}
