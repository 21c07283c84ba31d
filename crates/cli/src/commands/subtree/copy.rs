//! Command `cp`, which copies a znode or a subtree within an ensemble or between two ensembles.

use std::sync::Arc;

use bytes::Bytes;
use client::Create;
use proto::ErrorCode;
use serde_json::{Value, json};

use super::place::{ReadResult, Subtree};
use super::read_ahead::ReadAhead;
use super::search::{plain, report_progress};
use crate::commands::Command;
use crate::exit;
use crate::failure::Failure;
use crate::output::text::number;
use crate::parse::options::Arguments;
use crate::shell::Shell;

/// Number of znodes with each result.
#[derive(Debug, Default)]
struct CopyCounts {
    created: usize,
    replaced: usize,
    ephemerals: usize,
    gone: usize,
    unreadable: usize,
}

/// Result for one znode.
#[derive(Debug)]
enum CopyResult {
    /// The znode was created. Contains the length of its data in bytes.
    Created(usize),
    Replaced(usize),
    Ephemeral,
    Gone,
    Unreadable,
}

/// Copies a znode or a subtree. The exit code is 0 if everything except ephemerals was copied.
pub(crate) async fn cp(
    shell: &mut Shell,
    command: &Command,
    given: &Arguments,
) -> Result<(), Failure> {
    let [source, target] = given.words.as_slice() else {
        return Err(command.usage_error());
    };
    let [source, target] = Subtree::open_two(shell, [source, target], given).await?;
    let mut tally = CopyCounts::default();
    let copied = copy(shell, given, &source, &target, &mut tally).await;
    source.close().await;
    target.close().await;
    let text = tally.text();
    match copied {
        Ok(()) if tally.gone + tally.unreadable == 0 => {
            shell.report(tally.json(), &text);
            Ok(())
        }
        Ok(()) => Err(Failure::new(text).with_exit(match tally.unreadable {
            0 => exit::FAILED,
            _ => exit::DENIED,
        })),
        // After a failure, the user needs to know how many znodes were copied.
        Err(failure) if tally.created + tally.replaced > 0 => {
            Err(failure.with_note(&format!("Not finished: {text}")))
        }
        Err(failure) => Err(failure),
    }
}

async fn copy(
    shell: &mut Shell,
    given: &Arguments,
    source: &Arc<Subtree>,
    target: &Arc<Subtree>,
    tally: &mut CopyCounts,
) -> Result<(), Failure> {
    check(given, source, target).await?;
    // The source is listed first, so that a target below the source does not extend the copied
    // subtree, even if the ensemble is reached under another name.
    let mut levels = vec![vec![String::new()]];
    if given.has("r") {
        levels = list(shell, source, tally).await?;
    }
    let replaces = given.has("f");
    let copy_of = |path: &String| {
        let (source, target) = (Arc::clone(source), Arc::clone(target));
        let path = path.clone();
        async move { copy_one(&source, &target, &path, replaces).await }
    };
    let (mut read_ahead, mut failed, mut count) = (ReadAhead::default(), None, 0);
    // Levels are copied one at a time, so that a parent exists before its children.
    for level in levels {
        level.into_iter().for_each(|path| read_ahead.push(path));
        while let Some((path, done)) = read_ahead.next(copy_of).await? {
            match done {
                Ok(done) => {
                    read_ahead.note_data_len(done.bytes());
                    tally.note(shell, source, &path, &done);
                }
                // The results of pending requests must be counted before the end.
                Err(failure) => {
                    failed.get_or_insert(failure);
                    read_ahead.drop_unsent();
                }
            }
            count += 1;
            report_progress(shell, count);
        }
        if let Some(failure) = failed {
            return Err(failure);
        }
    }
    Ok(())
}

/// Refuses invalid copies before anything is written.
async fn check(given: &Arguments, source: &Subtree, target: &Subtree) -> Result<(), Failure> {
    let [from, to] = [source, target].map(|place| plain(&place.shown("")));
    let root = match source.read("", false).await? {
        ReadResult::Znode(root) => root,
        ReadResult::Nothing => return Err(Failure::of_code(ErrorCode::NoNode.code(), &from)),
        ReadResult::Unreadable => return Err(Failure::of_code(ErrorCode::NoAuth.code(), &from)),
    };
    if root.is_ephemeral() {
        return Err(Failure::new(format!(
            "{from} is ephemeral: it belongs to a session and cannot be copied"
        )));
    }
    if !root.names.is_empty() && !given.has("r") {
        return Err(Failure::new(format!(
            "{from} has children: use -r to copy them too"
        )));
    }
    if source.is_same(target) {
        return Err(Failure::new(format!("{from} and {to} are the same znode")));
    }
    if target.exists("").await? {
        return if given.has("f") {
            Ok(())
        } else {
            Err(Failure::new(format!(
                "Node already exists: {to} (-f replaces data and ACLs)"
            ))
            .with_exit(exit::CONFLICT))
        };
    }
    match target.missing_parent().await? {
        Some(parent) => Err(Failure::of_code(ErrorCode::NoNode.code(), &plain(&parent))),
        None => Ok(()),
    }
}

