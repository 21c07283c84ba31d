//! Clients' connections. Requests of a connection are answered in their order, reads from the tree
//! as soon as nothing is in front of them.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use bytes::Bytes;
use proto::connect::ConnectRequest;
use proto::request::{ReadRequest, Request, WriteRequest};
use proto::txn::Txn;
use proto::{ErrorCode, Id, SessionId, Sid, Zxid};
use replica::{
    Applied, ClientRequest, Handshake, HandshakeRules, Input, LargeBytes, RenewalStep, Service,
    SessionRules, State, SyncRequest, SyncStep, Ticket, WriteStep, sync_step, write_step,
};
use session::SessionIds;
use tree::auth::{authenticate, ip_id};
use tree::{Caller, Tree, WatcherId};

use super::host::SimHost;
use crate::Mutant;
use crate::network::Message;
use crate::wire::{ToClient, ToServer, body_of};

/// Where clients come from.
const CLIENT_ADDRESS: &str = "10.1.0.1";

/// Everything about clients.
#[derive(Debug)]
pub(super) struct Clients {
    connections: BTreeMap<u64, Connection>,
    ids: SessionIds,
}

#[derive(Debug, Default)]
struct Connection {
    /// With its timeout, once the handshake is answered.
    session: Option<(SessionId, i32)>,
    /// Whose it is, as far as it was said.
    identities: Arc<[Id]>,
    is_read_only: bool,
    /// Not answered yet, in order.
    queue: VecDeque<(i32, Work)>,
}

/// What a connection waits for.
#[derive(Debug)]
enum Work {
    Handshake,
    Write,
    Read(ReadRequest, Arc<[Id]>),
    Sync,
    Refuse(ErrorCode),
    CloseLocal,
}

impl Clients {
    pub(super) fn new(sid: Sid, now_ms: i64) -> Self {
        Self {
            connections: BTreeMap::new(),
            // The clock must be later at each start of a server.
            ids: SessionIds::new(sid.0.to_be_bytes()[7], now_ms),
        }
    }
}

impl Clients {
    /// Requests without an answer.
    pub(super) fn waiting(&self) -> usize {
        let queues = self.connections.values().map(|of| of.queue.len());
        queues.sum()
    }
}

impl SimHost {
    pub(super) fn client_connected(&mut self, connection: u64) {
        let made = Connection {
            identities: [ip_id(CLIENT_ADDRESS)].into(),
            ..Connection::default()
        };
        self.clients.connections.insert(connection, made);
    }

    pub(super) fn client_closed(&mut self, connection: u64) {
        if self.clients.connections.remove(&connection).is_some() {
            let mut watches = self.state.watches.lock();
            watches.remove_watcher(WatcherId(connection));
        }
    }

    pub(super) fn close_client(&mut self, connection: u64) {
        if self.clients.connections.contains_key(&connection) {
            self.close(connection);
            self.client_closed(connection);
        }
    }

    pub(super) fn close_clients(&mut self) {
        while let Some((connection, _)) = self.clients.connections.first_key_value() {
            self.close_client(*connection);
        }
    }

    pub(super) fn close_client_of(&mut self, session: SessionId) {
        let mut connections = self.clients.connections.iter();
        let is_its = |of: &Connection| of.session.is_some_and(|(id, _)| id == session);
        if let Some((connection, _)) = connections.find(|(_, of)| is_its(of)) {
            self.close_client(*connection);
        }
    }

    pub(super) fn hear_client(&mut self, connection: u64, message: ToServer) {
        match message {
            ToServer::Connect {
                session,
                timeout_ms,
                last_zxid,
                read_only,
            } => {
                let request = ConnectRequest {
                    protocol_version: 0,
                    last_zxid_seen: last_zxid,
                    timeout_ms,
                    session_id: session,
                    password: Some(Bytes::copy_from_slice(&session::password(session))),
                    read_only: Some(read_only),
                };
                self.handshake(connection, &request);
            }
            ToServer::Auth { scheme, auth } => self.authenticate(connection, scheme, &auth),
            ToServer::Request { cxid, request } => self.hear_request(connection, cxid, request),
        }
    }

    fn authenticate(&mut self, connection: u64, scheme: &str, auth: &[u8]) {
        let of = self.state.tree().settings().auth.clone();
        let named = authenticate(&of, Some(scheme), Some(auth), CLIENT_ADDRESS);
        if let (Some(served), Ok(named)) = (self.clients.connections.get_mut(&connection), named) {
            served.identities = served.identities.iter().cloned().chain(named).collect();
            self.tell(connection, ToClient::Authenticated);
        }
    }

