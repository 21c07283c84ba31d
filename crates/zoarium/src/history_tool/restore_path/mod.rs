//! The command `zoarium restore-path`, which restores a past state of a subtree on running servers.

mod carry_out;
mod current;
mod plan;

use std::io::{self, BufRead};
use std::process::ExitCode;

use clap::Args;
use client::{Client, Options};
use history::ask::Question;
use history::parse_zxid;

use self::current::Kinds;
use self::plan::{PastSubtree, Plan};
use crate::history_tool::parse_moment;
use crate::history_tool::source::{Parameters, PlaceArgs};
use crate::tool::output::write_stdout;
use crate::tool::{ToolError, number};

/// Restores a subtree to a moment: prints a plan, requests a confirmation, and executes the plan
///
/// The plan consists of multis with creates, sets and deletes, and of changes of ACLs. Each step requires the
/// state that the plan expects, so the plan stops at a concurrent write and does not overwrite it. The plan
/// does not create ephemerals, and deletes them only with --force. It does not change paths that the history
/// does not record.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  zoarium restore-path /app --at 10m --dry-run")]
pub(crate) struct RestorePathArgs {
    /// Top of the subtree
    path: String,
    /// Moment to restore: after this transaction, or after the last change up to this time
    #[arg(long, value_name = "ZXID|TIME", value_parser = parse_moment)]
    at: String,
    /// Client ports of the servers to restore, if they differ from --server
    #[arg(long, value_name = "HOST:PORT,...")]
    connect: Option<String>,
    #[command(flatten)]
    place: PlaceArgs,
    /// Prints the plan and does not execute it
    #[arg(long)]
    dry_run: bool,
    /// Overwrites newer writes, and deletes ephemerals that did not exist at that moment
    #[arg(long)]
    force: bool,
    /// Executes the plan without a confirmation
    #[arg(long, short)]
    yes: bool,
}

/// Runs the command. Returns the exit code of the error if the subtree cannot be restored.
pub(crate) fn run(args: &RestorePathArgs) -> ExitCode {
    match restore(args) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => error.report("restore-path"),
    }
}

fn restore(args: &RestorePathArgs) -> Result<(), ToolError> {
    let (past, kinds) = past(args)?;
    let servers = match &args.connect {
        Some(servers) => servers.clone(),
        None => args.place.address.client_servers()?,
    };
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    runtime.block_on(async {
        let client = connect(args, &servers).await?;
        let restored = restore_with(args, &past, &kinds, &client).await;
        // If this fails, the session ends after its timeout.
        let _ = client.close().await;
        restored
    })
}

/// Returns the past state of the subtree, and the kinds of its current znodes.
fn past(args: &RestorePathArgs) -> Result<(PastSubtree, Kinds), ToolError> {
    let mut source = args.place.open(true)?;
    let parameters = Parameters::default()
        .with("path", Some(&args.path))
        .with("at", Some(&args.at));
    let mut past = PastSubtree::default();
    let mut hidden = 0;
    let last = source.pages(Question::Tree, parameters, usize::MAX, |znode| {
        past.take(znode);
        Ok(())
    });
    let last = last?;
    hidden += last["hidden"].as_u64().unwrap_or_default();
    if hidden > 0 {
        let text = format!(
            "no permission to read some znodes below {} (number: {hidden}); use an identity that may read them (--auth)",
            args.path
        );
        return Err(ToolError::Refused(text));
    }
    past.zxid = last["at"].as_str().and_then(|at| parse_zxid(at).ok());
    past.read_filter(&last["extent"])?;
    let parameters = Parameters::default()
        .with("path", Some(&args.path))
        .with("at", last["extent"]["head"].as_str());
    let mut kinds = Kinds::default();
    source.pages(Question::Tree, parameters, usize::MAX, |znode| {
        kinds.take(znode);
        Ok(())
    })?;
    Ok((past, kinds))
}

async fn connect(args: &RestorePathArgs, servers: &str) -> Result<Client, ToolError> {
    let client = Client::connect(Options::new(servers)).await?;
    let named: Vec<String> = servers.split(',').map(str::to_owned).collect();
    if let Some(authorization) = args.place.address.authorization(&named)? {
        let (scheme, data) = authorization
            .split_once(' ')
            .unwrap_or((&authorization, ""));
        client.add_auth(scheme, data.as_bytes().to_vec()).await?;
    }
    Ok(client)
}

async fn restore_with(
    args: &RestorePathArgs,
    past: &PastSubtree,
    kinds: &Kinds,
    client: &Client,
) -> Result<(), ToolError> {
    // After the sync, the connected server has applied every write that any server acknowledged
    // before.
    client.sync(&args.path).await?;
    let current = current::read(client, &args.path, kinds).await?;
    let plan = Plan::make(&args.path, past, &current, args.force);
    write_stdout(|out| plan.write(args.force, out))?;
    if let Some(obstacle) = plan.obstacles.first() {
        let text = format!("nothing was changed: {obstacle}");
        return Err(ToolError::Refused(text));
    }
    if args.dry_run || plan.is_empty() {
        return Ok(());
    }
    if !args.yes && !confirm()? {
        let text =
            "nothing was changed because the plan was not confirmed (answer yes, or use --yes)";
        return Err(ToolError::Refused(text.to_owned()));
    }
    let done = carry_out::carry_out(client, &plan, args.force).await?;
    write_stdout(|out| {
        writeln!(out, "executed {}", number(done, "step"))?;
        Ok(())
    })
}

fn confirm() -> Result<bool, ToolError> {
    write_stdout(|out| write!(out, "execute this plan? (yes/no) "))?;
    let mut answer = String::new();
    let read = io::stdin().lock().read_line(&mut answer);
    read.map_err(|error| ToolError::Refused(format!("cannot read the confirmation: {error}")))?;
    Ok(answer.trim() == "yes")
}
