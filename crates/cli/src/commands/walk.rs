//! A walk through a subtree, whose next znodes are asked for before their turn.
//!
//! The subtree is as it is at the moment of each request: what is created or deleted meanwhile may or may not be seen.

use bytes::Bytes;
use client::{Client, Error};
use proto::{Acl, Stat};
use tokio::task::JoinHandle;

use crate::failure::Failure;
use crate::path;
use crate::shell::Shell;

/// Znodes that are asked for before their turn, at most, at each level of the tree.
const AHEAD_MAX: usize = 256;

/// And at least, however much data they have.
const AHEAD_MIN: usize = 4;

/// Bytes of data that may be there before their turn, as far as the znodes before tell how much the next ones have.
const AHEAD_BYTES: usize = 8 << 20;

/// What is asked for of each znode.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Wanted {
    /// Its Stat and the names of its children.
    Names,
    /// Its data and ACL as well.
    All,
}

/// A znode of the walk.
pub(super) struct Seen {
    pub(super) path: String,
    /// Of its children, sorted.
    pub(super) names: Vec<String>,
    pub(super) stat: Stat,
    /// How far below the root of the walk it is.
    pub(super) depth: usize,
    /// With [`Wanted::All`].
    pub(super) data: Option<Bytes>,
    /// With [`Wanted::All`].
    pub(super) acl: Vec<Acl>,
}

/// What the server has said of a znode.
struct Found {
    names: Vec<String>,
    stat: Stat,
    data: Option<Bytes>,
    acl: Vec<Acl>,
}

/// A znode whose turn comes.
struct Waiting {
    path: String,
    depth: usize,
    /// `None` until it is asked for.
    asked: Option<JoinHandle<Result<Found, Error>>>,
}

/// Walks a subtree in the order of the paths, each znode in front of its children.
pub(super) struct Walk {
    wanted: Wanted,
    deepest: usize,
    /// The next one is the last.
    waiting: Vec<Waiting>,
    /// From this place on all that wait have been asked for.
    asked_from: usize,
    /// How many are asked for before their turn.
    ahead: usize,
    /// Mean of the lengths of the data seen, the latest count most.
    mean_bytes: usize,
    is_at_root: bool,
}

impl Walk {
    /// Of the znode `root` and so many levels below it.
    pub(super) fn new(root: &str, deepest: usize, wanted: Wanted) -> Self {
        let root = Waiting {
            path: root.to_owned(),
            depth: 0,
            asked: None,
        };
        Self {
            wanted,
            deepest,
            waiting: vec![root],
            asked_from: 1,
            ahead: AHEAD_MAX,
            mean_bytes: 0,
            is_at_root: true,
        }
    }

    /// The next znode. One that was deleted meanwhile or may not be read is complained of and left out, but for the
    /// root.
    ///
    /// # Errors
    /// The root cannot be read; the connection is lost.
    pub(super) async fn next(&mut self, shell: &mut Shell) -> Result<Option<Seen>, Failure> {
        while let Some(path) = self.waiting.last().map(|next| next.path.clone()) {
            let client = shell.client(&path).await?;
            self.ask_ahead(shell, &client);
            let Some(Waiting { depth, asked, .. }) = self.waiting.pop() else {
                break;
            };
            self.asked_from = self.asked_from.min(self.waiting.len());
            let is_root = std::mem::take(&mut self.is_at_root);
            let answer = match asked {
                Some(asked) => asked
                    .await
                    .map_err(|broken| Failure::new(format!("zoarium: {broken}")))?,
                None => ask(client, shell.outside(&path), self.wanted).await,
            };
            let found = match answer {
                Ok(found) => found,
                Err(error) if is_root || error.code().is_none() => {
                    return Err(Failure::of(&error, &path));
                }
                Err(error) => {
                    shell.complain(&Failure::of(&error, &path).text);
                    continue;
                }
            };
            return Ok(Some(self.take(path, depth, found)));
        }
        Ok(None)
    }

    /// Asks for the next ones that have not been asked for.
    fn ask_ahead(&mut self, shell: &Shell, client: &Client) {
        let until = self.waiting.len().saturating_sub(self.ahead);
        while self.asked_from > until {
            self.asked_from -= 1;
            let next = &mut self.waiting[self.asked_from];
            if next.asked.is_none() {
                let outside = shell.outside(&next.path);
                next.asked = Some(tokio::spawn(ask(client.clone(), outside, self.wanted)));
            }
        }
    }

    fn take(&mut self, path: String, depth: usize, found: Found) -> Seen {
        let Found {
            mut names,
            stat,
            data,
            acl,
        } = found;
        names.sort_unstable();
        if depth < self.deepest {
            let below = names.iter().rev().map(|name| Waiting {
                path: path::child(&path, name),
                depth: depth + 1,
                asked: None,
            });
            self.waiting.extend(below);
            if !names.is_empty() {
                self.asked_from = self.waiting.len();
            }
        }
        self.has_seen(data.as_ref().map_or(0, Bytes::len));
        Seen {
            path,
            names,
            stat,
            depth,
            data,
            acl,
        }
    }

    /// Znodes with much data are asked for a few at a time.
    fn has_seen(&mut self, bytes: usize) {
        self.mean_bytes = (self.mean_bytes * 15 + bytes) / 16;
        self.ahead = (AHEAD_BYTES / self.mean_bytes.max(1)).clamp(AHEAD_MIN, AHEAD_MAX);
    }
}

impl Drop for Walk {
    fn drop(&mut self) {
        let asked = self.waiting.iter().filter_map(|next| next.asked.as_ref());
        asked.for_each(JoinHandle::abort);
    }
}

async fn ask(client: Client, path: String, wanted: Wanted) -> Result<Found, Error> {
    if wanted == Wanted::Names {
        let (names, stat) = client.get_children2(&path).await?;
        return Ok(Found {
            names: names.iter().map(ToString::to_string).collect(),
            stat,
            data: None,
            acl: Vec::new(),
        });
    }
    let (read, acl) = tokio::join!(client.get_data(&path), client.get_acl(&path));
    let ((data, stat), (acl, _)) = (read?, acl?);
    // Most znodes have none, and are not asked.
    let names = match stat.num_children {
        0 => Vec::new(),
        _ => client.get_children(&path).await?,
    };
    Ok(Found {
        names: names.iter().map(ToString::to_string).collect(),
        stat,
        data,
        acl,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn large_znodes_are_asked_for_a_few_at_a_time() {
        let mut walk = Walk::new("/", usize::MAX, Wanted::All);
        for _ in 0..100 {
            walk.has_seen(100);
        }
        assert_eq!(walk.ahead, AHEAD_MAX);
        for _ in 0..100 {
            walk.has_seen(1 << 20);
        }
        assert!(walk.ahead <= 9, "{}", walk.ahead);
        for _ in 0..100 {
            walk.has_seen(100 << 20);
        }
        assert_eq!(walk.ahead, AHEAD_MIN);
    }
}
