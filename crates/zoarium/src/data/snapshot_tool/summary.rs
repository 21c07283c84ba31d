//! `zoarium snapshot summary`: the subtrees that take the most space in a snapshot.
//!
//! Source: SnapshotRecursiveSummary.

use std::io::Write;
use std::path::PathBuf;

use clap::{Args, ValueEnum};
use datadir::snapshot;
use serde_json::json;
use storage::RealDisk;

use crate::tool::output::Output;
use crate::tool::{LimitArgs, ToolError};

/// Prints how many znodes and bytes of data each subtree contains
///
/// The output matches Apache ZooKeeper's SnapshotRecursiveSummary; znodes without children are left out.
#[derive(Debug, Args)]
pub(crate) struct SummaryArgs {
    /// Snapshot, plain or compressed; for a data directory, its newest snapshot is used
    path: PathBuf,
    /// Top of the subtree
    #[arg(default_value = "/", value_name = "ZNODE")]
    start: String,
    /// Number of levels to print; 0 prints all levels. Deeper znodes are always counted
    #[arg(default_value_t = 0, value_name = "DEPTH")]
    depth: usize,
    /// Form of the output
    #[arg(long, value_enum, default_value_t = Form::Table)]
    output: Form,
    #[command(flatten)]
    limits: LimitArgs,
}

/// Form of a summary.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Form {
    /// Text for people
    #[value(alias = "text")]
    Table,
    /// JSON, one object per line
    Json,
    /// YAML, one document per object
    Yaml,
    /// Input with all znodes for the program ncdu (`ncdu -f FILE`)
    Ncdu,
}

/// Prints the summary.
pub(super) fn write(args: &SummaryArgs, out: &mut dyn Write) -> Result<(), ToolError> {
    let path = snapshot::newest_of(&RealDisk, &args.path)?;
    let znodes = snapshot::subtrees(&RealDisk, &path, args.limits.limits())?;
    let below = snapshot::descendants(&znodes, &args.start);
    let Some(top) = below.first() else {
        let text = format!("{} does not exist in {}", args.start, path.display());
        return Err(ToolError::NotFound(text));
    };
    if args.output == Form::Ncdu {
        return Ok(snapshot::print_ncdu(below, out)?);
    }
    let is_shown = |one: &&snapshot::Subtree| {
        let depth = one.depth - top.depth;
        depth == 0 || (one.below > 0 && (args.depth == 0 || depth <= args.depth))
    };
    for one in below.iter().filter(is_shown) {
        let (path, bytes, below) = (&one.path, one.bytes, one.below);
        let form = match args.output {
            Form::Json => Some(Output::Json),
            Form::Yaml => Some(Output::Yaml),
            Form::Table | Form::Ncdu => None,
        };
        if let Some(form) = form {
            let object = json!({ "path": path, "children": below, "data": bytes });
            form.write_line(&object, out)?;
            continue;
        }
        let lead = "--".repeat(one.depth - top.depth);
        writeln!(out, "{lead} {path}")?;
        writeln!(out, "{lead}   children: {below}")?;
        writeln!(out, "{lead}   data: {bytes}")?;
    }
    if args.output == Form::Table {
        writeln!(out)?;
    }
    Ok(())
}
