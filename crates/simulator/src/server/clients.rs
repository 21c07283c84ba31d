//! Clients' connections: a small model of the real server's `net`. Requests of a connection are
//! answered in their order, reads from the tree as soon as nothing is in front of them.

use std::collections::{BTreeMap, VecDeque};

use bytes::Bytes;
use jute::Encode;
use proto::request::{ReadRequest, Request, WriteRequest};
use proto::txn::Txn;
use proto::{ErrorCode, OpCode, SessionId, Sid, Zxid};
use replica::{Applied, ClientRequest, Input, Renewal, Service, State, SyncRequest, Ticket};
use session::SessionIds;
use tree::{Caller, Tree, WatcherId};

use super::host::SimHost;
use crate::Mutant;
use crate::network::Message;
use crate::wire::{ToClient, ToServer};

/// Everything about clients.
#[derive(Debug)]
pub(super) struct Clients {
    connections: BTreeMap<u64, Connection>,
    ids: SessionIds,
    /// For a mutant: events that wait until more is sent.
    late: Vec<(u64, ToClient)>,
}

#[derive(Debug, Default)]
struct Connection {
    /// Set once the handshake is answered.
    session: Option<(SessionId, i32)>,
    /// Not answered yet, in order.
    queue: VecDeque<Work>,
}

/// What a connection waits for.
#[derive(Debug)]
enum Work {
    Handshake,
    Write(i32),
    Read(i32, Box<ReadRequest>),
    Sync(i32),
}

impl Clients {
    pub(super) fn new(sid: Sid, now_ms: i64) -> Self {
        Self {
            connections: BTreeMap::new(),
            // The clock must be later at each start of a server.
            ids: SessionIds::new(sid.0.to_be_bytes()[7], now_ms),
            late: Vec::new(),
        }
    }
}

impl SimHost {
    pub(super) fn client_connected(&mut self, connection: u64) {
        let made = Connection::default();
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
        let connections: Vec<u64> = self.clients.connections.keys().copied().collect();
        for connection in connections {
            self.close_client(connection);
        }
    }

    pub(super) fn close_client_of(&mut self, session: SessionId) {
        let mut connections = self.clients.connections.iter();
        let served = connections.find(|(_, served)| {
            let served = served.session;
            served.is_some_and(|(id, _)| id == session)
        });
        if let Some(connection) = served.map(|(connection, _)| *connection) {
            self.close_client(connection);
        }
    }

    pub(super) fn hear_client(&mut self, connection: u64, message: ToServer) {
        match message {
            ToServer::Connect {
                session,
                timeout_ms,
                last_zxid,
            } => self.handshake(connection, session, timeout_ms, last_zxid),
            ToServer::Request { cxid, request } => self.hear_request(connection, cxid, request),
        }
    }

    fn handshake(&mut self, connection: u64, session: SessionId, timeout_ms: i32, last_zxid: Zxid) {
        let state = self.state.clone();
        if self.service == Service::None || last_zxid > state.tree().last_zxid() {
            return self.close_client(connection);
        }
        let now_ms = self.world.now_ms();
        let ticket = Ticket(connection);
        if session == SessionId::NONE {
            let mut session = self.clients.ids.next();
            while state.tree().session_timeout_ms(session).is_some() {
                session = self.clients.ids.next();
            }
            state.sessions().add(session, timeout_ms, now_ms);
            self.wait(connection, Work::Handshake);
            let request = WriteRequest::CreateSession { timeout_ms };
            let body = Bytes::copy_from_slice(&timeout_ms.to_be_bytes());
            return self.submit(ticket, session, 0, request, body);
        }
        self.close_client_of(session);
        if self.service == Service::Forwarding {
            return self.inputs.push_back(Input::Renew(Renewal {
                ticket,
                session,
                timeout_ms,
                new_style: true,
            }));
        }
        let is_known = state.sessions().renew(session, timeout_ms, now_ms);
        self.finish_renewal(connection, is_known.then_some(session), timeout_ms);
    }

