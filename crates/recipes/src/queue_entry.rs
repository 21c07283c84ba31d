//! Entry in a queue: a child znode of a directory, from joining to leaving.

use std::fmt;

use bytes::Bytes;
use client::{Client, Create, Created, State};
use proto::{ErrorCode, SessionId};

use crate::error::{Error, Result};
use crate::names::{Layout, NamePrefix, QueueStanding, digits, standing};
use crate::session::{connected, is_transient, make_directory, retry};
use crate::watched::{WatchEnd, watch_ended};

/// Number that increases from holder to holder of a lock or leadership, across sessions, restarts
/// and elections of the ensemble. It is the czxid of the contender's znode.
///
/// A resource outside ZooKeeper can refuse a token that is less than the greatest token it has
/// seen. This protects the resource from a holder that was stopped for too long. Inside ZooKeeper,
/// a transaction that checks the holder's znode has this effect (`LockGuard::check`).
///
/// Tokens may repeat after an ensemble is restored from a backup.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Token(pub i64);

impl fmt::Display for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#x}", self.0)
    }
}

/// Reason why it is no longer certain that a lock, lease or leadership is held.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UncertaintyCause {
    /// The connection is lost. The lock, lease or leadership is held again if the client reaches a
    /// server before the session ends.
    Disconnected,
    /// The lock, lease or leadership is lost permanently, because the session ended or another
    /// client deleted the znode.
    Gone,
}

/// Result of waiting for a turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum WaitOutcome {
    Granted,
    /// The znode is deleted, so the entry is lost.
    Gone,
}

/// Directory, names and client of a queue.
#[derive(Debug, Clone)]
pub(crate) struct Queue {
    pub(crate) client: Client,
    pub(crate) directory: String,
    pub(crate) layout: Layout,
    pub(crate) words: &'static [NamePrefix],
}

/// Contender in a queue. Dropping it leaves the queue in the background.
#[derive(Debug)]
pub(crate) struct QueueEntry {
    queue: Queue,
    created: Created,
    /// Whether a connection was lost while the znode was created. The client may then have sent
    /// the request twice, and a second znode may exist.
    was_disconnected: bool,
    has_left: bool,
}

impl Queue {
    /// Joins at the end of the queue. Continues after lost connections and, with renewal, in new
    /// sessions.
    pub(crate) async fn join(&self, word: &str, data: &Bytes) -> Result<QueueEntry> {
        self.join_as(word, data, &Create::ephemeral().sequential())
            .await
    }

