//! A client with its session: asks, waits, gives up, comes back over another server.
//!
//! It is its own oracle. What it is told must be so; of what it was not told before its
//! connection broke it believes nothing either way.

use std::collections::VecDeque;

use bytes::Bytes;
use proto::multi::request_acl;
use proto::request::{
    CreateRequest, PathRequest, PathVersionRequest, PathWatchRequest, ReadRequest, Request,
    SetDataRequest, SetWatchesRequest, WriteRequest, flags,
};
use proto::{Acl, ErrorCode, OpCode, SessionId, Zxid};

use crate::invariants::watches::Armed;
use crate::network::{Message, Patience, Place, Port};
use crate::plan::{MS, SECOND};
use crate::queue::{Event, Micros};
use crate::wire::{ToClient, ToServer};
use crate::world::World;

/// Number of setWatches, as clients have it.
const SET_WATCHES: i32 = -8;
const PING: i32 = -2;
/// Requests that a client sends before it waits.
const WINDOW: usize = 3;

#[derive(Debug)]
pub(crate) struct Client {
    index: usize,
    pub(crate) session: SessionId,
    timeout_ms: i32,
    pub(crate) connection: Option<u64>,
    stage: Stage,
    /// Connections of this session so far.
    connections: u64,
    next_cxid: i32,
    last_zxid: Zxid,
    asked: VecDeque<Asked>,
    watches: Vec<Armed>,
    heard_at: Micros,
    said_at: Micros,
    next_at: Micros,
    /// Does nothing until then, not even ping.
    pub(crate) asleep_until: Micros,
    /// Requests answered since the counter was set back.
    pub(crate) progress: usize,
    /// Asks nothing new any more.
    pub(crate) is_quiet: bool,
    /// Since when it has been connected with this session.
    pub(crate) connected_since: Option<Micros>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    Idle,
    Dialling,
    Greeting,
    /// Watches are being set again.
    Rewatching,
    Connected,
}

#[derive(Debug)]
struct Asked {
    cxid: i32,
    request: Request,
    at: Micros,
}

impl Client {
    pub(crate) fn new(index: usize, world: &mut World) -> Self {
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
            watches: Vec::new(),
            heard_at: 0,
            said_at: 0,
            next_at: 0,
            asleep_until: 0,
            progress: 0,
            is_quiet: false,
            connected_since: None,
        }
    }

    fn place(&self) -> Place {
        Place::Client(self.index)
    }

    fn name(&self) -> String {
        format!("client {}", self.index + 1)
    }

    /// Whether all that it asked is answered.
    pub(crate) fn is_idle(&self) -> bool {
        self.asked.is_empty()
    }

    /// Looks at its deadlines, and wakes up again.
    pub(crate) fn handle_wake(&mut self, world: &mut World) {
        let now = world.now();
        let client = self.index;
        world.queue.after(5 * MS, Event::ClientWake { client });
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
                    let think = world.plan.think;
                    self.next_at = now + world.random.range(think / 5, think * 2);
                    self.ask_something(world);
                }
            }
            Stage::Dialling | Stage::Greeting | Stage::Rewatching => {}
        }
    }

    fn dial(&mut self, world: &mut World) {
        let server = world.random.below(world.plan.servers());
        let to = Place::Server { server, life: 0 };
        let (network, queue) = (&mut world.network, &mut world.queue);
        self.connection =
            Some(network.dial(Port::Client, [self.place(), to], Patience::Once, queue));
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
        let hello = ToServer::Connect {
            session: self.session,
            timeout_ms: self.timeout_ms,
            last_zxid: self.last_zxid,
        };
        world.send(self.place(), connection, Message::ToServer(Box::new(hello)));
    }

    /// Hangs up and comes back later.
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
        self.connected_since = None;
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
        world.checks.asks(self.session, cxid, self.connections);
        self.asked.push_back(Asked {
            cxid,
            request: request.clone(),
            at,
        });
        let message = ToServer::Request { cxid, request };
        world.send(
            self.place(),
            connection,
            Message::ToServer(Box::new(message)),
        );
    }

    fn ask_something(&mut self, world: &mut World) {
        let cxid = self.next_cxid;
        self.next_cxid += 1;
        let request = draw(self.index, cxid, world);
        self.ask(cxid, request, world);
    }

    pub(crate) fn handle_message(&mut self, connection: u64, message: Message, world: &mut World) {
        if self.connection != Some(connection) {
            return;
        }
        self.heard_at = world.now();
        match message {
            Message::ToClient(ToClient::Connected { session }) => self.connected(session, world),
            Message::ToClient(ToClient::Event { event_type, path }) => {
                self.watches
                    .retain(|watch| !watch.is_met_by(event_type, &path));
            }
            Message::ToClient(ToClient::Reply { cxid, zxid, result }) => {
                self.hear_reply(cxid, zxid, &result, world);
            }
            Message::End => self.drop_connection(world),
            _ => {}
        }
    }

    /// The connection is gone.
    pub(crate) fn handle_closed(&mut self, connection: u64, world: &mut World) {
        if self.connection == Some(connection) {
            self.disconnected(world);
        }
    }

    fn connected(&mut self, session: SessionId, world: &mut World) {
        if session == SessionId::NONE {
            world.say(self.name(), || {
                format!("session {} has expired", self.session)
            });
            self.forget_session();
            return self.drop_connection(world);
        }
        world.say(self.name(), || {
            format!("is connected with session {session}")
        });
        self.session = session;
        self.connections += 1;
        self.connected_since = Some(world.now());
        if self.watches.is_empty() {
            self.stage = Stage::Connected;
            return;
        }
        self.stage = Stage::Rewatching;
        let paths = |is_of_children: bool| {
            let these = self
                .watches
                .iter()
                .filter(|watch| watch.is_of_children == is_of_children);
            Some(
                these
                    .map(|watch| Some(watch.path.as_str().into()))
                    .collect(),
            )
        };
        let request = SetWatchesRequest {
            relative_zxid: self.last_zxid.0,
            data: paths(false),
            exist: Some(Vec::new()),
            child: paths(true),
            persistent: Some(Vec::new()),
            persistent_recursive: Some(Vec::new()),
        };
        self.ask(
            SET_WATCHES,
            Request::Read(ReadRequest::SetWatches(request)),
            world,
        );
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
        let order = (session, cxid, expected);
        world
            .checks
            .replies(order, (zxid, self.last_zxid), &self.watches);
        self.last_zxid = self.last_zxid.max(zxid);
        let Some(Asked { request, at, .. }) = asked else {
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
                "request {cxid} {} is answered after {took_ms} ms as of {zxid}: {code:?}",
                request.op().name()
            )
        });
        match request {
            Request::Write(WriteRequest::CloseSession) => {
                self.forget_session();
                self.drop_connection(world);
            }
            Request::Write(_) => match result {
                Ok(_) => world.checks.acknowledged(zxid, session, cxid),
                Err(ErrorCode::SessionExpired) => {
                    self.forget_session();
                    self.drop_connection(world);
                }
                Err(_) => {}
            },
            Request::Read(read) => {
                world.checks.read(&read, zxid, result);
                if result.is_ok() {
                    self.watches.extend(watch_of(&read, zxid));
                    self.watches.dedup();
                }
            }
            Request::Sync(_) => {}
        }
    }
}

