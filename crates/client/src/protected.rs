//! Protected creation of znodes, which remains reliable when an answer is lost.
//!
//! The name contains a random id in Curator's format: `_c_` + UUID + `-`, followed by the requested
//! name. After a lost connection, the client searches the parent's children for the id.
//!
//! A server may execute a request of a lost connection after this search, because the request may
//! still be unread in the old connection. If a creation was sent more than once, the client
//! therefore deletes other znodes with the same id twice: after the creation, and after the
//! deletion of the znode.
//!
//! Source: CreateBuilderImpl.findProtectedNodeInForeground, ProtectedUtils, CURATOR-45,
//! CURATOR-498.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use bytes::Bytes;
use jute::Str;
use proto::{ErrorCode, Stat};

use crate::cleanup::Cleanup;
use crate::client::Client;
use crate::create::Create;
use crate::error::{Error, Result};
use crate::multi::{MultiOp, MultiResult};

/// Format of the random id in the name of a protected znode.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Protection {
    /// `_c_` + UUID + `-` + name, as in Curator.
    #[default]
    Curator,
    /// 32 hex digits + name, as in kazoo.
    Kazoo,
}

impl Protection {
    fn prefix(self, uuid: &str) -> String {
        match self {
            Self::Curator => format!("_c_{uuid}-"),
            Self::Kazoo => uuid.replace('-', ""),
        }
    }
}

/// A znode after its protected creation.
#[derive(Debug, Clone, PartialEq, Eq)]
#[must_use = "it contains the path of the znode, and `delete_created` needs it"]
pub struct Created {
    /// Path of the znode. The path of a sequential znode includes its number.
    pub path: Str,
    /// Stat at the time when the znode was created or found. `czxid` is unique and increases over
    /// the life of the ensemble, so it is a valid fencing token.
    pub stat: Stat,
    /// Parent directory, and prefix of the name.
    id: (Str, Str),
    /// Whether more than one request was sent. A second znode may then appear later.
    is_repeated: bool,
}

impl Client {
    /// Creates a znode under a unique name, even when connections fail. After success, exactly one
    /// such znode exists. After an error, the client deletes the znode if it exists.
    ///
    /// A sequential `/locks/lock-` is created as `/locks/_c_7f3c1a2e-…-lock-0000000004`. If the
    /// future fails or is dropped, the client searches in the background for a znode that may have
    /// been created, and deletes it. It continues on new connections until a server has answered.
    ///
    /// ```no_run
    /// # use zoarium_client::{Client, Create};
    /// # async fn example(client: &Client) -> zoarium_client::Result<()> {
    /// let kind = Create::ephemeral().sequential();
    /// let created = client.create_protected("/locks/lock-", "me", &kind).await?;
    /// println!("{} with token {}", created.path, created.stat.czxid);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// If the server refuses the creation. [`Error::Unreachable`] if no server was reachable for a
    /// session timeout.
    pub async fn create_protected(
        &self,
        path: &str,
        data: impl Into<Bytes>,
        create: &Create,
    ) -> Result<Created> {
        self.create_protected_as(Protection::Curator, path, data, create)
            .await
    }

    /// Works like [`create_protected`](Self::create_protected), with the id in the format of
    /// another library.
    ///
    /// # Errors
    /// If the server refuses the creation. [`Error::Unreachable`] if no server was reachable for a
    /// session timeout.
    pub async fn create_protected_as(
        &self,
        protection: Protection,
        path: &str,
        data: impl Into<Bytes>,
        create: &Create,
    ) -> Result<Created> {
        let data = data.into();
        self.outside_to_create(path, create.flags)?;
        let (parent, name) = path.rsplit_once('/').unwrap_or(("", path));
        loop {
            let prefix = protection.prefix(&self.random_uuid());
            let guarded = format!("{parent}/{prefix}{name}");
            let parent = if parent.is_empty() { "/" } else { parent };
            let mut attempt = CreationAttempt::new(self, parent, &prefix);
            let created = self
                .create_once(&guarded, &data, create, &mut attempt)
                .await?;
            if !create.is_ephemeral() || created.stat.ephemeral_owner == self.session_id().0 {
                attempt.is_over = true;
                return Ok(created);
            }
            // The znode belongs to an expired session. The server deletes it with that session, or
            // dropping `attempt` deletes it.
        }
    }

