//! Tests with connections without sockets.

use std::sync::Arc;

use bytes::Bytes;
use parking_lot::Mutex;
use proto::Acl;
use proto::connect::ConnectRequest;
use proto::txn::{Txn, TxnHeader, TxnRecord};
use proto::watch::EventType;
use proto::{ErrorCode, OpCode, SessionId, Zxid};
use replica::connection::{ClientConnection, WriteAnswer};
use replica::session::SessionIds;
use replica::{Applied, HandshakeRules, LargeBytes, Service};
use tree::{Event, Outcome, Tree, TreeSettings, WatcherId};

use super::*;
use crate::ServerState;

const SESSION: SessionId = SessionId(77);

struct Connection {
    status: ConnectionStatus,
    client: Mutex<ClientConnection<()>>,
}

impl SharedConnection for Connection {
    type Note = ();

    fn status(&self) -> &ConnectionStatus {
        &self.status
    }

    fn with_client<T>(&self, step: impl FnOnce(&mut ClientConnection<()>) -> T) -> T {
        step(&mut self.client.lock())
    }

    fn wake(&self) {}
}

/// A server with some connections, and the events and replies for them, in order.
struct Server {
    state: ServerState,
    registry: Registry<Connection>,
    seen: Vec<(u64, &'static str)>,
}

impl Server {
    fn new() -> Self {
        let tree = Tree::new(Arc::new(TreeSettings::new(testkit::LIMITS)));
        Self {
            state: ServerState::new(tree, 2000, SessionIds::new(1, 1)),
            registry: Registry::default(),
            seen: Vec::new(),
        }
    }

    fn connect(&self, number: u64) -> Arc<Connection> {
        let connection = Arc::new(Connection {
            status: ConnectionStatus::new(WatcherId(number)),
            client: Mutex::new(ClientConnection::new([].into())),
        });
        self.registry.insert(connection.clone());
        connection
    }

    /// Connects a client that serves the session.
    fn serve(&self, number: u64) -> Arc<Connection> {
        let connection = self.connect(number);
        let session = Some((SESSION, 4000));
        answer_handshake(&self.registry, &*connection, session, true);
        connection
    }

    fn apply(&mut self, txn: Txn, events: &mut Vec<Event>, origin: Option<&Arc<Connection>>) {
        let record = TxnRecord {
            header: TxnHeader {
                session: SESSION,
                cxid: 0,
                zxid: Zxid(1),
                time_ms: 0,
                op: OpCode::CloseSession as i32,
            },
            txn,
            digest: None,
        };
        let applied = Applied {
            record: &record,
            outcome: &Outcome::Error(ErrorCode::Ok),
            events,
            op: OpCode::CloseSession,
            origin: origin.map(|connection| connection.status.ticket()),
            is_counted: false,
            large_bytes: LargeBytes::NONE,
            is_last: true,
            is_committed: true,
        };
        let tree = Tree::new(Arc::new(TreeSettings::new(testkit::LIMITS)));
        deliver(self, &mut Vec::new(), &tree, applied, origin);
    }
}

impl DeliveryHost for Server {
    type Connection = Connection;

    fn registry(&self) -> &Registry<Connection> {
        &self.registry
    }

    fn push_event(&mut self, connection: &Arc<Connection>, frame: &[u8]) {
        assert!(!frame.is_empty());
        self.seen.push((connection.status.id.0, "event"));
    }

    fn answer(
        &mut self,
        _: &Tree,
        connection: &Arc<Connection>,
        what: PendingAnswer<'_, '_>,
    ) -> AnswerOutcome {
        assert!(matches!(what, PendingAnswer::Write(_)));
        self.seen.push((connection.status.id.0, "reply"));
        AnswerOutcome::Write(WriteAnswer::OutOfTurn)
    }

    fn mark_touched(&mut self, _: &Arc<Connection>) {}
}

#[test]
fn events_precede_the_reply_and_a_wrong_answer_ends_the_connection() {
    let mut server = Server::new();
    let (requester, watches) = (server.serve(1), server.connect(2));
    let mut events = vec![Event {
        event_type: EventType::NodeCreated,
        path: "/a".into(),
        zxid: Zxid(1),
        acl: Some([Acl::open()].into()),
        watchers: vec![WatcherId(2), WatcherId(1), WatcherId(9)],
    }];
    let paths = None;
    server.apply(Txn::CloseSession { paths }, &mut events, Some(&requester));
    assert_eq!(server.seen, [(2, "event"), (1, "event"), (1, "reply")]);
    assert!(events.is_empty());
    // The connection is closed because its answer was out of order.
    assert!(requester.status.is_closed() && !watches.status.is_closed());
}

#[test]
fn clients_without_read_permission_get_no_event() {
    let mut server = Server::new();
    server.connect(1);
    let mut events = vec![Event {
        event_type: EventType::NodeDeleted,
        path: "/a".into(),
        zxid: Zxid(1),
        acl: Some([Acl::new(31, "digest", "a:b")].into()),
        watchers: vec![WatcherId(1)],
    }];
    server.apply(Txn::CloseSession { paths: None }, &mut events, None);
    assert_eq!(server.seen, []);
}

#[test]
fn the_end_of_a_session_ends_the_connection_that_serves_it() {
    let mut server = Server::new();
    let (earlier, serves) = (server.serve(1), server.serve(2));
    server.apply(Txn::CloseSession { paths: None }, &mut Vec::new(), None);
    assert!(serves.status.is_closed());
    assert!(!earlier.status.is_closed(), "it serves nobody any more");
    assert!(server.registry.remove(&serves) && !server.registry.remove(&serves));
    assert!(server.registry.of_session(SESSION).is_none());
    assert_eq!(server.registry.len(), 1);
}

#[test]
fn a_returning_client_cuts_its_old_connection_and_waits_for_the_leader() {
    let server = Server::new();
    let (before, back) = (server.serve(1), server.connect(2));
    let rules = HandshakeRules {
        service: Service::Forwarding,
        local_sessions: false,
        timeout_min_ms: 400,
        timeout_max_ms: 4000,
    };
    let request = ConnectRequest {
        protocol_version: 0,
        last_zxid_seen: Zxid::ZERO,
        timeout_ms: 4000,
        session_id: SESSION,
        password: Some(Bytes::copy_from_slice(&replica::session::password(SESSION))).into(),
        read_only: Some(false),
    };
    let handshake =
        judge_handshake(&rules, &request, &server.state, &server.registry, &*back).unwrap();
    let begun = begin_session(&server.state, &server.registry, &*back, handshake, 0, 0);
    assert!(matches!(begun, SessionStep::AskLeader(renewal) if renewal.session == SESSION));
    assert!(before.status.is_closed() && !back.status.is_closed());
    assert_eq!(back.status.session(), SessionId::NONE);
    answer_handshake(&server.registry, &*back, Some((SESSION, 4000)), true);
    assert_eq!(back.status.session(), SESSION);
    let serves = server.registry.of_session(SESSION);
    assert!(serves.is_some_and(|serves| Arc::ptr_eq(&serves, &back)));
}
