//! Preparation of transactions from requests, and their proposal.

use std::collections::VecDeque;

use bytes::Bytes;
use jute::Encode;
use proto::request::WriteRequest;
use proto::txn::{Txn, TxnRecord};
use proto::{ErrorCode, Id, OpCode, SessionId, Zxid};
use tree::{PrepareContext, SessionKind, Tree};
use zab::Record;
use zab::leader::{Action, LinkId, NextConfig, ProposeError};

use super::long_requests::{OrderItem, long_bytes};
use crate::interface::effect::Effect;
use crate::interface::host::{Host, State, Turn};
use crate::interface::input::{ClientRequest, Ticket};
use crate::interface::large_bytes::LargeBytes;
use crate::interface::note::{Note, Stage};
use crate::limits;
use crate::replica::Replica;
use crate::roles::Role;
use crate::session::Owner;

/// A transaction between proposal and application.
#[derive(Debug)]
pub(crate) struct InFlight {
    pub(crate) record: TxnRecord,
    /// Requested operation. The transaction may be an error instead.
    pub(crate) op: OpCode,
    pub(crate) origin: Option<Ticket>,
    pub(crate) large_bytes: LargeBytes,
    /// Whether the request came from a client of this server, and therefore counts toward the limit
    /// on such requests.
    pub(crate) is_counted: bool,
}

impl InFlight {
    /// Creates the entry for a transaction that was not requested by a client of this server.
    pub(crate) fn of_others(record: TxnRecord) -> Self {
        let op = record.txn.op();
        Self {
            record,
            op,
            origin: None,
            large_bytes: LargeBytes::NONE,
            is_counted: false,
        }
    }
}

/// A request to be ordered that does not come from a client of this server.
#[derive(Debug)]
pub(crate) struct ServerRequest {
    /// Server through which the request came.
    pub(crate) owner: Owner,
    pub(crate) session: SessionId,
    pub(crate) cxid: i32,
    pub(crate) op: OpCode,
    pub(crate) identities: Vec<Id>,
    /// The request, or the error with which it is refused without a check.
    pub(crate) request: Result<WriteRequest, ErrorCode>,
    /// Connection of the learner; `None` for this server's own request.
    pub(crate) link: Option<LinkId>,
    /// Size of the request's record, bytes.
    pub(crate) record_bytes: usize,
    /// Total size of the request's record and identities, bytes.
    pub(crate) bytes: usize,
}

impl ServerRequest {
    /// Creates this server's own request.
    pub(crate) fn own(session: SessionId, request: WriteRequest) -> Self {
        Self {
            owner: Owner::THIS_SERVER,
            session,
            cxid: 0,
            op: request.op(),
            identities: Vec::new(),
            request: Ok(request),
            link: None,
            record_bytes: 0,
            bytes: 0,
        }
    }

    /// Returns the size of the record if the record is long and will be ordered, bytes; otherwise
    /// 0.
    pub(crate) fn long_bytes(&self) -> usize {
        match self.request {
            Ok(_) => long_bytes(self.record_bytes),
            Err(_) => 0,
        }
    }
}

/// Request to be ordered, from any source. It borrows the request, because requests are large and
/// moving one costs more than reading it.
#[derive(Debug, Clone, Copy)]
struct UnorderedRequest<'a> {
    origin: Option<Ticket>,
    /// Server through which the request came.
    owner: Owner,
    session: SessionId,
    cxid: i32,
    op: OpCode,
    identities: &'a [Id],
    /// The request, or the error with which it is refused without a check.
    request: Result<&'a WriteRequest, ErrorCode>,
    large_bytes: LargeBytes,
    /// Size of the request's record if the record is long and will be ordered, bytes; otherwise 0.
    long_bytes: usize,
    is_counted: bool,
}

impl<'a> From<&'a ServerRequest> for UnorderedRequest<'a> {
    fn from(order: &'a ServerRequest) -> Self {
        Self {
            origin: None,
            owner: order.owner,
            session: order.session,
            cxid: order.cxid,
            op: order.op,
            identities: &order.identities,
            request: order.request.as_ref().map_err(|error| *error),
            large_bytes: LargeBytes::NONE,
            long_bytes: order.long_bytes(),
            is_counted: false,
        }
    }
}

