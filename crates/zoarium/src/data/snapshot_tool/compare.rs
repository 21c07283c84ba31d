//! `zoarium snapshot compare`: the differences between two snapshots in znodes and bytes.
//!
//! Source: SnapshotComparer.

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::Instant;

use clap::Args;
use datadir::snapshot::{self, Compared, Subtree};
use serde_json::json;
use storage::RealDisk;

use crate::tool::output::Output;
use crate::tool::{LimitArgs, ToolError};

/// Compares two snapshots, and prints for each level which parts of the tree have grown or shrunk
///
/// The command compares data by length, like Apache ZooKeeper's SnapshotComparer (zkSnapshotComparer.sh).
#[derive(Debug, Args)]
pub(crate) struct CompareArgs {
    /// First snapshot, plain or compressed; for a data directory, its newest snapshot is used
    left: PathBuf,
    /// Second snapshot
    right: PathBuf,
    /// Prints a znode if the data of its subtree differs by more than this number of bytes
    #[arg(
        short,
        long,
        default_value_t = 0,
        value_name = "BYTES",
        allow_negative_numbers = true
    )]
    bytes: i64,
    /// Prints a znode if its subtree differs by more than this number of znodes
    #[arg(
        short,
        long,
        default_value_t = 0,
        value_name = "ZNODES",
        allow_negative_numbers = true
    )]
    nodes: i64,
    /// Form of the output
    #[arg(long, value_enum, default_value_t = Output::Table)]
    output: Output,
    #[command(flatten)]
    limits: LimitArgs,
}

fn is_beyond(args: &CompareArgs, found: &Compared<'_>) -> bool {
    let (bytes, nodes) = found.difference();
    bytes.abs() > args.bytes || nodes.abs() > args.nodes
}

fn print(found: &Compared<'_>, out: &mut dyn Write) -> io::Result<()> {
    let (bytes, nodes) = found.difference();
    let path = &found.one().path;
    match found {
        Compared::Both(..) => writeln!(
            out,
            "Node {path} found in both trees. Delta: {bytes} bytes, {nodes} descendants"
        ),
        Compared::Left(_) | Compared::Right(_) => writeln!(
            out,
            "Node {path} found only in {} tree. Descendant size: {bytes}. Descendant count: {nodes}",
            found.side()
        ),
    }
}

/// Prints the differences.
pub(super) fn write(args: &CompareArgs, out: &mut dyn Write) -> Result<(), ToolError> {
    let left = read(args, &args.left, out)?;
    let right = read(args, &args.right, out)?;
    let mut layers: BTreeMap<usize, Vec<Compared<'_>>> = BTreeMap::new();
    for found in snapshot::compare(&left, &right).filter(|found| is_beyond(args, found)) {
        layers.entry(found.one().depth).or_default().push(found);
    }
    if args.output != Output::Table {
        for found in layers.values().flatten() {
            let (bytes, nodes) = found.difference();
            let path = &found.one().path;
            let line =
                json!({ "path": path, "in": found.side(), "bytes": bytes, "descendants": nodes });
            args.output.write_line(&line, out)?;
        }
        return Ok(());
    }
    writeln!(
        out,
        "Printing analysis for nodes difference larger than {} bytes or node count difference larger than {}.",
        args.bytes, args.nodes
    )?;
    let deepest = [&left, &right].map(|tree| levels(tree)).into_iter().max();
    for depth in 0..deepest.unwrap_or(0) {
        writeln!(out, "Analysis for depth {depth}")?;
        for found in layers.get(&depth).into_iter().flatten() {
            print(found, out)?;
        }
    }
    writeln!(out, "All layers compared.")?;
    Ok(())
}

/// Reads a snapshot. If the output is a table, also prints the numbers of znodes and bytes.
fn read(args: &CompareArgs, path: &Path, out: &mut dyn Write) -> Result<Vec<Subtree>, ToolError> {
    let path = snapshot::newest_of(&RealDisk, path)?;
    let begun = Instant::now();
    let tree = snapshot::subtrees(&RealDisk, &path, args.limits.limits())?;
    if args.output != Output::Table {
        return Ok(tree);
    }
    let (path, seconds) = (path.display(), begun.elapsed().as_secs_f64());
    writeln!(
        out,
        "Deserialized snapshot in {path} in {seconds:.6} seconds"
    )?;
    writeln!(out, "Node count: {}", tree.len())?;
    let root = tree.first();
    writeln!(out, "Total size: {}", root.map_or(0, |root| root.bytes))?;
    let levels = levels(&tree);
    writeln!(out, "Max depth: {levels}")?;
    for depth in 0..levels {
        let count = tree.iter().filter(|one| one.depth == depth).count();
        writeln!(out, "Count of nodes at depth {depth}: {count}")?;
    }
    writeln!(out)?;
    Ok(tree)
}

fn levels(tree: &[Subtree]) -> usize {
    tree.iter().map(|one| one.depth + 1).max().unwrap_or(0)
}
