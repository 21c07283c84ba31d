//! `zoarium watch`: follows the changes below a path, over the loss of members.

use std::io::{self, Write};
use std::process::ExitCode;

use clap::Args;
use client::changes::{ChangeOptions, Changes, ChangesError, ChangesEvent, Start};
use proto::SessionId;
use proto::position::{Position, parse_zxid};

use crate::history_tool::source::ServerArgs;
use crate::history_tool::{FilterArgs, text};
use crate::output::Output;
use crate::tool::ToolError;

/// Follows committed changes below a path, each once and in order
///
/// When a member is lost, the next one goes on where it was. Ends when no member keeps the changes
/// any more that are next, and says where to go on.
#[derive(Debug, Args)]
pub(crate) struct WatchArgs {
    /// The top of the subtree
    #[arg(default_value = "/")]
    path: String,
    #[command(flatten)]
    servers: ServerArgs,
    /// From this transaction on; without, from now on
    #[arg(long, value_name = "ZXID", value_parser = parse_zxid)]
    from: Option<proto::Zxid>,
    /// Behind this change: `position` of the last one that was seen, or a zxid
    #[arg(long, value_name = "POSITION", conflicts_with = "from", value_parser = Position::parse)]
    after: Option<Position>,
    #[command(flatten)]
    filter: FilterArgs,
    /// Ends after so many changes
    #[arg(long)]
    limit: Option<u64>,
    /// How changes look
    #[arg(long, value_enum, default_value = "text")]
    output: Output,
    /// With `--output json`: also says now and then how far it is
    #[arg(long)]
    progress: bool,
}

/// Does what the arguments say.
pub(crate) fn run(args: &WatchArgs) -> ExitCode {
    let followed = follow(args);
    match followed {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => error.report("watch"),
    }
}

fn follow(args: &WatchArgs) -> Result<(), ToolError> {
    if args.servers.server.is_empty() {
        return Err(ToolError::Usage("name --server".to_owned()));
    }
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    runtime.block_on(write_changes(args, io::BufWriter::new(terminal::stdout())))
}

fn options(args: &WatchArgs) -> Result<ChangeOptions, ToolError> {
    let filter = &args.filter;
    let start = args.from.map_or(Start::Now, Start::From);
    Ok(ChangeOptions {
        servers: args.servers.server.clone(),
        start: args.after.map_or(start, Start::After),
        by: filter.by.clone(),
        session: filter.session.map(SessionId),
        operations: filter.op.iter().map(|op| op.name().to_owned()).collect(),
        with_states: filter.diff,
        authorization: args.servers.authorization()?,
        connector: args.servers.connector()?,
        ..ChangeOptions::new("", &args.path)
    })
}

async fn write_changes(args: &WatchArgs, mut out: impl Write) -> Result<(), ToolError> {
    let mut changes = Changes::new(options(args)?);
    let mut left = args.limit.unwrap_or(u64::MAX);
    while left > 0 {
        // Whoever reads sees at once what came, and what comes at once is written at once.
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
                    Output::Text => text::write_change(change.json(), &mut out)?,
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

/// In the words of the command line.
fn explained(error: ChangesError) -> ToolError {
    match error {
        ChangesError::NotKept { resume_after, .. } => {
            ToolError::Refused(format!("{error} (--after {resume_after})"))
        }
        ChangesError::Refused(error) => error.into(),
        other => other.into(),
    }
}
