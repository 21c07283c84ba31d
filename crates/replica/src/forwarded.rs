//! Requests that a learner has passed on to its leader and not seen committed yet.
//!
//! A leader takes the requests of one connection in order and answers each by a transaction with
//! the same session and cxid, be it an error. So each session has a queue, and what comes back is
//! its head.
//!
//! Two connections of one session, at two members, may number their requests alike. Then the
//! transaction of the newer one is not what the older one waits for, and must not be acknowledged
//! there. The older one's own answer, a refusal, comes behind it.
//!
//! Source: CommitProcessor, which compares numbers only.

use std::collections::{HashMap, VecDeque};

use bytes::Bytes;
use jute::Str;
use proto::SessionId;
use proto::mutant::{self, Mutant};
use proto::request::{CreateRequest, WriteRequest, flags};
use proto::txn::{Txn, TxnRecord};

use crate::input::Ticket;
use crate::large_bytes::LargeBytes;

/// One of them.
#[derive(Debug)]
pub(crate) struct Forwarded {
    pub(crate) cxid: i32,
    pub(crate) request: WriteRequest,
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
        let answers = |one: &Forwarded| {
            mutant::is(Mutant::RepliesMixedUp)
                || one.cxid == header.cxid
                    && (matches!(record.txn, Txn::Error { .. })
                        || one.request.op().number() == header.op
                            && comes_of(&record.txn, &one.request))
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

/// Whether the request can have become this transaction, as far as path and data tell. An error can
/// come of every request.
fn comes_of(txn: &Txn, request: &WriteRequest) -> bool {
    match (txn, request) {
        (Txn::Error { .. }, _)
        | (Txn::CreateSession { .. }, WriteRequest::CreateSession { .. })
        | (Txn::CloseSession { .. }, WriteRequest::CloseSession)
        | (Txn::Reconfig(_) | Txn::SetData(_), WriteRequest::Reconfig(_)) => true,
        (
            Txn::Create(create) | Txn::CreateV0(create) | Txn::Create2(create),
            WriteRequest::Create { request, .. },
        ) => is_created_by(request, &create.path, create.data.as_ref()),
        (Txn::CreateContainer(create), WriteRequest::Create { request, .. }) => {
            is_created_by(request, &create.path, create.data.as_ref())
        }
        (Txn::CreateTtl(create), WriteRequest::Create { request, .. }) => {
            is_created_by(request, &create.path, create.data.as_ref())
        }
        (Txn::Delete { path }, WriteRequest::Delete(request)) => is(path, request.path.as_ref()),
        (Txn::DeleteContainer { path }, WriteRequest::DeleteContainer { path: asked }) => {
            path == asked
        }
        (Txn::SetData(set), WriteRequest::SetData(request)) => {
            is(&set.path, request.path.as_ref()) && same(set.data.as_ref(), request.data.as_ref())
        }
        (Txn::SetAcl(set), WriteRequest::SetAcl(request)) => is(&set.path, request.path.as_ref()),
        (Txn::Check(check), WriteRequest::Check(request)) => is(&check.path, request.path.as_ref()),
        (Txn::Multi(parts), WriteRequest::Multi(Ok(requests))) => {
            let mut both = parts.iter().zip(requests);
            parts.len() == requests.len() && both.all(|(txn, request)| comes_of(txn, request))
        }
        // One that cannot be read is refused.
        (Txn::Multi(parts), WriteRequest::Multi(Err(_))) => {
            parts.iter().all(|part| matches!(part, Txn::Error { .. }))
        }
        _ => false,
    }
}

fn is_created_by(request: &CreateRequest, path: &Str, data: Option<&Bytes>) -> bool {
    let is_sequential = [
        flags::PERSISTENT_SEQUENTIAL,
        flags::EPHEMERAL_SEQUENTIAL,
        flags::TTL_SEQUENTIAL,
    ]
    .contains(&request.flags);
    let asked = request.path.as_deref().unwrap_or_default();
    let is_path = match is_sequential {
        // The number behind it may have more than its ten digits.
        true => path.len() > asked.len() && path.starts_with(asked),
        false => **path == *asked,
    };
    is_path && same(data, request.data.as_ref())
}

fn is(path: &Str, asked: Option<&Str>) -> bool {
    asked == Some(path)
}

/// No data and empty data are one: not every leader keeps them apart.
fn same(data: Option<&Bytes>, asked: Option<&Bytes>) -> bool {
    data.map(AsRef::<[u8]>::as_ref).unwrap_or_default()
        == asked.map(AsRef::<[u8]>::as_ref).unwrap_or_default()
}

#[cfg(test)]
mod tests;
