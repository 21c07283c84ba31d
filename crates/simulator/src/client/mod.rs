//! A simulated client with a session. It sends requests, waits, times out and reconnects to a
//! random server.
//!
//! The client checks every reply against the model. A request whose reply was lost with the
//! connection may or may not have been executed.

mod requests;
mod watching;
mod wire;

use std::collections::VecDeque;

use bytes::Bytes;
use jute::{Decode, Reader};
use proto::multi::MultiHeader;
use proto::request::{ReadRequest, ReconfigRequest, Request, WriteRequest};
use proto::{ErrorCode, OpCode, SessionId, Zxid};
use simulation::configured::sid_of;
use simulation::network::{DialAttempts, Endpoint, Message, Port, Process};
use simulation::queue::{MS, Micros, SECOND};

use crate::ensemble::members::{self, Restoration};
pub(crate) use crate::invariants::access::Identity;
use crate::invariants::reads::ReadReply;
use crate::invariants::{RequestId, watches};
use crate::simulated::{Event, OwnEvent, World};
use crate::storms::plan::Plan;
use requests::Requester;
use watching::Watching;
use wire::ToClient;

/// Xid of setWatches requests, as in Apache ZooKeeper's Java client.
const SET_WATCHES: i32 = -8;
const PING: i32 = -2;
/// Number of pending requests at which a client stops sending further requests.
const WINDOW: usize = 3;

#[derive(Debug)]
pub(crate) struct Client {
    index: usize,
    pub(crate) session: SessionId,
    timeout_ms: i32,
    pub(crate) connection: Option<u64>,
    stage: Stage,
    /// Number of connections of this session so far.
    connections: u64,
    next_cxid: i32,
    last_zxid: Zxid,
    asked: VecDeque<SentRequest>,
    watches: Watching,
    /// Identity that the client presents on each connection.
    identity: Option<Identity>,
    restoration: Restoration,
    /// Whether the client accepts a read-only server, which serves without a leader.
    takes_read_only: bool,
    /// Whether the connected server is read-only. Transactions that it reports may never be
    /// committed.
    is_read_only: bool,
    /// Requests that were drawn and not sent yet.
    next: VecDeque<Request>,
    heard_at: Micros,
    said_at: Micros,
    next_at: Micros,
    /// End of a pause in which the client does not even ping.
    pub(crate) asleep_until: Micros,
    /// Number of answered requests since the counter was reset.
    pub(crate) progress: usize,
    /// Whether the client has stopped sending new requests.
    pub(crate) is_quiet: bool,
    /// Start of the session's current connection, or `None` while the session is disconnected.
    pub(crate) connected_since: Option<Micros>,
    /// Whether the dialled server was required to know the session when the client last tried to
    /// resume it.
    must_be_known: bool,
    /// Next server to dial, if a script sets it.
    pub(crate) goes_to: Option<usize>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    Idle,
    Dialling,
    Greeting,
    /// The client sets its watches again.
    Rewatching,
    Connected,
}

#[derive(Debug)]
struct SentRequest {
    cxid: i32,
    request: Request,
    at: Micros,
}

impl Client {
    pub(crate) fn new(index: usize, world: &mut World) -> Self {
        let is_operator = world.checks.plan.features.reconfigures && index == 0;
        Self {
            index,
            session: SessionId::NONE,
            timeout_ms: i32::try_from(world.random.range(1200, 3000)).unwrap_or(2000),
            connection: None,
            stage: Stage::Idle,
            connections: 0,
            next_cxid: 1,
            last_zxid: Zxid::ZERO,
            asked: VecDeque::new(),
            watches: Watching::default(),
            identity: {
                let is_user = world.random.percent(40);
                let other = is_user.then_some(Identity::User);
                if is_operator {
                    Some(Identity::Super)
                } else {
                    other
                }
            },
            restoration: Restoration::default(),
            takes_read_only: world.random.percent(50),
            is_read_only: false,
            next: VecDeque::new(),
            heard_at: 0,
            said_at: 0,
            next_at: 0,
            asleep_until: 0,
            progress: 0,
            is_quiet: false,
            connected_since: None,
            must_be_known: false,
            goes_to: None,
        }
    }

