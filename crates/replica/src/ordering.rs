//! From requests to transactions that are proposed.

use std::collections::VecDeque;
use std::sync::Arc;

use bytes::Bytes;
use jute::Encode;
use proto::request::WriteRequest;
use proto::txn::{Txn, TxnRecord};
use proto::{ErrorCode, Id, OpCode, SessionId, Zxid};
use session::Owner;
use tree::{PrepareContext, SessionKind, Tree};
use zab::Record;
use zab::leader::{Action, LinkId, NextConfig};

use crate::effect::Effect;
use crate::host::{Host, State, Turn};
use crate::input::{ClientRequest, Ticket};
use crate::limits;
use crate::note::{Note, Stage};
use crate::replica::Replica;
use crate::role::Role;

/// A transaction between its proposal and its application.
#[derive(Debug)]
pub(crate) struct InFlight {
    pub(crate) record: TxnRecord,
    /// What was asked for; the transaction may be an error instead.
    pub(crate) op: OpCode,
    pub(crate) origin: Option<Ticket>,
    pub(crate) large_bytes: u64,
    /// Whether it is a client's of this server, whose requests are bounded in number.
    pub(crate) is_counted: bool,
}

impl InFlight {
    /// One that no client of this server waits for.
    pub(crate) fn of_others(record: TxnRecord) -> Self {
        let op = record.txn.op();
        Self {
            record,
            op,
            origin: None,
            large_bytes: 0,
            is_counted: false,
        }
    }
}

/// A request to be ordered, whoever has brought it.
#[derive(Debug)]
pub(crate) struct Order {
    pub(crate) origin: Option<Ticket>,
    /// The server that it came through.
    pub(crate) owner: Owner,
    pub(crate) session: SessionId,
    pub(crate) cxid: i32,
    pub(crate) op: OpCode,
    pub(crate) identities: Arc<[Id]>,
    /// An error if it is refused unseen.
    pub(crate) request: Result<WriteRequest, ErrorCode>,
    pub(crate) large_bytes: u64,
    pub(crate) is_counted: bool,
}

impl Order {
    /// The server's own.
    pub(crate) fn own(session: SessionId, request: WriteRequest) -> Self {
        Self {
            origin: None,
            owner: Owner::THIS_SERVER,
            session,
            cxid: 0,
            op: request.op(),
            identities: Arc::from([]),
            request: Ok(request),
            large_bytes: 0,
            is_counted: false,
        }
    }
}

impl From<ClientRequest> for Order {
    fn from(request: ClientRequest) -> Self {
        Self {
            origin: Some(request.ticket),
            owner: Owner::THIS_SERVER,
            session: request.session,
            cxid: request.cxid,
            op: request.request.op(),
            identities: request.identities,
            request: Ok(request.request),
            large_bytes: request.large_bytes,
            is_counted: true,
        }
    }
}

impl ClientRequest {
    /// What is to be ordered in front: the session becomes global.
    ///
    /// Source: QuorumZooKeeperServer.makeUpgradeRequest.
    pub(crate) fn upgrade(&self) -> Option<Order> {
        let timeout_ms = self.upgrade_ms?;
        tracing::info!(session = %self.session, "a local session becomes global");
        let request = WriteRequest::CreateSession { timeout_ms };
        Some(Order::own(self.session, request))
    }
}

/// What waits to be ordered.
#[derive(Debug)]
pub(crate) enum Incoming {
    /// A request.
    Order(Order),
    /// A `sync` that came over this connection.
    Sync(LinkId),
}

/// What was handed to the log and is not on disk.
#[derive(Debug, Default)]
pub(crate) struct Backlog {
    records: VecDeque<(Zxid, usize)>,
    bytes: usize,
}

impl Backlog {
    pub(crate) fn push(&mut self, record: &Record) {
        self.records.push_back((record.zxid, record.txn.len()));
        self.bytes += record.txn.len();
    }

    pub(crate) fn synced(&mut self, upto: Zxid) {
        while let Some((zxid, bytes)) = self.records.front()
            && *zxid <= upto
        {
            self.bytes -= bytes;
            self.records.pop_front();
        }
    }

    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }
}

impl<H: Host> Replica<H> {
    /// Orders the requests of clients, or passes them on.
    pub(crate) fn handle_requests(&mut self, requests: Vec<ClientRequest>, turn: &mut Turn<'_, H>) {
        match self.role {
            Role::Leading(_) => {
                let stage = Stage::Preparation(requests.len());
                turn.note(Note::Begins(stage));
                let actions = self.order_all(requests, turn);
                // Before the disk begins: replies may come at any time after.
                turn.note(Note::Ends(stage));
                self.carry_out_leader(actions, turn);
            }
            Role::Learning(_) => self.forward_all(requests, turn),
            Role::Looking | Role::Draining(_) => {
                for request in requests {
                    self.drop_order(request.into(), turn);
                }
            }
        }
    }

    /// Makes transactions out of the requests of this server's own clients and proposes them;
    /// what is to be carried out for that comes back.
    fn order_all(&mut self, requests: Vec<ClientRequest>, turn: &mut Turn<'_, H>) -> Vec<Action> {
        let Role::Leading(leading) = &mut self.role else {
            return Vec::new();
        };
        let mut actions = std::mem::take(&mut leading.spare);
        let state = turn.state;
        let tree = state.tree();
        for request in requests {
            if let Some(upgrade) = request.upgrade() {
                self.propose(&tree, upgrade, &mut actions, turn);
            }
            self.propose(&tree, request.into(), &mut actions, turn);
        }
        actions
    }

