//! Znode that is recreated when it disappears.

use bytes::Bytes;
use client::{Client, Create};
use proto::{ErrorCode, SessionId, Stat};
use tokio::sync::watch;
use tokio::task::JoinHandle;

use crate::barrier::delete;
use crate::error::{Error, Result};
use crate::session::{check_path, connected, delete_own, make_directory, retry};
use crate::watched::{WatchEnd, watch_ended};

/// Ephemeral znode that is recreated after every deletion and in every new session, until this
/// handle is closed or dropped.
///
/// ```
/// # tests::documented(async |client| {
/// use zoarium_recipes::PersistentNode;
///
/// let node = PersistentNode::start(&client, "/hosts/host-7", "10.0.0.7")?;
/// node.is_there().await?;
/// node.set_data("10.0.0.8");
/// node.close().await;
/// # Ok::<_, zoarium_recipes::Error>(())
/// # });
/// ```
///
/// If a znode of another session exists, such as the previous session of this client, the handle
/// waits until that session ends. It then creates its own znode.
///
/// Source: PersistentNode.
#[derive(Debug)]
#[must_use = "dropping it deletes the znode"]
pub struct PersistentNode {
    pub(crate) client: Client,
    path: String,
    life: NodeLife,
    data: watch::Sender<Bytes>,
    standing: watch::Receiver<NodeState>,
    stop: watch::Sender<bool>,
    task: Option<JoinHandle<()>>,
}

/// Lifetime of a node's znode.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NodeLife {
    /// The znode exists until the end of its session.
    Session,
    /// The znode exists until its handle is closed or dropped. It may belong to any client.
    Handle,
    /// The znode outlives its handle. It may belong to any client.
    Ttl,
}

#[derive(Debug, Clone)]
enum NodeState {
    Missing,
    /// The znode exists with this data. With [`NodeLife::Session`], it belongs to this session.
    There {
        data: Bytes,
        session: SessionId,
    },
    Over(Option<Error>),
}

impl PersistentNode {
    /// Starts maintaining a znode at `path`. A background task does the work, so the call requires
    /// a tokio runtime.
    ///
    /// # Errors
    /// If the path is invalid.
    pub fn start(client: &Client, path: &str, data: impl Into<Bytes>) -> Result<Self> {
        Self::start_as(
            client,
            path,
            data.into(),
            Create::ephemeral(),
            NodeLife::Session,
        )
    }

    /// Starts maintaining a znode of this kind and lifetime.
    pub(crate) fn start_as(
        client: &Client,
        path: &str,
        data: Bytes,
        kind: Create,
        life: NodeLife,
    ) -> Result<Self> {
        check_path(path)?;
        let (data, data_wanted) = watch::channel(data);
        let (standing_seen, standing) = watch::channel(NodeState::Missing);
        let (stop, stopped) = watch::channel(false);
        let keeper = NodeTask {
            client: client.clone(),
            path: path.to_owned(),
            kind,
            life,
            data: data_wanted,
            standing: standing_seen,
        };
        Ok(Self {
            client: client.clone(),
            path: path.to_owned(),
            life,
            data,
            standing,
            stop,
            task: Some(tokio::spawn(keeper.run(stopped))),
        })
    }

    /// Returns the path of the znode.
    pub fn path(&self) -> &str {
        &self.path
    }

    /// Sets the data, both now and after each later creation of the znode.
    pub fn set_data(&self, data: impl Into<Bytes>) {
        self.data.send_replace(data.into());
    }

    /// Waits until the znode exists with the most recent data.
    ///
    /// # Errors
    /// If the node was closed, the session has ended, or a server refuses a request.
    pub async fn is_there(&self) -> Result<()> {
        let mut standing = self.standing.clone();
        loop {
            match &*standing.borrow_and_update() {
                NodeState::There { data, session } if self.is_current(data, *session) => {
                    return Ok(());
                }
                NodeState::There { .. } | NodeState::Missing => {}
                NodeState::Over(error) => return Err(self.end_error(error.as_ref())),
            }
            if standing.changed().await.is_err() {
                return Err(self.end_error(None));
            }
        }
    }

    /// Returns whether the znode has the wanted data, and exists in the current session.
    fn is_current(&self, data: &Bytes, session: SessionId) -> bool {
        let is_in_session = self.life != NodeLife::Session || session == self.client.session_id();
        *data == *self.data.borrow() && is_in_session
    }

    fn end_error(&self, error: Option<&Error>) -> Error {
        let path = self.path.clone();
        error.cloned().unwrap_or(Error::Closed { path })
    }

    /// Deletes the znode permanently. Without a connection, the deletion continues in the
    /// background.
    pub async fn close(mut self) {
        self.stop.send_replace(true);
        let mut state = self.client.state();
        if let Some(task) = self.task.take() {
            tokio::select! {
                biased;
                // Both branches end without a result.
                _ = task => {}
                _ = state.wait_for(|state| state.connected_session().is_none()) => {}
            }
        }
    }
}

