//! Data of a request that its audit line needs.

use jute::Str;
use proto::OpCode;
use proto::data::RequestAcl;
use proto::request::{WriteRequest, flags};

/// Audited request.
#[derive(Debug, Clone)]
pub enum Asked {
    /// Separate operation.
    One {
        /// Name in the line.
        operation: &'static str,
        /// Requested path, if there is one.
        path: Option<Str>,
        /// Kind of the created znode, in Java's words.
        mode: Option<&'static str>,
        /// Requested ACL of a setACL.
        acl: Option<Vec<RequestAcl>>,
    },
    /// multi.
    Multi(Modes),
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
        let operation = request.op().audited_as()?;
        let (mut kind, mut list) = (None, None);
        match request {
            WriteRequest::Multi(writes) => {
                let none = Modes::Known(Vec::new());
                return Some(Self::Multi(writes.as_deref().map_or(none, modes)));
            }
            WriteRequest::Create { request, .. } => kind = Some(mode(request.flags)?),
            WriteRequest::SetAcl(request) => list = Some(request.acl.clone()?),
            _ => {}
        }
        Some(Self::One {
            operation,
            path: request.path().cloned(),
            mode: kind,
            acl: list,
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
