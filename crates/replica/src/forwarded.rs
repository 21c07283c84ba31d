//! Requests that a learner has passed on to its leader and not seen committed yet.
//!
//! A leader takes the requests of one connection in order and answers each by a transaction with
//! the same session and cxid, be it an error. So each session has a queue, and what comes back is
//! its head.
//!
//! Source: CommitProcessor.

use std::collections::{HashMap, VecDeque};

use proto::mutant::{self, Mutant};
use proto::txn::{Txn, TxnRecord};
use proto::{OpCode, SessionId};

use crate::input::Ticket;
use crate::large_bytes::LargeBytes;

/// One of them.
#[derive(Debug)]
pub(crate) struct Forwarded {
    pub(crate) cxid: i32,
    pub(crate) op: OpCode,
    pub(crate) origin: Ticket,
    pub(crate) large_bytes: LargeBytes,
}

/// All of them, by session.
#[derive(Debug, Default)]
pub(crate) struct ForwardedRequests {
    by_session: HashMap<SessionId, VecDeque<Forwarded>>,
    len: usize,
    large_bytes: LargeBytes,
}

/// What a committed transaction answers.
#[derive(Debug)]
pub(crate) struct Matched {
    /// The request, if it was passed on from here.
    pub(crate) request: Option<Forwarded>,
    /// Requests of the same session before it that the leader left out. They are never answered,
    /// so their connection must end.
    pub(crate) skipped: Vec<Forwarded>,
}

impl ForwardedRequests {
    pub(crate) fn push(&mut self, session: SessionId, request: Forwarded) {
        self.len += 1;
        self.large_bytes += request.large_bytes;
        self.by_session
            .entry(session)
            .or_default()
            .push_back(request);
    }

    /// Takes what `record` answers.
    pub(crate) fn take(&mut self, record: &TxnRecord) -> Matched {
        let header = &record.header;
        let mut matched = Matched {
            request: None,
            skipped: Vec::new(),
        };
        let Some(queue) = self.by_session.get_mut(&header.session) else {
            return matched;
        };
        let answers = |request: &Forwarded| {
            mutant::is(Mutant::RepliesMixedUp)
                || request.cxid == header.cxid
                    && (matches!(record.txn, Txn::Error { .. }) || request.op.number() == header.op)
        };
        let Some(at) = queue.iter().position(answers) else {
            return matched;
        };
        matched.skipped = queue.drain(..at).collect();
        matched.request = queue.pop_front();
        let taken = matched.skipped.iter().chain(&matched.request);
        self.len -= matched.skipped.len() + 1;
        self.large_bytes -= taken.map(|request| request.large_bytes).sum();
        if queue.is_empty() {
            self.by_session.remove(&header.session);
        }
        matched
    }

    /// How many there are.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// What they take of the host's bounds on large requests.
    pub(crate) fn large_bytes(&self) -> LargeBytes {
        self.large_bytes
    }
}
