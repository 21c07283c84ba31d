//! Subtree of this ensemble or of another ensemble, for the commands with two subtrees (`cp` and
//! `diff`).

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use client::{Client, Create, Error};
use proto::{Acl, ErrorCode, Stat};

use super::search::is_ephemeral;
use super::walk::is_of_the_ensemble;
use crate::exit;
use crate::failure::Failure;
use crate::parse::options::Arguments;
use crate::parse::path;
use crate::shell::Shell;

/// Time limit for ending a session with another ensemble. Without an answer, the session ends at
/// its timeout.
const CLOSING_MAX: Duration = Duration::from_secs(1);

/// Subtree of an ensemble.
#[derive(Debug)]
pub(crate) struct Subtree {
    client: Client,
    /// Path as the server knows it.
    root: String,
    /// Path as the user entered it.
    pub(crate) shown: String,
    /// Whether the session belongs to the shell.
    pub(crate) is_own: bool,
}

/// Znode with the requested properties.
#[derive(Debug)]
pub(crate) struct Znode {
    pub(crate) data: Option<Bytes>,
    pub(crate) stat: Stat,
    pub(crate) names: Vec<String>,
    /// ACL of the znode. Empty unless requested.
    pub(crate) acl: Vec<Acl>,
}

/// Result of a read at a path.
#[derive(Debug)]
pub(crate) enum ReadResult {
    Znode(Box<Znode>),
    Nothing,
    /// The session lacks the permission to read the znode.
    Unreadable,
}

impl Znode {
    /// Returns whether the znode belongs to a session.
    pub(crate) fn is_ephemeral(&self) -> bool {
        is_ephemeral(&self.stat)
    }
}

impl ReadResult {
    /// Returns the number of data bytes of the znode.
    pub(crate) fn bytes(&self) -> usize {
        let data = match self {
            Self::Znode(znode) => znode.data.as_ref(),
            Self::Nothing | Self::Unreadable => None,
        };
        data.map_or(0, Bytes::len)
    }
}

impl Subtree {
    /// Opens `/path` in the shell's session, or `host:port[,...]/path` of another ensemble. The
    /// other ensemble receives the identity from `-auth scheme:auth`, but not the shell's
    /// identities, because a server sees the credentials that it receives.
    ///
    /// # Errors
    /// If the word is invalid, the connection fails, or the identity is refused.
    async fn open(shell: &mut Shell, word: &str, given: &Arguments) -> Result<Arc<Self>, Failure> {
        if word.starts_with('/') {
            path::validate(word)?;
            let (client, root) = shell.client_for(word).await?;
            return Ok(Arc::new(Self {
                client,
                root,
                shown: word.to_owned(),
                is_own: true,
            }));
        }
        if !word.contains('/') {
            return Err(Failure::new(format!(
                "{word} is not a path, and not HOST:PORT/PATH of another ensemble"
            ))
            .with_exit(exit::USAGE));
        }
        let (options, inside) = shell.start.options(word)?;
        let root = match inside.with_chroot("/") {
            root if root.is_empty() => "/".to_owned(),
            root => root,
        };
        let shown = word.trim_end_matches('/').to_owned();
        let client = Client::connect(options)
            .await
            .map_err(|error| Failure::of(&error, word))?;
        if let Some(identity) = given.value("auth") {
            let form = || Failure::new("-auth needs the form scheme:auth").with_exit(exit::USAGE);
            let (scheme, auth) = identity.split_once(':').ok_or_else(form)?;
            let added = client.add_auth(scheme, auth.to_owned()).await;
            added.map_err(|error| Failure::of(&error, word))?;
        }
        Ok(Arc::new(Self {
            client,
            root,
            shown,
            is_own: false,
        }))
    }

    /// Opens two subtrees.
    ///
    /// # Errors
    /// If [`Subtree::open`] fails for one of them.
    pub(crate) async fn open_two(
        shell: &mut Shell,
        words: [&str; 2],
        given: &Arguments,
    ) -> Result<[Arc<Self>; 2], Failure> {
        let first = Self::open(shell, words[0], given).await?;
        match Self::open(shell, words[1], given).await {
            Ok(second) => Ok([first, second]),
            Err(failure) => {
                first.close().await;
                Err(failure)
            }
        }
    }

    /// Ends the session, unless it belongs to the shell.
    pub(crate) async fn close(&self) {
        if !self.is_own {
            let _ = tokio::time::timeout(CLOSING_MAX, self.client.close()).await;
        }
    }

    /// Returns a path below the root as the server knows it. `below` is empty for the root.
    fn with_chroot(&self, below: &str) -> String {
        join(&self.root, below)
    }

    /// Returns a path below the root as the user knows it.
    pub(crate) fn shown(&self, below: &str) -> String {
        join(&self.shown, below)
    }

    /// Returns whether the path belongs to the ensemble's own znodes.
    pub(crate) fn is_of_the_ensemble(&self, below: &str) -> bool {
        is_of_the_ensemble(&self.with_chroot(below))
    }

    fn fail(&self, error: &Error, below: &str) -> Failure {
        Failure::of(error, &self.shown(below))
    }