    fn place(&self) -> Endpoint {
        Endpoint::Client(self.index)
    }

    fn name(&self) -> String {
        format!("client {}", self.index + 1)
    }

    /// Returns whether all requests are answered.
    pub(crate) fn is_idle(&self) -> bool {
        self.asked.is_empty()
    }

    /// Checks the deadlines of the client and schedules the next wake-up.
    pub(crate) fn handle_wake(&mut self, world: &mut World) {
        let now = world.now();
        let client = self.index;
        world
            .queue
            .after(5 * MS, Event::Own(OwnEvent::ClientWake { client }));
        if now < self.asleep_until {
            return;
        }
        let timeout = i64::from(self.timeout_ms) * 1000;
        let is_waiting = !self.asked.is_empty() || self.stage != Stage::Connected;
        let is_lost = is_waiting && now - self.heard_at > timeout * 2 / 3;
        match self.stage {
            Stage::Idle if now >= self.next_at => self.dial(world),
            Stage::Idle => {}
            _ if is_lost => self.drop_connection(world),
            Stage::Connected => {
                if now - self.said_at > timeout / 3 {
                    self.ask(PING, Request::Read(ReadRequest::Ping), world);
                }
                if now >= self.next_at && self.asked.len() < WINDOW && !self.is_quiet {
                    let think = world.checks.plan.think;
                    self.next_at = now + world.random.range(think / 5, think * 2);
                    self.ask_something(world);
                }
            }
            Stage::Dialling | Stage::Greeting | Stage::Rewatching => {}
        }
    }

    fn dial(&mut self, world: &mut World) {
        let drawn = world.random.below(world.checks.plan.servers());
        let server = self.goes_to.take().unwrap_or(drawn);
        let to = Process { server, life: 0 }.into();
        let (network, queue) = (&mut world.network, &mut world.queue);
        self.connection =
            Some(network.dial(Port::Client, [self.place(), to], DialAttempts::Once, queue));
        self.stage = Stage::Dialling;
        self.heard_at = world.now();
    }

    pub(crate) fn handle_dialled(&mut self, connection: u64, is_open: bool, world: &mut World) {
        if self.connection != Some(connection) {
            return world.close(self.place(), connection);
        }
        if !is_open {
            return self.disconnected(world);
        }
        self.stage = Stage::Greeting;
        self.heard_at = world.now();
        let ends = world.network.get(connection).map(|dialled| dialled.ends);
        let server = ends.and_then(|ends| ends.iter().find_map(|end| end.server()));
        self.must_be_known =
            server.is_some_and(|server| world.checks.must_know(sid_of(server), self.session));
        let (session, last_zxid) = (self.session, self.last_zxid);
        let hello = wire::hello(session, self.timeout_ms, last_zxid, self.takes_read_only);
        world.send(self.place(), connection, Message::ToServer(hello));
    }

    /// Closes the connection. The client reconnects later.
    pub(crate) fn drop_connection(&mut self, world: &mut World) {
        if let Some(connection) = self.connection {
            world.close(self.place(), connection);
        }
        self.disconnected(world);
    }

    fn disconnected(&mut self, world: &mut World) {
        self.connection = None;
        self.stage = Stage::Idle;
        self.asked.clear();
        self.next.clear();
        self.connected_since = None;
        self.is_read_only = false;
        self.next_at = world.now() + world.random.range(10 * MS, 200 * MS);
    }

    fn forget_session(&mut self) {
        self.session = SessionId::NONE;
        self.connections = 0;
        self.watches.clear();
        self.connected_since = None;
    }

