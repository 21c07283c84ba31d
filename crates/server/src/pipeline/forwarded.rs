//! Requests that a learner has passed on to its leader and not seen committed yet.
//!
//! A leader takes the requests of one connection in order and answers each by a transaction with
//! the same session and cxid, be it an error. So each session has a queue, and what comes back is
//! its head.
//!
//! Source: ensemble-protocol.md 14, 15.1 (CommitProcessor).

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use proto::txn::{Txn, TxnRecord};
use proto::{OpCode, SessionId};

use crate::net::connection::Connection;
use crate::net::large::LargeRequest;

/// One of them.
pub(super) struct Forwarded {
    pub(super) cxid: i32,
    pub(super) op: OpCode,
    pub(super) origin: Arc<Connection>,
    pub(super) large: Option<LargeRequest>,
}

/// All of them, by session.
#[derive(Default)]
pub(super) struct ForwardedRequests {
    by_session: HashMap<SessionId, VecDeque<Forwarded>>,
    len: usize,
}

/// What a committed transaction answers.
pub(super) struct Matched {
    /// The request, if it was passed on from here.
    pub(super) request: Option<Forwarded>,
    /// Requests of the same session before it that the leader left out. They are never answered,
    /// so their connection must end.
    pub(super) skipped: Vec<Forwarded>,
}

impl ForwardedRequests {
    pub(super) fn push(&mut self, session: SessionId, request: Forwarded) {
        self.by_session
            .entry(session)
            .or_default()
            .push_back(request);
        self.len += 1;
    }

    /// Takes what `record` answers.
    pub(super) fn take(&mut self, record: &TxnRecord) -> Matched {
        let header = &record.header;
        let mut matched = Matched {
            request: None,
            skipped: Vec::new(),
        };
        let Some(queue) = self.by_session.get_mut(&header.session) else {
            return matched;
        };
        let answers = |request: &Forwarded| {
            request.cxid == header.cxid
                && (matches!(record.txn, Txn::Error { .. }) || request.op.number() == header.op)
        };
        let Some(at) = queue.iter().position(answers) else {
            return matched;
        };
        matched.skipped = queue.drain(..at).collect();
        matched.request = queue.pop_front();
        self.len -= matched.skipped.len() + 1;
        if queue.is_empty() {
            self.by_session.remove(&header.session);
        }
        matched
    }

    /// How many there are: each holds a permit.
    pub(super) fn len(&self) -> usize {
        self.len
    }
}
