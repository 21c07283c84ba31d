//! Creating a znode so that a lost answer leaves neither doubt nor orphan.
//!
//! The name holds a random id, as Curator writes it: `_c_` + UUID + `-` in front of the name that was
//! asked for. After a lost connection the parent's children are looked through for it.
//!
//! A request whose connection was lost may be carried out later than that look: it may still lie
//! unread in the old connection. So a creation that was sent twice is cleaned up twice, too: others of
//! its id are deleted once it is made, and once more when it is deleted itself.
//!
//! Source: CreateBuilderImpl.findProtectedNodeInForeground, ProtectedUtils, CURATOR-45, CURATOR-498.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use bytes::Bytes;
use jute::Str;
use proto::mutant::{self, Mutant};
use proto::{ErrorCode, Stat};

use crate::chores::Chore;
use crate::client::Client;
use crate::create::Create;
use crate::error::{Error, Result};
use crate::multi::{MultiOp, MultiResult};

/// How the name of a protected creation holds its random id.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Protection {
    /// `_c_` + UUID + `-` + name, as Curator has it.
    #[default]
    Curator,
    /// 32 hex digits + name, as kazoo has it.
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

/// A znode that was created.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Created {
    /// Its path, for a sequential one with its number.
    pub path: Str,
    /// Its Stat when it was created or found. `czxid` is unique and grows over the life of the
    /// ensemble: a fencing token.
    pub stat: Stat,
    /// The directory and what the name begins with.
    id: (Str, Str),
    /// Whether more than one request was sent, so that there may be another one some day.
    is_repeated: bool,
}

impl Client {
    /// Creates a znode under a name of its own, whatever becomes of connections meanwhile: at the
    /// end there is exactly one, or after an error none.
    ///
    /// `/locks/lock-` is created as `/locks/_c_7f3c1a2e-…-lock-0000000004`, if it is sequential. If
    /// the future is dropped, or fails, what may have been created is found and deleted behind the
    /// scenes, over as many connections as that takes.
    ///
    /// ```no_run
    /// # use client::{Client, Create};
    /// # async fn example(client: &Client) -> client::Result<()> {
    /// let kind = Create::ephemeral().sequential();
    /// let created = client.create_protected("/locks/lock-", "me", &kind).await?;
    /// println!("{} with token {}", created.path, created.stat.czxid);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// As for every creation; [`Error::Unreachable`] if no server was reached for a session timeout.
    pub async fn create_protected(
        &self,
        path: &str,
        data: impl Into<Bytes>,
        create: &Create,
    ) -> Result<Created> {
        self.create_protected_as(Protection::Curator, path, data, create)
            .await
    }

    /// [`create_protected`](Self::create_protected) with the id in the name as another library
    /// has it.
    ///
    /// # Errors
    /// The same.
    pub async fn create_protected_as(
        &self,
        protection: Protection,
        path: &str,
        data: impl Into<Bytes>,
        create: &Create,
    ) -> Result<Created> {
        let data = data.into();
        let (parent, name) = path.rsplit_once('/').unwrap_or(("", path));
        loop {
            let prefix = protection.prefix(&self.random_uuid());
            let guarded = format!("{parent}/{prefix}{name}");
            let parent = if parent.is_empty() { "/" } else { parent };
            let mut attempt = Attempt::new(self, parent, &prefix);
            let created = self
                .create_once(&guarded, &data, create, &mut attempt)
                .await?;
            if !create.is_ephemeral() || created.stat.ephemeral_owner == self.session_id().0 {
                attempt.is_over = true;
                return Ok(created);
            }
            // It belongs to a session that is over, and goes with it or by the attempt's end.
        }
    }