/// Returns the paths below the source level by level, starting with the source itself.
async fn list(
    shell: &mut Shell,
    source: &Arc<Subtree>,
    tally: &mut CopyCounts,
) -> Result<Vec<Vec<String>>, Failure> {
    let names_of = |path: &String| {
        let (source, path) = (Arc::clone(source), path.clone());
        async move { source.names(&path).await }
    };
    let mut levels: Vec<Vec<String>> = Vec::new();
    let mut read_ahead = ReadAhead::default();
    read_ahead.push(String::new());
    while let Some((path, names)) = read_ahead.next(names_of).await? {
        read_ahead.note_data_len(0);
        match names? {
            Ok(names) => {
                let below = names.iter().map(|name| format!("{path}/{name}"));
                // The ensemble's own znodes are omitted, because the target ensemble has its own.
                below
                    .filter(|path| !source.is_of_the_ensemble(path))
                    .for_each(|path| read_ahead.push(path));
                let depth = path.matches('/').count();
                if levels.len() <= depth {
                    levels.resize_with(depth + 1, Vec::new);
                }
                levels[depth].push(path);
            }
            Err(ReadResult::Unreadable) => {
                tally.note(shell, source, &path, &CopyResult::Unreadable);
            }
            Err(_) => tally.note(shell, source, &path, &CopyResult::Gone),
        }
    }
    Ok(levels)
}

async fn copy_one(
    source: &Subtree,
    target: &Subtree,
    path: &str,
    replaces: bool,
) -> Result<CopyResult, Failure> {
    let znode = match source.read(path, true).await? {
        ReadResult::Znode(znode) => znode,
        ReadResult::Nothing => return Ok(CopyResult::Gone),
        ReadResult::Unreadable => return Ok(CopyResult::Unreadable),
    };
    if znode.is_ephemeral() {
        return Ok(CopyResult::Ephemeral);
    }
    let bytes = znode.data.as_ref().map_or(0, Bytes::len);
    let create = Create::persistent().with_acl(znode.acl.clone());
    if target.create(path, znode.data.clone(), &create).await? {
        return Ok(CopyResult::Created(bytes));
    }
    if !replaces {
        let shown = plain(&target.shown(path));
        return Err(Failure::of_code(ErrorCode::NodeExists.code(), &shown));
    }
    target.replace(path, znode.data, znode.acl).await?;
    Ok(CopyResult::Replaced(bytes))
}

impl CopyResult {
    /// Returns the number of copied data bytes.
    fn bytes(&self) -> usize {
        match self {
            Self::Created(bytes) | Self::Replaced(bytes) => *bytes,
            Self::Ephemeral | Self::Gone | Self::Unreadable => 0,
        }
    }
}

impl CopyCounts {
    /// Counts a znode, and reports it if it could not be read.
    fn note(&mut self, shell: &mut Shell, source: &Subtree, path: &str, done: &CopyResult) {
        let shown = || plain(&source.shown(path));
        match done {
            CopyResult::Created(_) => self.created += 1,
            CopyResult::Replaced(_) => self.replaced += 1,
            CopyResult::Ephemeral => self.ephemerals += 1,
            CopyResult::Gone => {
                self.gone += 1;
                shell.print_error(&format!("Node was deleted during the copy: {}", shown()));
            }
            CopyResult::Unreadable => {
                self.unreadable += 1;
                shell.print_error(&format!("Insufficient permission : {}", shown()));
            }
        }
    }

    fn json(&self) -> Value {
        json!({
            "created": self.created, "replaced": self.replaced, "ephemerals": self.ephemerals,
        })
    }

    fn text(&self) -> String {
        let created = number(self.created, "znode");
        let mut text = format!("{created} created, {} replaced", self.replaced);
        if self.ephemerals > 0 {
            let ephemerals = number(self.ephemerals, "ephemeral");
            text.push_str(&format!(", {ephemerals} not copied"));
        }
        for (count, what) in [
            (self.gone, "deleted during the copy"),
            (self.unreadable, "not readable"),
        ] {
            if count > 0 {
                text.push_str(&format!(", {count} {what}"));
            }
        }
        text
    }
}
