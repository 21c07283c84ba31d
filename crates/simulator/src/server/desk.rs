//! Clients of one server: connections, sessions, requests in order, watches.

use std::collections::{BTreeMap, VecDeque};

use bytes::Bytes;
use proto::learner::{LearnerRequest, Touch};
use proto::request::{ReadRequest, Request, WriteRequest};
use proto::txn::TxnRecord;
use proto::{ErrorCode, OpCode, SessionId, Sid, Zxid};
use session::{Owner, SessionIds};
use tree::{Caller, Event, Outcome, WatcherId};

use super::{Role, Server};
use crate::Mutant;
use crate::network::Message;
use crate::wire::{ToClient, ToServer};
use crate::world::World;

/// Everything about clients.
#[derive(Debug)]
pub(super) struct Desk {
    connections: BTreeMap<u64, Guest>,
    ids: SessionIds,
    /// For a mutant: events that wait until more is sent.
    late: Vec<(u64, ToClient)>,
}

/// A client's connection.
#[derive(Debug, Default)]
struct Guest {
    session: SessionId,
    timeout_ms: i32,
    is_open: bool,
    /// Not answered yet, in order.
    asked: VecDeque<Asked>,
}

#[derive(Debug)]
enum Asked {
    Handshake,
    Write {
        cxid: i32,
        op: OpCode,
    },
    Read {
        cxid: i32,
        request: Box<ReadRequest>,
    },
    Sync {
        cxid: i32,
        is_done: bool,
    },
}

impl Desk {
    pub(super) fn new(sid: Sid, now_ms: i64) -> Self {
        Self {
            connections: BTreeMap::new(),
            // The clock must be later at each start of a server.
            ids: SessionIds::new(sid.0.to_be_bytes()[7], now_ms),
            late: Vec::new(),
        }
    }
}

impl Server {
    pub(super) fn client_connected(&mut self, connection: u64) {
        self.desk.connections.insert(connection, Guest::default());
    }

    pub(super) fn desk_closed(&mut self, connection: u64) {
        if self.desk.connections.remove(&connection).is_some() {
            self.watches.lock().remove_watcher(WatcherId(connection));
        }
    }

    /// The role ends, and with it everybody's connection.
    pub(super) fn close_desk(&mut self, world: &mut World) {
        let connections: Vec<u64> = self.desk.connections.keys().copied().collect();
        for connection in connections {
            self.hang_up(connection, world);
        }
    }

    fn hang_up(&mut self, connection: u64, world: &mut World) {
        world.close(self.place(), connection);
        self.desk_closed(connection);
    }

    pub(super) fn hear_client(&mut self, connection: u64, message: ToServer, world: &mut World) {
        if !self.desk.connections.contains_key(&connection) {
            return;
        }
        if !self.is_serving() {
            return self.hang_up(connection, world);
        }
        match message {
            ToServer::Connect {
                session,
                timeout_ms,
                last_zxid,
            } => self.hear_connect(connection, session, timeout_ms, last_zxid, world),
            ToServer::Request { cxid, request } => {
                self.hear_request(connection, cxid, request, world)
            }
        }
    }

    fn hear_connect(
        &mut self,
        connection: u64,
        session: SessionId,
        timeout_ms: i32,
        last_zxid: Zxid,
        world: &mut World,
    ) {
        if last_zxid > self.reached() {
            // The client has seen more than this server.
            return self.hang_up(connection, world);
        }
        let is_new = session == SessionId::NONE;
        let session = if is_new {
            self.desk.ids.next()
        } else {
            session
        };
        let older = self
            .desk
            .connections
            .iter()
            .find(|(number, guest)| guest.session == session && **number != connection);
        if let Some(older) = older.map(|(number, _)| *number) {
            self.hang_up(older, world);
        }
        if let Some(guest) = self.desk.connections.get_mut(&connection) {
            guest.session = session;
            guest.timeout_ms = timeout_ms;
            if is_new {
                guest.asked.push_back(Asked::Handshake);
            }
        }
        let is_taken = if is_new {
            let request = WriteRequest::CreateSession { timeout_ms };
            self.submit(session, 0, &request, world)
        } else if self.is_leading() {
            let is_valid = self.move_session(session, timeout_ms, Owner::THIS_SERVER, world);
            self.session_revalidated(session, is_valid, world);
            true
        } else {
            let touch = Touch {
                session,
                timeout_ms,
            };
            self.ask_about(touch, world)
        };
        if !is_taken {
            self.hang_up(connection, world);
        }
    }