    /// Deletes what was created and creates another one like it, in one transaction: nobody sees both, or
    /// neither. `None` if that is refused, for what was created is gone, or if its answer is lost. Then
    /// nothing is left of it in the end, and [`delete_created`](Self::delete_created) and
    /// [`create_protected_as`](Self::create_protected_as) are to follow.
    ///
    /// # Errors
    /// As for every transaction.
    pub async fn replace_created(
        &self,
        created: &Created,
        protection: Protection,
        path: &str,
        data: impl Into<Bytes>,
        create: &Create,
    ) -> Result<Option<Created>> {
        if created.is_repeated {
            // There may be more of it than one.
            return Ok(None);
        }
        let (parent, name) = path.rsplit_once('/').unwrap_or(("", path));
        let prefix = protection.prefix(&self.random_uuid());
        let guarded = format!("{parent}/{prefix}{name}");
        let parent = if parent.is_empty() { "/" } else { parent };
        let mut attempt = Attempt::new(self, parent, &prefix);
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
        attempt: &mut Attempt<'_>,
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
                    tracing::debug!(%error, "looking for what may have been created");
                }
                // A name without a number: the one before was carried out after all.
                Err(error) if requests > 1 && error.code() == Some(ErrorCode::NodeExists) => {}
                Err(error) => {
                    // The server said no, and nobody was asked before.
                    attempt.is_over |= requests == 1 && error.code().is_some();
                    return Err(error);
                }
            }
            let is_sought = !mutant::is(Mutant::LostCreationNotSought);
            if is_sought
                && let Some((path, stat)) = self.find(attempt.parent, attempt.prefix).await?
            {
                return Ok(attempt.created(path, stat, requests));
            }
        }
    }

    /// The child of `parent` whose name begins so.
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
            // Another server may have the creation still on its way: what comes behind a sync sees
            // it.
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

    /// Deletes what [`create_protected`](Self::create_protected) created, and what else may have
    /// come of it by a request that was carried out late. That it is gone already is fine.
    ///
    /// # Errors
    /// As for every deletion.
    pub async fn delete_created(&self, created: &Created) -> Result<()> {
        self.delete_if_there(&created.path).await?;
        if created.is_repeated {
            self.delete_all_of(created, None).await?;
        }
        Ok(())
    }

    /// [`delete_created`](Self::delete_created) behind the scenes, over as many connections as it
    /// takes while the client lives. For what cannot wait, such as `Drop`.
    pub fn delete_created_in_background(&self, created: &Created) {
        self.delete_in_background(&created.path);
        if created.is_repeated {
            let (parent, prefix) = &created.id;
            self.find_and_delete(parent, prefix);
        }
    }

    fn find_and_delete(&self, parent: &str, prefix: &str) {
        self.push_chore(Chore::FindAndDelete {
            parent: self.outside(parent),
            prefix: prefix.into(),
            looks: LOOKS,
        });
    }

    /// Deletes a znode behind the scenes, over as many connections as it takes while the client
    /// lives; that it is gone already is fine. For what cannot wait, such as `Drop`.
    pub fn delete_in_background(&self, path: &str) {
        self.push_chore(Chore::Delete(self.outside(path)));
    }
}

/// Takes back what was created unheard, unless it is over.
struct Attempt<'a> {
    client: &'a Client,
    parent: &'a str,
    prefix: &'a str,
    is_sent: Arc<AtomicBool>,
    is_over: bool,
}

impl<'a> Attempt<'a> {
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

impl Attempt<'_> {
    fn created(&self, path: Str, stat: Stat, requests: usize) -> Created {
        Created {
            path,
            stat,
            id: (self.parent.into(), self.prefix.into()),
            is_repeated: requests > 1,
        }
    }
}

impl Drop for Attempt<'_> {
    fn drop(&mut self) {
        // The call's future is gone by now, so what was not sent will not be.
        if self.is_over || !self.is_sent.load(Ordering::SeqCst) {
            return;
        }
        self.client.find_and_delete(self.parent, self.prefix);
    }
}

/// How often what may be carried out late is looked for, with the time between two pings between.
const LOOKS: u32 = 2;

fn below(parent: &str, name: &str) -> Str {
    let separator = if parent == "/" { "" } else { "/" };
    format!("{parent}{separator}{name}").into()
}

/// Random bytes as the text of a UUID, version 4: lower-case, 36 characters. Source: RFC 9562.
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