    /// Replaces the znode `created` with a new znode in one transaction. Other clients always see
    /// exactly one of the two.
    ///
    /// Returns `None` if the replacement is not certain, for example because `created` no longer
    /// exists or because the answer was lost. The client then deletes the new znode if it exists.
    /// The caller must continue with [`delete_created`](Self::delete_created) and
    /// [`create_protected_as`](Self::create_protected_as).
    ///
    /// # Errors
    /// If the request fails for a reason other than a lost connection or a refused operation.
    pub async fn replace_created(
        &self,
        created: &Created,
        protection: Protection,
        path: &str,
        data: impl Into<Bytes>,
        create: &Create,
    ) -> Result<Option<Created>> {
        if created.is_repeated {
            // More than one znode of this creation may exist.
            return Ok(None);
        }
        self.outside_to_create(path, create.flags)?;
        let (parent, name) = path.rsplit_once('/').unwrap_or(("", path));
        let prefix = protection.prefix(&self.random_uuid());
        let guarded = format!("{parent}/{prefix}{name}");
        let parent = if parent.is_empty() { "/" } else { parent };
        let mut attempt = CreationAttempt::new(self, parent, &prefix);
        let ops = [
            MultiOp::delete(&created.path, -1),
            MultiOp::create(&guarded, data, &create.clone().with_stat()),
        ];
        let sent = self.multi_with(&ops, Some(Arc::clone(&attempt.is_sent)));
        let results = match sent.await {
            Ok(results) => results,
            Err(Error::ConnectionLost { .. }) => return Ok(None),
            Err(error) => return Err(error),
        };
        let Some(MultiResult::Created { path, stat }) = results.into_iter().nth(1) else {
            attempt.is_over = true;
            return Ok(None);
        };
        let stat = stat.unwrap_or_default();
        let is_ours = !create.is_ephemeral() || stat.ephemeral_owner == self.session_id().0;
        attempt.is_over = is_ours;
        Ok(is_ours.then(|| attempt.created(path, stat, 1)))
    }

    async fn create_once(
        &self,
        guarded: &str,
        data: &Bytes,
        create: &Create,
        attempt: &mut CreationAttempt<'_>,
    ) -> Result<Created> {
        let create = create.clone().with_stat();
        let mut requests = 0;
        loop {
            let is_sent = Some(Arc::clone(&attempt.is_sent));
            requests += 1;
            let sent = self.create_with(guarded, Some(data.clone()), &create, is_sent);
            match sent.await {
                Ok((path, stat)) => {
                    let created = attempt.created(path, stat.unwrap_or_default(), requests);
                    if created.is_repeated {
                        self.delete_all_of(&created, Some(&created.path)).await?;
                    }
                    return Ok(created);
                }
                Err(error @ Error::ConnectionLost { .. }) => {
                    tracing::debug!(%error, "searching for a znode that may have been created");
                }
                // The requested name is not sequential, so the earlier request was executed after
                // all.
                Err(error) if requests > 1 && error.code() == Some(ErrorCode::NodeExists) => {}
                Err(error) => {
                    // The server refused the first request, so nothing was created.
                    attempt.is_over |= requests == 1 && error.code().is_some();
                    return Err(error);
                }
            }
            if let Some((path, stat)) = self.find(attempt.parent, attempt.prefix).await? {
                return Ok(attempt.created(path, stat, requests));
            }
        }
    }

    /// Returns a child of `parent` whose name starts with `prefix`, and its Stat.
    async fn find(&self, parent: &str, prefix: &str) -> Result<Option<(Str, Stat)>> {
        loop {
            let names = self.find_names(parent, prefix).await?;
            let Some(name) = names.into_iter().next() else {
                return Ok(None);
            };
            let path = below(parent, &name);
            match self.exists(&path).await {
                Ok(stat) => return Ok(stat.map(|stat| (path, stat))),
                Err(Error::ConnectionLost { .. }) => {}
                Err(error) => return Err(error),
            }
        }
    }

    async fn find_names(&self, parent: &str, prefix: &str) -> Result<Vec<Str>> {
        loop {
            // This server may not have applied the creation yet. A read after a sync sees the new
            // znode.
            let (synced, children) = tokio::join!(self.sync(parent), self.get_children(parent));
            match synced.and(children) {
                Ok(mut names) => {
                    names.retain(|name| name.starts_with(prefix));
                    return Ok(names);
                }
                Err(Error::ConnectionLost { .. }) => {}
                Err(error) if error.code() == Some(ErrorCode::NoNode) => return Ok(Vec::new()),
                Err(error) => return Err(error),
            }
        }
    }

