//! Local copy of a subtree that follows its changes.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use bytes::Bytes;
use client::{AddWatchMode, Client};
use parking_lot::Mutex;
use proto::{ErrorCode, Stat};
use tokio::sync::watch;
use tokio::task::JoinHandle;

use crate::error::{Error, Result};
use crate::session::{check_path, connected, insist, may_pass};
use crate::watched::{StreamChange, next};

/// Part of a subtree that a cache holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CacheScope {
    /// The znode and all its descendants.
    Subtree,
    /// The children of the znode, without the znode itself.
    Children,
    /// The znode only.
    Node,
}

/// Function that selects paths.
type Filter = Box<dyn Fn(&str) -> bool + Send + Sync>;

/// Copy of a znode and its descendants, updated through one persistent recursive watch (servers
/// from 3.6 on).
///
/// The copy is one round trip older than the ensemble, and holds the whole subtree in memory. While
/// the connection is lost, the copy stays unchanged. After a reconnect it is read again, and all
/// changes of that time are reported. They include deletions, and znodes that were deleted and
/// created again.
///
/// ```
/// # tests::documented(async |client| {
/// use recipes::TreeCache;
///
/// # for path in ["/settings", "/settings/colour"] {
/// #     client.create(path, "blue", &client::Create::persistent()).await?;
/// # }
/// let cache = TreeCache::start(&client, "/settings")?;
/// cache.is_complete().await?;
/// assert_eq!(cache.get("/settings/colour").expect("a znode").data, "blue");
///
/// let mut revisions = cache.revisions();
/// client.set_data("/settings/colour", "green", -1).await?;
/// // The revision changes after the copy.
/// while cache.get("/settings/colour").expect("a znode").data != "green" {
///     revisions.changed().await.expect("the cache is open");
/// }
/// # Ok::<_, recipes::Error>(())
/// # });
/// ```
///
/// [`start_with`](Self::start_with) limits the copy to a znode or its children.
///
/// Source: CuratorCache, PathChildrenCache, NodeCache and kazoo's ChildrenWatch and DataWatch, but with a comparison of czxid and mzxid instead of the version.
#[derive(Debug)]
#[must_use = "dropping it stops the cache"]
pub struct TreeCache {
    path: String,
    nodes: Arc<Mutex<Nodes>>,
    standing: watch::Receiver<CacheState>,
    stop: watch::Sender<bool>,
    task: Option<JoinHandle<()>>,
}

/// Znode in a cache.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Node {
    /// Data of the znode.
    pub data: Bytes,
    /// Stat at the time when the data was read.
    pub stat: Stat,
}

type Nodes = BTreeMap<String, Node>;

#[derive(Debug, Clone)]
struct CacheState {
    /// Number of changes of the copy.
    revision: u64,
    is_complete: bool,
    end: Option<Option<Error>>,
}

impl TreeCache {
    /// Starts to follow the znode at `path`, which may be missing, and its descendants. A
    /// background task does the work, so the call requires a tokio runtime.
    ///
    /// # Errors
    /// If the path is invalid.
    pub fn start(client: &Client, path: &str) -> Result<Self> {
        Self::start_with(client, path, CacheScope::Subtree, |_| true)
    }

    /// Works like [`start`](Self::start), but holds only a part of the subtree: the znodes in this
    /// scope whose path `filter` accepts. The cache does not read the data of other znodes.
    ///
    /// # Errors
    /// If the path is invalid.
    pub fn start_with(
        client: &Client,
        path: &str,
        scope: CacheScope,
        filter: impl Fn(&str) -> bool + Send + Sync + 'static,
    ) -> Result<Self> {
        check_path(path)?;
        let nodes = Arc::<Mutex<Nodes>>::default();
        let (standing_seen, standing) = watch::channel(CacheState {
            revision: 0,
            is_complete: false,
            end: None,
        });
        let (stop, mut stopped) = watch::channel(false);
        let follower = CacheTask {
            client: client.clone(),
            path: path.to_owned(),
            scope,
            filter: Box::new(filter),
            nodes: Arc::clone(&nodes),
            standing: standing_seen,
        };
        let task = tokio::spawn(async move {
            let end = tokio::select! {
                biased;
                error = follower.run() => Some(error),
                _ = stopped.wait_for(|stopped| *stopped) => None,
            };
            follower
                .standing
                .send_modify(|standing| standing.end = Some(end));
        });
        Ok(Self {
            path: path.to_owned(),
            nodes,
            standing,
            stop,
            task: Some(task),
        })
    }

