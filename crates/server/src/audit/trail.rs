//! From requests to the lines of what became of them.

use std::collections::VecDeque;
use std::net::IpAddr;
use std::sync::Arc;

use hashbrown::HashMap;
use monitoring::audit::{Asked, Caller, Line, lines_of, lines_of_close};
use proto::OpCode;
use proto::txn::Txn;
use replica::{Applied, ClientRequest, Ticket};

use super::queue::AuditLog;

/// Audited requests of this server's clients that are under way.
///
/// They are kept here and not with their connections: what a client asks for happens, and must have
/// its line, also when the client has gone meanwhile.
pub(crate) struct Trail {
    log: Arc<AuditLog>,
    asked: HashMap<Ticket, VecDeque<UnderWay>>,
    /// Lines that are made while the tree is held.
    lines: Vec<Line>,
}

struct UnderWay {
    cxid: i32,
    op: OpCode,
    caller: Caller,
    asked: Asked,
}

impl Trail {
    pub(crate) fn new(log: Arc<AuditLog>) -> Self {
        Self {
            log,
            asked: HashMap::new(),
            lines: Vec::new(),
        }
    }

    /// These requests of one client are about to be ordered, or passed on.
    pub(crate) fn asked(&mut self, ip: IpAddr, requests: &[ClientRequest]) {
        for request in requests {
            let Some(asked) = Asked::of(&request.request) else {
                continue;
            };
            let under_way = UnderWay {
                cxid: request.cxid,
                op: request.request.op(),
                caller: Caller {
                    session: request.session,
                    identities: request.identities.clone(),
                    ip,
                },
                asked,
            };
            let queue = self.asked.entry(request.ticket).or_default();
            queue.push_back(under_way);
        }
    }

    /// A transaction was applied. The tree is held.
    pub(crate) fn applied(&mut self, applied: &Applied<'_>) {
        let (record, outcome) = (applied.record, applied.outcome);
        if let Txn::CloseSession { paths } = &record.txn {
            let (user, session) = (self.log.server_user(), record.header.session);
            lines_of_close(user, session, paths.as_deref(), outcome, &mut self.lines);
        }
        let Some(ticket) = applied.origin else {
            return;
        };
        let Some(queue) = self.asked.get_mut(&ticket) else {
            return;
        };
        let cxid = record.header.cxid;
        let mut under_way = queue.iter();
        let Some(at) = under_way.position(|next| next.cxid == cxid && next.op == applied.op) else {
            return;
        };
        // What the leader has left out before it, if anything, has not happened.
        if let Some(found) = queue.drain(..=at).next_back() {
            let became = (&record.txn, outcome);
            lines_of(&found.caller, &found.asked, became, &mut self.lines);
        }
        if queue.is_empty() {
            self.asked.remove(&ticket);
        }
    }

    /// The tree was let go: hands the lines over, before anybody is told of what they say.
    pub(crate) fn released(&mut self) {
        if !self.lines.is_empty() {
            self.log.write(self.lines.drain(..));
        }
    }

    /// A new role begins: what was under way in the one before never happened, as far as this
    /// server can say.
    pub(crate) fn forget(&mut self) {
        self.asked.clear();
    }
}
