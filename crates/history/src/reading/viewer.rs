//! Permissions to see past changes and znodes. All queries and feeds use the same rule.
//!
//! A client sees a past change or znode if it could read the znode *then* and may read it *now*.
//! The current ACL of a deleted znode is its last ACL. If a past ACL is unknown, only super users
//! and the owner of the files see the changes and znodes that it protected.

use std::cell::RefCell;

use hashbrown::HashMap;
use parking_lot::RwLock;
use proto::position::Position;
use proto::{Acl, Id, Zxid};
use tree::Tree;
use tree::auth::is_super;

use super::view::HistoryView;
use crate::error::Result;
use crate::limits::MEMORY_PATHS_MAX;
use crate::record::{Change, Content, ExportedChange, Znode, acl_list};

/// Recipient of an answer.
#[derive(Debug, Clone, Copy)]
pub enum Viewer<'a> {
    /// The owner of the files. ACLs do not apply to the owner.
    FileOwner {
        /// Whether password hashes and the member list are shown.
        shows_secrets: bool,
    },
    /// A client of a server.
    Client {
        /// Current tree of the server.
        tree: &'a RwLock<Tree>,
        /// Identities of the client; empty if it has none.
        identities: &'a [Id],
    },
}

/// ACL of a znode at a moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum PastAcl {
    /// The list is known.
    Known(Vec<Acl>),
    /// The list is missing in the history. This differs from an empty list, which permits
    /// everything.
    Unknown,
}

impl PastAcl {
    /// Returns the list in a content.
    pub(crate) fn of_content(content: Option<&Content>) -> Result<Self> {
        match content.filter(|acl| acl.bytes().is_some()) {
            Some(acl) => Ok(Self::Known(acl_list(Some(acl))?.to_acl())),
            None => Ok(Self::Unknown),
        }
    }

    /// Returns the list of a znode in a past state.
    pub(crate) fn of_znode(znode: Option<&Znode>) -> Result<Self> {
        Self::of_content(znode.and_then(|znode| znode.acl.as_ref()))
    }

    fn list(&self) -> Option<&[Acl]> {
        match self {
            Self::Known(list) => Some(list),
            Self::Unknown => None,
        }
    }
}

impl Viewer<'_> {
    /// Returns whether the viewer may read a znode that has this ACL.
    pub(crate) fn permits(&self, acl: &PastAcl) -> bool {
        match self {
            Self::FileOwner { .. } => true,
            Self::Client { tree, identities } => tree.read().may_see(acl.list(), identities),
        }
    }

    /// Returns whether the viewer may read a path in the tree of the server; `None` if the znode
    /// does not exist.
    fn may_read_now(&self, path: &str) -> Option<bool> {
        match self {
            Self::FileOwner { .. } => Some(true),
            Self::Client { tree, identities } => tree.read().may_read(path, identities),
        }
    }

    /// Returns whether the viewer may see password hashes in ACLs, and the member list with its
    /// addresses.
    pub(crate) fn may_see_secrets(&self) -> bool {
        match self {
            Self::FileOwner { shows_secrets } => *shows_secrets,
            Self::Client { identities, .. } => is_super(identities),
        }
    }

    /// Returns whether the viewer may see the address, the identities and the session of a change.
    pub(crate) fn may_see_origins(&self) -> bool {
        match self {
            Self::FileOwner { .. } => true,
            Self::Client { tree, identities } => tree.read().is_administrator(identities),
        }
    }
}

/// A viewer during one query, with a cache of its permissions for current znodes.
pub(crate) struct ViewerPermissions<'a> {
    viewer: &'a Viewer<'a>,
    now: RefCell<HashMap<String, bool>>,
    pub(crate) sees_secrets: bool,
    pub(crate) sees_origins: bool,
}

impl<'a> ViewerPermissions<'a> {
    pub(crate) fn new(viewer: &'a Viewer<'a>) -> Self {
        Self {
            viewer,
            now: RefCell::default(),
            sees_secrets: viewer.may_see_secrets(),
            sees_origins: viewer.may_see_origins(),
        }
    }

    pub(crate) fn permits(&self, acl: &PastAcl) -> bool {
        self.viewer.permits(acl)
    }

    /// Removes from a znode the parts that the viewer must not see.
    pub(crate) fn shown(&self, path: &str, mut znode: Znode) -> Znode {
        if !self.sees_secrets {
            hide(path, znode.data.as_mut(), znode.acl.as_mut());
        }
        if !self.sees_origins {
            znode.owner = 0;
        }
        znode
    }

