//! Data of a request that its audit line needs.

use jute::Str;
use proto::OpCode;
use proto::data::RequestAcl;
use proto::request::{WriteRequest, flags};

/// Audited request.
#[derive(Debug, Clone)]
pub enum Asked {
    /// One of the four create operations.
    Create {
        /// Requested path.
        path: Option<Str>,
        /// Kind of the znode, in Java's words.
        mode: &'static str,
    },
    /// delete, or deleteContainer.
    Delete(Option<Str>),
    /// setData.
    SetData(Option<Str>),
    /// setACL.
    SetAcl {
        /// Path of the znode.
        path: Option<Str>,
        /// Requested ACL.
        acl: Vec<RequestAcl>,
    },
    /// multi.
    Multi(Modes),
    /// reconfig.
    Reconfig,
}

/// Kinds of the znodes that a multi creates.
#[derive(Debug, Clone)]
pub enum Modes {
    /// Kinds by requested path. If a path occurs several times, the last entry applies.
    Known(Vec<(Str, &'static str)>),
    /// The flags of one create are invalid. Java fails to write the line in this case.
    Unknown,
}

impl Asked {
    /// Returns the data to keep of a request, or `None` if it is not audited.
    ///
    /// Java decodes the request again for its line. A request that does not decode there does not
    /// have a line: flags without a kind of znode, or a missing ACL. Such requests always fail.
    pub fn of(request: &WriteRequest) -> Option<Self> {
        Some(match request {
            WriteRequest::Create { request, .. } => Self::Create {
                path: request.path.clone(),
                mode: mode(request.flags)?,
            },
            WriteRequest::Delete(request) => Self::Delete(request.path.clone()),
            WriteRequest::SetData(request) => Self::SetData(request.path.clone()),
            WriteRequest::SetAcl(request) => Self::SetAcl {
                path: request.path.clone(),
                acl: request.acl.clone()?,
            },
            WriteRequest::Multi(writes) => Self::Multi(match writes {
                Ok(writes) => modes(writes),
                Err(_) => Modes::Known(Vec::new()),
            }),
            WriteRequest::Reconfig(_) => Self::Reconfig,
            WriteRequest::DeleteContainer { path } => Self::Delete(Some(path.clone())),
            WriteRequest::Check(_)
            | WriteRequest::CreateSession { .. }
            | WriteRequest::CloseSession => return None,
        })
    }
}

/// Returns the kinds of the created znodes. As in Java, a znode of createTTL in a multi does not
/// have a kind in its line.
fn modes(writes: &[WriteRequest]) -> Modes {
    let mut known = Vec::new();
    for write in writes {
        let WriteRequest::Create { op, request, .. } = write else {
            continue;
        };
        if *op == OpCode::CreateTtl {
            continue;
        }
        let Some(mode) = mode(request.flags) else {
            return Modes::Unknown;
        };
        known.extend(request.path.clone().map(|path| (path, mode)));
    }
    Modes::Known(known)
}

impl Modes {
    /// Returns the kind of a znode by its final path. A sequential znode does not have a kind.
    pub(super) fn of(&self, path: &str) -> Option<&'static str> {
        match self {
            Self::Known(known) => {
                let mut newest_first = known.iter().rev();
                newest_first
                    .find(|(asked, _)| asked == path)
                    .map(|(_, mode)| *mode)
            }
            Self::Unknown => None,
        }
    }
}

/// Returns the kind for the flags. Source: CreateMode.fromFlag, and its names in lower case.
fn mode(create_flags: i32) -> Option<&'static str> {
    Some(match create_flags {
        flags::PERSISTENT => "persistent",
        flags::EPHEMERAL => "ephemeral",
        flags::PERSISTENT_SEQUENTIAL => "persistent_sequential",
        flags::EPHEMERAL_SEQUENTIAL => "ephemeral_sequential",
        flags::CONTAINER => "container",
        flags::TTL => "persistent_with_ttl",
        flags::TTL_SEQUENTIAL => "persistent_sequential_with_ttl",
        _ => return None,
    })
}
