//! From what became of a request to its lines.

use std::fmt::{self, Write};
use std::net::IpAddr;
use std::sync::Arc;

use jute::Str;
use proto::data::RequestAcl;
use proto::txn::Txn;
use proto::{ErrorCode, Id, OpCode, SessionId};
use tree::Outcome;
use tree::auth::{host_address, in_java_order, user_name};

use super::asked::{Asked, Modes};

/// Whether something came of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Level {
    /// It happened.
    Info,
    /// It was refused.
    Error,
}

/// A line without its date.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Line {
    /// How grave.
    pub level: Level,
    /// Keys and values, separated by tabs.
    pub text: String,
}

/// Who asked.
#[derive(Debug, Clone)]
pub struct Caller {
    /// The session.
    pub session: SessionId,
    /// The identities when the request came in.
    pub identities: Arc<[Id]>,
    /// The client's address.
    pub ip: IpAddr,
}

/// The lines of a request that became this transaction, with this outcome. Appends them.
pub fn lines_of(
    caller: &Caller,
    asked: &Asked,
    (txn, outcome): (&Txn, &Outcome),
    lines: &mut Vec<Line>,
) {
    let is_refused = matches!(txn, Txn::Error { .. });
    let failed = is_refused || outcome.error() != ErrorCode::Ok;
    let (operation, path, mode, acl) = match asked {
        Asked::Create { path, mode } => ("create", path, Some(*mode), None),
        Asked::Delete(path) => ("delete", path, None, None),
        Asked::SetData(path) => ("setData", path, None, None),
        Asked::SetAcl { path, acl } => ("setAcl", path, None, Some(&acl[..])),
        Asked::Reconfig => ("reconfig", &None, None, None),
        Asked::Multi(modes) => {
            return match txn {
                Txn::Multi(txns) => of_multi(caller, modes, txns, outcome, lines),
                _ => lines.push(failure_of_multi(caller)),
            };
        }
    };
    // What was refused has the path of the request, what happened that of the znode.
    let path = match is_refused {
        true => path.as_ref(),
        false => txn.path(),
    };
    lines.push(line(caller, operation, path, mode, acl, failed));
}

/// The line of a request that is refused because its record does not decode: of those that need
/// nothing of the record, as Java reads it once more.
pub fn line_of_undecodable(caller: &Caller, op: OpCode) -> Option<Line> {
    match op {
        OpCode::Multi => Some(failure_of_multi(caller)),
        OpCode::Reconfig => Some(line(caller, "reconfig", None, None, None, true)),
        _ => None,
    }
}

/// One line for each operation that happened, or one for the whole that failed.
fn of_multi(
    caller: &Caller,
    modes: &Modes,
    txns: &[Txn],
    outcome: &Outcome,
    lines: &mut Vec<Line>,
) {
    if matches!(modes, Modes::Unknown) {
        return;
    }
    let has_failed = match outcome {
        Outcome::Multi(outcomes) => outcomes
            .iter()
            .any(|outcome| matches!(outcome, Outcome::Error(_))),
        _ => true,
    };
    if has_failed {
        return lines.push(failure_of_multi(caller));
    }
    for txn in txns {
        let path = txn.path();
        let (operation, mode) = match txn {
            Txn::Create(_)
            | Txn::CreateV0(_)
            | Txn::Create2(_)
            | Txn::CreateContainer(_)
            | Txn::CreateTtl(_) => ("create", path.and_then(|path| modes.of(path))),
            Txn::Delete { .. } | Txn::DeleteContainer { .. } => ("delete", None),
            Txn::SetData(_) => ("setData", None),
            _ => continue,
        };
        lines.push(line(caller, operation, path, mode, None, false));
    }
}

fn failure_of_multi(caller: &Caller) -> Line {
    line(caller, "multiOperation", None, None, None, true)
}