    fn handshake(&mut self, connection: u64, request: &ConnectRequest) {
        let (state, now_ms) = (self.state.clone(), self.world.now_ms());
        let rules = HandshakeRules {
            service: self.service,
            local_sessions: self.world.plan.features.local_sessions,
            timeout_min_ms: 0,
            timeout_max_ms: i32::MAX,
        };
        let ticket = Ticket(connection);
        if let Some(served) = self.clients.connections.get_mut(&connection) {
            served.is_read_only = self.service == Service::ReadOnly;
        }
        let judged = rules.judge(request, &state.tree());
        match judged {
            Err(_) => self.close_client(connection),
            Ok(Handshake::New(new)) => {
                let session = new.begin(&*state, now_ms, || self.clients.ids.next());
                if new.is_local {
                    return self.answer_handshake(connection, Some((session, new.timeout_ms)));
                }
                self.wait(connection, 0, Work::Handshake);
                let request = new.request(session, ticket, self.identities_of(connection));
                self.inputs.push_back(Input::Requests(vec![request]));
            }
            Ok(Handshake::Back(back)) => {
                self.close_client_of(back.session);
                let of = (back.session, back.timeout_ms);
                match back.decide(ticket, &*state, now_ms, || false) {
                    RenewalStep::AskLeader(renewal) => {
                        self.inputs.push_back(Input::Renew(renewal));
                    }
                    RenewalStep::Renewed => self.answer_handshake(connection, Some(of)),
                    RenewalStep::Over | RenewalStep::Nothing => {
                        self.answer_handshake(connection, None);
                    }
                }
            }
        }
    }

    /// A client has its session, or none any more.
    pub(super) fn answer_handshake(&mut self, connection: u64, session: Option<(SessionId, i32)>) {
        let Some(served) = self.clients.connections.get_mut(&connection) else {
            return;
        };
        served.session = session;
        let (session, _) = session.unwrap_or_default();
        let connected = ToClient::Connected {
            session,
            is_read_only: served.is_read_only,
        };
        self.tell(connection, connected);
        if session == SessionId::NONE {
            self.close_client(connection);
        }
    }

    fn wait(&mut self, connection: u64, cxid: i32, work: Work) {
        if let Some(waiting) = self.clients.connections.get_mut(&connection) {
            waiting.queue.push_back((cxid, work));
        }
    }

    fn submit(
        &mut self,
        of: (Ticket, SessionId, i32),
        request: WriteRequest,
        body: Bytes,
        upgrade_ms: Option<i32>,
    ) {
        let (ticket, session, cxid) = of;
        self.inputs.push_back(Input::Requests(vec![ClientRequest {
            ticket,
            session,
            cxid,
            identities: self.identities_of(ticket.0),
            request,
            body,
            large_bytes: LargeBytes::NONE,
            upgrade_ms,
        }]));
    }

    fn identities_of(&self, connection: u64) -> Arc<[Id]> {
        let served = self.clients.connections.get(&connection);
        served.map_or([].into(), |served| served.identities.clone())
    }

    fn hear_request(&mut self, connection: u64, cxid: i32, request: Request) {
        let Some(served) = self.clients.connections.get(&connection) else {
            return;
        };
        let Some((session, timeout_ms)) = served.session else {
            return;
        };
        let (state, now_ms) = (self.state.clone(), self.world.now_ms());
        let identities = served.identities.clone();
        let rules = SessionRules {
            local: self.world.plan.features.local_sessions,
            upgrades: true,
            is_read_only: served.is_read_only,
        };
        if !state.sessions().touch(session, timeout_ms, now_ms) {
            // The session is over: its requests are dropped without an answer.
            return self.close_client(connection);
        }
        let (ticket, body) = (Ticket(connection), body_of(&request));
        match request {
            Request::Write(write) => {
                let step = write_step(rules, session, &write, || state.sessions());
                let (work, upgrade_ms) = match step {
                    WriteStep::CloseLocal => (Work::CloseLocal, None),
                    WriteStep::Refuse(code) => (Work::Refuse(code), None),
                    WriteStep::UpgradeAndOrder(timeout_ms) => (Work::Write, Some(timeout_ms)),
                    WriteStep::Order | WriteStep::OrderInVain(_) => (Work::Write, None),
                };
                if let Work::Write = work {
                    self.submit((ticket, session, cxid), write, body, upgrade_ms);
                }
                self.wait(connection, cxid, work);
            }
            Request::Read(read) if self.world.is(Mutant::ReadsOvertakeWrites) => {
                self.answer_read(&state.tree(), connection, cxid, &read, &identities);
            }
            Request::Read(read) => self.wait(connection, cxid, Work::Read(read, identities)),
            Request::Sync(sync) => match sync_step(self.service, true, rules.is_read_only) {
                SyncStep::Refuse(code) => self.wait(connection, cxid, Work::Refuse(code)),
                // There is an ensemble.
                SyncStep::Ask | SyncStep::Answer => {
                    self.wait(connection, cxid, Work::Sync);
                    self.inputs.push_back(Input::Sync(SyncRequest {
                        ticket,
                        session,
                        cxid,
                        identities,
                        path: sync.path,
                    }));
                }
            },
        }
        self.answer_waiting(&state.tree(), connection);
    }

