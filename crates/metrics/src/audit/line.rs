//! Creation of audit lines from requests and their results.

use std::sync::Arc;

use hashbrown::HashSet;
use jute::Str;
use proto::op::ZnodeChange;
use proto::txn::Txn;
use proto::{ErrorCode, OpCode, SessionId};
use tree::Outcome;

use super::group::{Author, Caller, Event, EventResult, LineGroup};
use super::request::{AuditedRequest, Modes};

/// Returns the lines for a request that became this transaction with this outcome.
pub fn lines_of(
    caller: Caller,
    request: AuditedRequest,
    txn: &Txn,
    outcome: &Outcome,
) -> LineGroup {
    let mut group = LineGroup::new(Author::Client(caller));
    let is_refused = matches!(txn, Txn::Error { .. });
    match request {
        AuditedRequest::One {
            op,
            path,
            mode,
            acl,
        } => {
            // The line of a refused request contains the requested path. Other lines contain the
            // path in the transaction.
            let path = if is_refused {
                path.as_ref()
            } else {
                txn.path()
            };
            let result = EventResult::of(is_refused || outcome.error() != ErrorCode::Ok);
            group.push(Event::Request(op), path.map(|path| &**path), mode, result);
            group.set_acl(acl);
        }
        AuditedRequest::Multi(modes) => match txn {
            Txn::Multi(txns) => add_multi(&mut group, &modes, txns, outcome),
            _ => add_failure(&mut group, OpCode::Multi),
        },
    }
    group
}

/// Returns the line for a request whose record cannot be decoded. Returns `None` if the operation
/// is not audited, or if its line contains data from the record. For such a line, Java decodes the
/// record again and fails.
pub fn line_of_undecodable(caller: Caller, op: OpCode) -> Option<LineGroup> {
    let is_in_record = !matches!(op.change(), ZnodeChange::None | ZnodeChange::Reconfig);
    op.audited_as().filter(|_| !is_in_record)?;
    let mut group = LineGroup::new(Author::Client(caller));
    add_failure(&mut group, op);
    Some(group)
}

fn add_failure(group: &mut LineGroup, op: OpCode) {
    group.push(Event::Request(op), None, None, EventResult::Failure);
}

/// Adds one line for each audited operation of a successful multi, or a single line for a failed
/// multi. Adds nothing if the kinds are unknown.
fn add_multi(group: &mut LineGroup, modes: &Modes, txns: &[Txn], outcome: &Outcome) {
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
        return add_failure(group, OpCode::Multi);
    }
    for txn in txns {
        let op = txn.op();
        if op.audited_as().is_none() {
            continue;
        }
        let path = txn.path().map(|path| &**path);
        let created = path.filter(|_| op.change().is_create());
        let mode = created.and_then(|path| modes.of(path));
        group.push(Event::Request(op), path, mode, EventResult::Success);
    }
}

/// Returns the lines for the end of a session, one for each of its ephemeral znodes. Source:
/// DataTree.deleteNodes.
pub fn lines_of_close(
    server_user: &Arc<str>,
    session: SessionId,
    paths: Option<&[Str]>,
    outcome: &Outcome,
) -> LineGroup {
    let mut group = of_server(server_user, Some(session));
    if let Outcome::Closed { missing, unlisted } = outcome {
        let missing: HashSet<&Str> = missing.iter().collect();
        for path in paths.unwrap_or_default().iter().chain(unlisted) {
            let result = EventResult::of(missing.contains(path));
            group.push(Event::EphemeralDeleted, Some(path), None, result);
        }
    }
    group
}

/// Returns the line for a successful or failed start of the server.
pub(super) fn server_start(server_user: &Arc<str>, has_failed: bool) -> LineGroup {
    let mut group = of_server(server_user, None);
    let result = EventResult::of(has_failed);
    group.push(Event::ServerStart, None, None, result);
    group
}

/// Returns the line for a requested stop of the server.
pub(super) fn server_stop(server_user: &Arc<str>) -> LineGroup {
    let mut group = of_server(server_user, None);
    group.push(Event::ServerStop, None, None, EventResult::Invoked);
    group
}

fn of_server(server_user: &Arc<str>, session: Option<SessionId>) -> LineGroup {
    LineGroup::new(Author::Server {
        session,
        user: server_user.clone(),
    })
}

#[cfg(test)]
#[path = "tests.rs"]
mod tests;
