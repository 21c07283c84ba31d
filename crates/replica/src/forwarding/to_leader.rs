//! Forwarding of clients' requests from a learner to its leader.
//!
//! A learner accepts requests like every server. It forwards writes, receives them back as
//! transactions, and matches these with the requests by session and cxid.

use bytes::Bytes;
use jute::Encode;
use proto::learner::{LearnerRequest, Touch};
use proto::{OpCode, SessionId};
use zab::learner::Action;

use super::pending::Forwarded;
use crate::interface::effect::Effect;
use crate::interface::host::{Host, Turn};
use crate::interface::input::{ClientRequest, Renewal, SyncRequest};
use crate::replica::Replica;
use crate::roles::observer_master::SessionHolder;
use crate::roles::{Role, SyncWaiter};

impl<H: Host> Replica<H> {
    /// Forwards the requests of clients.
    pub(crate) fn forward_all(
        &mut self,
        requests: &mut Vec<ClientRequest>,
        turn: &mut Turn<'_, H>,
    ) {
        let Role::Learning(learning) = &mut self.role else {
            return;
        };
        let mut actions = std::mem::take(&mut learning.spare);
        for request in requests.drain(..) {
            self.forward(request, &mut actions, turn);
        }
        self.carry_out_learner(actions, turn);
    }

    fn forward(
        &mut self,
        request: ClientRequest,
        actions: &mut Vec<Action>,
        turn: &mut Turn<'_, H>,
    ) {
        let live = match &mut self.role {
            Role::Learning(learning) if learning.is_live() => Some(learning),
            _ => None,
        };
        let Some(learning) = live else {
            return self.drop_request(&request, turn);
        };
        let (session, op) = (request.session, request.request.op());
        let observers = learning.observers.as_ref();
        if observers.is_some_and(|of| of.is_late(session, op, SessionHolder::Client)) {
            tracing::debug!(%session, "dropping a late request of a session that moved to an observer");
            return self.drop_request(&request, turn);
        }
        let Some(learner) = &mut learning.learner else {
            return;
        };
        if let Some(upgrade) = upgrade_of(&request) {
            // No client waits for the upgrade itself. The leader must order the upgrade before the
            // client's request.
            learner.forward(upgrade, actions);
        }
        let is_new_session = op == OpCode::CreateSession;
        let passed_on = LearnerRequest {
            session: request.session,
            cxid: request.cxid,
            op: op.number(),
            body: request.body,
            authinfo: (!is_new_session).then(|| request.identities.to_vec()),
        };
        if learner.forward(passed_on, actions) {
            learning.forwarded.push(
                request.session,
                Forwarded {
                    cxid: request.cxid,
                    request: request.request,
                    origin: request.ticket,
                    large_bytes: request.large_bytes,
                },
            );
        }
    }

    /// Handles a client's `sync`. A learner forwards it. A leader answers it at its position among
    /// the proposals.
    pub(crate) fn handle_sync(&mut self, sync: SyncRequest, turn: &mut Turn<'_, H>) {
        let learning = match &mut self.role {
            Role::Leading(_) => return self.sync_own(sync.session, sync.ticket, turn),
            Role::Learning(learning) => learning,
            Role::Looking | Role::Draining(_) => {
                return turn.effect(Effect::CloseClient(sync.ticket));
            }
        };
        let mut body = Vec::new();
        sync.path.encode(&mut body);
        let request = LearnerRequest {
            session: sync.session,
            cxid: sync.cxid,
            op: OpCode::Sync.number(),
            body: body.into(),
            authinfo: Some(sync.identities.to_vec()),
        };
        let mut actions = std::mem::take(&mut learning.spare);
        let learner = learning.learner.as_mut();
        if learner.is_some_and(|learner| learner.forward(request, &mut actions)) {
            learning.syncs.push_back(SyncWaiter::Client(sync.ticket));
        } else {
            turn.effect(Effect::CloseClient(sync.ticket));
        }
        self.carry_out_learner(actions, turn);
    }

    /// Handles the leader's answer to the oldest `sync`.
    pub(crate) fn handle_sync_done(&mut self, turn: &mut Turn<'_, H>) {
        let Role::Learning(learning) = &mut self.role else {
            return;
        };
        match learning.syncs.pop_front() {
            Some(SyncWaiter::Client(ticket)) => self.answer_sync(ticket, turn),
            Some(SyncWaiter::Observer(link)) => self.answer_observers_sync(link, turn),
            None => {}
        }
    }

    /// Queries the leader about a session that moved to this server.
    pub(crate) fn handle_renewal(&mut self, renewal: Renewal, turn: &mut Turn<'_, H>) {
        let Role::Learning(learning) = &mut self.role else {
            return turn.effect(Effect::CloseClient(renewal.ticket));
        };
        let touch = Touch {
            session: renewal.session,
            timeout_ms: renewal.timeout_ms,
        };
        let mut actions = std::mem::take(&mut learning.spare);
        let learner = learning.learner.as_mut();
        if learner.is_some_and(|learner| learner.revalidate(touch, &mut actions)) {
            if let Some(observers) = &mut learning.observers {
                observers.note_session_return(renewal.session, SessionHolder::Client);
            }
            if let Some(older) = learning.renewals.push(renewal) {
                turn.effect(Effect::CloseClient(older.ticket));
            }
        } else {
            turn.effect(Effect::CloseClient(renewal.ticket));
        }
        self.carry_out_learner(actions, turn);
    }

    /// Forgets on which connection an ended session last returned.
    pub(crate) fn forget_holder(&mut self, session: SessionId) {
        if let Role::Learning(learning) = &mut self.role
            && let Some(observers) = &mut learning.observers
        {
            observers.forget(session);
        }
    }

    /// Handles the leader's answer to a query about a session.
    pub(crate) fn handle_revalidated(
        &mut self,
        session: SessionId,
        is_valid: bool,
        turn: &mut Turn<'_, H>,
    ) {
        if !is_valid {
            self.forget_holder(session);
        }
        if self.answer_observers_question(session, is_valid, turn) {
            return;
        }
        let Role::Learning(learning) = &mut self.role else {
            return;
        };
        if let Some(renewal) = learning.renewals.take(session) {
            turn.effect(Effect::Renewed { renewal, is_valid });
        }
    }
}

/// Returns the request that makes the session global and must be forwarded first; `None` if the
/// session need not become global.
///
/// Source: QuorumZooKeeperServer.makeUpgradeRequest.
fn upgrade_of(request: &ClientRequest) -> Option<LearnerRequest> {
    let timeout_ms = request.upgrade_ms?;
    tracing::debug!(session = %request.session, "upgrading a local session to a global one");
    Some(LearnerRequest {
        session: request.session,
        cxid: 0,
        op: OpCode::CreateSession.number(),
        body: Bytes::copy_from_slice(&timeout_ms.to_be_bytes()),
        authinfo: None,
    })
}
