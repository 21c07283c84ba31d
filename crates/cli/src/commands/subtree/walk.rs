//! Walk through a subtree that requests the next znodes ahead of their turns.
//!
//! Each znode is read at the time of its request. Znodes that are created or deleted during the
//! walk may or may not be visible.

use bytes::Bytes;
use client::{Client, Error};
use proto::{Acl, Stat};

use super::read_ahead::ReadAhead;
use crate::exit;
use crate::failure::Failure;
use crate::output::text::number;
use crate::parse::path;
use crate::shell::Shell;

/// Properties that are requested for each znode.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum WalkedProperties {
    /// Stat and names of the children.
    Names,
    /// Data and ACL, in addition to the Stat and names.
    All,
}

/// Znode that the walk has reached.
pub(crate) struct WalkedZnode {
    pub(crate) path: String,
    /// Names of its children, sorted.
    pub(crate) names: Vec<String>,
    pub(crate) stat: Stat,
    /// Depth below the root of the walk.
    pub(crate) depth: usize,
    /// Data of the znode. Present only with [`WalkedProperties::All`].
    pub(crate) data: Option<Bytes>,
    /// ACL of the znode. Empty without [`WalkedProperties::All`].
    pub(crate) acl: Vec<Acl>,
}

/// Answers from the server about a znode.
struct ZnodeAnswers {
    names: Vec<String>,
    stat: Stat,
    data: Option<Bytes>,
    acl: Vec<Acl>,
}

/// Znode that waits for its turn.
struct PendingZnode {
    path: String,
    depth: usize,
}

/// Walk through a subtree, with each znode before its children, and siblings in the order of their
/// names.
pub(crate) struct Walk {
    wanted: WalkedProperties,
    deepest: usize,
    read_ahead: ReadAhead<PendingZnode, Result<ZnodeAnswers, Error>>,
    is_at_root: bool,
    omits_ensemble: bool,
    /// Number of skipped znodes that had not been deleted.
    unreadable: usize,
    /// Exit code of the first of them.
    exit: u8,
    has_ended: bool,
}

impl Walk {
    /// Starts a walk at the znode `root`, down to `deepest` levels below it.
    pub(crate) fn new(root: &str, deepest: usize, wanted: WalkedProperties) -> Self {
        let mut read_ahead = ReadAhead::default();
        read_ahead.push(PendingZnode {
            path: root.to_owned(),
            depth: 0,
        });
        Self {
            wanted,
            deepest,
            read_ahead,
            is_at_root: true,
            omits_ensemble: false,
            unreadable: 0,
            exit: exit::DONE,
            has_ended: false,
        }
    }

    /// Omits the ensemble's own znodes.
    #[must_use]
    pub(crate) fn without_ensemble(mut self) -> Self {
        self.omits_ensemble = true;
        self
    }

    /// Returns whether the walk has reached the end of the subtree.
    pub(crate) fn has_ended(&self) -> bool {
        self.has_ended
    }

    /// Reports a znode that cannot be read.
    pub(crate) fn skip(&mut self, shell: &mut Shell, failure: &Failure) {
        shell.print_error(&failure.text);
        if failure.is_no_node() {
            return;
        }
        if self.unreadable == 0 {
            self.exit = failure.exit;
        }
        self.unreadable += 1;
    }

    /// Returns the next znode. Reports and skips a deleted or unreadable znode, except the root.
    ///
    /// # Errors
    /// If the root cannot be read, or the connection is lost. At the end, if a znode that exists
    /// could not be read.
    pub(crate) async fn next(&mut self, shell: &mut Shell) -> Result<Option<WalkedZnode>, Failure> {
        while let Some(first) = self.read_ahead.first() {
            let client = shell.client(&first.path).await?;
            let ask_of = |next: &PendingZnode| {
                request_znode(client.clone(), shell.with_chroot(&next.path), self.wanted)
            };
            let Some((PendingZnode { path, depth }, answer)) = self.read_ahead.next(ask_of).await?
            else {
                break;
            };
            let is_root = std::mem::take(&mut self.is_at_root);
            let is_omitted = self.omits_ensemble && is_of_the_ensemble(&shell.with_chroot(&path));
            let found = match answer {
                Err(error) if is_root || error.code().is_none() => {
                    return Err(Failure::of(&error, &path));
                }
                _ if is_omitted => continue,
                Ok(found) => found,
                Err(error) => {
                    self.skip(shell, &Failure::of(&error, &path));
                    continue;
                }
            };
            return Ok(Some(self.take(path, depth, found)));
        }
        self.has_ended = true;
        if self.unreadable == 0 {
            return Ok(None);
        }
        let text = format!("{} not readable", number(self.unreadable, "znode"));
        Err(Failure::new(text).with_exit(self.exit))
    }

    fn take(&mut self, path: String, depth: usize, found: ZnodeAnswers) -> WalkedZnode {
        let ZnodeAnswers {
            mut names,
            stat,
            data,
            acl,
        } = found;
        names.sort_unstable();
        if depth < self.deepest {
            self.read_ahead
                .push_first(names.iter().map(|name| PendingZnode {
                    path: path::child(&path, name),
                    depth: depth + 1,
                }));
        }
        self.read_ahead
            .note_data_len(data.as_ref().map_or(0, Bytes::len));
        WalkedZnode {
            path,
            names,
            stat,
            depth,
            data,
            acl,
        }
    }
}

/// Returns whether a path of the server is at or below `/zookeeper`, which contains the ensemble's
/// own znodes.
pub(super) fn is_of_the_ensemble(outside: &str) -> bool {
    outside == "/zookeeper" || outside.starts_with("/zookeeper/")
}

async fn request_znode(
    client: Client,
    path: String,
    wanted: WalkedProperties,
) -> Result<ZnodeAnswers, Error> {
    if wanted == WalkedProperties::Names {
        let (names, stat) = client.get_children2(&path).await?;
        return Ok(ZnodeAnswers {
            names: names.iter().map(ToString::to_string).collect(),
            stat,
            data: None,
            acl: Vec::new(),
        });
    }
    let (read, acl) = tokio::join!(client.get_data(&path), client.get_acl(&path));
    let ((data, stat), (acl, _)) = (read?, acl?);
    // The names of children are requested only if the znode has children. Most znodes do not have
    // children.
    let names = match stat.num_children {
        0 => Vec::new(),
        _ => client.get_children(&path).await?,
    };
    Ok(ZnodeAnswers {
        names: names.iter().map(ToString::to_string).collect(),
        stat,
        data,
        acl,
    })
}
