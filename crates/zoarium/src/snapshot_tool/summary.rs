//! `zoarium snapshot summary`: the subtrees that take the most space in a snapshot.
//!
//! Source: SnapshotRecursiveSummary.

use std::io::{self, Write};
use std::path::PathBuf;

use clap::{Args, ValueEnum};
use serde_json::{Value, json};

use super::file;
use super::sizes::{self, Sized};
use crate::output::Output;
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
    let path = file(&args.path)?;
    let znodes = sizes::read(&path, args.limits.limits())?;
    let below = below(&znodes, &args.start);
    let Some(top) = below.first() else {
        let text = format!("{} does not exist in {}", args.start, path.display());
        return Err(ToolError::NotFound(text));
    };
    if args.output == Form::Ncdu {
        return Ok(ncdu(below, out)?);
    }
    let is_shown = |one: &&Sized| {
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

/// Returns a znode and its descendants, which are consecutive.
fn below<'a>(znodes: &'a [Sized], start: &str) -> &'a [Sized] {
    let start = match start.trim_end_matches('/') {
        "" => "/",
        start => start,
    };
    let Some(at) = znodes.iter().position(|one| &*one.path == start) else {
        return &[];
    };
    let rest = &znodes[at..];
    let count = usize::try_from(rest[0].below).unwrap_or(usize::MAX);
    &rest[..rest.len().min(count.saturating_add(1))]
}

/// Writes the format of ncdu: a directory is a list that contains itself and its children. Source:
/// the description of ncdu's export format, major version 1.
fn ncdu(znodes: &[Sized], out: &mut dyn Write) -> io::Result<()> {
    let head =
        json!({ "progname": "zoarium", "progver": env!("CARGO_PKG_VERSION"), "timestamp": 0 });
    write!(out, "[1,2,{head}")?;
    // Number of open lists.
    let mut open = 0;
    let top = znodes.first().map_or(0, |top| top.depth);
    for (at, one) in znodes.iter().enumerate() {
        let depth = one.depth - top;
        writeln!(out, "{},", "]".repeat(open - depth.min(open)))?;
        open = depth.min(open);
        let name = if at == 0 { &*one.path } else { one.name() };
        let size = one.own_bytes;
        let entry: Value = json!({ "name": name, "asize": size, "dsize": size });
        if at == 0 || one.below > 0 {
            write!(out, "[{entry}")?;
            open += 1;
        } else {
            write!(out, "{entry}")?;
        }
    }
    writeln!(out, "{}]", "]".repeat(open))
}

#[cfg(test)]
mod tests {
    use super::super::sizes::tree;
    use super::*;

    #[test]
    fn what_is_below_a_znode_stands_behind_it() {
        let znodes = tree(&[("/", 0), ("/a", 1), ("/a/b", 2), ("/a/b/c", 3), ("/d", 4)]);
        let paths = |start| -> Vec<_> {
            let found = below(&znodes, start).iter();
            found.map(|one| one.path.to_string()).collect()
        };
        assert_eq!(paths("/a"), ["/a", "/a/b", "/a/b/c"]);
        assert_eq!(paths("/d/"), ["/d"]);
        assert_eq!((paths("/").len(), paths("/nope").len()), (5, 0));
    }

    #[test]
    fn ncdu_gets_lists_in_lists() {
        let znodes = tree(&[("/", 1), ("/a", 2), ("/a/b", 3), ("/a/b/c", 4), ("/d", 5)]);
        let mut out = Vec::new();
        ncdu(&znodes, &mut out).unwrap();
        let read: Value = serde_json::from_slice(&out).unwrap();
        let entry = |name: &str, size: u64| json!({ "name": name, "asize": size, "dsize": size });
        let b = json!([entry("b", 3), entry("c", 4)]);
        let a = json!([entry("a", 2), b]);
        assert_eq!(read[3], json!([entry("/", 1), a, entry("d", 5)]));
        let mut out = Vec::new();
        ncdu(&znodes[4..], &mut out).unwrap();
        let read: Value = serde_json::from_slice(&out).unwrap();
        assert_eq!(read[3], json!([entry("/d", 5)]));
    }
}
