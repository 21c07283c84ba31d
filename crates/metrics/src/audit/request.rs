//! Data from a request that its audit line needs.

use std::fmt::Write;

use hashbrown::HashMap;
use jute::Str;
use proto::OpCode;
use proto::data::RequestAcl;
use proto::request::WriteRequest;

/// A request that is audited.
#[derive(Debug, Clone)]
pub enum AuditedRequest {
    /// A single operation, which is not part of a multi.
    One {
        /// Requested operation.
        op: OpCode,
        /// Requested path, if any.
        path: Option<Str>,
        /// Kind of the created znode.
        mode: Option<Mode>,
        /// Requested ACL of a setACL, in Java's format.
        acl: Option<String>,
    },
    /// A multi, with the kinds of the znodes that it creates.
    Multi(Modes),
}

/// Kinds of the znodes that a multi creates.
#[derive(Debug, Clone)]
pub enum Modes {
    /// Kinds by requested path. If a path occurs several times, the last kind applies.
    Known(HashMap<Str, Mode>),
    /// The flags of one create are invalid. In this case, Java fails to write the line.
    Unknown,
}

/// Kind of a created znode: its valid flags.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Mode(u8);

impl AuditedRequest {
    /// Returns the data that must be kept from a request. Returns `None` if the request does not
    /// cause a line.
    ///
    /// Java decodes a request again for its audit line. If the flags do not specify a kind of
    /// znode, or if the ACL is missing, Java fails to decode the request and omits the line. The
    /// result is then `None`, or `Modes::Unknown` for a multi. Such requests always fail.
    pub fn of(request: &WriteRequest) -> Option<Self> {
        let op = request.op();
        op.audited_as()?;
        let (mut kind, mut list) = (None, None);
        match request {
            WriteRequest::Multi(writes) => {
                let none = Modes::Known(HashMap::new());
                return Some(Self::Multi(writes.as_deref().map_or(none, modes)));
            }
            WriteRequest::Create { request, .. } => kind = Some(Mode::of(request.flags)?),
            WriteRequest::SetAcl(request) => list = Some(acl_text(request.acl.as_deref()?)),
            _ => {}
        }
        Some(Self::One {
            op,
            path: request.path().cloned(),
            mode: kind,
            acl: list,
        })
    }
}

/// Returns the kinds of the created znodes. As in Java, the line of a znode that createTTL creates
/// in a multi does not contain the kind.
fn modes(writes: &[WriteRequest]) -> Modes {
    let mut known = HashMap::new();
    for write in writes {
        let WriteRequest::Create { op, request, .. } = write else {
            continue;
        };
        if *op == OpCode::CreateTtl {
            continue;
        }
        let Some(mode) = Mode::of(request.flags) else {
            return Modes::Unknown;
        };
        known.extend(request.path.clone().map(|path| (path, mode)));
    }
    Modes::Known(known)
}

impl Modes {
    /// Returns the kind of a created znode, given its final path. Returns `None` if the kind is
    /// unknown, and for a sequential znode, because its final path differs from the requested path.
    pub(super) fn of(&self, path: &str) -> Option<Mode> {
        match self {
            Self::Known(known) => known.get(path).copied(),
            Self::Unknown => None,
        }
    }
}

impl Mode {
    /// Names of CreateMode in lower case, in the order of the flags.
    const NAMES: [&str; 7] = [
        "persistent",
        "ephemeral",
        "persistent_sequential",
        "ephemeral_sequential",
        "container",
        "persistent_with_ttl",
        "persistent_sequential_with_ttl",
    ];

    /// Returns the kind of znode for the flags of a create, or `None` if the flags are invalid.
    /// Source: CreateMode.fromFlag.
    fn of(create_flags: i32) -> Option<Self> {
        let flags = u8::try_from(create_flags).ok()?;
        (usize::from(flags) < Self::NAMES.len()).then_some(Self(flags))
    }

    pub(super) fn name(self) -> &'static str {
        Self::NAMES[usize::from(self.0)]
    }
}

/// Formats an ACL like Java, without separators between the entries. Source: ZKUtil.aclToString.
fn acl_text(acl: &[RequestAcl]) -> String {
    let mut text = String::new();
    for entry in acl {
        let scheme = entry.scheme.as_deref().unwrap_or("null");
        let id = entry.id.as_deref().unwrap_or("null");
        // Writing to a `String` cannot fail.
        let _ = write!(text, "{scheme}:{id}:");
        let granted = PERMISSIONS.iter().filter(|(bit, _)| entry.perms & bit != 0);
        text.extend(granted.map(|(_, letter)| letter));
    }
    text
}

/// Letters of permissions. Source: ZKUtil.getPermString.
const PERMISSIONS: [(i32, char); 5] = [(4, 'c'), (8, 'd'), (1, 'r'), (2, 'w'), (16, 'a')];
