//! Permissions of a viewer of a history, by a separate rule.
//!
//! A client sees a change or a znode if it could read the znode then and may read it now. The
//! current ACL of a deleted znode is its last ACL. Only super users see a znode whose ACL is
//! unknown.

use std::rc::Rc;

use history::record::{AclEntry, AclList, Change, Content, Znode};
use history::{Position, Viewer};
use prost::Message;
use proto::data::perms;
use proto::{Id, Zxid};
use testkit::Random;

use super::model::Model;
use super::{Comparison, plain_content};

/// Znode whose data only viewers of secrets see.
const CONFIG: &str = "/zookeeper/config";

/// A viewer.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Sight {
    Owner { shows_secrets: bool },
    Client(Vec<Id>),
}

impl Sight {
    /// Draws a viewer. `user` is the digest id of an ordinary user.
    pub(super) fn drawn(random: &mut Random, user: &str) -> Self {
        let id = |scheme: &str, id: &str| Id {
            scheme: scheme.into(),
            id: id.into(),
        };
        match random.below(6) {
            0 | 1 => Self::Owner {
                shows_secrets: true,
            },
            2 => Self::Owner {
                shows_secrets: false,
            },
            3 => Self::Client(Vec::new()),
            4 => Self::Client(vec![id("digest", user)]),
            _ => Self::Client(vec![id("super", "")]),
        }
    }

    pub(crate) fn viewer<'a>(&'a self, model: &'a Model) -> Viewer<'a> {
        match self {
            Self::Owner { shows_secrets } => Viewer::FileOwner {
                shows_secrets: *shows_secrets,
            },
            Self::Client(identities) => Viewer::Client {
                tree: &model.tree,
                identities,
            },
        }
    }

    fn is_super(&self) -> bool {
        let Self::Client(identities) = self else {
            return false;
        };
        identities.iter().any(|id| id.scheme == "super")
    }

    fn sees_secrets(&self) -> bool {
        match self {
            Self::Owner { shows_secrets } => *shows_secrets,
            Self::Client(_) => self.is_super(),
        }
    }

    pub(super) fn sees_origins(&self) -> bool {
        matches!(self, Self::Owner { .. }) || self.is_super()
    }

    /// Returns whether the viewer may read a znode with this ACL; `None` if the ACL is unknown.
    fn permits(&self, acl: Option<&Content>) -> bool {
        let Self::Client(identities) = self else {
            return true;
        };
        if self.is_super() {
            return true;
        }
        let Some(acl) = acl.and_then(|acl| AclList::decode(acl.inline.clone()?).ok()) else {
            return false;
        };
        let names = |entry: &AclEntry, id: &Id| entry.scheme == *id.scheme && entry.id == *id.id;
        acl.entries.iter().any(|entry| {
            let is_open = entry.scheme == "world" && entry.id == "anyone";
            let is_meant = is_open || identities.iter().any(|id| names(entry, id));
            entry.perms & perms::READ != 0 && is_meant
        })
    }
}