    fn ask(&mut self, cxid: i32, request: Request, world: &mut World) {
        let Some(connection) = self.connection else {
            return;
        };
        let at = world.now();
        self.said_at = at;
        if self.asked.is_empty() {
            self.heard_at = at;
        }
        let by = RequestId {
            session: self.session,
            cxid,
        };
        world
            .checks
            .asks(by, self.connections, self.identity, &request, at);
        let frame = wire::asked(cxid, &request);
        self.asked.push_back(SentRequest { cxid, request, at });
        world.send(self.place(), connection, Message::ToServer(frame));
    }

    fn ask_something(&mut self, world: &mut World) {
        if self.next.is_empty() {
            let asker = Requester {
                client: self.index,
                cxid: self.next_cxid,
                is_user: self.identity == Some(Identity::User),
                record_bytes_max: world.checks.plan.features.record_bytes_max,
            };
            self.next = match self.reconfigure(world) {
                Some(change) => [Request::Write(WriteRequest::Reconfig(change))].into(),
                None => requests::draw(asker, &mut world.random).into(),
            };
        }
        while let Some(request) = self.next.pop_front() {
            let cxid = self.next_cxid;
            self.next_cxid += 1;
            self.ask(cxid, request, world);
        }
    }

    /// Returns the next change of the members if this client is an operator and makes a change now.
    fn reconfigure(&self, world: &mut World) -> Option<ReconfigRequest> {
        let is_operator = self.identity == Some(Identity::Super);
        if !is_operator {
            return None;
        }
        if world.is_healed {
            self.restoration.next(&world.checks.plan)
        } else if world.random.percent(12) {
            let list = world.checks.history.members();
            members::draw(list.as_ref(), &world.checks.plan, &mut world.random)
        } else {
            None
        }
    }

    /// Returns whether this client has restored the initial roles or is not an operator.
    pub(crate) fn has_restored(&self, plan: &Plan) -> bool {
        let is_operator = self.identity == Some(Identity::Super);
        !is_operator || self.restoration.next(plan).is_none()
    }

    pub(crate) fn handle_message(&mut self, connection: u64, message: Message, world: &mut World) {
        if self.connection != Some(connection) {
            return;
        }
        self.heard_at = world.now();
        match message {
            Message::ToClient(frames) => {
                match wire::heard(frames, self.stage == Stage::Greeting) {
                    Ok(heard) => heard.into_iter().for_each(|told| {
                        // The client may have closed the connection because of the previous packet.
                        if self.connection == Some(connection) {
                            self.hear(told, world);
                        }
                    }),
                    Err(error) => world
                        .checks
                        .fail("clients can decode the messages of servers", error),
                }
            }
            Message::End => self.drop_connection(world),
            _ => {}
        }
    }

    fn hear(&mut self, told: ToClient, world: &mut World) {
        match told {
            ToClient::Connected {
                session,
                is_read_only,
            } => self.connected(session, is_read_only, world),
            ToClient::Event { event_type, path } => self.watches.hear(event_type, &path),
            ToClient::Authenticated => world.checks.succeeds(OpCode::Auth),
            ToClient::Reply { cxid, zxid, result } => {
                self.hear_reply(cxid, zxid, &result, world);
            }
        }
    }

    /// Handles the loss of a connection.
    pub(crate) fn handle_closed(&mut self, connection: u64, world: &mut World) {
        if self.connection == Some(connection) {
            self.disconnected(world);
        }
    }

    fn connected(&mut self, session: SessionId, is_read_only: bool, world: &mut World) {
        if session == SessionId::NONE {
            world.say(self.name(), || {
                format!("session {} has expired", self.session)
            });
            // Two kinds of reports are correct although the session has not ended. Without a
            // leader, a server with local sessions reports every unknown session as expired
            // (LearnerSessionTracker.touchSession). With a leader, the session may have become
            // global only after the client tried to resume it. Until then, it was a local session
            // of another server.
            if !is_read_only && self.must_be_known {
                world.checks.told_over(self.session);
            }
            self.forget_session();
            return self.drop_connection(world);
        }
        world.say(self.name(), || {
            format!("is connected with session {session}")
        });
        if self.session == SessionId::NONE {
            world.checks.succeeds(OpCode::CreateSession);
        }
        self.session = session;
        self.is_read_only = is_read_only;
        self.connections += 1;
        self.connected_since = Some(world.now());
        if let (Some(identity), Some(connection)) = (self.identity, self.connection) {
            let frame = wire::credentials("digest", identity.credentials());
            world.send(self.place(), connection, Message::ToServer(frame));
        }
        match self.watches.set_again(self.last_zxid) {
            None => self.stage = Stage::Connected,
            Some(request) => {
                self.stage = Stage::Rewatching;
                self.ask(SET_WATCHES, Request::Read(request), world);
            }
        }
    }