impl<'a> From<&'a ClientRequest> for UnorderedRequest<'a> {
    fn from(request: &'a ClientRequest) -> Self {
        Self {
            origin: Some(request.ticket),
            owner: Owner::THIS_SERVER,
            session: request.session,
            cxid: request.cxid,
            op: request.request.op(),
            identities: &request.identities,
            request: Ok(&request.request),
            large_bytes: request.large_bytes,
            long_bytes: long_bytes(request.body.len()),
            is_counted: true,
        }
    }
}

/// Creates the request that makes a session global. It must be ordered before the client's request.
///
/// Source: QuorumZooKeeperServer.makeUpgradeRequest.
fn upgrade(session: SessionId, timeout_ms: i32) -> ServerRequest {
    tracing::debug!(%session, "upgrading a local session to a global one");
    ServerRequest::own(session, WriteRequest::CreateSession { timeout_ms })
}

/// Records that were passed to the log and are not on disk yet.
#[derive(Debug, Default)]
pub(crate) struct Backlog {
    records: VecDeque<NotSynced>,
    bytes: usize,
}

#[derive(Debug)]
struct NotSynced {
    zxid: Zxid,
    bytes: usize,
    /// Time at which the record was passed to the log, ms.
    since_ms: i64,
}

impl Backlog {
    pub(crate) fn push(&mut self, record: &Record, now_ms: i64) {
        self.records.push_back(NotSynced {
            zxid: record.zxid,
            bytes: record.txn.len(),
            since_ms: now_ms,
        });
        self.bytes += record.txn.len();
    }

    pub(crate) fn synced(&mut self, upto: Zxid) {
        while let Some(first) = self.records.front()
            && first.zxid <= upto
        {
            self.bytes -= first.bytes;
            self.records.pop_front();
        }
    }

    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Returns the time since which the oldest record has been waiting, ms.
    pub(crate) fn since_ms(&self) -> Option<i64> {
        self.records.front().map(|first| first.since_ms)
    }
}

impl<H: Host> Replica<H> {
    /// Orders the requests of clients, or forwards them.
    pub(crate) fn handle_requests(
        &mut self,
        requests: &mut Vec<ClientRequest>,
        turn: &mut Turn<'_, H>,
    ) {
        match self.role {
            Role::Leading(_) => {
                let stage = Stage::Preparation(requests.len());
                turn.note(Note::Begins(stage));
                let actions = self.order_all(requests, turn);
                // The stage must end before the records are flushed to the log, because replies may
                // be sent at any time afterwards.
                turn.note(Note::Ends(stage));
                self.carry_out_leader(actions, turn);
            }
            Role::Learning(_) => self.forward_all(requests, turn),
            Role::Looking | Role::Draining(_) => {
                for request in requests.drain(..) {
                    self.drop_request(&request, turn);
                }
            }
        }
    }

    /// Prepares and proposes transactions for requests of this server's own clients. Returns the
    /// resulting actions.
    fn order_all(
        &mut self,
        requests: &mut Vec<ClientRequest>,
        turn: &mut Turn<'_, H>,
    ) -> Vec<Action> {
        let Role::Leading(leading) = &mut self.role else {
            return Vec::new();
        };
        let mut actions = std::mem::take(&mut leading.spare);
        let state = turn.state;
        let tree = state.tree();
        let is_long = |request: &ClientRequest| long_bytes(request.body.len()) > 0;
        let may_wait = !self.long_requests.is_empty() || requests.iter().any(is_long);
        if may_wait && self.member.is_some() {
            for request in requests.drain(..) {
                let incoming = OrderItem::Client(Box::new(request));
                if let Some(incoming) = self.long_requests.admit(incoming) {
                    self.order(&tree, incoming, &mut actions, turn);
                }
            }
            return actions;
        }
        for request in requests.iter() {
            self.order_client(&tree, request, &mut actions, turn);
        }
        drop(tree);
        requests.clear();
        actions
    }

    fn order_client(
        &mut self,
        tree: &Tree,
        request: &ClientRequest,
        actions: &mut Vec<Action>,
        turn: &mut Turn<'_, H>,
    ) {
        if let Some(timeout_ms) = request.upgrade_ms {
            let upgrade = upgrade(request.session, timeout_ms);
            self.propose(tree, (&upgrade).into(), actions, turn);
        }
        self.propose(tree, request.into(), actions, turn);
    }