    /// What waits for no transaction, and nothing stands in front of it.
    fn answer_waiting(&mut self, tree: &Tree, connection: u64) {
        while let Some((cxid, work)) = self.oldest(connection) {
            let zxid = tree.last_zxid();
            match work {
                Work::Read(request, identities) => {
                    self.answer_read(tree, connection, cxid, &request, &identities);
                }
                Work::Refuse(code) => self.reply(connection, cxid, zxid, Err(code)),
                Work::CloseLocal => {
                    if let Some(session) = self.session_of(connection) {
                        self.state.sessions().remove(session);
                    }
                    self.reply(connection, cxid, zxid, Ok(Vec::new()));
                    return self.close_client(connection);
                }
                waits => {
                    if let Some(served) = self.clients.connections.get_mut(&connection) {
                        served.queue.push_front((cxid, waits));
                    }
                    return;
                }
            }
        }
    }

    fn session_of(&self, connection: u64) -> Option<SessionId> {
        let served = self.clients.connections.get(&connection)?;
        served.session.map(|(session, _)| session)
    }

    fn answer_read(
        &mut self,
        tree: &Tree,
        connection: u64,
        cxid: i32,
        read: &ReadRequest,
        identities: &[Id],
    ) {
        let Some(session) = self.session_of(connection) else {
            return;
        };
        let caller = Caller {
            session,
            watcher: WatcherId(connection),
            identities,
        };
        let (mut missed, mut body) = (Vec::new(), Vec::new());
        let watches = &self.state.watches;
        let result = match read {
            ReadRequest::SetWatches(of) => {
                tree.set_watches(of, caller.watcher, watches, &mut missed)
            }
            read => tree.read(read, &caller, watches, &mut body),
        };
        for (event_type, path) in missed {
            self.tell(connection, ToClient::Event { event_type, path });
        }
        self.reply(connection, cxid, tree.last_zxid(), result.map(|()| body));
    }

    /// A transaction was applied: events, then the reply, then reads that waited behind it.
    pub(super) fn deliver(&mut self, tree: &Tree, applied: Applied<'_>) {
        for event in applied.events.drain(..) {
            for watcher in &event.watchers {
                let identities = self.identities_of(watcher.0);
                if !tree.may_see(event.acl.as_deref(), &identities) {
                    continue;
                }
                let (event_type, path) = (event.event_type, event.path.clone());
                self.tell(watcher.0, ToClient::Event { event_type, path });
            }
        }
        if let Some(origin) = applied.origin {
            self.answer(origin.0, &applied);
            self.answer_waiting(tree, origin.0);
        }
        if matches!(applied.record.txn, Txn::CloseSession { .. }) {
            self.close_client(applied.origin.map_or(0, |origin| origin.0));
            self.close_client_of(applied.record.header.session);
        }
    }

    fn answer(&mut self, connection: u64, applied: &Applied<'_>) {
        let (header, error) = (&applied.record.header, applied.outcome.error());
        match (self.oldest(connection), &applied.record.txn) {
            (Some((_, Work::Handshake)), Txn::CreateSession { timeout_ms }) => {
                self.answer_handshake(connection, Some((header.session, *timeout_ms)));
            }
            // With another error it finds its session at the other server.
            (Some((cxid, Work::Write)), _) if error != ErrorCode::SessionMoved => {
                let mut body = Vec::new();
                applied.outcome.encode_body(applied.op, &mut body);
                let result = match error {
                    ErrorCode::Ok => Ok(body),
                    code => Err(code),
                };
                self.reply(connection, cxid, header.zxid, result);
            }
            // The answer is out of turn.
            _ => self.close_client(connection),
        }
    }

    /// The oldest `sync` of a connection is answered.
    pub(super) fn client_sync_done(&mut self, tree: &Tree, connection: u64) {
        match self.oldest(connection) {
            Some((cxid, Work::Sync)) => {
                let by = (self.session_of(connection).unwrap_or_default(), cxid);
                let checks = &mut self.world.checks;
                self.observed.syncs(by, tree.last_zxid(), checks);
                self.reply(connection, cxid, tree.last_zxid(), Ok(Vec::new()));
                self.answer_waiting(tree, connection);
            }
            _ => self.close_client(connection),
        }
    }

    fn oldest(&mut self, connection: u64) -> Option<(i32, Work)> {
        let waiting = self.clients.connections.get_mut(&connection)?;
        waiting.queue.pop_front()
    }

    fn reply(
        &mut self,
        connection: u64,
        cxid: i32,
        zxid: Zxid,
        result: Result<Vec<u8>, ErrorCode>,
    ) {
        let result = result.map(Bytes::from);
        self.tell(connection, ToClient::Reply { cxid, zxid, result });
    }

    fn tell(&mut self, connection: u64, message: ToClient) {
        self.send(connection, Message::ToClient(message));
    }
}