impl Comparison<'_> {
    /// Returns the ACL of a znode after a change; `None` if the ACL is unknown or the znode is
    /// missing.
    fn acl_after(&self, path: &str, position: Position) -> Option<Content> {
        if !self.ranges.knows(position.zxid.0) {
            return None;
        }
        self.model.znode_after(path, position)?.acl.clone()
    }

    /// Returns whether the viewer may read a znode now.
    pub(super) fn may_see_now(&self, path: &str) -> bool {
        if matches!(self.sight, Sight::Owner { .. }) {
            return true;
        }
        let now = self.model.znode(path, i64::MAX);
        let in_tree = now
            .as_ref()
            .map(|znode| self.sight.permits(znode.acl.as_ref()));
        if in_tree == Some(false) {
            return false;
        }
        let head = Position::after(Zxid(self.ranges.head()));
        let at_head = self.acl_after(path, head);
        let last = at_head.or_else(|| self.acl_before(&self.last_deletion(path)?));
        match last {
            None if in_tree == Some(true) => true,
            last => self.sight.permits(last.as_ref()),
        }
    }

    /// Returns the last recorded deletion of a path, unless a hole follows it.
    pub(super) fn last_deletion(&self, path: &str) -> Option<Change> {
        let mut changes = self.changes.iter().rev();
        let last = changes.find(|change| change.path == path && change.is_delete())?;
        (last.zxid > self.ranges.whole_after()).then(|| last.clone())
    }

    fn acl_before(&self, change: &Change) -> Option<Content> {
        self.acl_after(&change.path, before(change))
    }

    /// Returns whether the viewer sees a change.
    pub(super) fn sees_change(&self, change: &Change) -> bool {
        if self.sight.sees_secrets() {
            return true;
        }
        let then = if change.acl.is_some() {
            change.acl.clone()
        } else if change.is_delete() {
            self.acl_before(change)
        } else {
            self.acl_after(&change.path, change.position())
        };
        self.sight.permits(then.as_ref()) && self.may_see_now(&change.path)
    }

    /// Returns whether a feed may show a change although the history does not know the ACL that
    /// protected it: the feed may have passed the change that set the ACL. The viewer could read
    /// the znode then, by the committed transactions, and the tree does not forbid it now.
    pub(super) fn is_remembered(&self, change: &Change) -> bool {
        let position = if change.is_delete() {
            before(change)
        } else {
            change.position()
        };
        let then = self.model.znode_after(&change.path, position);
        let now = self.model.znode(&change.path, i64::MAX);
        let permits = |znode: Rc<Znode>| self.sight.permits(znode.acl.as_ref());
        !self.ranges.knows(position.zxid.0) && then.is_some_and(permits) && now.is_none_or(permits)
    }

    /// Returns whether the viewer sees a past state.
    pub(super) fn sees_znode(&self, path: &str, znode: &Znode) -> bool {
        self.sight.permits(znode.acl.as_ref()) && self.may_see_now(path)
    }

    /// Returns whether the viewer could read a past state then.
    pub(super) fn could_read(&self, znode: &Znode) -> bool {
        self.sight.permits(znode.acl.as_ref())
    }

    /// Returns a change as the viewer sees it.
    pub(super) fn shown(&self, mut change: Change) -> Change {
        let path = change.path.clone();
        self.hide(&path, change.data.as_mut(), change.acl.as_mut());
        if !self.sight.sees_origins() {
            (change.session, change.cxid) = (0, 0);
            change.client.clear();
            change.identities.clear();
        }
        change
    }

    /// Returns a past state as the viewer sees it.
    pub(super) fn shown_znode(&self, path: &str, znode: &Znode) -> Znode {
        let mut znode = znode.clone();
        znode.data = znode.data.map(|data| self.kept(data));
        self.hide(path, znode.data.as_mut(), znode.acl.as_mut());
        if !self.sight.sees_origins() {
            znode.owner = 0;
        }
        znode
    }

    fn hide(&self, path: &str, data: Option<&mut Content>, acl: Option<&mut Content>) {
        if self.sight.sees_secrets() {
            return;
        }
        if let Some(data) = data.filter(|_| path == CONFIG) {
            (data.inline, data.is_omitted) = (None, true);
            *data = plain_content(data.clone());
        }
        let list = |acl: &Content| AclList::decode(acl.inline.clone()?).ok();
        if let Some(acl) = acl
            && let Some(list) = list(acl)
        {
            acl.inline = Some(list.masked().encode_to_vec().into());
        }
    }

    /// Returns whether the model knows the ACL of a path for this viewer.
    pub(super) fn is_judged(&self, path: &str) -> bool {
        path != CONFIG || matches!(self.sight, Sight::Owner { .. })
    }
}

/// Returns the position directly before a change.
pub(super) fn before(change: &Change) -> Position {
    match change.index.checked_sub(1) {
        None => Position::after(Zxid(change.zxid - 1)),
        Some(index) => Position {
            zxid: Zxid(change.zxid),
            index,
        },
    }
}
