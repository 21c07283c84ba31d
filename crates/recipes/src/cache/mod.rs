//! Local copy of a subtree that follows its changes.

mod events;
mod node;
mod reads;
mod task;
mod tree;

use std::sync::Arc;

use client::Client;
use parking_lot::Mutex;
use tokio::sync::watch;
use tokio::task::JoinHandle;

pub use self::events::{CacheEvent, CacheEvents};
use self::node::CacheState;
pub use self::node::{CacheScope, Node};
use self::reads::Selection;
use self::task::CacheTask;
use self::tree::CachedTree;
use crate::error::{Error, Result};
use crate::session::check_path;

/// Copy of a znode and its descendants, updated through one persistent recursive watch (servers
/// from 3.6 on).
///
/// The copy lags the ensemble by about one round trip, and holds the whole subtree in memory. While
/// the connection is lost, the copy stays unchanged. After a reconnect it is read again, and all
/// changes during the loss are reported. They include deletions, and znodes that were deleted and
/// created again. [`events`](Self::events) reports each change, as well as the loss and the return
/// of the connection.
///
/// The cache omits znodes that the client may not read, and their descendants.
/// [`hidden`](Self::hidden) lists these znodes. Any other refused read, and the end of the session,
/// ends the cache: [`ended`](Self::ended) returns the reason.
///
/// ```
/// # tests::documented(async |client| {
/// use zoarium_recipes::{CacheEvent, TreeCache};
///
/// # for path in ["/settings", "/settings/colour"] {
/// #     client.create(path, "blue", &client::Create::persistent()).await?;
/// # }
/// let cache = TreeCache::start(&client, "/settings")?;
/// cache.is_complete().await?;
/// assert_eq!(cache.get("/settings/colour").expect("a znode").data, "blue");
///
/// // The first events describe the znodes that the cache holds, possibly with the new data.
/// let mut events = cache.events();
/// client.set_data("/settings/colour", "green", -1).await?;
/// loop {
///     match events.next().await? {
///         CacheEvent::Added { path, node } | CacheEvent::Changed { path, node, .. }
///             if node.data == "green" =>
///         {
///             assert_eq!(path, "/settings/colour");
///             break;
///         }
///         CacheEvent::Lost => println!("the cache may be out of date"),
///         _ => {}
///     }
/// }
/// # Ok::<_, zoarium_recipes::Error>(())
/// # });
/// ```
///
/// [`start_with`](Self::start_with) limits the copy to a znode or its children.
///
/// Source: CuratorCache, TreeCache, PathChildrenCache, NodeCache and kazoo's ChildrenWatch and
/// DataWatch, but with a comparison of czxid and mzxid instead of the version.
#[derive(Debug)]
#[must_use = "dropping it stops the cache"]
pub struct TreeCache {
    path: String,
    tree: Arc<Mutex<CachedTree>>,
    state: watch::Receiver<CacheState>,
    stop: watch::Sender<bool>,
    task: Option<JoinHandle<()>>,
}