    /// Joins with a znode of this name and kind.
    pub(crate) async fn join_as(
        &self,
        name: &str,
        data: &Bytes,
        kind: &Create,
    ) -> Result<QueueEntry> {
        let path = format!("{}/{name}", self.directory);
        let protection = self.layout.protection();
        loop {
            let data = data.clone();
            let mut state = self.client.state();
            state.mark_unchanged();
            let created = self
                .client
                .create_protected_as(protection, &path, data, kind);
            match created.await {
                Ok(created) => {
                    return Ok(QueueEntry {
                        queue: self.clone(),
                        created,
                        was_disconnected: state.has_changed().unwrap_or(true),
                        has_left: false,
                    });
                }
                Err(error) if error.code() == Some(ErrorCode::NoNode) => {
                    make_directory(&self.client, &self.directory).await?;
                }
                Err(error) if is_transient(&self.client, &error) => connected(&self.client).await?,
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Joins and waits for its turn. Joins again if the entry is lost meanwhile.
    pub(crate) async fn acquire(&self, word: &str, data: &Bytes) -> Result<QueueEntry> {
        loop {
            let entry = self.join(word, data).await?;
            match entry.wait().await? {
                WaitOutcome::Granted => return Ok(entry),
                WaitOutcome::Gone => {
                    tracing::debug!(path = entry.path(), "lost the position in the queue");
                }
            }
        }
    }

    /// Leaves `entry` and [`acquire`](Self::acquire)s a new entry at the current end of the queue.
    pub(crate) async fn acquire_after(
        &self,
        entry: QueueEntry,
        word: &str,
        data: &Bytes,
    ) -> Result<QueueEntry> {
        let next = entry.replace(word, data).await?;
        // The next contender was just notified and should run first. This contender's next turn is
        // far away.
        tokio::task::yield_now().await;
        match next.wait().await? {
            WaitOutcome::Granted => Ok(next),
            WaitOutcome::Gone => self.acquire(word, data).await,
        }
    }

    /// Returns the names in the directory, or `None` if the directory is missing.
    pub(crate) async fn list(&self) -> Result<Option<Vec<String>>> {
        let list = || self.client.get_children(&self.directory);
        match retry(&self.client, list).await {
            Ok(names) => Ok(Some(names.iter().map(|name| name.to_string()).collect())),
            Err(error) if error.code() == Some(ErrorCode::NoNode) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }
}

impl QueueEntry {
    pub(crate) fn path(&self) -> &str {
        &self.created.path
    }

    pub(crate) fn name(&self) -> &str {
        let path = self.path();
        path.rsplit_once('/').map_or(path, |(_, name)| name)
    }

    pub(crate) fn token(&self) -> Token {
        Token(self.created.stat.czxid)
    }

    pub(crate) fn queue(&self) -> &Queue {
        &self.queue
    }

    /// Returns the number in the name as text.
    pub(crate) fn digits(&self) -> &str {
        digits(self.name(), self.queue.words).unwrap_or_default()
    }

    pub(crate) fn owner(&self) -> SessionId {
        SessionId(self.created.stat.ephemeral_owner)
    }

    /// Returns the cause of the entry's uncertainty in this state of the client, if any.
    pub(crate) fn uncertainty_in(&self, state: &State) -> Option<UncertaintyCause> {
        uncertainty_of(state, self.owner(), self.queue.client.session_id())
    }

    /// Returns whether the client is connected, in the session of this entry.
    pub(crate) fn is_certain(&self) -> bool {
        self.uncertainty_in(&self.queue.client.state().borrow())
            .is_none()
    }

    /// Returns whether it is this entry's turn, without waiting.
    pub(crate) async fn is_granted(&self) -> Result<bool> {
        let names = self.queue.list().await?.unwrap_or_default();
        let names = names.iter().map(String::as_str);
        let standing = standing(names, self.name(), self.queue.words);
        Ok(standing == QueueStanding::Granted && self.is_certain())
    }

    /// Waits for its turn. Watches the preceding contender, and reads the directory again when that
    /// contender's znode is deleted.
    pub(crate) async fn wait(&self) -> Result<WaitOutcome> {
        let client = &self.queue.client;
        loop {
            connected(client).await?;
            // An entry does not outlive its session, although a server that lags may still show it.
            if self.owner() != client.session_id() {
                return Ok(WaitOutcome::Gone);
            }
            let Some(names) = self.queue.list().await? else {
                return Ok(WaitOutcome::Gone);
            };
            let names = names.iter().map(String::as_str);
            let ahead = match standing(names, self.name(), self.queue.words) {
                QueueStanding::Gone => return Ok(WaitOutcome::Gone),
                // The list may be older than a connection loss that was just detected. The list is
                // then read again.
                QueueStanding::Granted if !self.is_certain() => continue,
                QueueStanding::Granted => return Ok(WaitOutcome::Granted),
                QueueStanding::Behind(ahead) => format!("{}/{ahead}", self.queue.directory),
            };
            watch_ended(client, client.watch_data(&ahead).await).await?;
        }
    }

    /// Waits until this entry is lost permanently. Continues after lost connections.
    pub(crate) async fn wait_until_lost(&self) {
        while self.wait_until_uncertain().await == UncertaintyCause::Disconnected {
            if connected(&self.queue.client).await.is_err() {
                return;
            }
        }
    }

    /// Waits until this entry is uncertain: the connection is lost, the session has ended, or
    /// another client deleted the znode. Setting the watch on the znode takes one read.
    pub(crate) async fn wait_until_uncertain(&self) -> UncertaintyCause {
        let client = &self.queue.client;
        let mut state = client.state();
        let cut = async {
            loop {
                let cause = self.uncertainty_in(&state.borrow_and_update());
                if let Some(cause) = cause {
                    return cause;
                }
                if state.changed().await.is_err() {
                    return UncertaintyCause::Gone;
                }
            }
        };
        tokio::select! {
            biased;
            cause = cut => cause,
            _ = self.wait_for_data(|_| false) => UncertaintyCause::Gone,
        }
    }

    /// Waits until the znode has data for which `is_expected` returns true, and returns true.
    /// Returns false if the znode is deleted first. Continues after lost connections.
    pub(crate) async fn wait_for_data(&self, is_expected: impl Fn(&Bytes) -> bool) -> bool {
        let client = &self.queue.client;
        loop {
            let read = match client.watch_data(self.path()).await {
                Ok((Some(data), ..)) if is_expected(&data) => return true,
                read => read,
            };
            match watch_ended(client, read).await {
                Ok(WatchEnd::ReadAgain) => {}
                Ok(WatchEnd::Deleted) | Err(_) => return false,
            }
        }
    }

    /// Leaves the queue and joins it again at its end. While the connection and the entry exist,
    /// one transaction does both. This saves one request and one disk sync on the servers.
    async fn replace(mut self, word: &str, data: &Bytes) -> Result<Self> {
        let queue = self.queue.clone();
        let (client, protection) = (&queue.client, queue.layout.protection());
        let path = format!("{}/{word}", queue.directory);
        let kind = Create::ephemeral().sequential();
        let replaced =
            client.replace_created(&self.created, protection, &path, data.clone(), &kind);
        match replaced.await {
            Ok(Some(created)) => {
                self.has_left = true;
                return Ok(Self {
                    queue,
                    created,
                    was_disconnected: false,
                    has_left: false,
                });
            }
            Ok(None) => {}
            Err(error) if is_transient(client, &error) => connected(client).await?,
            Err(error) => return Err(error.into()),
        }
        self.leave().await?;
        queue.join(word, data).await
    }

    /// Leaves the queue. If the connection is lost meanwhile, the deletion continues in the
    /// background.
    pub(crate) async fn leave(mut self) -> Result<()> {
        let client = self.queue.client.clone();
        match client.delete_created(&self.created).await {
            Ok(()) => {}
            // Dropping the entry continues the deletion. The end of the session also deletes the
            // znode.
            Err(error) if error.is_connection_loss() || error.ends_session() => return Ok(()),
            Err(error) => return Err(error.into()),
        }
        self.has_left = true;
        Ok(())
    }

    /// Leaves the queue and deletes another znode. Returns whether one transaction did both.
    /// Otherwise the other znode may still exist.
    pub(crate) async fn leave_with(mut self, other: &str) -> Result<bool> {
        let client = self.queue.client.clone();
        let both = client.transaction().delete(self.path(), -1);
        let deleted = match both.delete(other, -1).commit().await {
            Ok(_) => true,
            Err(error) if is_transient(&client, &error) => false,
            Err(error) if error.code() == Some(ErrorCode::NoNode) => false,
            Err(error) => return Err(error.into()),
        };
        if deleted && !self.was_disconnected {
            self.has_left = true;
        } else {
            self.leave().await?;
        }
        Ok(deleted)
    }

    /// Leaves the queue as a holder. If the connection is lost meanwhile, the deletion continues in
    /// the background.
    ///
    /// # Errors
    /// [`Error::NotHeld`] if the entry was already lost, because its session ended or another
    /// client deleted the znode.
    pub(crate) async fn release(mut self) -> Result<()> {
        let released = match self.queue.client.delete(self.path(), -1).await {
            Ok(()) => Ok(()),
            Err(error) if error.is_connection_loss() => return Ok(()),
            Err(error) if error.ends_session() || error.code() == Some(ErrorCode::NoNode) => {
                let path = self.queue.directory.clone();
                Err(Error::NotHeld { path })
            }
            Err(error) => return Err(error.into()),
        };
        if self.was_disconnected {
            self.leave().await?;
        } else {
            self.has_left = true;
        }
        released
    }
}

impl Drop for QueueEntry {
    fn drop(&mut self) {
        if !self.has_left {
            self.queue
                .client
                .delete_created_in_background(&self.created);
        }
    }
}

/// Returns the cause of uncertainty in `state` for a znode of the session `owner`, or `None`
/// without uncertainty. `current` is the session of the client.
fn uncertainty_of(state: &State, owner: SessionId, current: SessionId) -> Option<UncertaintyCause> {
    match state {
        State::Connected { session, .. } if *session == owner => None,
        State::Reconnecting | State::Lost if current == owner => {
            Some(UncertaintyCause::Disconnected)
        }
        _ => Some(UncertaintyCause::Gone),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_connected_session_holds_its_znode() {
        let (own, other) = (SessionId(1), SessionId(2));
        let connected = |session| State::Connected {
            server: "server".into(),
            session,
            timeout: std::time::Duration::from_secs(4),
            read_only: false,
        };
        for (state, current, expected) in [
            (connected(own), own, None),
            (connected(other), other, Some(UncertaintyCause::Gone)),
            (
                State::Reconnecting,
                own,
                Some(UncertaintyCause::Disconnected),
            ),
            (State::Lost, own, Some(UncertaintyCause::Disconnected)),
            (State::Reconnecting, other, Some(UncertaintyCause::Gone)),
            (State::Expired, own, Some(UncertaintyCause::Gone)),
            (State::Closed, own, Some(UncertaintyCause::Gone)),
        ] {
            assert_eq!(uncertainty_of(&state, own, current), expected, "{state:?}");
        }
    }
}