    /// Answers a client that came back with a session, which may be over.
    pub(super) fn finish_renewal(
        &mut self,
        connection: u64,
        session: Option<SessionId>,
        timeout_ms: i32,
    ) {
        let Some(served) = self.clients.connections.get_mut(&connection) else {
            return;
        };
        served.session = session.map(|session| (session, timeout_ms));
        let is_over = session.is_none();
        let session = session.unwrap_or(SessionId::NONE);
        self.tell(connection, ToClient::Connected { session });
        if is_over {
            self.close_client(connection);
        }
    }

    fn wait(&mut self, connection: u64, work: Work) {
        if let Some(waiting) = self.clients.connections.get_mut(&connection) {
            waiting.queue.push_back(work);
        }
    }

    pub(super) fn submit(
        &mut self,
        ticket: Ticket,
        session: SessionId,
        cxid: i32,
        request: WriteRequest,
        body: Bytes,
    ) {
        self.inputs.push_back(Input::Requests(vec![ClientRequest {
            ticket,
            session,
            cxid,
            identities: [].into(),
            request,
            body,
            large_bytes: 0,
            upgrade_ms: None,
        }]));
    }

    fn hear_request(&mut self, connection: u64, cxid: i32, request: Request) {
        let served = self.clients.connections.get(&connection);
        let Some((session, timeout_ms)) = served.and_then(|served| served.session) else {
            return;
        };
        let (state, now_ms) = (self.state.clone(), self.world.now_ms());
        if !state.sessions().touch(session, timeout_ms, now_ms) {
            // The session is over: its requests are dropped without an answer.
            return self.close_client(connection);
        }
        let ticket = Ticket(connection);
        let mut body = Vec::new();
        if let Err(error) = request.encode(&mut body) {
            let text = format!("{request:?}: {error:?}");
            return self.world.checks.fail("requests are whole", text);
        }
        match request {
            Request::Write(write) => {
                if self.world.is(Mutant::ReplyBeforeCommit) {
                    let (zxid, result) = (state.tree().last_zxid(), Ok(Bytes::new()));
                    self.tell(connection, ToClient::Reply { cxid, zxid, result });
                }
                self.wait(connection, Work::Write(cxid));
                self.submit(ticket, session, cxid, write, body.into());
            }
            Request::Read(read) => {
                let is_first = served.is_some_and(|served| served.queue.is_empty());
                if is_first || self.world.is(Mutant::ReadsOvertakeWrites) {
                    return self.answer_read(&state.tree(), connection, cxid, &read);
                }
                self.wait(connection, Work::Read(cxid, Box::new(read)));
            }
            Request::Sync(sync) => {
                self.wait(connection, Work::Sync(cxid));
                self.inputs.push_back(Input::Sync(SyncRequest {
                    ticket,
                    session,
                    cxid,
                    identities: [].into(),
                    path: sync.path,
                }));
            }
        }
    }

    fn answer_read(&mut self, tree: &Tree, connection: u64, cxid: i32, read: &ReadRequest) {
        let served = self.clients.connections.get(&connection);
        let Some((session, _)) = served.and_then(|served| served.session) else {
            return;
        };
        let watcher = WatcherId(connection);
        let (state, zxid) = (self.state.clone(), tree.last_zxid());
        let mut body = Vec::new();
        let result = match read {
            ReadRequest::SetWatches(request) => {
                let mut missed = Vec::new();
                let set = tree.set_watches(request, watcher, &state.watches, &mut missed);
                for (event_type, path) in missed {
                    self.tell(connection, ToClient::Event { event_type, path });
                }
                set
            }
            read => {
                let caller = Caller {
                    session,
                    watcher,
                    identities: &[],
                };
                tree.read(read, &caller, &state.watches, &mut body)
            }
        };
        let result = result.map(|()| Bytes::from(body));
        self.tell(connection, ToClient::Reply { cxid, zxid, result });
    }

