//! Creation of audit lines from requests and their results.

use std::fmt::{self, Write};
use std::net::IpAddr;
use std::sync::Arc;

use jute::Str;
use proto::data::RequestAcl;
use proto::op::ZnodeChange;
use proto::txn::Txn;
use proto::{ErrorCode, Id, OpCode, SessionId};
use tree::Outcome;
use tree::auth::{host_address, in_java_order, user_name};

use super::request::{AuditedRequest, Modes};

/// Level of a line, which depends on the success of the operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Level {
    /// The operation succeeded, or a stop of the server was requested.
    Info,
    /// The operation failed.
    Error,
}

/// A line without its date.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Line {
    /// Level of the line.
    pub level: Level,
    /// Keys and values, separated by tabs.
    pub text: String,
}

/// Client that sent a request.
#[derive(Debug, Clone)]
pub struct Caller {
    /// Session of the client.
    pub session: SessionId,
    /// Identities at the time of the request.
    pub identities: Arc<[Id]>,
    /// Address of the client.
    pub ip: IpAddr,
}

/// Appends the lines for a request that became this transaction with this outcome.
pub fn lines_of(
    caller: &Caller,
    request: &AuditedRequest,
    txn: &Txn,
    outcome: &Outcome,
    lines: &mut Vec<Line>,
) {
    let is_refused = matches!(txn, Txn::Error { .. });
    let failed = is_refused || outcome.error() != ErrorCode::Ok;
    let (operation, path, mode, acl) = match request {
        AuditedRequest::One {
            operation,
            path,
            mode,
            acl,
        } => (operation, path, *mode, acl.as_deref()),
        AuditedRequest::Multi(modes) => {
            return match txn {
                Txn::Multi(txns) => of_multi(caller, modes, txns, outcome, lines),
                _ => lines.push(failure_of_multi(caller)),
            };
        }
    };
    // The line of a refused request contains the requested path. Other lines contain the path in
    // the transaction.
    let path = if is_refused {
        path.as_ref()
    } else {
        txn.path()
    };
    lines.push(line(caller, operation, path, mode, acl, failed));
}

/// Returns the line for a request whose record cannot be decoded. Returns `None` if the operation
/// is not audited, or if its line contains data from the record. For such a line, Java decodes the
/// record again and fails.
pub fn line_of_undecodable(caller: &Caller, op: OpCode) -> Option<Line> {
    let is_in_record = !matches!(op.change(), ZnodeChange::None | ZnodeChange::Reconfig);
    let operation = op.audited_as().filter(|_| !is_in_record)?;
    Some(line(caller, operation, None, None, None, true))
}

/// Appends one line for each audited operation of a successful multi, or a single line for a failed
/// multi. Appends nothing if the kinds are unknown.
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
        let (op, path) = (txn.op(), txn.path());
        let Some(operation) = op.audited_as() else {
            continue;
        };
        let created = path.filter(|_| op.change().is_create());
        let mode = created.and_then(|path| modes.of(path));
        lines.push(line(caller, operation, path, mode, None, false));
    }
}

fn failure_of_multi(caller: &Caller) -> Line {
    let operation = OpCode::Multi.audited_as().unwrap_or_default();
    line(caller, operation, None, None, None, true)
}

/// Appends the lines for the end of a session, one for each of its ephemeral znodes. Source:
/// DataTree.deleteNodes.
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

/// Returns the line for a successful or failed start of the server.
pub fn server_start(server_user: &str, has_failed: bool) -> Line {
    let mut fields = Fields::default();
    fields.add("user", server_user);
    fields.add("operation", "serverStart");
    fields.ending(has_failed)
}

/// Returns the line for a requested stop of the server.
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

/// Returns whether the string is blank. Source: String.trim, which removes all characters up to
/// U+0020.
fn is_blank(text: &str) -> bool {
    text.chars().all(|letter| letter <= ' ')
}

/// Line under construction.
///
/// Audited clients choose names, paths and ids. Characters that would start another line or key are
/// therefore escaped. Java writes them unescaped, so a client can forge lines.
#[derive(Default)]
struct Fields(String);

impl Fields {
    fn add(&mut self, key: &str, value: impl fmt::Display) {
        if !self.0.is_empty() {
            self.0.push('\t');
        }
        self.0.push_str(key);
        self.0.push('=');
        // Writing to a `String` cannot fail.
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

/// Writer that escapes control characters.
struct Escaped<'a>(&'a mut String);

impl Write for Escaped<'_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        for letter in text.chars() {
            if letter.is_control() {
                self.0.extend(letter.escape_default());
            } else {
                self.0.push(letter);
            }
        }
        Ok(())
    }
}

/// ACL in Java's format, without separators between the entries. Source: ZKUtil.aclToString.
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

/// Letters of permissions. Source: ZKUtil.getPermString.
const PERMISSIONS: [(i32, char); 5] = [(4, 'c'), (8, 'd'), (1, 'r'), (2, 'w'), (16, 'a')];

#[cfg(test)]
#[path = "tests.rs"]
mod tests;