    async fn delete_all_of(&self, created: &Created, but: Option<&str>) -> Result<()> {
        let (parent, prefix) = &created.id;
        for name in self.find_names(parent, prefix).await? {
            let path = below(parent, &name);
            if but != Some(&*path) {
                self.delete_if_there(&path).await?;
            }
        }
        Ok(())
    }

    async fn delete_if_there(&self, path: &str) -> Result<()> {
        match self.delete(path, -1).await {
            Err(error) if error.code() == Some(ErrorCode::NoNode) => Ok(()),
            other => other,
        }
    }

    /// Deletes a znode that [`create_protected`](Self::create_protected) created, and any
    /// duplicates from requests that were executed late. Already deleted znodes are not an error.
    ///
    /// # Errors
    /// If the server refuses a deletion or the connection is lost.
    pub async fn delete_created(&self, created: &Created) -> Result<()> {
        self.delete_if_there(&created.path).await?;
        if created.is_repeated {
            self.delete_all_of(created, None).await?;
        }
        Ok(())
    }

    /// Works like [`delete_created`](Self::delete_created), but in the background. The work
    /// continues on new connections while the client exists. This method is for callers that cannot
    /// wait, such as `Drop`.
    pub fn delete_created_in_background(&self, created: &Created) {
        self.delete_in_background(&created.path);
        if created.is_repeated {
            let (parent, prefix) = &created.id;
            self.find_and_delete(parent, prefix);
        }
    }

    fn find_and_delete(&self, parent: &str, prefix: &str) {
        // Nothing was created at an invalid path.
        if let Ok(parent) = self.outside(parent) {
            self.push_cleanup(Cleanup::FindAndDelete {
                parent,
                prefix: prefix.into(),
                looks: LOOKS,
            });
        }
    }

    /// Deletes a znode in the background. The work continues on new connections while the client
    /// exists. An already deleted znode is not an error. This method is for callers that cannot
    /// wait, such as `Drop`. An invalid path is ignored, because no znode has it.
    pub fn delete_in_background(&self, path: &str) {
        if let Ok(path) = self.outside(path) {
            self.push_cleanup(Cleanup::Delete(path));
        }
    }
}

/// Guard that deletes a znode that may have been created, unless the attempt is complete.
struct CreationAttempt<'a> {
    client: &'a Client,
    parent: &'a str,
    prefix: &'a str,
    is_sent: Arc<AtomicBool>,
    is_over: bool,
}

impl<'a> CreationAttempt<'a> {
    fn new(client: &'a Client, parent: &'a str, prefix: &'a str) -> Self {
        Self {
            client,
            parent,
            prefix,
            is_sent: Arc::default(),
            is_over: false,
        }
    }
}

impl CreationAttempt<'_> {
    fn created(&self, path: Str, stat: Stat, requests: usize) -> Created {
        Created {
            path,
            stat,
            id: (self.parent.into(), self.prefix.into()),
            is_repeated: requests > 1,
        }
    }
}

impl Drop for CreationAttempt<'_> {
    fn drop(&mut self) {
        // The future of the call is dropped before this guard, so an unsent request will never be
        // sent.
        if self.is_over || !self.is_sent.load(Ordering::SeqCst) {
            return;
        }
        self.client.find_and_delete(self.parent, self.prefix);
    }
}

/// Number of searches for a znode that may appear late. Each further search is sent one ping
/// interval after the answer to the previous one, even if other requests make pings unnecessary.
const LOOKS: u32 = 2;

pub(crate) fn below(parent: &str, name: &str) -> Str {
    let separator = if parent == "/" { "" } else { "/" };
    format!("{parent}{separator}{name}").into()
}

/// Formats random bits as a UUID of version 4: 36 lower-case characters. Source: RFC 9562.
pub(crate) fn uuid(random: u128) -> String {
    let bits = random & !(0xf << 76) & !(0x3 << 62) | (0x4 << 76) | (0x2 << 62);
    let hex = format!("{bits:032x}");
    let mut text = String::with_capacity(36);
    for (number, digit) in hex.chars().enumerate() {
        if matches!(number, 8 | 12 | 16 | 20) {
            text.push('-');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_uuids_of_version_4() {
        for random in [0, u128::MAX, 0x0123_4567_89ab_cdef_0123_4567_89ab_cdef] {
            let text = uuid(random);
            let lens: Vec<_> = text.split('-').map(str::len).collect();
            assert_eq!(lens, [8, 4, 4, 4, 12], "{text}");
            assert_eq!(text.as_bytes()[14], b'4');
            assert!(b"89ab".contains(&text.as_bytes()[19]), "{text}");
            assert_eq!(text, text.to_lowercase());
        }
    }
}
