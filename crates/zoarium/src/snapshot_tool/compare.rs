//! `zoarium snapshot compare`: the differences between two snapshots in znodes and bytes.
//!
//! Source: SnapshotComparer.

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::Instant;

use clap::Args;
use serde_json::json;

use super::file;
use super::sizes::{self, Sized, order};
use crate::output::Output;
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

/// A znode of one tree, or of both.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Found<'a> {
    Left(&'a Sized),
    Right(&'a Sized),
    Both(&'a Sized, &'a Sized),
}

impl Found<'_> {
    fn one(&self) -> &Sized {
        match self {
            Self::Left(one) | Self::Right(one) | Self::Both(one, _) => one,
        }
    }

    /// Returns the differences in bytes and znodes, right minus left.
    fn difference(&self) -> (i64, i64) {
        match self {
            Self::Left(one) | Self::Right(one) => (signed(one.bytes), signed(one.below)),
            Self::Both(left, right) => (
                signed(right.bytes) - signed(left.bytes),
                signed(right.below) - signed(left.below),
            ),
        }
    }

    fn is_beyond(&self, args: &CompareArgs) -> bool {
        let (bytes, nodes) = self.difference();
        bytes.abs() > args.bytes || nodes.abs() > args.nodes
    }

    fn print(&self, out: &mut dyn Write) -> io::Result<()> {
        let (bytes, nodes) = self.difference();
        let path = &self.one().path;
        match self {
            Self::Both(..) => writeln!(
                out,
                "Node {path} found in both trees. Delta: {bytes} bytes, {nodes} descendants"
            ),
            Self::Left(_) | Self::Right(_) => writeln!(
                out,
                "Node {path} found only in {} tree. Descendant size: {bytes}. Descendant count: {nodes}",
                self.side()
            ),
        }
    }

    fn side(&self) -> &'static str {
        match self {
            Self::Left(_) => "left",
            Self::Right(_) => "right",
            Self::Both(..) => "both",
        }
    }
}

fn signed(count: u64) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

/// Prints the differences.
pub(super) fn write(args: &CompareArgs, out: &mut dyn Write) -> Result<(), ToolError> {
    let left = read(args, &args.left, out)?;
    let right = read(args, &args.right, out)?;
    let mut layers: BTreeMap<usize, Vec<Found<'_>>> = BTreeMap::new();
    for found in both(&left, &right).filter(|found| found.is_beyond(args)) {
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
            found.print(out)?;
        }
    }
    writeln!(out, "All layers compared.")?;
    Ok(())
}

/// Reads a snapshot, and prints its size.
fn read(args: &CompareArgs, path: &Path, out: &mut dyn Write) -> Result<Vec<Sized>, ToolError> {
    let path = file(path)?;
    let begun = Instant::now();
    let tree = sizes::read(&path, args.limits.limits())?;
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

fn levels(tree: &[Sized]) -> usize {
    tree.iter().map(|one| one.depth + 1).max().unwrap_or(0)
}

/// Returns the znodes of two trees, each once.
fn both<'a>(left: &'a [Sized], right: &'a [Sized]) -> impl Iterator<Item = Found<'a>> {
    let (mut left, mut right) = (left.iter().peekable(), right.iter().peekable());
    std::iter::from_fn(move || {
        let which = match (left.peek(), right.peek()) {
            (Some(one), Some(other)) => order(&one.path, &other.path),
            (Some(_), None) => Ordering::Less,
            (None, Some(_)) => Ordering::Greater,
            (None, None) => return None,
        };
        match which {
            Ordering::Less => left.next().map(Found::Left),
            Ordering::Greater => right.next().map(Found::Right),
            Ordering::Equal => left
                .next()
                .zip(right.next())
                .map(|(one, other)| Found::Both(one, other)),
        }
    })
}

#[cfg(test)]
mod tests {
    use super::super::sizes::tree;
    use super::*;

    #[test]
    fn each_znode_is_met_once_and_differs_by_what_is_below_it() {
        let left = tree(&[("/", 0), ("/a", 3), ("/a/x", 1), ("/b", 2)]);
        let right = tree(&[("/", 0), ("/a", 3), ("/a/x", 4), ("/a/y", 1), ("/c", 9)]);
        let found: Vec<_> = both(&left, &right)
            .map(|found| {
                (
                    found.one().path.to_string(),
                    found.side(),
                    found.difference(),
                )
            })
            .collect();
        let wanted = [
            ("/", "both", (11, 1)),
            ("/a", "both", (4, 1)),
            ("/a/x", "both", (3, 0)),
            ("/a/y", "right", (1, 0)),
            ("/b", "left", (2, 0)),
            ("/c", "right", (9, 0)),
        ];
        let wanted = wanted.map(|(path, side, by)| (path.to_owned(), side, by));
        assert_eq!(found, wanted);
    }
}
