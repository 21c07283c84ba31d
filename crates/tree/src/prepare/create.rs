//! Preparation of create, create2, createContainer and createTTL.

use jute::Str;
use proto::data::perms;
use proto::request::CreateRequest;
use proto::txn::{CreateContainerTxn, CreateTtlTxn, CreateTxn, Txn};
use proto::{Acl, ErrorCode, OpCode};

use super::length::{acl_bytes, buffer_bytes, string_bytes};
use super::mode::{CreateKind, CreateMode};
use super::overlay::pending::PendingNode;
use super::{Grouping, Preparation, SessionKind};
use crate::nodes::arena::NodeId;
use crate::nodes::node::{note_child_created, stat_at_creation};
use crate::nodes::owner::stored_container;
use crate::{auth, path};

/// A create that has passed all checks.
struct Creation<'a> {
    mode: CreateMode,
    /// Final path, including the sequence number.
    path: Str,
    parent_path: Str,
    parent: PendingNode,
    request: &'a CreateRequest,
    acl: Vec<Acl>,
}

impl Preparation<'_> {
    pub(super) fn create(
        &mut self,
        op: OpCode,
        request: &CreateRequest,
        ttl: i64,
        place: Grouping,
    ) -> Result<Txn, ErrorCode> {
        let settings = &self.tree.settings;
        let mode = CreateMode::of(op, request.flags, ttl, settings.extended_types, place)?;
        let session = self.context.session_check?;
        if mode.has_ephemeral_flag {
            match session {
                SessionKind::Global => {}
                SessionKind::Local => return Err(ErrorCode::EphemeralOnLocalSession),
                // The session's own server would have made the session global first.
                SessionKind::Elsewhere => return Err(ErrorCode::SessionExpired),
            }
        }
        let (asked_path, split) = path::split_request(request.path.as_ref())?;
        let identities = self.context.identities;
        let acl = auth::normalise(&settings.auth, request.acl.as_deref(), identities)?;
        let parent_path = path::parent_key(asked_path, split.parent);
        let parent = self.node(&parent_path).ok_or(ErrorCode::NoNode)?;
        self.check_permission(&parent, perms::CREATE)?;
        let path = if mode.is_sequential {
            // The number is the creation count, and not the cversion that clients see. The padding
            // includes the sign.
            Str::from(format!("{asked_path}{:010}", parent.creations))
        } else {
            asked_path.clone()
        };
        path::validate(&path)?;
        if self.has_child(&parent, &path) {
            return Err(ErrorCode::NodeExists);
        }
        if parent.is_ephemeral {
            return Err(ErrorCode::NoChildrenForEphemerals);
        }
        if mode.is_ephemeral() {
            self.check_ephemeral_paths(&path)?;
        }
        self.check_quota_of_create(&path, request.data.as_deref())?;
        let own_fields = string_bytes(&path) + buffer_bytes(request.data.as_deref());
        self.lengthen(own_fields + acl_bytes(&acl) + mode.txn_bytes())?;
        Ok(self.note_created(Creation {
            mode,
            path,
            parent_path,
            parent,
            request,
            acl,
        }))
    }

    /// Returns whether a znode exists at `path`, which is valid and either the root or a child of
    /// `parent`.
    fn has_child(&self, parent: &PendingNode, path: &str) -> bool {
        if let Some(pending) = self.overlay.get(path) {
            return pending.is_some();
        }
        // The slot of a parent that was created in flight is unknown, but the parent may already be
        // in the tree, with children.
        match (parent.id.get(), path::split(path)) {
            (Some(parent), Some(split)) if !split.name.is_empty() => {
                let tree = self.tree;
                tree.index
                    .find(&tree.arena, parent, split.name.as_bytes())
                    .is_some()
            }
            _ => self.tree.lookup(path).is_some(),
        }
    }

    fn note_created(&mut self, creation: Creation<'_>) -> Txn {
        let node = self.new_node(&creation);
        let Creation {
            mode,
            path,
            parent_path,
            mut parent,
            request,
            acl,
        } = creation;
        let zxid = self.context.zxid;
        let parent_cversion = parent.creations.wrapping_add(1);
        parent.creations = parent_cversion;
        let parent_digest = parent.digest;
        parent.change_stat(|stat| {
            note_child_created(&mut stat.cversion, &mut stat.pzxid, parent_cversion, zxid.0);
        });
        parent.num_children += 1;
        self.overlay
            .put(&parent_path, zxid, Some(parent), parent_digest);
        self.overlay.put(&path, zxid, Some(node), 0);
        if mode.is_ephemeral() {
            self.overlay.note_ephemeral(self.context.session, &path);
        }
        mode.txn(path, request, acl, parent_cversion)
    }

    fn new_node(&mut self, creation: &Creation<'_>) -> PendingNode {
        let Creation { mode, parent, .. } = creation;
        let owner = match mode.kind {
            CreateKind::Plain(_) if mode.has_ephemeral_flag => self.context.session.0,
            CreateKind::Plain(_) => 0,
            CreateKind::Container => stored_container(),
            // The TTL is in range because the mode was checked.
            CreateKind::Ttl { ttl_ms } => self.tree.rules.stored_ttl(ttl_ms).unwrap_or_default(),
        };
        let is_counted = parent.is_counted && creation.parent_path != path::ZOOKEEPER;
        let mut node = PendingNode {
            id: NodeId::NIL,
            stat: stat_at_creation(self.context.zxid.0, self.context.time_ms, owner),
            creations: 0,
            num_children: 0,
            data_len: 0,
            acl: Some(self.overlay.share_acl(&creation.acl)),
            // Also true for a container with the ephemeral flag, as long as it is in flight.
            is_ephemeral: mode.has_ephemeral_flag,
            is_counted,
            digest: 0,
        };
        node.set_data(&creation.path, creation.request.data.as_deref());
        node
    }
}

impl CreateMode {
    /// Returns the total length of the fixed-length fields of a create transaction, bytes.
    fn txn_bytes(self) -> usize {
        const PARENT_CVERSION: usize = 4;
        match self.kind {
            CreateKind::Plain(_) => size_of::<bool>() + PARENT_CVERSION,
            CreateKind::Container => PARENT_CVERSION,
            CreateKind::Ttl { ttl_ms } => PARENT_CVERSION + size_of_val(&ttl_ms),
        }
    }

    fn is_ephemeral(self) -> bool {
        self.has_ephemeral_flag && matches!(self.kind, CreateKind::Plain(_))
    }

    fn txn(self, path: Str, request: &CreateRequest, acl: Vec<Acl>, parent_cversion: i32) -> Txn {
        let data = request.data.clone();
        match self.kind {
            CreateKind::Container => Txn::CreateContainer(CreateContainerTxn {
                path,
                data,
                acl,
                parent_cversion,
            }),
            CreateKind::Ttl { ttl_ms } => Txn::CreateTtl(CreateTtlTxn {
                path,
                data,
                acl,
                parent_cversion,
                ttl: ttl_ms,
            }),
            CreateKind::Plain(op) => {
                let txn = CreateTxn {
                    path,
                    data,
                    acl,
                    ephemeral: self.is_ephemeral(),
                    parent_cversion,
                };
                if op == OpCode::Create2 {
                    Txn::Create2(txn)
                } else {
                    Txn::Create(txn)
                }
            }
        }
    }
}
