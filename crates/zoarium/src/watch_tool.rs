//! `zoarium watch`: changes below a path, from the live tree or from the change history of all members.

use std::io::{self, Write};
use std::process::ExitCode;

use ::cli::Direct;
use clap::Args;
use client::changes::{ChangeOptions, Changes, ChangesError, ChangesEvent, Start};
use proto::SessionId;
use proto::position::{Position, parse_zxid};

use crate::address::AddressArgs;
use crate::history_tool::{FilterArgs, text};
use crate::live;
use crate::output::Output;
use crate::tool::ToolError;

/// Prints changes below a path as they happen
///
/// Without further options it sets a watch on the live tree, which every server supports. With a start, a filter or
/// an admin port it follows the change history: each committed change once and in order, also when a member is lost.
/// It ends when no member keeps the next changes, and reports where to continue.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  zoarium watch /app\n  zoarium watch /app --from 0x1 --op delete"
)]
pub(crate) struct WatchArgs {
    /// Top of the subtree
    #[arg(default_value = "/")]
    path: String,
    #[command(flatten)]
    address: AddressArgs,
    /// First transaction; without it, changes from now on
    #[arg(long, value_name = "ZXID", value_parser = parse_zxid)]
    from: Option<proto::Zxid>,
    /// Last change that was seen: its `position`, or a zxid
    #[arg(long, value_name = "POSITION", conflicts_with = "from", value_parser = Position::parse)]
    after: Option<Position>,
    #[command(flatten)]
    filter: FilterArgs,
    /// Number of changes after which the command ends
    #[arg(long)]
    limit: Option<u64>,
    /// Form of the output
    #[arg(long, value_enum, default_value = "table")]
    output: Output,
    /// With `--output json`: also prints the progress now and then
    #[arg(long)]
    progress: bool,
}

/// Runs `watch`.
pub(crate) fn run(args: &WatchArgs) -> ExitCode {
    let followed = follows_history(args).and_then(|follows_history| match follows_history {
        true => follow(args).map(|()| ExitCode::SUCCESS),
        false => {
            let (path, limit) = (args.path.clone(), args.limit);
            let direct = Direct::Watch { path, limit };
            Ok(live::run("watch", &args.address, args.output, direct))
        }
    });
    followed.unwrap_or_else(|error| error.report("watch"))
}

/// Returns whether the command follows the change history instead of the live tree.
fn follows_history(args: &WatchArgs) -> Result<bool, ToolError> {
    let filter = &args.filter;
    let has_filter =
        filter.by.is_some() || filter.session.is_some() || !filter.op.is_empty() || filter.diff;
    let has_start = args.from.is_some() || args.after.is_some();
    Ok(has_start || has_filter || args.progress || args.address.names_admin_port()?)
}

fn follow(args: &WatchArgs) -> Result<(), ToolError> {
    let options = options(args)?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let out = io::BufWriter::new(terminal::stdout());
    runtime.block_on(write_changes(args, options, out))
}

fn options(args: &WatchArgs) -> Result<ChangeOptions, ToolError> {
    let filter = &args.filter;
    let start = args.from.map_or(Start::Now, Start::From);
    let servers = args.address.admin_servers()?;
    Ok(ChangeOptions {
        start: args.after.map_or(start, Start::After),
        by: filter.by.clone(),
        session: filter.session.map(SessionId),
        operations: filter.op.iter().map(|op| op.name().to_owned()).collect(),
        with_states: filter.diff,
        authorization: args.address.authorization(&servers)?,
        connector: args.address.connector()?,
        servers,
        ..ChangeOptions::new("", &args.path)
    })
}

async fn write_changes(
    args: &WatchArgs,
    options: ChangeOptions,
    mut out: impl Write,
) -> Result<(), ToolError> {
    let mut changes = Changes::new(options);
    let mut left = args.limit.unwrap_or(u64::MAX);
    while left > 0 {
        // Readers see each event immediately. Events that are ready together are written together.
        let event = match changes.ready_event()? {
            Some(event) => event,
            None => {
                out.flush()?;
                changes.next_event().await.map_err(explained)?
            }
        };
        match event {
            ChangesEvent::Change(change) => {
                match args.output {
                    Output::Json => out.write_all(change.line())?,
                    Output::Yaml => Output::Yaml.write_line(change.json(), &mut out)?,
                    Output::Table => text::write_change(change.json(), &mut out)?,
                }
                left -= 1;
            }
            ChangesEvent::Progress(progress) if args.progress && args.output == Output::Json => {
                out.write_all(progress.line())?;
            }
            ChangesEvent::Lost(error) => terminal::complain!("zoarium watch: {error}"),
            _ => {}
        }
    }
    Ok(out.flush()?)
}

/// Converts an error into the terms of the command line.
fn explained(error: ChangesError) -> ToolError {
    match error {
        ChangesError::NotKept { resume_after, .. } => {
            ToolError::Refused(format!("{error} (--after {resume_after})"))
        }
        ChangesError::Refused(error) => error.into(),
        other => other.into(),
    }
}