    /// Prepares and proposes transactions for requests of learners and of this server itself,
    /// within the limit on long ones.
    pub(crate) fn order_incoming(&mut self, actions: &mut Vec<Action>, turn: &mut Turn<'_, H>) {
        let state = turn.state;
        let tree = state.tree();
        for incoming in std::mem::take(&mut self.incoming) {
            let upgrade = incoming.upgrade();
            if let Some(incoming) = self.long_requests.admit(incoming) {
                self.order(&tree, incoming, actions, turn);
            } else if let Some((session, timeout_ms, owner)) = upgrade {
                let mut sessions = turn.state.sessions();
                sessions.expect(session, timeout_ms, owner, turn.now.ms);
            }
        }
    }

    /// Orders waiting requests, within the limit on long ones.
    pub(crate) fn order_waiting(&mut self, actions: &mut Vec<Action>, turn: &mut Turn<'_, H>) {
        let Role::Leading(leading) = &self.role else {
            return;
        };
        if !self.long_requests.has_unconfirmed() && self.long_requests.is_empty() {
            return;
        }
        let followers = leading
            .leader
            .min_follower_synced_zxid(turn.now.ms, limits::FOLLOWER_PATIENCE_MS);
        let not_applied = self.in_flight.front();
        let applied = not_applied.map_or(self.last_zxid, |first| {
            Zxid(first.record.header.zxid.0.saturating_sub(1))
        });
        self.long_requests.done(applied.min(self.synced), followers);
        let state = turn.state;
        let tree = state.tree();
        let mut is_any = false;
        while let Some(next) = self.long_requests.next() {
            self.order(&tree, next, actions, turn);
            is_any = true;
        }
        drop(tree);
        if is_any && actions.is_empty() {
            // If only a client's `sync` was ordered, this call answers it.
            self.apply_committed(turn);
        }
    }

    fn order(
        &mut self,
        tree: &Tree,
        incoming: OrderItem,
        actions: &mut Vec<Action>,
        turn: &mut Turn<'_, H>,
    ) {
        match incoming {
            OrderItem::Order(order) => self.propose(tree, (&order).into(), actions, turn),
            OrderItem::Client(request) => self.order_client(tree, &request, actions, turn),
            OrderItem::Sync { link, .. } => {
                if let Role::Leading(leading) = &mut self.role {
                    leading.leader.sync(link, actions);
                }
            }
            OrderItem::Revalidate { link, touch } => self.revalidate(link, touch, actions, turn),
            OrderItem::OwnSync { ticket, .. } => {
                if let Role::Leading(leading) = &mut self.role {
                    let last_proposed = leading.leader.last_proposed();
                    leading.own_syncs.push_back((last_proposed, ticket));
                }
            }
        }
    }

    /// Prepares and proposes a transaction.
    fn propose(
        &mut self,
        tree: &Tree,
        unordered: UnorderedRequest<'_>,
        actions: &mut Vec<Action>,
        turn: &mut Turn<'_, H>,
    ) {
        let zxid = match &self.role {
            Role::Leading(leading) if leading.leader.is_leading() => leading.leader.next_zxid(),
            _ => return self.drop_unordered(&unordered, turn),
        };
        let mut next = None;
        let record = self.prepare(tree, &unordered, zxid, &mut next, turn);
        self.last_zxid = zxid;
        // The length is known only after encoding. A new buffer would be moved each time it grows,
        // so one buffer is reused.
        self.scratch.clear();
        self.scratch.shrink_to(limits::SCRATCH_BYTES_KEPT);
        record.encode(&mut self.scratch);
        match self.propose_scratch(zxid, next, actions, turn) {
            Ok(()) => {
                if unordered.long_bytes > 0 && self.member.is_some() {
                    self.long_requests.proposed(zxid, unordered.long_bytes);
                }
                self.in_flight.push_back(InFlight {
                    record,
                    op: unordered.op,
                    origin: unordered.origin,
                    large_bytes: unordered.large_bytes,
                    is_counted: unordered.is_counted,
                });
            }
            Err(error) => {
                // The client will lose its connection, because all connections end with the role.
                log_limiter::limited!(warn, %zxid, err = %error, "cannot propose a request");
                turn.effect(Effect::Release {
                    requests: usize::from(unordered.is_counted),
                    large_bytes: unordered.large_bytes,
                });
            }
        }
    }