    /// Converts a missing znode or permission into a [`ReadResult`], and other errors into
    /// failures.
    fn judge<T>(
        &self,
        answer: client::Result<T>,
        below: &str,
    ) -> Result<Result<T, ReadResult>, Failure> {
        match answer {
            Ok(found) => Ok(Ok(found)),
            Err(error) => match error.code() {
                Some(ErrorCode::NoNode) => Ok(Err(ReadResult::Nothing)),
                Some(ErrorCode::NoAuth) => Ok(Err(ReadResult::Unreadable)),
                _ => Err(self.fail(&error, below)),
            },
        }
    }

    /// Returns the data, the Stat, the names of the children and, if requested, the ACL.
    ///
    /// # Errors
    /// If there is no answer, or the server returns an error other than NoNode and NoAuth.
    pub(crate) async fn read(&self, below: &str, with_acl: bool) -> Result<ReadResult, Failure> {
        let outside = self.with_chroot(below);
        let (data, stat) = match self.judge(self.client.get_data(&outside).await, below)? {
            Ok(found) => found,
            Err(found) => return Ok(found),
        };
        let names = match stat.num_children {
            0 => Vec::new(),
            _ => match self.names(below).await? {
                Ok(names) => names,
                Err(found) => return Ok(found),
            },
        };
        let acl = if with_acl {
            match self.judge(self.client.get_acl(&outside).await, below)? {
                Ok((acl, _)) => acl,
                Err(found) => return Ok(found),
            }
        } else {
            Vec::new()
        };
        Ok(ReadResult::Znode(Box::new(Znode {
            data,
            stat,
            names,
            acl,
        })))
    }

    /// Returns the sorted names of the children, or the reason why they are not available.
    ///
    /// # Errors
    /// If [`Subtree::read`] would fail.
    pub(crate) async fn names(
        &self,
        below: &str,
    ) -> Result<Result<Vec<String>, ReadResult>, Failure> {
        let answer = self.client.get_children2(&self.with_chroot(below)).await;
        Ok(self.judge(answer, below)?.map(|(names, _)| {
            let mut names: Vec<String> = names.iter().map(|name| name.to_string()).collect();
            names.sort_unstable();
            names
        }))
    }

    /// Returns whether both subtrees are known to have the same root znode.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        self.is_own && other.is_own && self.root == other.root
    }

    /// Returns whether the znode exists.
    ///
    /// # Errors
    /// If there is no answer.
    pub(crate) async fn exists(&self, below: &str) -> Result<bool, Failure> {
        let answer = self.client.exists(&self.with_chroot(below)).await;
        Ok(answer.map_err(|error| self.fail(&error, below))?.is_some())
    }

    /// Returns the path of the root's parent, as the user knows it, if this parent does not exist.
    ///
    /// # Errors
    /// If there is no answer.
    pub(crate) async fn missing_parent(&self) -> Result<Option<String>, Failure> {
        let parent = self.root.rsplit_once('/').map_or("", |(parent, _)| parent);
        if parent.is_empty() {
            return Ok(None);
        }
        let answer = self.client.exists(parent).await;
        let stat = answer.map_err(|error| self.fail(&error, ""))?;
        let shown = self.shown.rsplit_once('/').map_or("", |(shown, _)| shown);
        let shown = if shown.is_empty() { "/" } else { shown };
        Ok(stat.is_none().then(|| shown.to_owned()))
    }

    /// Creates a znode. Returns `false` if it already exists.
    ///
    /// # Errors
    /// If there is no answer, or the server refuses the request for another reason.
    pub(crate) async fn create(
        &self,
        below: &str,
        data: Option<Bytes>,
        create: &Create,
    ) -> Result<bool, Failure> {
        let outside = self.with_chroot(below);
        let made = match data {
            Some(data) => self.client.create(&outside, data, create).await,
            None => self.client.create_without_data(&outside, create).await,
        };
        match made {
            Ok(_) => Ok(true),
            Err(error) if error.code() == Some(ErrorCode::NodeExists) => Ok(false),
            Err(error) => Err(self.fail(&error, below)),
        }
    }

    /// Replaces the data and the ACL of a znode. Null data becomes empty data.
    ///
    /// # Errors
    /// If there is no answer, or the server refuses.
    pub(crate) async fn replace(
        &self,
        below: &str,
        data: Option<Bytes>,
        acl: Vec<Acl>,
    ) -> Result<(), Failure> {
        let outside = self.with_chroot(below);
        let set = self.client.set_data(&outside, data.unwrap_or_default(), -1);
        set.await.map_err(|error| self.fail(&error, below))?;
        let set = self.client.set_acl(&outside, acl, -1).await;
        set.map_err(|error| self.fail(&error, below)).map(drop)
    }
}

fn join(root: &str, below: &str) -> String {
    match (root, below) {
        (root, "") => root.to_owned(),
        ("/", below) => below.to_owned(),
        (root, below) => format!("{root}{below}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_put_together() {
        assert_eq!(join("/", ""), "/");
        assert_eq!(join("/", "/a b"), "/a b");
        assert_eq!(join("/x", "/a"), "/x/a");
        assert_eq!(join("h:1", "/a"), "h:1/a");
    }
}
