//! Connections of clients, with incoming and outgoing frames. `replica::connection` decides the
//! order of the work, and [`host`] implements the state of a connection.

use std::collections::VecDeque;
use std::ops::DerefMut;
use std::sync::Arc;

use bytes::Bytes;
use host::{
    AnswerOutcome, DeliveryHost, LockedState, PendingAnswer, Registry, ServerState, SessionStep,
    SharedConnection as _, begin_session, judge_handshake,
};
use jute::{Decode, Reader};
use proto::SessionId;
use proto::connect::ConnectRequest;
use replica::connection::{
    ClientConnection, IncomingRequest, ReplyHost, RequestHost, RequestKind, Resume, decode_into,
};
use replica::session::Sessions;
use replica::{ClientRequest, Input, State, SyncRequest, Ticket};
use tree::auth::ip_id;
use tree::{Tree, WatcherId};

use super::SimHost;
use super::pace;
use crate::checks::{ProcessChecks as _, StepChecks};
use crate::configured::{CLIENT_ADDRESS, connection_rules, handshake_rules};
use crate::network::{LinkEvent, Message};

pub(super) type Connection = host::Connection<LockedState<(), Waiting>>;

/// Pending work of a connection.
#[derive(Debug, Default)]
pub struct Waiting {
    /// Requests that are not handled yet.
    pub(super) incoming: VecDeque<IncomingRequest<()>>,
    is_greeted: bool,
    /// Whether a turn of the connection is scheduled.
    is_scheduled: bool,
}

/// Access to the server for the requests of a connection.
struct Requests<'a> {
    state: &'a ServerState,
    inputs: &'a mut VecDeque<Input>,
}

impl ReplyHost for Requests<'_> {
    type Note = ();

    fn sessions(&self) -> impl DerefMut<Target = Sessions> {
        self.state.sessions()
    }
}

impl RequestHost for Requests<'_> {
    type Extra = ();

    fn begin(&mut self, _: &RequestKind, (): ()) {}

    fn address(&self) -> String {
        CLIENT_ADDRESS.into()
    }

    fn submit(&mut self, request: ClientRequest) {
        self.inputs.push_back(Input::Requests(vec![request]));
    }

    fn sync(&mut self, sync: SyncRequest) {
        self.inputs.push_back(Input::Sync(sync));
    }
}

impl<C: StepChecks> SimHost<C> {
    /// Handles an event on a client's connection.
    pub(super) fn hear_client(&mut self, number: u64, heard: LinkEvent) {
        match (heard, self.clients.of(Ticket(number))) {
            (LinkEvent::Accepted, _) => {
                let state = LockedState {
                    client: ClientConnection::new([ip_id(CLIENT_ADDRESS)].into()),
                    own: Waiting::default(),
                };
                let connection = Connection::new(WatcherId(number), state);
                self.clients.insert(Arc::new(connection));
            }
            (LinkEvent::Closed, Some(connection)) => self.forget_client(&connection),
            (LinkEvent::Message(Message::ToServer(frame)), Some(connection)) => {
                self.take_frame(&connection, frame);
            }
            _ => {}
        }
    }

    /// Returns the session of a client's connection, if it has one.
    pub fn session_of(&self, connection: u64) -> Option<SessionId> {
        let session = self.clients.of(Ticket(connection))?.session();
        (session != SessionId::NONE).then_some(session)
    }

    fn forget_client(&mut self, connection: &Connection) {
        self.clients.remove(connection);
        self.state.watches().remove_watcher(connection.id);
    }

    /// Sends the contents of the outboxes and ends the closed connections.
    pub(crate) fn flush_clients(&mut self) {
        for connection in self.clients.all() {
            let number = connection.id.0;
            let client = &mut connection.lock().client;
            if !client.outbox.is_empty() && !connection.is_closed() {
                let frames = std::mem::take(&mut client.outbox);
                self.world
                    .send(self.process, number, Message::ToClient(frames.into()));
            }
            if client.ends_after_flush || connection.is_closed() {
                self.world.close(self.process, number);
                self.forget_client(&connection);
            }
        }
    }

