//! What of a request its audit line needs.

use jute::Str;
use proto::OpCode;
use proto::data::RequestAcl;
use proto::request::{WriteRequest, flags};

/// A request that is audited.
#[derive(Debug, Clone)]
pub enum Asked {
    /// One of the four creates.
    Create {
        /// The path as it was asked for.
        path: Option<Str>,
        /// The kind of znode, in Java's words.
        mode: &'static str,
    },
    /// delete, or deleteContainer.
    Delete(Option<Str>),
    /// setData.
    SetData(Option<Str>),
    /// setACL.
    SetAcl {
        /// The path.
        path: Option<Str>,
        /// The list as it was asked for.
        acl: Vec<RequestAcl>,
    },
    /// multi.
    Multi(Modes),
    /// reconfig.
    Reconfig,
}

/// The kinds of the znodes that a multi creates.
#[derive(Debug, Clone)]
pub enum Modes {
    /// By the paths as they were asked for; of several for one path the last counts.
    Known(Vec<(Str, &'static str)>),
    /// One of its creates has flags that stand for no kind: Java's line fails on them.
    Unknown,
}

impl Asked {
    /// What is to be kept of a request; `None` if it is not audited.
    ///
    /// Java makes its lines from the request once more, so what cannot be read there has none: flags
    /// that stand for no kind of znode, and no ACL at all. Neither can succeed.
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

/// What createTTL makes in a multi has no kind in its line, as in Java.
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
    /// Of a znode by its final path: one with a number has none.
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

/// Source: CreateMode.fromFlag, and its names in lower case.
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