    /// A transaction was applied: events, then the reply, then reads that waited behind it.
    pub(super) fn deliver(&mut self, tree: &Tree, applied: Applied<'_>) {
        for event in applied.events.drain(..) {
            for watcher in &event.watchers {
                let told = ToClient::Event {
                    event_type: event.event_type,
                    path: event.path.clone(),
                };
                match self.world.is(Mutant::WatchAfterReply) {
                    true => self.clients.late.push((watcher.0, told)),
                    false => self.tell(watcher.0, told),
                }
            }
        }
        if let Some(origin) = applied.origin {
            self.answer(tree, origin.0, &applied);
        }
        if matches!(applied.record.txn, Txn::CloseSession { .. }) {
            if let Some(origin) = applied.origin {
                self.close_client(origin.0);
            }
            self.close_client_of(applied.record.header.session);
        }
    }

    fn answer(&mut self, tree: &Tree, connection: u64, applied: &Applied<'_>) {
        let Some(waiting) = self.clients.connections.get_mut(&connection) else {
            return;
        };
        let (header, error) = (&applied.record.header, applied.outcome.error());
        match (waiting.queue.pop_front(), &applied.record.txn) {
            (Some(Work::Handshake), Txn::CreateSession { timeout_ms }) => {
                let session = header.session;
                waiting.session = Some((session, *timeout_ms));
                self.tell(connection, ToClient::Connected { session });
            }
            // It finds its session at the other server.
            (Some(Work::Write(_)), _) if error == ErrorCode::SessionMoved => {
                return self.close_client(connection);
            }
            (Some(Work::Write(cxid)), _) => {
                let mut body = Vec::new();
                applied.outcome.encode_body(applied.op, &mut body);
                let result = match error {
                    ErrorCode::Ok => Ok(Bytes::from(body)),
                    code => Err(code),
                };
                let zxid = header.zxid;
                self.tell(connection, ToClient::Reply { cxid, zxid, result });
            }
            // The answer is out of turn.
            _ => return self.close_client(connection),
        }
        self.answer_what_waited(tree, connection);
    }

    /// The oldest `sync` of a connection is answered.
    pub(super) fn client_sync_done(&mut self, tree: &Tree, connection: u64) {
        let Some(waiting) = self.clients.connections.get_mut(&connection) else {
            return;
        };
        let Some(Work::Sync(cxid)) = waiting.queue.pop_front() else {
            return self.close_client(connection);
        };
        let (zxid, result) = (tree.last_zxid(), Ok(Bytes::new()));
        self.tell(connection, ToClient::Reply { cxid, zxid, result });
        self.answer_what_waited(tree, connection);
    }

    fn answer_what_waited(&mut self, tree: &Tree, connection: u64) {
        while let Some(waiting) = self.clients.connections.get_mut(&connection)
            && let Some(Work::Read(..)) = waiting.queue.front()
            && let Some(Work::Read(cxid, request)) = waiting.queue.pop_front()
        {
            self.answer_read(tree, connection, cxid, &request);
        }
    }

    fn tell(&mut self, connection: u64, message: ToClient) {
        let is_reply = matches!(message, ToClient::Reply { .. });
        self.send(connection, Message::ToClient(message));
        if is_reply {
            for (connection, event) in std::mem::take(&mut self.clients.late) {
                self.send(connection, Message::ToClient(event));
            }
        }
    }

    /// A write of a script, for which nobody waits.
    pub(super) fn submit_for_script(&mut self, session: SessionId, request: WriteRequest) {
        let mut body = Vec::new();
        if request.op() == OpCode::CreateSession {
            if let WriteRequest::CreateSession { timeout_ms } = &request {
                timeout_ms.encode(&mut body);
            }
        } else if Request::Write(request.clone()).encode(&mut body).is_err() {
            return;
        }
        self.submit(Ticket(0), session, 0, request, body.into());
    }
}