    /// Makes transactions out of what learners have passed on, and of what the server wants itself,
    /// and proposes them.
    pub(crate) fn order_incoming(&mut self, actions: &mut Vec<Action>, turn: &mut Turn<'_, H>) {
        let state = turn.state;
        let tree = state.tree();
        for incoming in std::mem::take(&mut self.incoming) {
            match incoming {
                Incoming::Order(order) => self.propose(&tree, order, actions, turn),
                Incoming::Sync(link) => {
                    if let Role::Leading(leading) = &mut self.role {
                        leading.leader.sync(link, actions);
                    }
                }
            }
        }
    }

    /// Makes a transaction and proposes it.
    fn propose(
        &mut self,
        tree: &Tree,
        order: Order,
        actions: &mut Vec<Action>,
        turn: &mut Turn<'_, H>,
    ) {
        let Role::Leading(leading) = &mut self.role else {
            return self.drop_order(order, turn);
        };
        if !leading.leader.is_leading() {
            return self.drop_order(order, turn);
        }
        let zxid = leading.leader.next_zxid();
        let (in_flight, next) = self.prepare(tree, order, zxid, turn);
        // Its length is known only once it is encoded; a buffer that grows would be moved each time.
        self.scratch.clear();
        self.scratch.shrink_to(limits::SCRATCH_BYTES_KEPT);
        in_flight.record.encode(&mut self.scratch);
        let record = Record::new(zxid, Bytes::copy_from_slice(&self.scratch));
        if !self.is_alone() {
            let bytes = record.txn.len();
            turn.note(Note::Proposed { bytes });
        }
        let Role::Leading(leading) = &mut self.role else {
            return;
        };
        let leader = &mut leading.leader;
        let proposed = match next {
            Some(next) => leader.propose_reconfig(record, next, turn.now.ms, actions),
            None => leader.propose(record, turn.now.ms, actions),
        };
        match proposed {
            Ok(()) => self.in_flight.push_back(in_flight),
            Err(error) => {
                // Its client is about to lose the connection with all others.
                tracing::warn!(%zxid, err = %error, "a request is not proposed");
                turn.effect(Effect::Release {
                    requests: usize::from(in_flight.is_counted),
                    large_bytes: in_flight.large_bytes,
                });
            }
        }
    }

    /// Makes the transaction for `order`; with the configuration that it brings, if it does.
    fn prepare(
        &mut self,
        tree: &Tree,
        order: Order,
        zxid: Zxid,
        turn: &mut Turn<'_, H>,
    ) -> (InFlight, Option<NextConfig>) {
        let mut next_config = None;
        let session_check = self.check_session(&order, turn);
        let context = PrepareContext {
            session: order.session,
            cxid: order.cxid,
            zxid,
            time_ms: turn.now.wall_ms,
            identities: &order.identities,
            session_check,
        };
        let record = match &order.request {
            Err(error) => self.overlay.refuse(tree, *error, &context),
            Ok(WriteRequest::Reconfig(request)) => {
                let (record, next) = self.prepare_reconfig(tree, request, &context, turn);
                next_config = next;
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
        if let Ok(request) = &order.request {
            turn.note(Note::Became(request, &record.txn));
        }
        match record.txn {
            Txn::CreateSession { timeout_ms } => {
                let mut sessions = turn.state.sessions();
                sessions.add(order.session, timeout_ms, turn.now.ms);
                sessions.set_owner(order.session, order.owner);
            }
            // Requests behind it are refused from here on.
            Txn::CloseSession { .. } => turn.state.sessions().set_closing(order.session),
            _ => {}
        }
        self.last_zxid = zxid;
        let in_flight = InFlight {
            record,
            op: order.op,
            origin: order.origin,
            large_bytes: order.large_bytes,
            is_counted: order.is_counted,
        };
        (in_flight, next_config)
    }

    fn check_session(&self, order: &Order, turn: &Turn<'_, H>) -> Result<SessionKind, ErrorCode> {
        match &order.request {
            // The server's own, or what begins and ends a session.
            Ok(
                WriteRequest::CreateSession { .. }
                | WriteRequest::CloseSession
                | WriteRequest::DeleteContainer { .. },
            ) => Ok(SessionKind::Global),
            _ => turn.state.sessions().check(order.session, order.owner),
        }
    }

    /// A request that nobody will answer.
    pub(crate) fn drop_order(&mut self, order: Order, turn: &mut Turn<'_, H>) {
        turn.effect(Effect::Release {
            requests: usize::from(order.is_counted),
            large_bytes: order.large_bytes,
        });
        if let Some(origin) = order.origin {
            turn.effect(Effect::CloseClient(origin));
        }
    }

    /// Hands a record to the log.
    pub(crate) fn append(&mut self, record: Record, turn: &mut Turn<'_, H>) {
        self.appended = record.zxid;
        self.backlog.push(&record);
        if let Some(member) = &mut self.member {
            member.last_logged = record.zxid;
        }
        if matches!(self.role, Role::Learning(_)) {
            self.undelivered.push_back(record.clone());
        }
        turn.effect(Effect::Append(record));
    }
}
