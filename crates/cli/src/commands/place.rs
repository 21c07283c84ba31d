//! A subtree of this ensemble or of another one, for the commands that look at two of them.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use client::{Client, Create, Error};
use proto::{Acl, ErrorCode, Stat};

use super::look::is_ephemeral;
use crate::exit;
use crate::failure::Failure;
use crate::options::Given;
use crate::path;
use crate::shell::Shell;

/// How long another ensemble may take to end a session: without an answer it ends by its timeout.
const CLOSING_MAX: Duration = Duration::from_secs(1);

/// A subtree.
#[derive(Debug)]
pub(super) struct Place {
    client: Client,
    /// The path as the server knows it.
    root: String,
    /// As it was typed.
    pub(super) shown: String,
    /// Whether the session is the shell's.
    pub(super) is_own: bool,
}

/// A znode with what was asked for.
#[derive(Debug)]
pub(super) struct Znode {
    pub(super) data: Option<Bytes>,
    pub(super) stat: Stat,
    pub(super) names: Vec<String>,
    /// Empty unless asked for.
    pub(super) acl: Vec<Acl>,
}

/// What there is at a path.
#[derive(Debug)]
pub(super) enum Found {
    Znode(Box<Znode>),
    Nothing,
    /// The session may not read it.
    Unreadable,
}

impl Znode {
    /// Whether it belongs to a session.
    pub(super) fn is_ephemeral(&self) -> bool {
        is_ephemeral(&self.stat)
    }
}

impl Found {
    /// Bytes of its data.
    pub(super) fn bytes(&self) -> usize {
        let data = match self {
            Self::Znode(znode) => znode.data.as_ref(),
            Self::Nothing | Self::Unreadable => None,
        };
        data.map_or(0, Bytes::len)
    }
}

impl Place {
    /// `/path` of the shell's session, or `host:port[,...]/path` of another ensemble, which gets the
    /// identity of `-auth scheme:auth` and none of the shell's: credentials go where they are sent.
    ///
    /// # Errors
    /// No such place, no connection, an identity that was refused.
    async fn open(shell: &mut Shell, word: &str, given: &Given) -> Result<Arc<Self>, Failure> {
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
                "{word} is neither a path nor HOST:PORT/PATH of another ensemble"
            ))
            .with_exit(exit::USAGE));
        }
        let (options, inside) = shell.start.options(word)?;
        let root = match inside.outside("/") {
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

    /// Two of them.
    ///
    /// # Errors
    /// As of [`Place::open`].
    pub(super) async fn open_two(
        shell: &mut Shell,
        words: [&str; 2],
        given: &Given,
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

    /// Ends the session if it is not the shell's.
    pub(super) async fn close(&self) {
        if !self.is_own {
            let _ = tokio::time::timeout(CLOSING_MAX, self.client.close()).await;
        }
    }

    /// A path below the root (empty for itself) as the server knows it.
    fn outside(&self, below: &str) -> String {
        join(&self.root, below)
    }

    /// A path below the root as one who reads it knows it.
    pub(super) fn shown(&self, below: &str) -> String {
        join(&self.shown, below)
    }

    /// Whether it is what an ensemble keeps for itself.
    pub(super) fn is_of_the_ensemble(&self, below: &str) -> bool {
        let outside = self.outside(below);
        outside == "/zookeeper" || outside.starts_with("/zookeeper/")
    }

    fn fail(&self, error: &Error, below: &str) -> Failure {
        Failure::of(error, &self.shown(below))
    }

    /// What is there, or why there is no answer.
    fn judge<T>(
        &self,
        answer: client::Result<T>,
        below: &str,
    ) -> Result<Result<T, Found>, Failure> {
        match answer {
            Ok(found) => Ok(Ok(found)),
            Err(error) => match error.code() {
                Some(ErrorCode::NoNode) => Ok(Err(Found::Nothing)),
                Some(ErrorCode::NoAuth) => Ok(Err(Found::Unreadable)),
                _ => Err(self.fail(&error, below)),
            },
        }
    }

    /// Data, Stat, names of the children and, if wanted, the ACL.
    ///
    /// # Errors
    /// No answer, or another one than that it is not there or may not be read.
    pub(super) async fn read(&self, below: &str, with_acl: bool) -> Result<Found, Failure> {
        let outside = self.outside(below);
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
        let acl = match with_acl {
            false => Vec::new(),
            true => match self.judge(self.client.get_acl(&outside).await, below)? {
                Ok((acl, _)) => acl,
                Err(found) => return Ok(found),
            },
        };
        Ok(Found::Znode(Box::new(Znode {
            data,
            stat,
            names,
            acl,
        })))
    }

    /// The children's names in order, or why there are none.
    ///
    /// # Errors
    /// As of [`Place::read`].
    pub(super) async fn names(&self, below: &str) -> Result<Result<Vec<String>, Found>, Failure> {
        let answer = self.client.get_children2(&self.outside(below)).await;
        Ok(self.judge(answer, below)?.map(|(names, _)| {
            let mut names: Vec<String> = names.iter().map(|name| name.to_string()).collect();
            names.sort_unstable();
            names
        }))
    }

    /// Whether both are known to be one znode.
    pub(super) fn is_same(&self, other: &Self) -> bool {
        self.is_own && other.is_own && self.root == other.root
    }

    /// Whether the znode is there.
    ///
    /// # Errors
    /// No answer.
    pub(super) async fn exists(&self, below: &str) -> Result<bool, Failure> {
        let answer = self.client.exists(&self.outside(below)).await;
        Ok(answer.map_err(|error| self.fail(&error, below))?.is_some())
    }

    /// The parent of the root as one who reads it knows it, if it is not there.
    ///
    /// # Errors
    /// No answer.
    pub(super) async fn missing_parent(&self) -> Result<Option<String>, Failure> {
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

    /// Creates a znode; `false` if it is there already.
    ///
    /// # Errors
    /// No answer, or a refusal for another reason.
    pub(super) async fn create(
        &self,
        below: &str,
        data: Option<Bytes>,
        create: &Create,
    ) -> Result<bool, Failure> {
        let outside = self.outside(below);
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

    /// Gives a znode other data and another ACL. Null data becomes empty data.
    ///
    /// # Errors
    /// No answer, or a refusal.
    pub(super) async fn replace(
        &self,
        below: &str,
        data: Option<Bytes>,
        acl: Vec<Acl>,
    ) -> Result<(), Failure> {
        let outside = self.outside(below);
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
