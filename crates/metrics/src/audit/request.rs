//! Data from a request that its audit line needs.

use jute::Str;
use proto::OpCode;
use proto::data::RequestAcl;
use proto::request::{WriteRequest, flags};

/// A request that is audited.
#[derive(Debug, Clone)]
pub enum AuditedRequest {
    /// A single operation, which is not part of a multi.
    One {
        /// Name of the operation in the line.
        operation: &'static str,
        /// Requested path, if any.
        path: Option<Str>,
        /// Kind of the created znode, in Java's words.
        mode: Option<&'static str>,
        /// Requested ACL of a setACL.
        acl: Option<Vec<RequestAcl>>,
    },
    /// A multi, with the kinds of the znodes that it creates.
    Multi(Modes),
}

/// Kinds of the znodes that a multi creates.
#[derive(Debug, Clone)]
pub enum Modes {
    /// Kinds by requested path. If a path occurs several times, the last entry applies.
    Known(Vec<(Str, &'static str)>),
    /// The flags of one create are invalid. In this case, Java fails to write the line.
    Unknown,
}

impl AuditedRequest {
    /// Returns the data that must be kept from a request, or `None` if the request is not audited.
    ///
    /// Java decodes a request again for its audit line. If the flags do not specify a kind of
    /// znode, or if the ACL is missing, Java fails to decode the request and omits the line. The
    /// result is then `None`, or `Modes::Unknown` for a multi. Such requests always fail.
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

/// Returns the kinds of the created znodes. As in Java, the line of a znode that createTTL creates
/// in a multi does not contain the kind.
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
    /// Returns the kind of a created znode, given its final path. Returns `None` if the kind is
    /// unknown, and for a sequential znode, because its final path differs from the requested path.
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

/// Returns the kind of znode for the flags of a create, or `None` if the flags are invalid. Source:
/// CreateMode.fromFlag, and the names of CreateMode in lower case.
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
