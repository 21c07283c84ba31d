//! Local sessions that become global.
//!
//! Source: ensemble-protocol.md 15.3 (QuorumZooKeeperServer.makeUpgradeRequest).

use bytes::Bytes;
use proto::OpCode;
use proto::learner::LearnerRequest;
use proto::request::WriteRequest;

use super::Submission;
use super::core::{Core, Order};

impl Submission {
    /// What is to be ordered in front: the session becomes global.
    pub(super) fn upgrade(&self) -> Option<Order> {
        let timeout_ms = self.upgrade_ms?;
        tracing::info!(session = %self.session, "a local session becomes global");
        let request = WriteRequest::CreateSession { timeout_ms };
        Some(Order::own(self.session, request))
    }
}

impl Core {
    /// Passes on what is to be ordered in front of a client's request. Nobody waits for it: the
    /// leader orders it in front, too.
    pub(super) fn forward_upgrade(&mut self, submission: &Submission) {
        let Some(timeout_ms) = submission.upgrade_ms else {
            return;
        };
        tracing::info!(session = %submission.session, "a local session becomes global");
        let request = LearnerRequest {
            session: submission.session,
            cxid: 0,
            op: OpCode::CreateSession.number(),
            body: Bytes::copy_from_slice(&timeout_ms.to_be_bytes()),
            authinfo: None,
        };
        self.with_learner(|learner, _, out| {
            learner.forward(request, out);
        });
    }
}