    /// The leader's word on a session that came here.
    pub(super) fn session_revalidated(
        &mut self,
        session: SessionId,
        is_valid: bool,
        world: &mut World,
    ) {
        let found = self.desk.connections.iter_mut();
        let mut found = found.filter(|(_, guest)| guest.session == session && !guest.is_open);
        let Some((connection, guest)) = found.next() else {
            return;
        };
        let connection = *connection;
        guest.is_open = is_valid;
        let session = if is_valid { session } else { SessionId::NONE };
        self.tell(connection, ToClient::Connected { session }, world);
        if !is_valid {
            self.hang_up(connection, world);
        }
    }

    fn hear_request(&mut self, connection: u64, cxid: i32, request: Request, world: &mut World) {
        let Some(guest) = self.desk.connections.get_mut(&connection) else {
            return;
        };
        let (session, timeout_ms) = (guest.session, guest.timeout_ms);
        let op = request.op();
        let is_taken = match request {
            Request::Write(write) => {
                guest.asked.push_back(Asked::Write { cxid, op });
                if world.is(Mutant::ReplyBeforeCommit) {
                    let result = Ok(Bytes::new());
                    let zxid = self.tree.last_zxid();
                    self.tell(connection, ToClient::Reply { cxid, zxid, result }, world);
                }
                self.hears_session(session, timeout_ms, world);
                self.submit(session, cxid, &write, world)
            }
            Request::Read(read) => {
                self.hears_session(session, timeout_ms, world);
                self.hear_read(connection, cxid, read, world);
                true
            }
            Request::Sync(_) => {
                guest.asked.push_back(Asked::Sync {
                    cxid,
                    is_done: false,
                });
                self.hears_session(session, timeout_ms, world);
                self.start_client_sync(connection, session, cxid, world)
            }
        };
        if !is_taken {
            self.hang_up(connection, world);
        }
    }

    fn hear_read(&mut self, connection: u64, cxid: i32, read: ReadRequest, world: &mut World) {
        let Some(guest) = self.desk.connections.get_mut(&connection) else {
            return;
        };
        if guest.asked.is_empty() || world.is(Mutant::ReadsOvertakeWrites) {
            return self.answer_read(connection, cxid, &read, world);
        }
        let request = Box::new(read);
        guest.asked.push_back(Asked::Read { cxid, request });
    }

    fn answer_read(&mut self, connection: u64, cxid: i32, read: &ReadRequest, world: &mut World) {
        let Some(guest) = self.desk.connections.get(&connection) else {
            return;
        };
        let caller = Caller {
            session: guest.session,
            watcher: WatcherId(connection),
            identities: &[],
        };
        let zxid = self.tree.last_zxid();
        if let ReadRequest::SetWatches(request) = read {
            let mut missed = Vec::new();
            let watcher = caller.watcher;
            let set = self
                .tree
                .set_watches(request, watcher, &self.watches, &mut missed);
            for (event_type, path) in missed {
                let event = ToClient::Event { event_type, path };
                self.tell(connection, event, world);
            }
            let result = set.map(|()| Bytes::new());
            return self.tell(connection, ToClient::Reply { cxid, zxid, result }, world);
        }
        let mut body = Vec::new();
        let result = self.tree.read(read, &caller, &self.watches, &mut body);
        let result = result.map(|()| Bytes::from(body));
        self.tell(connection, ToClient::Reply { cxid, zxid, result }, world);
    }

    fn start_client_sync(
        &mut self,
        connection: u64,
        session: SessionId,
        cxid: i32,
        world: &mut World,
    ) -> bool {
        if self.is_leading() {
            let behind = self.last_proposed();
            if let Role::Leading(leading) = &mut self.role
                && let (Some(office), Some(behind)) = (&mut leading.office, behind)
            {
                office.syncs.push_back((behind, connection, cxid));
            } else {
                self.client_sync_done(connection, cxid, world);
            }
            return true;
        }
        let request = LearnerRequest {
            session,
            cxid,
            op: OpCode::Sync.number(),
            body: Bytes::new(),
            authinfo: Some(Vec::new()),
        };
        if let Role::Learning(learning) = &mut self.role {
            learning.syncs.push_back((connection, cxid));
        }
        self.forward(request, world)
    }

