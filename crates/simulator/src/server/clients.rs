//! Clients' connections. Requests of a connection are answered in their order, reads from the tree
//! as soon as nothing is in front of them.

use std::collections::{BTreeMap, VecDeque};

use bytes::Bytes;
use proto::request::{ReadRequest, Request, WriteRequest};
use proto::txn::Txn;
use proto::{ErrorCode, SessionId, Sid, Zxid};
use replica::{Applied, ClientRequest, Input, Renewal, Service, State, SyncRequest, Ticket};
use session::SessionIds;
use tree::{Caller, Tree, WatcherId};

use super::host::SimHost;
use crate::Mutant;
use crate::network::Message;
use crate::wire::{ToClient, ToServer, body_of};

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
    /// Not answered yet, in order.
    queue: VecDeque<(i32, Work)>,
}

/// What a connection waits for.
#[derive(Debug)]
enum Work {
    Handshake,
    Write,
    Read(ReadRequest),
    Sync,
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
            } => self.handshake(connection, (session, timeout_ms), last_zxid),
            ToServer::Request { cxid, request } => self.hear_request(connection, cxid, request),
        }
    }

    fn handshake(&mut self, connection: u64, of: (SessionId, i32), last_zxid: Zxid) {
        let (state, now_ms) = (self.state.clone(), self.world.now_ms());
        let (ticket, (mut session, timeout_ms)) = (Ticket(connection), of);
        if self.service == Service::None || last_zxid > state.tree().last_zxid() {
            self.close_client(connection);
        } else if session == SessionId::NONE {
            while session == SessionId::NONE || state.tree().session_timeout_ms(session).is_some() {
                session = self.clients.ids.next();
            }
            state.sessions().add(session, timeout_ms, now_ms);
            self.wait(connection, 0, Work::Handshake);
            let body = Bytes::copy_from_slice(&timeout_ms.to_be_bytes());
            let request = WriteRequest::CreateSession { timeout_ms };
            self.submit((ticket, session, 0), request, body);
        } else {
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
            self.answer_handshake(connection, is_known.then_some(of));
        }
    }

    /// A client has its session, or none any more.
    pub(super) fn answer_handshake(&mut self, connection: u64, session: Option<(SessionId, i32)>) {
        let Some(served) = self.clients.connections.get_mut(&connection) else {
            return;
        };
        served.session = session;
        let (session, _) = session.unwrap_or_default();
        self.tell(connection, ToClient::Connected { session });
        if session == SessionId::NONE {
            self.close_client(connection);
        }
    }

    fn wait(&mut self, connection: u64, cxid: i32, work: Work) {
        if let Some(waiting) = self.clients.connections.get_mut(&connection) {
            waiting.queue.push_back((cxid, work));
        }
    }

    fn submit(&mut self, of: (Ticket, SessionId, i32), request: WriteRequest, body: Bytes) {
        let (ticket, session, cxid) = of;
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
        let (ticket, body) = (Ticket(connection), body_of(&request));
        match request {
            Request::Write(write) => {
                self.wait(connection, cxid, Work::Write);
                self.submit((ticket, session, cxid), write, body);
            }
            Request::Read(read) if self.world.is(Mutant::ReadsOvertakeWrites) => {
                self.answer_read(&state.tree(), connection, cxid, &read);
            }
            Request::Read(read) => {
                self.wait(connection, cxid, Work::Read(read));
                self.answer_reads(&state.tree(), connection);
            }
            Request::Sync(sync) => {
                self.wait(connection, cxid, Work::Sync);
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

    /// Reads that nothing stands in front of.
    fn answer_reads(&mut self, tree: &Tree, connection: u64) {
        while let Some(waiting) = self.clients.connections.get_mut(&connection)
            && let Some((_, Work::Read(_))) = waiting.queue.front()
            && let Some((cxid, Work::Read(request))) = waiting.queue.pop_front()
        {
            self.answer_read(tree, connection, cxid, &request);
        }
    }

    fn answer_read(&mut self, tree: &Tree, connection: u64, cxid: i32, read: &ReadRequest) {
        let served = self.clients.connections.get(&connection);
        let Some((session, _)) = served.and_then(|served| served.session) else {
            return;
        };
        let caller = Caller {
            session,
            watcher: WatcherId(connection),
            identities: &[],
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
                let (event_type, path) = (event.event_type, event.path.clone());
                self.tell(watcher.0, ToClient::Event { event_type, path });
            }
        }
        if let Some(origin) = applied.origin {
            self.answer(origin.0, &applied);
            self.answer_reads(tree, origin.0);
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
                self.reply(connection, cxid, tree.last_zxid(), Ok(Vec::new()));
                self.answer_reads(tree, connection);
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