impl TreeCache {
    /// Starts following the znode at `path`, which may be missing, and its descendants. A
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
    /// ```
    /// # tests::documented(async |client| {
    /// use zoarium_recipes::{CacheScope, TreeCache};
    ///
    /// let all = |_: &str| true;
    /// let hosts = TreeCache::start_with(&client, "/hosts", CacheScope::Children, all)?;
    /// let colour = TreeCache::start_with(&client, "/colour", CacheScope::Node, all)?;
    /// hosts.is_complete().await?;
    /// colour.is_complete().await?;
    /// assert!(hosts.paths().is_empty() && colour.get("/colour").is_none());
    /// # Ok::<_, zoarium_recipes::Error>(())
    /// # });
    /// ```
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
        let tree = Arc::<Mutex<CachedTree>>::default();
        let (state_sent, state) = watch::channel(CacheState {
            revision: 0,
            is_complete: false,
            end: None,
        });
        let (stop, mut stopped) = watch::channel(false);
        let task = CacheTask {
            client: client.clone(),
            selection: Selection {
                root: path.to_owned(),
                scope,
                filter: Box::new(filter),
            },
            tree: Arc::clone(&tree),
            state: state_sent,
        };
        let closed = closed(path);
        let task = tokio::spawn(async move {
            let end = tokio::select! {
                biased;
                error = task.run() => error,
                _ = stopped.wait_for(|stopped| *stopped) => closed,
            };
            if !matches!(end, Error::Closed { .. }) {
                let path = task.selection.root.as_str();
                tracing::warn!(path, error = %end, "the cache has ended, and does not change any more");
            }
            task.state.send_modify(|state| state.end = Some(end));
        });
        Ok(Self {
            path: path.to_owned(),
            tree,
            state,
            stop,
            task: Some(task),
        })
    }

    /// Returns the znode at this full path, or `None` if the cache does not hold it.
    pub fn get(&self, path: &str) -> Option<Node> {
        self.tree.lock().nodes().get(path).cloned()
    }

    /// Returns the paths of all znodes that the cache holds, in order.
    pub fn paths(&self) -> Vec<String> {
        self.tree.lock().nodes().keys().cloned().collect()
    }

    /// Returns the names of a znode's children that the cache holds, in order.
    pub fn children(&self, path: &str) -> Vec<String> {
        let prefix = format!("{path}/");
        let tree = self.tree.lock();
        let below = tree.nodes().range(prefix.clone()..);
        let below = below.map_while(|(path, _)| path.strip_prefix(&prefix));
        let children = below.filter(|rest| !rest.contains('/'));
        children.map(str::to_owned).collect()
    }

    /// Returns the paths of the znodes that the client may not read, in order. The cache does not
    /// hold these znodes or their descendants.
    ///
    /// The server does not report changes of these znodes, and does not report changes of ACLs.
    /// Each entry is therefore as old as the last read of its znode. The cache reads znodes at the
    /// start, after an event, and after a reconnect.
    pub fn hidden(&self) -> Vec<String> {
        self.tree.lock().hidden().iter().cloned().collect()
    }

    /// Subscribes to the events of the cache. The stream begins with the znodes that the cache
    /// already holds.
    pub fn events(&self) -> CacheEvents {
        CacheEvents::new(&self.path, &self.tree, self.state.clone())
    }

    /// Subscribes to a number that changes after each change of the copy. One report may cover
    /// several changes.
    pub fn revisions(&self) -> watch::Receiver<u64> {
        let (sender, revisions) = watch::channel(self.state.borrow().revision);
        let mut state = self.state.clone();
        tokio::spawn(async move {
            loop {
                let (revision, is_over) = {
                    let now = state.borrow_and_update();
                    (now.revision, now.end.is_some())
                };
                sender.send_if_modified(|known| std::mem::replace(known, revision) != revision);
                if is_over {
                    return;
                }
                tokio::select! {
                    biased;
                    changed = state.changed() => if changed.is_err() { return },
                    () = sender.closed() => return,
                }
            }
        });
        revisions
    }

    /// Waits until the whole subtree has been read once.
    ///
    /// # Errors
    /// If the cache has ended, even if it was complete. [`ended`](Self::ended) describes the
    /// reasons.
    pub async fn is_complete(&self) -> Result<()> {
        let mut state = self.state.clone();
        let settled = state.wait_for(|now| now.is_complete || now.end.is_some());
        match settled.await {
            Ok(now) => now.end.clone().map_or(Ok(()), Err),
            Err(_) => Err(closed(&self.path)),
        }
    }

    /// Waits until the cache has ended, and returns the reason: the session has ended, or a server
    /// refused a read for a reason other than an ACL. The copy no longer changes.
    pub async fn ended(&self) -> Error {
        let mut state = self.state.clone();
        match state.wait_for(|now| now.end.is_some()).await {
            Ok(now) => now.end.clone().unwrap_or_else(|| closed(&self.path)),
            Err(_) => closed(&self.path),
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

fn closed(path: &str) -> Error {
    let path = path.to_owned();
    Error::Closed { path }
}