    fn hear_reply(
        &mut self,
        cxid: i32,
        zxid: Zxid,
        result: &Result<Bytes, ErrorCode>,
        world: &mut World,
    ) {
        let asked = self.asked.pop_front();
        let expected = asked.as_ref().map(|asked| asked.cxid);
        let session = self.session;
        let by = RequestId { session, cxid };
        if !self.is_read_only {
            let (seen, armed) = (self.last_zxid, self.watches.all());
            world.checks.replies(by, expected, zxid, seen, armed);
            self.last_zxid = self.last_zxid.max(zxid);
        }
        let Some(SentRequest { request, at, .. }) = asked else {
            return;
        };
        self.stage = Stage::Connected;
        if cxid > 0 && result.as_ref().err() != Some(&ErrorCode::SessionExpired) {
            self.progress += 1;
        }
        let took_ms = (world.now() - at) / 1000;
        world.say(self.name(), || {
            let code = result.as_ref().err();
            format!(
                "request {cxid} {} received a reply after {took_ms} ms with zxid {zxid}: {code:?}",
                request.op().name()
            )
        });
        if result.is_ok() {
            succeeds(&request, result, world);
        }
        if result.as_ref().err() == Some(&ErrorCode::SessionExpired) {
            world.checks.told_over(session);
            self.forget_session();
            return self.drop_connection(world);
        }
        let now = world.now();
        world.checks.answered(by, result, now);
        match request {
            Request::Write(WriteRequest::CloseSession) => {
                self.forget_session();
                self.drop_connection(world);
            }
            Request::Write(write) => {
                if let (WriteRequest::Reconfig(request), true) = (&write, world.is_healed) {
                    let result = result.as_ref().map(drop).map_err(|error| *error);
                    let list = world.checks.history.members();
                    let restoration = &mut self.restoration;
                    restoration.answered(request, result, list.as_ref(), &world.checks.plan);
                }
                if result.is_ok() {
                    world.checks.acknowledged(zxid, session, cxid);
                }
            }
            Request::Read(read) if !self.is_read_only => {
                let told = ReadReply {
                    session,
                    identity: self.identity,
                    zxid,
                    result,
                };
                world.checks.read(&read, told);
                let error = result.as_ref().err().copied();
                if let ReadRequest::CheckWatches(request) = &read {
                    let held = self.watches.check(session, request, error);
                    world.checks.hold(watches::NAME, held);
                }
                self.watches.answered(&read, zxid, error);
            }
            Request::Sync(_) | Request::Read(_) => {}
        }
    }
}

/// Counts the operations that succeeded.
fn succeeds(request: &Request, result: &Result<Bytes, ErrorCode>, world: &mut World) {
    let (Request::Write(WriteRequest::Multi(Ok(writes))), Ok(body)) = (request, result) else {
        return world.checks.succeeds(request.op());
    };
    let header = MultiHeader::decode(&mut Reader::new(body.clone()));
    // The type of the first result shows whether the multi succeeded.
    if header.is_ok_and(|header| header.op != OpCode::Error.number()) {
        world.checks.succeeds(OpCode::Multi);
        for write in writes {
            world.checks.succeeds(write.op());
        }
    }
}

/// Maximum duration of a client's sleep.
pub(crate) const SLEEP_MAX: Micros = 6 * SECOND;