/// The lines of a session's end: one for each of its ephemerals. Source: DataTree.deleteNodes.
pub fn lines_of_close(
    server_user: &str,
    session: SessionId,
    paths: Option<&[Str]>,
    outcome: &Outcome,
    lines: &mut Vec<Line>,
) {
    let Outcome::Closed { missing, unlisted } = outcome else {
        return;
    };
    let listed = paths.unwrap_or_default().iter();
    let listed = listed.map(|path| (path, missing.contains(path)));
    let unlisted = unlisted.iter().map(|path| (path, false));
    lines.extend(listed.chain(unlisted).map(|(path, failed)| {
        let mut fields = Fields::default();
        fields.add("session", session);
        fields.add("user", server_user);
        fields.add("operation", "ephemeralZNodeDeletionOnSessionCloseOrExpire");
        fields.add("znode", path);
        fields.ending(failed)
    }));
}

/// The server serves, or did not come to.
pub fn server_start(server_user: &str, has_failed: bool) -> Line {
    let mut fields = Fields::default();
    fields.add("user", server_user);
    fields.add("operation", "serverStart");
    fields.ending(has_failed)
}

/// The server was told to stop.
pub fn server_stop(server_user: &str) -> Line {
    let mut fields = Fields::default();
    fields.add("user", server_user);
    fields.add("operation", "serverStop");
    fields.add("result", "invoked");
    fields.into_line(Level::Info)
}

fn line(
    caller: &Caller,
    operation: &str,
    path: Option<&Str>,
    mode: Option<&str>,
    acl: Option<&[RequestAcl]>,
    failed: bool,
) -> Line {
    let mut fields = Fields::default();
    fields.add("session", caller.session);
    let users = in_java_order(&caller.identities).into_iter().map(user_name);
    let users: Vec<&str> = users.filter(|user| !is_blank(user)).collect();
    if !users.is_empty() {
        fields.add("user", users.join(","));
    }
    fields.add("ip", host_address(caller.ip));
    fields.add("operation", operation);
    if let Some(path) = path {
        fields.add("znode", path);
    }
    if let Some(mode) = mode {
        fields.add("znode_type", mode);
    }
    if let Some(acl) = acl {
        fields.add("acl", AclText(acl));
    }
    fields.ending(failed)
}

/// Source: String.trim, which takes away all up to the blank.
fn is_blank(text: &str) -> bool {
    text.chars().all(|letter| letter <= ' ')
}

/// A line as it grows.
///
/// Whoever is audited chooses names, paths and ids: what would begin another line or another key is
/// written as an escape, where Java writes it as it is and so lets anybody forge lines.
#[derive(Default)]
struct Fields(String);

impl Fields {
    fn add(&mut self, key: &str, value: impl fmt::Display) {
        if !self.0.is_empty() {
            self.0.push('\t');
        }
        self.0.push_str(key);
        self.0.push('=');
        // A String takes everything.
        let _ = write!(Escaped(&mut self.0), "{value}");
    }

    fn ending(mut self, failed: bool) -> Line {
        self.add("result", if failed { "failure" } else { "success" });
        self.into_line(if failed { Level::Error } else { Level::Info })
    }

    fn into_line(self, level: Level) -> Line {
        Line {
            level,
            text: self.0,
        }
    }
}

/// Takes text, and control characters as escapes.
struct Escaped<'a>(&'a mut String);

impl Write for Escaped<'_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        for letter in text.chars() {
            match letter.is_control() {
                true => self.0.extend(letter.escape_default()),
                false => self.0.push(letter),
            }
        }
        Ok(())
    }
}

/// A list as Java runs its entries together. Source: ZKUtil.aclToString.
struct AclText<'a>(&'a [RequestAcl]);

impl fmt::Display for AclText<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for entry in self.0 {
            let scheme = entry.scheme.as_deref().unwrap_or("null");
            let id = entry.id.as_deref().unwrap_or("null");
            write!(f, "{scheme}:{id}:")?;
            for (bit, letter) in PERMISSIONS {
                if entry.perms & bit != 0 {
                    f.write_char(letter)?;
                }
            }
        }
        Ok(())
    }
}

/// Source: ZKUtil.getPermString.
const PERMISSIONS: [(i32, char); 5] = [(4, 'c'), (8, 'd'), (1, 'r'), (2, 'w'), (16, 'a')];

#[cfg(test)]
#[path = "tests.rs"]
mod tests;
