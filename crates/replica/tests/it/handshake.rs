//! Clients that connect and reconnect.

use bytes::Bytes;
use proto::connect::ConnectRequest;
use proto::request::WriteRequest;
use proto::{SessionId, Zxid};
use zoarium_replica::session::Sessions;
use zoarium_replica::{
    Handshake, HandshakeKind, HandshakeRefusal, HandshakeRules, Input, NewSession, RenewalStep,
    Service, SessionReconnect, State, Ticket,
};

use crate::support::{Server, request};

const SESSION: SessionId = SessionId(77);
const TICKET: Ticket = Ticket(5);

fn rules(service: Service) -> HandshakeRules {
    HandshakeRules {
        service,
        local_sessions: false,
        timeout_min_ms: 400,
        timeout_max_ms: 4000,
    }
}

fn connects(session_id: SessionId) -> ConnectRequest {
    ConnectRequest {
        protocol_version: 0,
        last_zxid_seen: Zxid::ZERO,
        timeout_ms: 10_000,
        session_id,
        password: Some(Bytes::copy_from_slice(&zoarium_replica::session::password(
            session_id,
        )))
        .into(),
        read_only: Some(false),
    }
}

/// Creates a standalone server that has the session.
fn server() -> Server {
    let mut server = Server::alone();
    let begin = WriteRequest::CreateSession { timeout_ms: 4000 };
    server.handle(Input::Requests(vec![request(1, SESSION.0, 0, begin)]));
    server.handle(Input::Synced(Zxid(1)));
    server
}

fn back(server: &Server, service: Service, request: &ConnectRequest) -> SessionReconnect {
    match rules(service).judge(
        request,
        &server.state.tree(),
        &zoarium_replica::session::Passwords::default(),
    ) {
        Ok(Handshake::Back(back)) => back,
        other => panic!("{other:?}"),
    }
}

fn decided(server: &Server, back: SessionReconnect, is_cut: bool) -> RenewalStep {
    back.decide(TICKET, &server.state, 0, || is_cut)
}

#[test]
fn without_a_leader_only_read_only_clients_are_served() {
    let server = server();
    let judge = |service, request: &ConnectRequest| {
        rules(service).judge(
            request,
            &server.state.tree(),
            &zoarium_replica::session::Passwords::default(),
        )
    };
    let mut new = connects(SessionId::NONE);
    let refused = rules(Service::None).kind(&new);
    assert_eq!(refused, Err(HandshakeRefusal::NoLeader));
    for wish in [None, Some(false)] {
        new.read_only = wish;
        let refused = judge(Service::ReadOnly, &new);
        assert_eq!(refused, Err(HandshakeRefusal::NotForReads), "{wish:?}");
    }
    new.read_only = Some(true);
    let local = NewSession {
        timeout_ms: 4000,
        is_local: true,
        new_style: true,
    };
    assert_eq!(judge(Service::ReadOnly, &new), Ok(Handshake::New(local)));
    let mut known = connects(SESSION);
    known.read_only = Some(true);
    let session = SESSION;
    let unsure = Err(HandshakeRefusal::NobodyToAsk { session });
    assert_eq!(judge(Service::ReadOnly, &known), unsure);
}

#[test]
fn clients_with_a_later_zxid_are_refused_and_timeouts_bounded() {
    let server = server();
    let judge = |request: &ConnectRequest| {
        rules(Service::Deciding).judge(
            request,
            &server.state.tree(),
            &zoarium_replica::session::Passwords::default(),
        )
    };
    let mut new = connects(SessionId::NONE);
    assert_eq!(rules(Service::Deciding).kind(&new), Ok(HandshakeKind::New));
    for (wish_ms, timeout_ms) in [(0, 400), (1000, 1000), (10_000, 4000)] {
        new.timeout_ms = wish_ms;
        let is_local = false;
        let expected = NewSession {
            timeout_ms,
            is_local,
            new_style: new.read_only.is_some(),
        };
        assert_eq!(judge(&new), Ok(Handshake::New(expected)));
    }
    new.last_zxid_seen = Zxid(1);
    assert!(judge(&new).is_ok());
    new.last_zxid_seen = Zxid(2);
    let (seen, last) = (Zxid(2), Zxid(1));
    assert_eq!(
        judge(&new),
        Err(HandshakeRefusal::ClientAhead { seen, last })
    );
}

#[test]
fn only_the_owner_continues_a_session() {
    let server = server();
    let owners = back(&server, Service::Deciding, &connects(SESSION));
    assert_eq!(decided(&server, owners, false), RenewalStep::Renewed);
    let mut stolen = connects(SESSION);
    stolen.password = Some(Bytes::from_static(&[0; 16])).into();
    let stolen = back(&server, Service::Deciding, &stolen);
    assert_eq!(decided(&server, stolen, false), RenewalStep::Over);
    let unknown = back(&server, Service::Deciding, &connects(SessionId(78)));
    assert_eq!(decided(&server, unknown, false), RenewalStep::Over);
}

#[test]
fn after_the_end_of_the_role_no_session_is_answered() {
    let server = server();
    let owners = back(&server, Service::Deciding, &connects(SESSION));
    *server.state.sessions() = Sessions::reporting(200);
    assert_eq!(decided(&server, owners, true), RenewalStep::Nothing);
}

#[test]
fn a_learner_asks_its_leader_only_for_the_owner_of_a_session() {
    let server = server();
    *server.state.sessions() = Sessions::reporting(200);
    let owners = back(&server, Service::Forwarding, &connects(SESSION));
    let RenewalStep::AskLeader(asked) = decided(&server, owners, false) else {
        panic!("the leader is not asked");
    };
    assert_eq!(
        (asked.ticket, asked.session, asked.timeout_ms),
        (TICKET, SESSION, 4000)
    );
    let mut stolen = connects(SESSION);
    stolen.password = None.into();
    let stolen = back(&server, Service::Forwarding, &stolen);
    assert_eq!(decided(&server, stolen, false), RenewalStep::Over);
    // This server itself decides about a local session.
    server.state.sessions().add_local(SESSION, 4000, 0);
    assert_eq!(decided(&server, owners, false), RenewalStep::Renewed);
}

#[test]
fn a_new_session_gets_an_unused_id() {
    let server = server();
    let new = NewSession {
        timeout_ms: 4000,
        is_local: false,
        new_style: true,
    };
    let mut next = SESSION.0 - 1;
    let made = new.begin(&server.state, 0, || {
        next += 1;
        SessionId(next)
    });
    assert_eq!(made, SessionId(SESSION.0 + 1));
    assert!(!server.state.sessions().is_local(made));
    let asked = new.request(made, TICKET, [].into());
    assert!(matches!(
        asked.request,
        WriteRequest::CreateSession { timeout_ms: 4000 }
    ));
    assert_eq!(asked.body, 4000i32.to_be_bytes()[..]);
}