/// The watch that a read leaves.
fn watch_of(read: &ReadRequest, since: Zxid) -> Option<Armed> {
    let (request, is_of_children) = match read {
        ReadRequest::GetData(request) => (request, false),
        ReadRequest::GetChildren(request) => (request, true),
        _ => return None,
    };
    let path = request
        .path
        .as_deref()
        .filter(|_| request.watch)?
        .to_owned();
    Some(Armed {
        path,
        is_of_children,
        since,
    })
}

fn create(path: String, data: Bytes, flags: i32) -> WriteRequest {
    WriteRequest::Create {
        op: OpCode::Create2,
        request: CreateRequest {
            path: Some(path.into()),
            data: Some(data),
            acl: request_acl([Acl::open()]),
            flags,
        },
        ttl: -1,
    }
}

/// A request as it comes.
fn draw(client: usize, cxid: i32, world: &mut World) -> Request {
    let random = &mut world.random;
    let dir = random.pick(&["/a", "/b", "/c"]).unwrap_or("/a");
    let name = random.pick(&["x", "y", "z"]).unwrap_or("x");
    let path = format!("{dir}/{name}");
    let data = Bytes::from(format!("client {client} request {cxid} {}", random.any()));
    let version = if random.percent(80) {
        -1
    } else {
        i32::try_from(random.below(4)).unwrap_or(0)
    };
    let watch = random.percent(40);
    let read = |path: String| PathWatchRequest {
        path: Some(path.into()),
        watch,
    };
    let write = match random.below(100) {
        0..=7 => create(dir.to_owned(), data, flags::PERSISTENT),
        8..=19 => create(path, data, flags::PERSISTENT),
        20..=27 => create(path, data, flags::EPHEMERAL),
        28..=33 => create(format!("{dir}/q-"), data, flags::EPHEMERAL_SEQUENTIAL),
        34..=37 => create(format!("{dir}/s-"), data, flags::PERSISTENT_SEQUENTIAL),
        38..=57 => WriteRequest::SetData(SetDataRequest {
            path: Some(path.into()),
            data: Some(data),
            version,
        }),
        58..=67 => WriteRequest::Delete(PathVersionRequest {
            path: Some(path.into()),
            version,
        }),
        68..=71 => WriteRequest::Multi(Ok(vec![
            create(path, data.clone(), flags::PERSISTENT),
            WriteRequest::SetData(SetDataRequest {
                path: Some(dir.into()),
                data: Some(data),
                version: -1,
            }),
        ])),
        72 if random.percent(30) => WriteRequest::CloseSession,
        73..=85 => return Request::Read(ReadRequest::GetData(read(path))),
        86..=95 => return Request::Read(ReadRequest::GetChildren(read(dir.to_owned()))),
        _ => {
            let path = Some(path.into());
            return Request::Sync(PathRequest { path });
        }
    };
    Request::Write(write)
}

/// Longest time without a word from a client that is only asleep.
pub(crate) const SLEEP_MAX: Micros = 6 * SECOND;