    fn take_frame(&mut self, connection: &Connection, frame: Bytes) {
        let is_greeted = std::mem::replace(&mut connection.lock().own.is_greeted, true);
        let goes_on = if is_greeted {
            self.take_request(connection, frame)
        } else {
            self.handshake(connection, frame)
        };
        if !goes_on {
            connection.close();
        }
    }

    /// Decodes and queues a request. Returns `false` if the connection must be closed, because the
    /// frame is invalid or the session has ended.
    fn take_request(&mut self, connection: &Connection, frame: Bytes) -> bool {
        let decoded = {
            let incoming = &mut connection.lock().own.incoming;
            decode_into(incoming, frame, testkit::LIMITS, ())
        };
        let now_ms = self.world.now_ms();
        let goes_on = self.state.touch(connection, now_ms) && decoded.is_ok();
        if goes_on {
            self.continue_client(connection);
        }
        goes_on
    }

    /// Handles new and deferred requests at a random pace.
    pub(super) fn continue_client(&mut self, connection: &Connection) {
        let pace = pace::of_task(&mut self.world.random);
        let mut rules = connection_rules(&self.world.settings, self.clients.service());
        rules.sessions.is_read_only = connection.is_read_only();
        let (state, inputs) = (&*self.state, &mut self.inputs);
        let next = state.take_requests(connection, |tree| {
            let of = &mut *connection.lock();
            of.own.is_scheduled = false;
            let responder = state.responder(tree, connection, 0, testkit::LIMITS);
            let requests = &mut Requests { state, inputs };
            responder.take(&mut of.client, &mut of.own.incoming, rules, pace, requests)
        });
        // After `Resume::Wait`, the connection continues when an answer is sent.
        if !matches!(next, None | Some(Resume::Wait | Resume::Close)) {
            self.schedule_client(connection);
        }
    }

    /// Schedules another turn if the connection has work.
    fn schedule_client(&mut self, connection: &Connection) {
        let of = &mut *connection.lock();
        let is_due = of.client.has_deferred() || !of.own.incoming.is_empty();
        if is_due && !std::mem::replace(&mut of.own.is_scheduled, true) {
            let delay = self.world.random.range(10, 2000);
            let ticket = connection.ticket();
            self.world.start(self.process, delay, move |host| {
                if let Some(connection) = host.clients.of(ticket) {
                    host.continue_client(&connection);
                }
            });
        }
    }

    fn handshake(&mut self, connection: &Connection, frame: Bytes) -> bool {
        let (state, now_ms) = (&self.state, self.world.now_ms());
        let rules = handshake_rules(&self.world.settings, self.clients.service());
        let request = ConnectRequest::decode(&mut Reader::new(frame)).ok();
        let judge =
            |request| judge_handshake(&rules, &request, state, &self.clients, connection).ok();
        let Some(handshake) = request.and_then(judge) else {
            return false;
        };
        match begin_session(state, &self.clients, connection, handshake, 0, now_ms) {
            SessionStep::Ordered(request) => self.inputs.push_back(Input::Requests(vec![request])),
            SessionStep::AskLeader(renewal) => self.inputs.push_back(Input::Renew(renewal)),
            SessionStep::Told(_) => {}
            SessionStep::Nothing => return false,
        }
        true
    }
}

impl<C: StepChecks> DeliveryHost for SimHost<C> {
    type Connection = Connection;

    fn registry(&self) -> &Registry<Connection> {
        &self.clients
    }

    fn answer(
        &mut self,
        tree: &Tree,
        connection: &Arc<Connection>,
        what: PendingAnswer<'_, '_>,
    ) -> AnswerOutcome {
        let (state, inputs) = (&*self.state, &mut self.inputs);
        let responder = state.responder(tree, connection, 0, testkit::LIMITS);
        let before = pace::BEFORE_WRITE;
        let after = || pace::behind_write(&mut self.world.random);
        let requests = &mut Requests { state, inputs };
        let run = |client: &mut _| what.carry_out(&responder, client, before, after, requests);
        let answered = connection.with_client(run);
        let session = connection.session();
        self.observed
            .answers(session, &answered, tree, &mut self.world);
        answered
    }

    fn mark_touched(&mut self, connection: &Arc<Connection>) {
        self.schedule_client(connection);
    }
}