    /// Returns a znode by its full path.
    pub fn get(&self, path: &str) -> Option<Node> {
        self.nodes.lock().get(path).cloned()
    }

    /// Returns all paths in order.
    pub fn paths(&self) -> Vec<String> {
        self.nodes.lock().keys().cloned().collect()
    }

    /// Returns the names of a znode's children in order.
    pub fn children(&self, path: &str) -> Vec<String> {
        let prefix = format!("{path}/");
        let nodes = self.nodes.lock();
        let below = nodes.range(prefix.clone()..);
        let below = below.map_while(|(path, _)| path.strip_prefix(&prefix));
        let children = below.filter(|rest| !rest.contains('/'));
        children.map(str::to_owned).collect()
    }

    /// Subscribes to a number that changes after each change of the copy. Several changes may be
    /// reported as one.
    pub fn revisions(&self) -> watch::Receiver<u64> {
        let (told, revisions) = watch::channel(self.standing.borrow().revision);
        let mut standing = self.standing.clone();
        tokio::spawn(async move {
            loop {
                let (revision, is_over) = {
                    let now = standing.borrow_and_update();
                    (now.revision, now.end.is_some())
                };
                told.send_if_modified(|known| std::mem::replace(known, revision) != revision);
                if is_over {
                    return;
                }
                tokio::select! {
                    biased;
                    changed = standing.changed() => if changed.is_err() { return },
                    () = told.closed() => return,
                }
            }
        });
        revisions
    }

    /// Waits until the whole subtree was read once.
    ///
    /// # Errors
    /// If the read of the subtree cannot complete, because the cache was closed, the session has
    /// ended, or a server refuses a read.
    pub async fn is_complete(&self) -> Result<()> {
        let mut standing = self.standing.clone();
        let closed = || Error::Closed {
            path: self.path.clone(),
        };
        let settled = standing.wait_for(|now| now.is_complete || now.end.is_some());
        match settled.await {
            Ok(now) if now.is_complete => Ok(()),
            Ok(now) => Err(now.end.clone().flatten().unwrap_or_else(closed)),
            Err(_) => Err(closed()),
        }
    }

    /// Stops the cache and removes its watch.
    pub async fn close(mut self) {
        self.stop.send_replace(true);
        if let Some(task) = self.task.take() {
            // The task ends without a result.
            let _ = task.await;
        }
    }
}

impl Drop for TreeCache {
    fn drop(&mut self) {
        self.stop.send_replace(true);
    }
}

/// Background task of a cache.
struct CacheTask {
    client: Client,
    path: String,
    scope: CacheScope,
    filter: Filter,
    nodes: Arc<Mutex<Nodes>>,
    standing: watch::Sender<CacheState>,
}

impl CacheTask {
    /// Follows the subtree. Returns the first permanent error.
    async fn run(&self) -> Error {
        loop {
            if let Err(error) = self.follow().await {
                return error;
            }
        }
    }

    /// Follows the subtree through one stream until the stream ends.
    async fn follow(&self) -> Result<()> {
        connected(&self.client).await?;
        let mode = match self.scope {
            CacheScope::Node => AddWatchMode::Persistent,
            CacheScope::Subtree | CacheScope::Children => AddWatchMode::PersistentRecursive,
        };
        let mut stream = match self.client.watch_stream(&self.path, mode).await {
            Ok(stream) => stream,
            Err(error) if may_pass(&self.client, &error) => return Ok(()),
            Err(error) => return Err(error.into()),
        };
        self.read_all().await?;
        loop {
            match next(&self.client, &mut stream).await? {
                StreamChange::Deleted(path) => {
                    self.change(|nodes| nodes.remove(&path).is_some());
                }
                StreamChange::Written(path) if !self.holds(&path) => {}
                StreamChange::Written(path) => {
                    let node = self.read(&path).await?;
                    self.change(|nodes| put(nodes, &path, node));
                }
                StreamChange::Missed => self.read_all().await?,
                StreamChange::Ended => return Ok(()),
            }
        }
    }