    /// Proposes the encoded transaction. A standalone server does not send it, so the buffer goes
    /// directly into the log.
    fn propose_scratch(
        &mut self,
        zxid: Zxid,
        next: Option<NextConfig>,
        actions: &mut Vec<Action>,
        turn: &mut Turn<'_, H>,
    ) -> Result<(), ProposeError> {
        let Role::Leading(leading) = &mut self.role else {
            return Err(ProposeError::NotLeading);
        };
        let leader = &mut leading.leader;
        if self.member.is_none() {
            leader.propose_alone(zxid)?;
            self.appended = zxid;
            turn.host.append(zxid, &self.scratch);
            return Ok(());
        }
        let record = Record::new(zxid, Bytes::copy_from_slice(&self.scratch));
        let bytes = record.txn.len();
        turn.note(Note::Proposed { bytes });
        match next {
            Some(next) => leader.propose_reconfig(record, next, turn.now.ms, actions),
            None => leader.propose(record, turn.now.ms, actions),
        }
    }

    /// Prepares the transaction for a request. `next` receives the transaction's configuration, if
    /// any.
    fn prepare(
        &mut self,
        tree: &Tree,
        unordered: &UnorderedRequest<'_>,
        zxid: Zxid,
        next: &mut Option<NextConfig>,
        turn: &mut Turn<'_, H>,
    ) -> TxnRecord {
        let session_check = check_session(unordered, turn);
        let context = PrepareContext {
            session: unordered.session,
            cxid: unordered.cxid,
            zxid,
            time_ms: turn.now.wall_ms,
            identities: unordered.identities,
            session_check,
        };
        let record = match unordered.request {
            Err(error) => self.overlay.refuse(tree, error, &context),
            Ok(WriteRequest::Reconfig(request)) => {
                let (record, config) = self.prepare_reconfig(tree, request, &context, turn);
                *next = config;
                record
            }
            Ok(request @ WriteRequest::CloseSession) => {
                turn.note(Note::Begins(Stage::CloseSession));
                let record = self.overlay.prepare(tree, request, &context);
                turn.note(Note::Ends(Stage::CloseSession));
                record
            }
            Ok(request) => self.overlay.prepare(tree, request, &context),
        };
        if let Ok(request) = unordered.request {
            turn.note(Note::Became(request, &record.txn));
        }
        match record.txn {
            Txn::CreateSession { timeout_ms } => {
                let mut sessions = turn.state.sessions();
                sessions.add(unordered.session, timeout_ms, turn.now.ms);
                sessions.claim(unordered.session, unordered.owner);
            }
            // Later requests of the session are refused.
            Txn::CloseSession { .. } => turn.state.sessions().set_closing(unordered.session),
            _ => {}
        }
        record
    }

    /// Drops the requests that wait to be ordered, because the role is over.
    pub(crate) fn drop_incoming(&mut self, turn: &mut Turn<'_, H>) {
        let waiting = self.long_requests.end();
        for incoming in std::mem::take(&mut self.incoming)
            .into_iter()
            .chain(waiting)
        {
            if let OrderItem::Client(request) = incoming {
                self.drop_request(&request, turn);
            }
        }
    }

    /// Drops a request without an answer.
    pub(crate) fn drop_request(&mut self, request: &ClientRequest, turn: &mut Turn<'_, H>) {
        self.drop_unordered(&request.into(), turn);
    }

    fn drop_unordered(&mut self, unordered: &UnorderedRequest<'_>, turn: &mut Turn<'_, H>) {
        turn.effect(Effect::Release {
            requests: usize::from(unordered.is_counted),
            large_bytes: unordered.large_bytes,
        });
        if let Some(origin) = unordered.origin {
            turn.effect(Effect::CloseClient(origin));
        }
    }

    /// Passes a record to the log.
    pub(crate) fn append(&mut self, record: Record, turn: &mut Turn<'_, H>) {
        self.appended = record.zxid;
        self.backlog.push(&record, turn.now.ms);
        if let Some(member) = &mut self.member {
            member.last_logged = record.zxid;
        }
        if matches!(self.role, Role::Learning(_)) {
            self.undelivered.push_back(record.clone());
        }
        turn.effect(Effect::Append(record));
    }
}

fn check_session<H: Host>(
    unordered: &UnorderedRequest<'_>,
    turn: &Turn<'_, H>,
) -> Result<SessionKind, ErrorCode> {
    match unordered.request {
        // These requests begin or end a session.
        Ok(WriteRequest::CreateSession { .. } | WriteRequest::CloseSession) => {
            Ok(SessionKind::Global)
        }
        // This is the server's own request.
        Ok(WriteRequest::DeleteContainer { .. }) if unordered.session == SessionId::NONE => {
            Ok(SessionKind::Global)
        }
        _ => turn
            .state
            .sessions()
            .check(unordered.session, unordered.owner),
    }
}
