//! `zoarium restore-path`: restores a past state of a subtree on running servers.

mod carry_out;
mod plan;
mod present;

use std::io::{self, BufRead};
use std::process::ExitCode;

use clap::Args;
use client::{Client, Options};
use history::ask::Question;
use history::parse_zxid;

use self::plan::{Plan, Wanted};
use self::present::Kinds;
use crate::history_tool::parse_moment;
use crate::history_tool::source::{Parameters, PlaceArgs};
use crate::output::write_stdout;
use crate::tool::ToolError;

/// Gives a subtree back as it was: shows the steps, asks, and carries them out
///
/// Creates, sets and deletes go out as multis; each names the version that it was planned for, so
/// that a write that came in between ends it and is not overwritten. Ephemerals are neither created
/// nor deleted. What the history does not record is not touched.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  zoarium restore-path /app --at 10m --dry-run")]
pub(crate) struct RestorePathArgs {
    /// The top of the subtree
    path: String,
    /// After this transaction, or the last change not later than this time
    #[arg(long, value_name = "ZXID|TIME", value_parser = parse_moment)]
    at: String,
    /// Client ports of the servers to restore on, if they are not those of --server
    #[arg(long, value_name = "HOST:PORT,...")]
    connect: Option<String>,
    #[command(flatten)]
    place: PlaceArgs,
    /// Shows the steps and does nothing
    #[arg(long)]
    dry_run: bool,
    /// Overwrites newer writes, and deletes ephemerals that were not there
    #[arg(long)]
    force: bool,
    /// Does not ask
    #[arg(long, short)]
    yes: bool,
}

/// Runs the command. The exit code is 1 if the subtree was not restored.
pub(crate) fn run(args: &RestorePathArgs) -> ExitCode {
    match restore(args) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => error.report("restore-path"),
    }
}

fn restore(args: &RestorePathArgs) -> Result<(), ToolError> {
    let (wanted, kinds) = wanted(args)?;
    let servers = match &args.connect {
        Some(servers) => servers.clone(),
        None => args.place.address.client_servers()?,
    };
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    runtime.block_on(async {
        let client = connect(args, &servers).await?;
        let restored = restore_with(args, (&wanted, &kinds), &client).await;
        // If this fails, the session ends by its timeout.
        let _ = client.close().await;
        restored
    })
}

/// Returns the past state of the subtree, and the kinds of its current znodes.
fn wanted(args: &RestorePathArgs) -> Result<(Wanted, Kinds), ToolError> {
    let mut source = args.place.open(true)?;
    let parameters = Parameters::default()
        .with("path", Some(&args.path))
        .with("at", Some(&args.at));
    let mut wanted = Wanted::default();
    let mut hidden = 0;
    let last = source.pages(Question::Tree, parameters, usize::MAX, |znode| {
        wanted.take(znode);
        Ok(())
    });
    let last = last?;
    hidden += last["hidden"].as_u64().unwrap_or_default();
    if hidden > 0 {
        let text = format!(
            "{hidden} znodes below {} may not be seen: ask as somebody who may (--auth)",
            args.path
        );
        return Err(ToolError::Refused(text));
    }
    wanted.zxid = last["at"].as_str().and_then(|at| parse_zxid(at).ok());
    wanted.read_filter(&last["extent"])?;
    let parameters = Parameters::default()
        .with("path", Some(&args.path))
        .with("at", last["extent"]["head"].as_str());
    let mut kinds = Kinds::default();
    source.pages(Question::Tree, parameters, usize::MAX, |znode| {
        kinds.take(znode);
        Ok(())
    })?;
    Ok((wanted, kinds))
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
    (wanted, kinds): (&Wanted, &Kinds),
    client: &Client,
) -> Result<(), ToolError> {
    // After the sync, this server has applied every write that other servers have acknowledged.
    client.sync(&args.path).await?;
    let present = present::read(client, &args.path, kinds).await?;
    let plan = Plan::make(&args.path, wanted, &present, args.force);
    write_stdout(|out| plan.write(args.force, out))?;
    if let Some(obstacle) = plan.obstacles.first() {
        let text = format!("nothing is done: {obstacle}");
        return Err(ToolError::Refused(text));
    }
    if args.dry_run || plan.is_empty() {
        return Ok(());
    }
    if !args.yes && !agrees()? {
        let text = "nothing is done: that was not agreed to (yes, or --yes)";
        return Err(ToolError::Refused(text.to_owned()));
    }
    let done = carry_out::carry_out(client, &plan, args.force).await?;
    write_stdout(|out| {
        writeln!(out, "done: {done} steps")?;
        Ok(())
    })
}

fn agrees() -> Result<bool, ToolError> {
    write_stdout(|out| write!(out, "carry this out? (yes/no) "))?;
    let mut answer = String::new();
    io::stdin().lock().read_line(&mut answer)?;
    Ok(answer.trim() == "yes")
}
