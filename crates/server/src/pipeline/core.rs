//! The thread that orders and applies.

use std::collections::VecDeque;
use std::sync::Arc;

use crossbeam_channel::{Receiver, Sender, TrySendError};
use jute::Encode;
use parking_lot::RwLockWriteGuard;
use proto::request::WriteRequest;
use proto::txn::{Txn, TxnRecord};
use proto::{ErrorCode, OpCode, Sid, Zxid};
use session::Owner;
use tree::{Overlay, PrepareContext, SessionKind, Tree};
use zab::broadcast::Proposals;

use super::deliver::Delivery;
use super::log::LogGroup;
use super::{Submission, ToCore};
use crate::net::connection::Connection;
use crate::net::large::LargeRequest;
use crate::shared::Shared;
use crate::{clock, limits};

/// Orders requests and applies what is committed.
pub(crate) struct Core {
    shared: Arc<Shared>,
    inbox: Receiver<ToCore>,
    log: Sender<LogGroup>,
    /// Transactions that the log has had no room for yet.
    group: LogGroup,
    overlay: Overlay,
    proposals: Proposals,
    last_zxid: Zxid,
    in_flight: VecDeque<InFlight>,
    delivery: Delivery,
    ending: bool,
}

/// A transaction between its proposal and its application.
pub(super) struct InFlight {
    pub(super) record: TxnRecord,
    /// What was asked for; the transaction may be an error instead.
    pub(super) op: OpCode,
    pub(super) origin: Option<Arc<Connection>>,
    _large: Option<LargeRequest>,
}

/// This server's id towards `zab` when it is alone.
pub(crate) const STANDALONE: Sid = Sid(0);

impl Core {
    pub(crate) fn new(
        shared: Arc<Shared>,
        inbox: Receiver<ToCore>,
        log: Sender<LogGroup>,
        proposals: Proposals,
    ) -> Self {
        let (overlay, last_zxid) = {
            let tree = shared.tree.read();
            (Overlay::new(&tree), tree.last_zxid())
        };
        Self {
            shared,
            inbox,
            log,
            group: LogGroup::default(),
            overlay,
            proposals,
            last_zxid,
            in_flight: VecDeque::new(),
            delivery: Delivery::default(),
            ending: false,
        }
    }

    /// Runs until told to end and everything proposed is applied, or until the log fails.
    pub(crate) fn run(mut self) {
        while !(self.ending && self.in_flight.is_empty()) {
            let Ok(first) = self.inbox.recv() else { return };
            if !self.turn(first) {
                return;
            }
        }
        tracing::debug!(zxid = %self.last_zxid, "core thread ends");
    }

    /// Handles `first` and what else waits. False if the log has failed.
    fn turn(&mut self, first: ToCore) -> bool {
        let mut synced = None;
        let mut submissions = 0;
        let mut next = Some(first);
        let shared = self.shared.clone();
        {
            let tree = shared.tree.read();
            let now_ms = clock::wall_ms();
            while let Some(message) = next {
                match message {
                    ToCore::Submit(submission) => {
                        self.prepare(&tree, submission, now_ms);
                        submissions += 1;
                    }
                    ToCore::Synced(zxid) => synced = synced.max(Some(zxid)),
                    ToCore::ForwardSync(sync) => sync.connection.close(),
                    ToCore::Revalidate(revalidation) => revalidation.connection.close(),
                    ToCore::SnapshotWritten => {}
                    ToCore::LogFailed => return false,
                    ToCore::Shutdown => self.ending = true,
                }
                if submissions >= limits::PREPARE_GROUP_MAX {
                    break;
                }
                next = self.inbox.try_recv().ok();
            }
        }
        self.offer_group();
        if let Some(zxid) = synced {
            self.commit(zxid);
        }
        true
    }

    fn prepare(&mut self, tree: &Tree, submission: Submission, now_ms: i64) {
        let Submission {
            origin,
            session,
            cxid,
            identities,
            request,
            body: _,
            large,
        } = submission;
        let zxid = self.last_zxid.next();
        let session_check = self.check_session(&request, session);
        let context = PrepareContext {
            session,
            cxid,
            zxid,
            time_ms: now_ms,
            identities: &identities,
            session_check,
        };
        let record = self.overlay.prepare(tree, &request, &context);
        if matches!(record.txn, Txn::CloseSession { .. }) {
            // Requests behind it are refused from here on.
            self.shared.sessions.lock().set_closing(session);
        }
        self.last_zxid = zxid;
        self.group.push(&record);
        self.proposals.propose(zxid);
        let op = request.op();
        self.in_flight.push_back(InFlight {
            record,
            op,
            origin,
            _large: large,
        });
    }

    fn check_session(
        &self,
        request: &WriteRequest,
        session: proto::SessionId,
    ) -> Result<SessionKind, ErrorCode> {
        match request {
            // The server's own: a session that starts or ends, a container that is swept.
            WriteRequest::CreateSession { .. }
            | WriteRequest::CloseSession
            | WriteRequest::DeleteContainer { .. } => Ok(SessionKind::Global),
            _ => {
                let checked = self
                    .shared
                    .sessions
                    .lock()
                    .check(session, Owner::THIS_SERVER);
                checked.map(|()| SessionKind::Global)
            }
        }
    }

    /// Hands the log what has gathered, unless it is still busy with earlier groups: its next
    /// `Synced` brings us back here.
    fn offer_group(&mut self) {
        if self.group.is_empty() {
            return;
        }
        match self.log.try_send(std::mem::take(&mut self.group)) {
            Ok(()) => {}
            Err(TrySendError::Full(group)) => self.group = group,
            // The log thread is gone; `LogFailed` is on its way.
            Err(TrySendError::Disconnected(_)) => {}
        }
    }

    /// Applies what is committed now that this server's log is on disk up to `zxid`.
    fn commit(&mut self, zxid: Zxid) {
        let mut committed = match self.proposals.handle_synced(zxid) {
            Ok(committed) => committed.len(),
            Err(fault) => {
                tracing::error!(err = %fault, "the log reports what was never proposed");
                return;
            }
        };
        let shared = self.shared.clone();
        while committed > 0 {
            let group = committed.min(limits::APPLY_GROUP_MAX);
            committed -= group;
            let mut tree = shared.tree.write();
            for in_flight in self.in_flight.drain(..group) {
                self.overlay.applied(in_flight.record.header.zxid);
                self.delivery.apply(&shared, &mut tree, &in_flight);
            }
            RwLockWriteGuard::unlock_fair(tree);
            self.delivery.wake();
            self.delivery.count(&shared);
            shared.permits.give_back(group);
        }
    }
}

impl LogGroup {
    fn push(&mut self, record: &TxnRecord) {
        let start = self.payloads.len();
        record.encode(&mut self.payloads);
        self.records
            .push((record.header.zxid, start..self.payloads.len()));
    }
}
