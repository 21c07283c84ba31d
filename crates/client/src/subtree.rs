//! Creation and deletion of several znodes.

use jute::Str;
use proto::Acl;
use tokio::task::JoinSet;

use crate::client::Client;
use crate::create::Create;
use crate::error::{Error, Result};
use crate::multi::MultiOp;
use crate::path::PathFault;
use crate::protected::below;

/// Maximum number of lists of children that are read concurrently.
const READS_MAX: usize = 64;
/// Maximum number of znodes that one transaction deletes.
const DELETES_MAX: usize = 128;
/// Maximum total length of the paths in one transaction of deletions, in bytes. It is far below the
/// size limit of a request.
const DELETE_BYTES_MAX: usize = 256 << 10;
/// Number of attempts while other clients change the same znodes.
const ATTEMPTS: usize = 16;

impl Client {
    /// Creates a znode and its missing ancestors as persistent znodes with null data and all
    /// permissions for `world:anyone`. Existing znodes, including those from a concurrent call, are
    /// not an error. With [`Options::chroot`](crate::Options::chroot), the ancestors include the
    /// root directory.
    ///
    /// If the future fails or is dropped, some of the ancestors may exist. The call can be
    /// repeated.
    ///
    /// ```no_run
    /// # async fn example(client: &zoarium_client::Client) -> zoarium_client::Result<()> {
    /// client.ensure_path("/app/locks").await
    /// # }
    /// ```
    ///
    /// # Errors
    /// If the server refuses a creation, or the connection is lost. `NoNode` if other clients
    /// repeatedly delete an ancestor.
    pub async fn ensure_path(&self, path: &str) -> Result<()> {
        self.ensure_path_with_acl(path, vec![Acl::open()]).await
    }

    /// Works like [`ensure_path`](Self::ensure_path), with this ACL for each new znode.
    ///
    /// # Errors
    /// See [`ensure_path`](Self::ensure_path).
    pub async fn ensure_path_with_acl(&self, path: &str, acl: Vec<Acl>) -> Result<()> {
        // This read comes first, because the client may lack the permission to create znodes.
        if self.exists(path).await?.is_some() {
            return Ok(());
        }
        let create = Create::persistent().with_acl(acl);
        let whole = self.outside(path)?;
        let slashes = whole.match_indices('/').map(|(at, _)| at).skip(1);
        let ends: Vec<usize> = slashes.chain([whole.len()]).collect();
        let last = ends.len() - 1;
        let mut depth = last;
        let mut attempts = ends.len() + ATTEMPTS;
        loop {
            // The deepest znode is tried first, because the client may not be allowed to create its
            // ancestors.
            let path = Str::from(&whole[..ends[depth]]);
            match self.create_outside(path, None, &create, None).await {
                Err(error) if error.is_no_node() && depth > 0 && attempts > 0 => {
                    attempts -= 1;
                    depth -= 1;
                }
                Err(error) if !error.is_node_exists() => return Err(error),
                _ if depth == last => return Ok(()),
                _ => depth += 1,
            }
        }
    }

    /// Deletes a znode and all its descendants. A missing znode is not an error.
    ///
    /// The client deletes the znodes in transactions of up to 128, descendants first. Other clients
    /// may see a part of the subtree, and may create or delete znodes in it meanwhile. New znodes
    /// are deleted, too. The paths of the whole subtree are kept in memory. If the future fails or
    /// is dropped, some of the znodes are deleted. The call can be repeated.
    ///
    /// ```no_run
    /// # async fn example(client: &zoarium_client::Client) -> zoarium_client::Result<()> {
    /// client.delete_all("/app/locks").await
    /// # }
    /// ```
    ///
    /// # Errors
    /// If the server refuses a read or a deletion, or the connection is lost. `NotEmpty` if other
    /// clients create znodes faster than this client deletes them. [`Error::Path`] for the root.
    pub async fn delete_all(&self, path: &str) -> Result<()> {
        if path == "/" {
            return Err(Error::Path {
                path: path.to_owned(),
                reason: PathFault::Root,
            });
        }
        let mut attempts = ATTEMPTS;
        loop {
            let paths = self.subtree(path).await?;
            let not_empty = self.delete_from_below(&paths).await?;
            attempts -= 1;
            match not_empty {
                None => return Ok(()),
                Some(error) if attempts == 0 => return Err(error),
                Some(_) => {}
            }
        }
    }

    /// Returns the paths of a subtree, each before the paths of its children.
    async fn subtree(&self, root: &str) -> Result<Vec<Str>> {
        let mut found = vec![Str::from(root)];
        let mut next = 0;
        while next < found.len() {
            let end = found.len().min(next + READS_MAX);
            let mut reads = JoinSet::new();
            for path in found[next..end].iter().cloned() {
                let client = self.clone();
                reads.spawn(async move {
                    let names = client.get_children(&path).await;
                    (path, names)
                });
            }
            while let Some(read) = reads.join_next().await {
                // The join fails only if the read panics, which is a bug, or if the runtime shuts
                // down.
                let Ok((path, names)) = read else { continue };
                match names {
                    Ok(names) => found.extend(names.iter().map(|name| below(&path, name))),
                    Err(error) if error.is_no_node() => {}
                    Err(error) => return Err(error),
                }
            }
            next = end;
        }
        Ok(found)
    }

    /// Deletes znodes, the last path first. Returns the first error for a znode with new children,
    /// or `None`.
    async fn delete_from_below(&self, paths: &[Str]) -> Result<Option<Error>> {
        let mut not_empty = None;
        let mut rest = paths;
        while !rest.is_empty() {
            let (earlier, batch) = rest.split_at(rest.len() - batch_len(rest));
            rest = earlier;
            let deletion = |path: &Str| MultiOp::delete(path, -1);
            let mut ops: Vec<MultiOp> = batch.iter().rev().map(deletion).collect();
            while !ops.is_empty() {
                let Err(error) = self.multi(&ops).await else {
                    break;
                };
                match error {
                    // Another client has deleted this znode, or has created a child of it.
                    Error::Multi { index, .. }
                        if index < ops.len() && (error.is_no_node() || error.is_not_empty()) =>
                    {
                        drop(ops.remove(index));
                        not_empty = not_empty.or_else(|| error.is_not_empty().then_some(error));
                    }
                    error => return Err(error),
                }
            }
        }
        Ok(not_empty)
    }
}

/// Returns the number of paths at the end of the list that one transaction deletes.
fn batch_len(paths: &[Str]) -> usize {
    let mut bytes = 0;
    let last = paths.iter().rev().take(DELETES_MAX);
    let fitting = last.take_while(|path| {
        bytes += path.len();
        bytes <= DELETE_BYTES_MAX
    });
    fitting.count().max(1)
}
