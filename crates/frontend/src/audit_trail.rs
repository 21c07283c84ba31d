//! Audit lines from requests and their results.

use std::collections::VecDeque;
use std::net::IpAddr;
use std::sync::Arc;

use hashbrown::HashMap;
use metrics::audit::{
    AuditLog, AuditedRequest, Caller, LineGroup, line_of_undecodable, lines_of, lines_of_close,
};
use proto::txn::Txn;
use proto::{ErrorCode, OpCode};
use replica::connection::Identities;
use replica::{Applied, ClientRequest, Ticket, UNDECODABLE};

use crate::connection::Connection;

/// Requests of this server's clients that are in progress and whose operation is audited.
///
/// They are kept here and not in the connections, because a request is executed and needs its audit
/// line even if its client disconnects meanwhile. Clients choose the cxids, which may be equal.
/// Requests without a line are therefore kept, too: otherwise the result of such a request would be
/// the result of the next request with the same cxid.
pub struct AuditTrail {
    log: Arc<AuditLog>,
    audited: HashMap<Ticket, VecDeque<AuditedInProgress>>,
    /// Lines created while the tree is locked.
    lines: Vec<LineGroup>,
}

struct AuditedInProgress {
    cxid: i32,
    op: OpCode,
    caller: Caller,
    /// Data for the line. `None` if the request does not cause a line.
    audited: Option<AuditedRequest>,
}

impl AuditTrail {
    /// Creates a trail that writes to this log.
    pub fn new(log: Arc<AuditLog>) -> Self {
        Self {
            log,
            audited: HashMap::new(),
            lines: Vec::new(),
        }
    }

    /// Returns whether no requests are in progress.
    pub fn is_empty(&self) -> bool {
        self.audited.is_empty()
    }

    /// Records requests of one client that are about to be ordered or forwarded.
    pub fn note_requests(&mut self, ip: IpAddr, requests: &[ClientRequest]) {
        for request in requests {
            let op = request.request.op();
            if op.audited_as().is_none() {
                continue;
            }
            let in_progress = AuditedInProgress {
                cxid: request.cxid,
                op,
                caller: Caller {
                    session: request.session,
                    identities: request.identities.clone(),
                    ip,
                },
                audited: AuditedRequest::of(&request.request),
            };
            let queue = self.audited.entry(request.ticket).or_default();
            queue.push_back(in_progress);
        }
    }

    /// Creates the lines for an applied transaction. Called while the tree is locked.
    pub fn applied(&mut self, applied: &Applied<'_>) {
        let (record, outcome) = (applied.record, applied.outcome);
        if let Txn::CloseSession { paths } = &record.txn {
            let (user, session) = (self.log.server_user(), record.header.session);
            let lines = lines_of_close(user, session, paths.as_deref(), outcome);
            self.lines.push(lines);
        }
        let Some(ticket) = applied.origin else {
            return;
        };
        let Some(queue) = self.audited.get_mut(&ticket) else {
            return;
        };
        let cxid = record.header.cxid;
        let mut in_progress = queue.iter();
        let Some(at) = in_progress.position(|next| next.cxid == cxid && next.op == applied.op)
        else {
            return;
        };
        // Earlier requests were not executed, because the leader skipped them.
        if let Some(found) = queue.drain(..=at).next_back()
            && let Some(audited) = found.audited
        {
            let lines = lines_of(found.caller, audited, &record.txn, outcome);
            self.lines.push(lines);
        }
        if queue.is_empty() {
            self.audited.remove(&ticket);
        }
    }

    /// Passes the created lines to the audit log. Called after the tree is unlocked, and before
    /// clients receive the results.
    pub fn released(&mut self) {
        for lines in self.lines.drain(..) {
            self.log.write(lines);
        }
    }

    /// Forgets all requests. Called when a new role begins, because this server cannot know the
    /// results of requests from the previous role.
    pub fn forget(&mut self) {
        self.audited.clear();
    }
}

/// Audits a refused request of this connection if its record could not be decoded. Such a request
/// never becomes a transaction in Zoarium. Java creates an error transaction and audits it.
pub(crate) fn audit_refusal(
    audit: Option<&AuditLog>,
    connection: &Connection,
    identities: &Identities,
    op: OpCode,
    err: ErrorCode,
) {
    let Some(audit) = audit.filter(|_| err == UNDECODABLE) else {
        return;
    };
    let caller = Caller {
        session: connection.session(),
        identities: identities.clone(),
        ip: connection.peer.ip(),
    };
    if let Some(line) = line_of_undecodable(caller, op) {
        audit.write(line);
    }
}