impl Drop for PersistentNode {
    fn drop(&mut self) {
        self.stop.send_replace(true);
    }
}

/// Outcome of an attempt to create the znode of a node.
enum Found {
    /// This task has created the znode with this data.
    Created(Bytes),
    /// The znode existed. It belongs to this session, or it may belong to any client.
    Own,
    /// The znode belongs to another session.
    Foreign,
}

/// Background task of a persistent node.
struct NodeTask {
    client: Client,
    path: String,
    kind: Create,
    life: NodeLife,
    data: watch::Receiver<Bytes>,
    standing: watch::Sender<NodeState>,
}

impl NodeTask {
    async fn run(mut self, mut stopped: watch::Receiver<bool>) {
        let mut end = None;
        while !*stopped.borrow() && end.is_none() {
            // The creation must not be cancelled, because the owner of the znode would then be
            // unknown.
            end = match self.create().await {
                Ok(found) => {
                    let path = self.path.clone();
                    let client = self.client.clone();
                    tokio::select! {
                        biased;
                        kept = self.watch_znode(found, &client, &path) => kept.err(),
                        _ = stopped.wait_for(|stopped| *stopped) => None,
                    }
                }
                Err(error) => Some(error),
            };
        }
        if end.is_none()
            && let Err(error) = self.delete().await
        {
            tracing::warn!(%error, "cannot delete a znode");
        }
        self.standing.send_replace(NodeState::Over(end));
    }

    fn is_own(&self, stat: &Stat) -> bool {
        self.life != NodeLife::Session || stat.ephemeral_owner == self.client.session_id().0
    }

    /// Creates the znode, unless it exists.
    async fn create(&self) -> Result<Found> {
        loop {
            let data = self.data.borrow().clone();
            let create = || self.client.create(&self.path, data.clone(), &self.kind);
            let Err(error) = retry(&self.client, create).await else {
                return Ok(Found::Created(data));
            };
            match error.code() {
                Some(ErrorCode::NodeExists) => {}
                Some(ErrorCode::NoNode) => {
                    let parent = self.path.rsplit_once('/').map_or("", |(parent, _)| parent);
                    make_directory(&self.client, parent).await?;
                    continue;
                }
                _ => return Err(error.into()),
            }
            let existing = retry(&self.client, || self.client.exists(&self.path)).await?;
            if let Some(stat) = existing {
                return Ok(if self.is_own(&stat) {
                    Found::Own
                } else {
                    Found::Foreign
                });
            }
        }
    }

    /// Writes the current data to an own znode if necessary. Then waits until the znode is deleted,
    /// has another owner, or needs other data.
    async fn watch_znode(&mut self, found: Found, client: &Client, path: &str) -> Result<()> {
        let session = self.client.session_id();
        let data = self.data.borrow_and_update().clone();
        let is_own = !matches!(found, Found::Foreign);
        if is_own {
            if !matches!(&found, Found::Created(written) if *written == data) {
                let set = || client.set_data(path, data.clone(), -1);
                match retry(client, set).await {
                    Ok(_) => {}
                    Err(error) if error.code() == Some(ErrorCode::NoNode) => return Ok(()),
                    Err(error) => return Err(error.into()),
                }
            }
            let standing = NodeState::There { data, session };
            self.standing.send_replace(standing);
        }
        let gone = wait_until_gone(client, path, is_own, self.life);
        let changed = self.data.changed();
        let kept = tokio::select! {
            biased;
            gone = gone => gone,
            // An error means that the handle was dropped, so the task will stop soon.
            Ok(()) = changed => Ok(()),
        };
        self.standing.send_replace(NodeState::Missing);
        kept
    }

    async fn delete(&self) -> Result<()> {
        match self.life {
            NodeLife::Session => {
                let owner = self.client.session_id();
                let is_own = |_: Option<&Bytes>, stat: &Stat| stat.ephemeral_owner == owner.0;
                // If this session owns the znode and is connected, the watch would have reported a
                // deletion, so the znode still exists.
                let is_there = matches!(
                    *self.standing.borrow(),
                    NodeState::There { session, .. } if session == owner
                ) && self.client.state().borrow().connected_session() == Some(owner);
                Ok(delete_own(&self.client, &self.path, owner, is_there, is_own).await?)
            }
            NodeLife::Handle => delete(&self.client, &self.path).await,
            NodeLife::Ttl => Ok(()),
        }
    }
}

/// Waits until the znode is deleted, or until its ownership by this session differs from `is_own`.
async fn wait_until_gone(client: &Client, path: &str, is_own: bool, life: NodeLife) -> Result<()> {
    loop {
        connected(client).await?;
        let read = client.watch_data(path).await;
        if let Ok((_, stat, _)) = &read
            && life == NodeLife::Session
            && (stat.ephemeral_owner == client.session_id().0) != is_own
        {
            return Ok(());
        }
        if watch_ended(client, read).await? == WatchEnd::Deleted {
            return Ok(());
        }
    }
}
