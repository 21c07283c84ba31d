//! Concurrent reads of a subtree.

use std::collections::VecDeque;

use client::{Client, Result, Str};
use proto::ErrorCode;
use tokio::task::JoinSet;

use super::node::{CacheScope, Node};
use super::tree::Found;

/// Maximum number of unanswered reads per cache. A client accepts more requests than that, so other
/// calls of the application do not wait for the cache.
const READS_MAX: usize = 256;

/// Selection of znodes that a cache holds.
pub(super) struct Selection {
    pub(super) root: String,
    pub(super) scope: CacheScope,
    pub(super) filter: Box<dyn Fn(&str) -> bool + Send + Sync>,
}

impl Selection {
    /// Returns the depth of this path. The root of the cache has depth 0.
    fn depth(&self, path: &str) -> usize {
        path.matches('/').count() - self.root.matches('/').count()
    }

    pub(super) fn holds(&self, path: &str) -> bool {
        let is_in_scope = match self.scope {
            CacheScope::Subtree => true,
            CacheScope::Children => self.depth(path) == 1,
            CacheScope::Node => self.depth(path) == 0,
        };
        is_in_scope && (self.filter)(path)
    }

    /// Returns whether the cache may hold children of this znode.
    fn descends(&self, path: &str) -> bool {
        match self.scope {
            CacheScope::Subtree => true,
            CacheScope::Children => self.depth(path) == 0,
            CacheScope::Node => false,
        }
    }

    /// Returns the first read of a znode, or `None` if the cache does not need it.
    fn first_read(&self, path: String) -> Option<(Part, String)> {
        let part = if self.holds(&path) {
            Part::Data
        } else if self.descends(&path) {
            Part::Children
        } else {
            return None;
        };
        Some((part, path))
    }

    /// Reads a znode with its descendants. The data of a znode arrives with the number of its
    /// children, so a znode without children needs only one read.
    ///
    /// # Errors
    /// If a read fails, except for a missing or hidden znode.
    pub(super) async fn read(&self, client: &Client, root: &str) -> Result<Found> {
        let mut found = Found::default();
        let mut waiting: VecDeque<_> = self.first_read(root.to_owned()).into_iter().collect();
        let mut reads = JoinSet::new();
        loop {
            while reads.len() < READS_MAX
                && let Some((part, path)) = waiting.pop_front()
            {
                let client = client.clone();
                reads.spawn(async move {
                    let answer = part.read(&client, &path).await;
                    (path, answer)
                });
            }
            let Some(read) = reads.join_next().await else {
                return Ok(found);
            };
            // The join fails only if the read panics, which is a bug, or if the runtime shuts down.
            let Ok((path, answer)) = read else { continue };
            match answer {
                Ok(Answer::Data(node)) => {
                    if node.stat.num_children > 0 && self.descends(&path) {
                        waiting.push_back((Part::Children, path.clone()));
                    }
                    found.nodes.insert(path, node);
                }
                Ok(Answer::Children(names)) => {
                    let children = names.iter().map(|name| format!("{path}/{name}"));
                    waiting.extend(children.filter_map(|child| self.first_read(child)));
                }
                // The stream also reports a deletion between the two reads of a znode.
                Err(error) if error.code() == Some(ErrorCode::NoNode) => {
                    found.nodes.remove(&path);
                }
                Err(error) if error.code() == Some(ErrorCode::NoAuth) => {
                    found.nodes.remove(&path);
                    found.hidden.insert(path);
                }
                Err(error) => return Err(error),
            }
        }
    }
}

/// Part of a znode that one request reads.
#[derive(Debug, Clone, Copy)]
enum Part {
    Data,
    Children,
}

enum Answer {
    Data(Node),
    Children(Vec<Str>),
}

impl Part {
    async fn read(self, client: &Client, path: &str) -> Result<Answer> {
        match self {
            Self::Data => read_node(client, path).await.map(Answer::Data),
            Self::Children => client.get_children(path).await.map(Answer::Children),
        }
    }
}

/// Reads a znode without its descendants.
pub(super) async fn read_node(client: &Client, path: &str) -> Result<Node> {
    let (data, stat) = client.get_data(path).await?;
    let data = data.unwrap_or_default();
    Ok(Node { data, stat })
}