    /// Returns the number of names between the root of the cache and this path.
    fn depth(&self, path: &str) -> usize {
        path.matches('/').count() - self.path.matches('/').count()
    }

    fn holds(&self, path: &str) -> bool {
        let is_in_scope = match self.scope {
            CacheScope::Subtree => true,
            CacheScope::Children => self.depth(path) == 1,
            CacheScope::Node => self.depth(path) == 0,
        };
        is_in_scope && (self.filter)(path)
    }

    /// Returns whether the copy may contain children of this znode.
    fn descends(&self, path: &str) -> bool {
        match self.scope {
            CacheScope::Subtree => true,
            CacheScope::Children => self.depth(path) == 0,
            CacheScope::Node => false,
        }
    }

    async fn read(&self, path: &str) -> Result<Option<Node>> {
        match insist(&self.client, || self.client.get_data(path)).await {
            Ok((data, stat)) => {
                let data = data.unwrap_or_default();
                Ok(Some(Node { data, stat }))
            }
            Err(error) if error.code() == Some(ErrorCode::NoNode) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// Reads the subtree and replaces the copy. Events that arrive meanwhile wait in the stream and
    /// are applied afterwards.
    async fn read_all(&self) -> Result<()> {
        let mut found = Nodes::new();
        let mut waiting = VecDeque::from([self.path.clone()]);
        while let Some(path) = waiting.pop_front() {
            let is_held = self.holds(&path);
            let node = if is_held {
                self.read(&path).await?
            } else {
                None
            };
            if is_held && node.is_none() {
                continue;
            }
            if self.descends(&path) {
                let names = match insist(&self.client, || self.client.get_children(&path)).await {
                    Err(error) if error.code() == Some(ErrorCode::NoNode) => continue,
                    other => other?,
                };
                waiting.extend(names.iter().map(|name| format!("{path}/{name}")));
            }
            found.extend(node.map(|node| (path, node)));
        }
        self.change(|nodes| {
            let is_new = *nodes != found;
            *nodes = found;
            is_new
        });
        self.standing
            .send_if_modified(|now| !std::mem::replace(&mut now.is_complete, true));
        Ok(())
    }

    /// Changes the copy. Reports a new revision if `change` returns true.
    fn change(&self, change: impl FnOnce(&mut Nodes) -> bool) {
        let is_changed = change(&mut self.nodes.lock());
        if is_changed {
            self.standing.send_modify(|standing| standing.revision += 1);
        }
    }
}

/// Applies a read znode unless the copy contains a later state. Returns whether the copy has
/// changed.
fn put(nodes: &mut Nodes, path: &str, node: Option<Node>) -> bool {
    let Some(node) = node else {
        return nodes.remove(path).is_some();
    };
    match nodes.get(path) {
        Some(known) if known.stat.mzxid > node.stat.mzxid || *known == node => false,
        _ => {
            nodes.insert(path.to_owned(), node);
            true
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(czxid: i64, mzxid: i64) -> Option<Node> {
        let stat = Stat {
            czxid,
            mzxid,
            ..Stat::default()
        };
        let data = Bytes::from(mzxid.to_string());
        Some(Node { data, stat })
    }

    #[test]
    fn the_later_version_is_kept() {
        let mut nodes = Nodes::new();
        assert!(put(&mut nodes, "/a", node(1, 5)));
        assert!(!put(&mut nodes, "/a", node(1, 5)));
        assert!(!put(&mut nodes, "/a", node(1, 4)));
        assert!(put(&mut nodes, "/a", node(6, 6)), "rebuilding it");
        assert!(put(&mut nodes, "/a", None));
        assert!(!put(&mut nodes, "/a", None));
        assert!(nodes.is_empty());
    }
}