    /// The leader has answered the oldest `sync`.
    pub(super) fn sync_done(&mut self, world: &mut World) {
        if let Role::Learning(learning) = &mut self.role
            && let Some((connection, cxid)) = learning.syncs.pop_front()
        {
            self.client_sync_done(connection, cxid, world);
        }
    }

    /// Syncs of this leader's own clients.
    pub(super) fn own_syncs_done(&mut self, upto: Zxid, world: &mut World) {
        loop {
            let Role::Leading(leading) = &mut self.role else {
                return;
            };
            let Some(office) = &mut leading.office else {
                return;
            };
            let oldest = office.syncs.front().filter(|(at, ..)| *at <= upto);
            let Some((_, connection, cxid)) = oldest.copied() else {
                return;
            };
            office.syncs.pop_front();
            self.client_sync_done(connection, cxid, world);
        }
    }

    fn client_sync_done(&mut self, connection: u64, done: i32, world: &mut World) {
        if let Some(guest) = self.desk.connections.get_mut(&connection) {
            for asked in &mut guest.asked {
                if let Asked::Sync { cxid, is_done } = asked
                    && *cxid == done
                {
                    *is_done = true;
                }
            }
        }
        self.answer_what_waited(connection, world);
    }

    /// Answers whoever asked for this transaction here, and what waited behind it.
    pub(super) fn answer_write(&mut self, txn: &TxnRecord, outcome: &Outcome, world: &mut World) {
        let (session, cxid) = (txn.header.session, txn.header.cxid);
        let found = self
            .desk
            .connections
            .iter()
            .find(|(_, guest)| guest.session == session);
        let Some(connection) = found.map(|(connection, _)| *connection) else {
            return;
        };
        let is_close = matches!(txn.txn, proto::txn::Txn::CloseSession { .. });
        let Some(guest) = self.desk.connections.get_mut(&connection) else {
            return;
        };
        let reply = match guest.asked.front() {
            Some(Asked::Handshake) if txn.header.op == OpCode::CreateSession.number() => {
                guest.is_open = true;
                Some(ToClient::Connected { session })
            }
            Some(Asked::Write { cxid: asked, op }) if *asked == cxid => {
                let mut body = Vec::new();
                outcome.encode_body(*op, &mut body);
                let result = match outcome.error() {
                    ErrorCode::Ok => Ok(Bytes::from(body)),
                    code => Err(code),
                };
                let zxid = txn.header.zxid;
                Some(ToClient::Reply { cxid, zxid, result })
            }
            _ => None,
        };
        if let Some(reply) = reply {
            guest.asked.pop_front();
            let is_moved = matches!(
                &reply,
                ToClient::Reply {
                    result: Err(ErrorCode::SessionMoved),
                    ..
                }
            );
            if is_moved {
                return self.hang_up(connection, world);
            }
            self.tell(connection, reply, world);
        }
        if is_close {
            return self.hang_up(connection, world);
        }
        self.answer_what_waited(connection, world);
    }

    fn answer_what_waited(&mut self, connection: u64, world: &mut World) {
        loop {
            let Some(guest) = self.desk.connections.get_mut(&connection) else {
                return;
            };
            match guest.asked.front() {
                Some(Asked::Read { .. } | Asked::Sync { is_done: true, .. }) => {}
                _ => return,
            }
            match guest.asked.pop_front() {
                Some(Asked::Read { cxid, request }) => {
                    self.answer_read(connection, cxid, &request, world);
                }
                Some(Asked::Sync { cxid, .. }) => {
                    let (zxid, result) = (self.tree.last_zxid(), Ok(Bytes::new()));
                    self.tell(connection, ToClient::Reply { cxid, zxid, result }, world);
                }
                _ => {}
            }
        }
    }

    /// Events go out before anything that is sent later.
    pub(super) fn fire(&mut self, events: Vec<Event>, world: &mut World) {
        for event in events {
            for watcher in &event.watchers {
                let told = ToClient::Event {
                    event_type: event.event_type,
                    path: event.path.clone(),
                };
                if world.is(Mutant::WatchAfterReply) {
                    self.desk.late.push((watcher.0, told));
                } else {
                    self.tell(watcher.0, told, world);
                }
            }
        }
    }

    fn tell(&mut self, connection: u64, message: ToClient, world: &mut World) {
        let is_reply = matches!(message, ToClient::Reply { .. });
        world.send(self.place(), connection, Message::ToClient(message));
        if is_reply {
            for (connection, event) in std::mem::take(&mut self.desk.late) {
                world.send(self.place(), connection, Message::ToClient(event));
            }
        }
    }
}
