//! Requests that a learner has forwarded to its leader and whose commit has not arrived yet.
//!
//! A leader handles the requests of one connection in order, and answers each with a transaction
//! that has the session and cxid of the request and may be an error. Each session therefore has a
//! queue, and an arriving answer normally belongs to the oldest request in it.
//!
//! Two connections of one session at two members may use equal cxids. The older connection must
//! then not treat the transaction of the newer connection as its answer. The answer for the older
//! connection, a refusal, arrives later.
//!
//! Source: CommitProcessor, which compares cxids only.

use std::collections::{HashMap, VecDeque};

use bytes::Bytes;
use jute::Str;
use proto::SessionId;
use proto::request::{CreateRequest, WriteRequest, flags};
use proto::txn::{Txn, TxnRecord};

use crate::interface::input::Ticket;
use crate::interface::large_bytes::LargeBytes;

/// Request that was forwarded to the leader.
#[derive(Debug)]
pub(crate) struct Forwarded {
    pub(crate) cxid: i32,
    pub(crate) request: WriteRequest,
    pub(crate) origin: Ticket,
    pub(crate) large_bytes: LargeBytes,
}

/// All forwarded requests, by session.
#[derive(Debug, Default)]
pub(crate) struct ForwardedRequests {
    by_session: HashMap<SessionId, VecDeque<Forwarded>>,
    len: usize,
    large_bytes: LargeBytes,
}

/// Result of matching a committed transaction with the forwarded requests.
#[derive(Debug)]
pub(crate) struct Matched {
    /// Answered request, if this server forwarded it.
    pub(crate) request: Option<Forwarded>,
    /// Earlier requests of the session that the leader left out. They will never be answered, so
    /// their connection must end.
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

    /// Removes and returns the request that `record` answers.
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
            one.cxid == header.cxid
                && (matches!(record.txn, Txn::Error { .. })
                    || one.request.op().number() == header.op
                        && can_result_from(&record.txn, &one.request))
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

    /// Returns the number of requests.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Returns the requests' share in the host's bounds on large requests.
    pub(crate) fn large_bytes(&self) -> LargeBytes {
        self.large_bytes
    }
}

/// Returns whether the request can have become this transaction, judging by path and data. Every
/// request can become an error.
fn can_result_from(txn: &Txn, request: &WriteRequest) -> bool {
    match (txn, request) {
        (Txn::Error { .. }, _) => true,
        (Txn::Multi(parts), WriteRequest::Multi(Ok(requests))) => {
            let mut both = parts.iter().zip(requests);
            parts.len() == requests.len()
                && both.all(|(txn, request)| can_result_from(txn, request))
        }
        // The leader refuses a request that cannot be decoded.
        (Txn::Multi(parts), WriteRequest::Multi(Err(_))) => {
            parts.iter().all(|part| matches!(part, Txn::Error { .. }))
        }
        // Only the leader knows the path and the data.
        (Txn::Reconfig(_) | Txn::SetData(_), WriteRequest::Reconfig(_)) => true,
        (txn, WriteRequest::Create { request, .. }) => {
            let fields = txn.fields();
            let is_path = |path| is_created_by(request, path, fields.data);
            txn.op().change().is_create() && fields.path.is_some_and(is_path)
        }
        (Txn::SetData(set), WriteRequest::SetData(request)) => {
            Some(&set.path) == request.path.as_ref()
                && is_same_data(set.data.as_ref(), request.data.as_ref())
        }
        (txn, request) => txn.op() == request.op() && txn.fields().path == request.path(),
    }
}

fn is_created_by(request: &CreateRequest, path: &Str, data: Option<&Bytes>) -> bool {
    let is_sequential = [
        flags::PERSISTENT_SEQUENTIAL,
        flags::EPHEMERAL_SEQUENTIAL,
        flags::TTL_SEQUENTIAL,
    ]
    .contains(&request.flags);
    let requested = request.path.as_deref().unwrap_or_default();
    let is_path = if is_sequential {
        // The sequence number may have more than ten digits.
        path.len() > requested.len() && path.starts_with(requested)
    } else {
        **path == *requested
    };
    is_path && is_same_data(data, request.data.as_ref())
}

/// Missing data and empty data are equal, because not every leader distinguishes them.
fn is_same_data(data: Option<&Bytes>, requested: Option<&Bytes>) -> bool {
    data.map(AsRef::<[u8]>::as_ref).unwrap_or_default()
        == requested.map(AsRef::<[u8]>::as_ref).unwrap_or_default()
}

#[cfg(test)]
mod tests;
