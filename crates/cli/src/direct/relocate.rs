//! Commands `rm` and `mv`.

use client::{Create, MultiOp};
use proto::ErrorCode;
use serde_json::json;

use super::znode::{moved, parent};
use crate::commands::subtree::descent::subtree;
use crate::commands::subtree::search::is_ephemeral;
use crate::commands::subtree::walk::{Walk, WalkedProperties, WalkedZnode};
use crate::commands::write::BATCH;
use crate::exit;
use crate::failure::Failure;
use crate::output::text::number;
use crate::shell::Shell;

/// Assumed size of an operation on a znode, in addition to its path, data and ACL, in bytes.
const ENTRY_BYTES: usize = 64;

/// Maximum size of a transaction of `mv`, in bytes. A server with default settings accepts a
/// transaction of this size.
const MOVE_BYTES_MAX: usize = client::limits::REQUEST_BYTES_MAX - 4096;

/// Deletes a znode, or a subtree starting with its leaves.
pub(super) async fn remove(
    shell: &mut Shell,
    path: &str,
    version: i32,
    is_recursive: bool,
    is_forced: bool,
) -> Result<(), Failure> {
    let removed = if is_recursive {
        remove_all(shell, path).await
    } else {
        remove_one(shell, path, version).await
    };
    let count = match removed {
        Err(failure) if is_forced && failure.exit == exit::NOT_FOUND => 0,
        removed => removed?,
    };
    if shell.start.format.is_structured() {
        shell.show(|| json!({ "path": path, "deleted": count }), String::new);
    }
    Ok(())
}

async fn remove_one(shell: &mut Shell, path: &str, version: i32) -> Result<usize, Failure> {
    let (client, outside) = shell.client_for(path).await?;
    match client.delete(&outside, version).await {
        Ok(()) => Ok(1),
        Err(error) if error.code() == Some(ErrorCode::NotEmpty) => Err(Failure {
            plain: Some(format!("{path}: the znode has children (-r deletes them)")),
            ..Failure::of(&error, path)
        }),
        Err(error) => Err(Failure::of(&error, path)),
    }
}

async fn remove_all(shell: &mut Shell, root: &str) -> Result<usize, Failure> {
    if root == "/" {
        let text = "/ cannot be deleted; name the znodes below it";
        return Err(Failure::new(text).with_exit(exit::USAGE));
    }
    let all = subtree(shell, root).await?;
    let client = shell.client(root).await?;
    let mut count = 0;
    // The list contains each znode before its children.
    let from_below: Vec<&String> = all.iter().rev().collect();
    for paths in from_below.chunks(BATCH) {
        let delete = |path: &&String| MultiOp::delete(&shell.with_chroot(path), -1);
        let ops: Vec<MultiOp> = paths.iter().map(delete).collect();
        match client.multi(&ops).await {
            Ok(_) => count += paths.len(),
            Err(error) => {
                let path = match error {
                    client::Error::Multi { index, .. } => paths.get(index).copied(),
                    _ => None,
                };
                let failure = Failure::of(&error, path.map_or(root, String::as_str));
                return Err(
                    failure.with_note(&format!("Not finished: {} deleted", number(count, "znode")))
                );
            }
        }
    }
    Ok(count)
}

/// Moves a subtree in one transaction.
pub(super) async fn relocate(shell: &mut Shell, from: &str, to: &str) -> Result<(), Failure> {
    let refused = |text: String| Failure::new(text).with_exit(exit::USAGE);
    let is_below = |path: &str, root: &str| {
        path == root || (path.starts_with(root) && path.as_bytes().get(root.len()) == Some(&b'/'))
    };
    if from == "/" || is_below(from, "/zookeeper") || is_below(to, "/zookeeper") {
        return Err(refused(format!(
            "{from} cannot be moved to {to}: / and /zookeeper cannot be moved, and nothing can be moved into /zookeeper"
        )));
    }
    if is_below(to, from) {
        return Err(refused(format!(
            "{from} cannot be moved into itself ({to})"
        )));
    }
    let seen = read(shell, from).await?;
    let client = shell.client(from).await?;
    let mut ops = Vec::with_capacity(seen.len() * 2);
    for znode in &seen {
        let create = Create::persistent().with_acl(znode.acl.clone());
        let target = shell.with_chroot(&moved(&znode.path, from, to));
        ops.push(match &znode.data {
            Some(data) => MultiOp::create(&target, data.clone(), &create),
            None => MultiOp::create_without_data(&target, &create),
        });
    }
    // The versions make the transaction fail if another client has changed the data of a znode
    // since the read.
    for znode in seen.iter().rev() {
        ops.push(MultiOp::delete(
            &shell.with_chroot(&znode.path),
            znode.stat.version,
        ));
    }
    if let Err(error) = client.multi(&ops).await {
        return Err(explained(&error, &seen, from, to));
    }
    let count = seen.len();
    shell.report(
        json!({ "from": from, "to": to, "moved": count }),
        &format!("{} moved", number(count, "znode")),
    );
    Ok(())
}

/// Reads all znodes of the subtree.
async fn read(shell: &mut Shell, from: &str) -> Result<Vec<WalkedZnode>, Failure> {
    let mut walk = Walk::new(from, usize::MAX, WalkedProperties::All);
    let mut all = Vec::new();
    let mut bytes = 0;
    while let Some(seen) = walk.next(shell).await? {
        if is_ephemeral(&seen.stat) {
            return Err(Failure::new(format!(
                "{}: an ephemeral znode belongs to its session and cannot be moved",
                seen.path
            )));
        }
        let acl: usize = seen.acl.iter().map(|acl| acl.id.id.len() + 32).sum();
        let data = seen.data.as_ref().map_or(0, |data| data.len());
        bytes += 2 * (seen.path.len() + ENTRY_BYTES) + data + acl;
        if bytes > MOVE_BYTES_MAX {
            return Err(Failure::new(format!(
                "{from} is larger than one transaction: copy it with `zoarium cp -r`, then delete it with `zoarium rm -r`"
            )));
        }
        all.push(seen);
    }
    Ok(all)
}

/// Returns the failure of a transaction, with the path of the failed operation.
fn explained(error: &client::Error, seen: &[WalkedZnode], from: &str, to: &str) -> Failure {
    let client::Error::Multi { index, .. } = error else {
        return Failure::of(error, from);
    };
    let source = |index: usize| seen.get(index).map_or(from, |znode| znode.path.as_str());
    if *index >= seen.len() {
        let path = source((2 * seen.len()).saturating_sub(index + 1));
        return Failure::of(error, path);
    }
    let target = moved(source(*index), from, to);
    match error.code() {
        Some(ErrorCode::NoNode) => Failure::of(error, parent(&target)),
        _ => Failure::of(error, &target),
    }
}