    /// Removes from the change in `found` the parts that the viewer must not see. Does not mask the
    /// znode before and after the change.
    pub(crate) fn mask(&self, mut found: ExportedChange) -> ExportedChange {
        let Some(change) = &mut found.change else {
            return found;
        };
        if !self.sees_secrets {
            hide(&change.path, change.data.as_mut(), change.acl.as_mut());
        }
        if !self.sees_origins {
            (change.session, change.cxid) = (0, 0);
            change.client.clear();
            change.identities.clear();
            found.is_origin_hidden = true;
        }
        found
    }
}

impl HistoryView {
    /// Returns whether the viewer could read the znode when it had the ACL `then`, and may read it
    /// now.
    pub(crate) fn may_see(
        &self,
        path: &str,
        then: &PastAcl,
        permissions: &ViewerPermissions<'_>,
    ) -> Result<bool> {
        Ok(permissions.permits(then) && self.may_see_now(path, permissions)?)
    }

    /// Returns whether the viewer may read the znode now.
    pub(crate) fn may_see_now(
        &self,
        path: &str,
        permissions: &ViewerPermissions<'_>,
    ) -> Result<bool> {
        if let Some(known) = permissions.now.borrow().get(path) {
            return Ok(*known);
        }
        let found = self.look_up_now(path, permissions)?;
        let mut now = permissions.now.borrow_mut();
        if now.len() >= MEMORY_PATHS_MAX {
            now.clear();
        }
        now.insert(path.to_owned(), found);
        Ok(found)
    }

    /// Returns whether the tree of the server and the last recorded ACL permit reading. If the
    /// znode exists and its recorded ACL is unknown, only the tree decides.
    fn look_up_now(&self, path: &str, permissions: &ViewerPermissions<'_>) -> Result<bool> {
        let in_tree = permissions.viewer.may_read_now(path);
        if in_tree == Some(false) {
            return Ok(false);
        }
        match self.last_acl(path)? {
            PastAcl::Unknown if in_tree == Some(true) => Ok(true),
            last => Ok(permissions.permits(&last)),
        }
    }

    /// Returns the ACL that decides whether a change may be seen: the ACL after the change or, for
    /// a deletion, the ACL before it.
    pub(crate) fn acl_then(&self, change: &Change) -> Result<PastAcl> {
        if change.acl.is_some() {
            return PastAcl::of_content(change.acl.as_ref());
        }
        let then = self.known_znode(&change.path, position_then(change))?;
        PastAcl::of_znode(then.as_ref())
    }

    /// Returns the last ACL of a znode, whether or not the znode still exists.
    pub(crate) fn last_acl(&self, path: &str) -> Result<PastAcl> {
        if let Some(now) = self.known_znode(path, Position::after(self.head))? {
            return PastAcl::of_znode(Some(&now));
        }
        let Some(deletion) = self.last_deletion(path)? else {
            return Ok(PastAcl::Unknown);
        };
        let before = self.known_znode(path, position_before(&deletion))?;
        PastAcl::of_znode(before.as_ref())
    }

    /// Returns a znode at a position; `None` if it did not exist or its state is unknown.
    fn known_znode(&self, path: &str, position: Position) -> Result<Option<Znode>> {
        match self.znode(path, position) {
            Err(error) if error.is_unknown_moment() => Ok(None),
            other => other,
        }
    }
}

/// Returns the position at which the ACL decides whether a change may be seen.
pub(crate) fn position_then(change: &Change) -> Position {
    if change.is_delete() {
        position_before(change)
    } else {
        change.position()
    }
}

/// Returns the position directly before a change.
pub(crate) fn position_before(change: &Change) -> Position {
    match change.index {
        0 => Position::after(Zxid(change.zxid - 1)),
        index => Position {
            zxid: Zxid(change.zxid),
            index: index - 1,
        },
    }
}

/// Path of the znode that contains the addresses of the members.
const CONFIG: &str = "/zookeeper/config";

/// Masks password hashes in the ACL, and omits the data if it is the member list.
fn hide(path: &str, data: Option<&mut Content>, acl: Option<&mut Content>) {
    use prost::Message;
    if let Some(data) = data.filter(|_| path == CONFIG) {
        (data.inline, data.is_omitted) = (None, true);
    }
    if let Some(acl) = acl
        && acl.inline.is_some()
        && let Ok(list) = acl_list(Some(acl))
    {
        acl.inline = Some(list.masked().encode_to_vec().into());
    }
}
