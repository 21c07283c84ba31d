//! `zoarium watch`: changes below a path, from the live tree or from the change history of all members.

use std::io::{self, Write};
use std::process::ExitCode;

use ::cli::Direct;
use clap::Args;
use client::admin::AdminClient;
use client::changes::{ChangeOptions, Changes, ChangesError, ChangesEvent, Start};
use proto::SessionId;
use proto::position::{Position, parse_zxid};
use serde_json::Value;

use crate::address::AddressArgs;
use crate::history_tool::origins::{self, Member, Origins};
use crate::history_tool::{FilterArgs, text};
use crate::live;
use crate::output::Output;
use crate::tool::ToolError;

/// Prints changes below a path as they happen
///
/// Without other options it sets a watch on the live tree, which every server supports. With a start, a filter
/// or an admin port it follows the change history: each committed change once and in order, even if a member
/// fails. It ends when the members no longer store the next changes, and then reports where to continue.
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
    /// First transaction; by default the next one
    #[arg(long, value_name = "ZXID", value_parser = parse_zxid)]
    from: Option<proto::Zxid>,
    /// Last change already seen: its `position`, or a zxid
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
    /// With `--output json`: also prints the progress from time to time
    #[arg(long)]
    progress: bool,
}

/// Runs `watch`.
pub(crate) fn run(args: &WatchArgs) -> ExitCode {
    let followed = follows_history(args).and_then(|follows_history| {
        if follows_history {
            follow(args).map(|()| ExitCode::SUCCESS)
        } else {
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
    let origins = Origins::new(AdminClient {
        servers: options.servers.clone(),
        authorization: options.authorization.clone(),
        connector: options.connector.clone(),
        ..AdminClient::default()
    });
    let follower = Follower {
        args,
        origins,
        by: None,
        batch: Vec::new(),
        left: args.limit.unwrap_or(u64::MAX),
        out: io::BufWriter::new(terminal::stdout()),
    };
    runtime.block_on(follower.follow(options))
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

/// Largest number of changes whose clients are looked up together.
const BATCH: usize = 100;

/// Changes on their way to the output.
struct Follower<'a, W> {
    args: &'a WatchArgs,
    origins: Origins,
    /// Filter of `--by`, if this command applies it. A server finds only the changes of the clients that
    /// it serves.
    by: Option<String>,
    /// Changes that have arrived and are not written.
    batch: Vec<Value>,
    /// Number of changes that are still to be written.
    left: u64,
    out: W,
}

impl<W: Write> Follower<'_, W> {
    async fn follow(mut self, mut options: ChangeOptions) -> Result<(), ToolError> {
        if options.by.is_some() {
            let members = self.origins.members().await;
            let first = members.and_then(|members| members.first());
            if first.is_some_and(Member::answers) {
                self.by = options.by.take();
            }
        }
        let mut changes = Changes::new(options);
        while self.left > 0 {
            // Changes that arrive together are looked up and written together.
            let ready = if self.batch.len() < BATCH {
                changes.ready_event()
            } else {
                Ok(None)
            };
            let event = match ready {
                Ok(Some(event)) => event,
                Ok(None) if !self.batch.is_empty() => {
                    self.write_batch().await?;
                    continue;
                }
                Ok(None) => {
                    self.out.flush()?;
                    changes.next_event().await.map_err(explained)?
                }
                Err(error) => {
                    self.write_batch().await?;
                    return Err(explained(error));
                }
            };
            match event {
                ChangesEvent::Change(change) => {
                    self.batch.push(change.json().clone());
                    // The rest of the batch would be discarded.
                    if self.by.is_none() && self.batch.len() as u64 >= self.left {
                        self.write_batch().await?;
                    }
                }
                ChangesEvent::Progress(progress)
                    if self.args.progress && self.args.output == Output::Json =>
                {
                    self.write_batch().await?;
                    self.out.write_all(progress.line())?;
                }
                ChangesEvent::Lost(error) => terminal::complain!("zoarium watch: {error}"),
                _ => {}
            }
        }
        Ok(self.out.flush()?)
    }

    /// Looks up the clients of the batch, and writes its changes.
    async fn write_batch(&mut self) -> Result<(), ToolError> {
        let mut batch = std::mem::take(&mut self.batch);
        let mut changes: Vec<&mut Value> = batch.iter_mut().collect();
        self.origins.complete(&mut changes).await;
        let missing = self.origins.missing_members();
        for failure in self.origins.new_failures() {
            terminal::complain!("zoarium watch: {failure}");
        }
        let is_wanted = |change: &&mut Value| {
            let by = self.by.as_ref();
            by.is_none_or(|by| origins::is_by(change, by))
        };
        let wanted: Vec<&mut Value> = batch.iter_mut().filter(is_wanted).collect();
        for change in wanted {
            if self.left == 0 {
                break;
            }
            self.left -= 1;
            change["members_missing"] = missing.clone();
            match self.args.output {
                Output::Table => text::write_change(change, &mut self.out)?,
                output => output.write_line(change, &mut self.out)?,
            }
        }
        Ok(self.out.flush()?)
    }
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
