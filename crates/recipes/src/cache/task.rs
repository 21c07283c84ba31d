//! Background task of a cache.
//!
//! After a lost connection the stream of the watch reports [`StreamChange::Missed`], and the task
//! reads the subtree again. The task therefore abandons a read when the connection is lost. The
//! result would be replaced anyway, and waiting for it would delay the report of the loss.

use std::sync::Arc;

use client::{AddWatchMode, Client, State};
use parking_lot::Mutex;
use proto::ErrorCode;
use tokio::sync::watch;

use super::node::{CacheScope, CacheState, Node, Nodes};
use super::reads::{Selection, read_node};
use super::tree::{CachedTree, Found};
use crate::error::{Error, Result};
use crate::session::{connected, is_transient};
use crate::watched::{StreamChange, next_change};

pub(super) struct CacheTask {
    pub(super) client: Client,
    pub(super) selection: Selection,
    pub(super) tree: Arc<Mutex<CachedTree>>,
    pub(super) state: watch::Sender<CacheState>,
}

/// Part of the copy to read after an event.
enum Stale {
    Node,
    Subtree(String),
}

impl CacheTask {
    /// Follows the subtree. Returns the first permanent error.
    pub(super) async fn run(&self) -> Error {
        loop {
            if let Err(error) = self.follow().await {
                return error;
            }
        }
    }

    /// Follows the subtree through one stream until the stream ends.
    async fn follow(&self) -> Result<()> {
        let is_connected = |state: &State| state.connected_session().is_some();
        if !is_connected(&self.client.state().borrow()) {
            self.lose();
        }
        connected(&self.client).await?;
        let root = &self.selection.root;
        let mode = match self.selection.scope {
            CacheScope::Node => AddWatchMode::Persistent,
            CacheScope::Subtree | CacheScope::Children => AddWatchMode::PersistentRecursive,
        };
        let mut stream = match self.client.watch_stream(root, mode).await {
            Ok(stream) => stream,
            Err(error) if is_transient(&self.client, &error) => return Ok(()),
            Err(error) => return Err(error.into()),
        };
        // Each subscription starts after the watch, so the stream reports every loss that is visible
        // in `state`.
        let mut state = self.client.state();
        let mut is_stale = true;
        loop {
            if std::mem::take(&mut is_stale) {
                if is_connected(&state.borrow_and_update()) {
                    self.read_all(&mut state).await?;
                } else {
                    self.lose();
                }
            }
            let is_lost = self.tree.lock().is_lost();
            let change = tokio::select! {
                biased;
                Ok(()) = state.changed(), if !is_lost => {
                    self.lose();
                    continue;
                }
                change = next_change(&self.client, &mut stream) => change?,
            };
            match change {
                StreamChange::Deleted(ref path) => self.change(|tree| tree.remove(path)),
                StreamChange::Written(ref path) => self.read_changed(&mut state, path).await?,
                StreamChange::Missed | StreamChange::Ended => {
                    // Without a change of the state, the task was too slow for the events, or the
                    // application removed the watch.
                    if state.has_changed().unwrap_or(true) {
                        self.lose();
                    }
                    if matches!(change, StreamChange::Ended) {
                        return Ok(());
                    }
                    connected(&self.client).await?;
                    // The old listener may receive the new connection later than `connected`.
                    state = self.client.state();
                    is_stale = true;
                }
            }
        }
    }

    /// Reads all znodes of the cache. Events that arrive meanwhile wait in the stream and are
    /// applied afterwards.
    async fn read_all(&self, state: &mut watch::Receiver<State>) -> Result<()> {
        let root = &self.selection.root;
        let reading = self.selection.read(&self.client, root);
        if let Some(found) = self.while_connected(state, reading).await? {
            self.replace(root, found);
            let is_back = self.tree.lock().restore();
            self.state
                .send_if_modified(|now| !std::mem::replace(&mut now.is_complete, true) || is_back);
        }
        Ok(())
    }

    /// Reads the part of the copy that is affected by the creation or write of this znode.
    async fn read_changed(&self, state: &mut watch::Receiver<State>, path: &str) -> Result<()> {
        match self.stale(path) {
            None => {}
            Some(Stale::Subtree(root)) => {
                let reading = self.selection.read(&self.client, &root);
                if let Some(found) = self.while_connected(state, reading).await? {
                    self.replace(&root, found);
                }
            }
            Some(Stale::Node) => {
                let reading = async { Ok(read_node(&self.client, path).await) };
                if let Some(read) = self.while_connected(state, reading).await? {
                    self.put(path, read)?;
                }
            }
        }
        Ok(())
    }

    /// Returns the part of the copy that is affected by an event about this path.
    fn stale(&self, path: &str) -> Option<Stale> {
        let (tree, selection) = (self.tree.lock(), &self.selection);
        // The cache cannot list the descendants of a hidden znode, so the copy never holds them.
        if tree.is_below_hidden(path) {
            return None;
        }
        if tree.hidden().contains(path) {
            return Some(Stale::Subtree(path.to_owned()));
        }
        if !selection.holds(path) {
            return None;
        }
        // The copy lacks a parent that was hidden at its creation, because the server did not
        // report this creation.
        let parent = path.rsplit_once('/').map_or("", |(parent, _)| parent);
        let is_known =
            path == selection.root || !selection.holds(parent) || tree.nodes().contains_key(parent);
        Some(if is_known {
            Stale::Node
        } else {
            Stale::Subtree(parent.to_owned())
        })
    }

    fn put(&self, path: &str, read: client::Result<Node>) -> Result<()> {
        match read {
            Ok(node) => self.change(|tree| tree.put(path, node)),
            Err(error) => match error.code() {
                Some(ErrorCode::NoNode) => self.change(|tree| tree.remove(path)),
                Some(ErrorCode::NoAuth) => {
                    let hidden = [path.to_owned()].into();
                    let nodes = Nodes::new();
                    self.replace(path, Found { nodes, hidden });
                }
                // The stream reports the loss.
                _ if is_transient(&self.client, &error) => {}
                _ => return Err(error.into()),
            },
        }
        Ok(())
    }

    /// Replaces a part of the copy, and logs a warning about newly hidden znodes.
    fn replace(&self, root: &str, found: Found) {
        let first = found.hidden.first().cloned();
        let count = found.hidden.len();
        let is_known = self.tree.lock().hidden().is_superset(&found.hidden);
        self.change(|tree| tree.replace(root, found));
        if let Some(first) = first.filter(|_| !is_known) {
            tracing::warn!(
                cache = self.selection.root,
                count,
                first,
                "the cache omits znodes that this client may not read, and their descendants"
            );
        }
    }

    /// Waits for reads. Returns `None` if the connection is lost first. The stream also reports the
    /// loss.
    async fn while_connected<T>(
        &self,
        state: &mut watch::Receiver<State>,
        reading: impl Future<Output = client::Result<T>>,
    ) -> Result<Option<T>> {
        let read = tokio::select! {
            biased;
            Ok(()) = state.changed() => {
                self.lose();
                return Ok(None);
            }
            read = reading => read,
        };
        match read {
            Ok(read) => Ok(Some(read)),
            Err(error) if is_transient(&self.client, &error) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    fn lose(&self) {
        let is_new = self.tree.lock().lose();
        self.state.send_if_modified(|_| is_new);
    }

    /// Changes the copy. Publishes a new revision if `change` returns true.
    fn change(&self, change: impl FnOnce(&mut CachedTree) -> bool) {
        let is_changed = change(&mut self.tree.lock());
        if is_changed {
            self.state.send_modify(|state| state.revision += 1);
        }
    }
}
