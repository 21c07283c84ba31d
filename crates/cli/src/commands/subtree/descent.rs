//! Paths of a subtree, without data.

use std::collections::VecDeque;

use client::Error;

use crate::commands::read::children;
use crate::exit;
use crate::failure::Failure;
use crate::output::text::number;
use crate::parse::path;
use crate::shell::Shell;

/// Walk that returns a znode, its children in the order of their names, and then the descendants of
/// each child.
///
/// The children of a znode are listed before the caller changes the znode, because its new ACL may
/// deny the listing. If the old ACL denies the listing, the children are listed after the change.
///
/// Source: ZKUtil.visitSubTreeDFS.
pub(crate) struct Descent {
    root: String,
    is_recursive: bool,
    is_at_root: bool,
    /// Znodes to return next, which have the same parent.
    siblings: VecDeque<String>,
    /// Parents that were returned together, with the names of their children. The names are `None`
    /// if they could not be listed yet.
    returned: Vec<(String, Option<Vec<String>>)>,
    /// Parents whose children follow later. The next parent is at the end.
    pending: Vec<(String, Option<Vec<String>>)>,
    /// Number of skipped znodes that had not been deleted.
    skipped: usize,
    /// Exit code of the first of them.
    exit: u8,
}

impl Descent {
    /// Starts at `root`. Without `is_recursive`, only the root is returned.
    pub(crate) fn new(root: &str, is_recursive: bool) -> Self {
        Self {
            root: root.to_owned(),
            is_recursive,
            is_at_root: true,
            siblings: VecDeque::from([root.to_owned()]),
            returned: Vec::new(),
            pending: Vec::new(),
            skipped: 0,
            exit: exit::DONE,
        }
    }

    /// Returns the next path. Skips znodes that another client has deleted, except the root.
    ///
    /// # Errors
    /// If the root does not exist, the children of a returned znode cannot be listed, or the
    /// connection is lost.
    pub(crate) async fn next(&mut self, shell: &mut Shell) -> Result<Option<String>, Failure> {
        loop {
            let Some(path) = self.siblings.pop_front() else {
                self.pending.extend(self.returned.drain(..).rev());
                let Some((parent, names)) = self.pending.pop() else {
                    return Ok(None);
                };
                let names = match names {
                    Some(names) => names,
                    None => match sorted_children(shell, &parent).await {
                        Err(failure) if failure.is_no_node() => Vec::new(),
                        listed => listed?,
                    },
                };
                let paths = names.iter().map(|name| path::child(&parent, name));
                self.siblings.extend(paths);
                continue;
            };
            let is_root = std::mem::take(&mut self.is_at_root);
            if !self.is_recursive {
                return Ok(Some(path));
            }
            let names = match sorted_children(shell, &path).await {
                Ok(names) => Some(names),
                Err(failure) if failure.is_no_node() && !is_root => continue,
                Err(failure) if failure.exit == exit::DENIED => None,
                Err(failure) => return Err(failure),
            };
            self.returned.push((path.clone(), names));
            return Ok(Some(path));
        }
    }

    /// Skips a returned znode because the caller's request for it has failed. Reports the error,
    /// unless another client has deleted the znode.
    ///
    /// # Errors
    /// If the descent is not recursive, the root does not exist, or the connection is lost.
    pub(crate) fn skip(
        &mut self,
        shell: &mut Shell,
        error: &Error,
        path: &str,
    ) -> Result<(), Failure> {
        let failure = Failure::of(error, path);
        let is_deleted = failure.is_no_node();
        let is_root_deleted = is_deleted && path == self.root;
        if !self.is_recursive || is_root_deleted || error.code().is_none() {
            return Err(failure);
        }
        if is_deleted {
            return Ok(());
        }
        shell.print_error(&failure.text);
        if self.skipped == 0 {
            self.exit = failure.exit;
        }
        self.skipped += 1;
        Ok(())
    }

    /// Ends the descent. `done` describes the caller's operation in the error message.
    ///
    /// # Errors
    /// If a znode that exists was skipped.
    pub(crate) fn finish(self, done: &str) -> Result<(), Failure> {
        if self.skipped == 0 {
            return Ok(());
        }
        let text = format!("{} not {done}", number(self.skipped, "znode"));
        Err(Failure::new(text).with_exit(self.exit))
    }
}

async fn sorted_children(shell: &mut Shell, path: &str) -> Result<Vec<String>, Failure> {
    let (mut names, _) = children(shell, path, false).await?;
    names.sort_unstable();
    Ok(names)
}

/// Returns the znode and all its descendants, each znode before its children.
pub(crate) async fn subtree(shell: &mut Shell, root: &str) -> Result<Vec<String>, Failure> {
    let mut descent = Descent::new(root, true);
    let mut all = Vec::new();
    while let Some(path) = descent.next(shell).await? {
        all.push(path);
    }
    Ok(all)
}
