//! Failed logins while others work: each refusal is logged with the address, and no other client is
//! affected.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use client::tls::Connector;
use jute::Encode;
use proto::connect::{ConnectRequest, RequestHeader, SaslToken};
use proto::request::Request;
use proto::{OpCode, SessionId, Xid, Zxid};
use tests::requests::create;
use tests::secrets::{SASL_BOB, WRONG};
use tests::{Bystander, Flavour, RawSession, Server, wait_for};
use transport::sasl::{CLIENTS, ClientExchange, ClientStep};

use crate::clients::{log_in, login, open, send, token};
use crate::files::{Files, server};

const LIMIT: Duration = Duration::from_secs(60);

/// Returns the response of a client that knows the password, before it is sent.
fn response(session: &mut RawSession) -> Vec<u8> {
    let challenge = send(session, b"").expect("an answer");
    let challenge = token(&challenge).expect("a challenge");
    let mut exchange = ClientExchange::new(CLIENTS, [5; 30]);
    match exchange.step(&challenge, &login("bob", SASL_BOB)) {
        Ok(ClientStep::Respond(response)) => response,
        other => panic!("{other:?}"),
    }
}

/// Changes a correct token into the token that is sent.
type Spoil = fn(Vec<u8>) -> Vec<u8>;

/// Tokens that replace the response, and the reasons for their refusal.
const SPOILT: [(&str, Spoil, &str); 7] = [
    (
        "truncated in a value",
        |mut good| {
            let end = good.len() - 4;
            good.truncate(end);
            good
        },
        "the token is not a list of directives",
    ),
    (
        "truncated behind a value",
        |good| {
            let text = String::from_utf8(good).expect("a text");
            text.split(",response=").next().unwrap_or_default().into()
        },
        "the token does not contain response",
    ),
    (
        "oversized",
        |mut good| {
            good.resize(5000, b',');
            good
        },
        "the token has 5000 bytes, the limit is 4096",
    ),
    (
        "out of order: another beginning",
        |_| Vec::new(),
        "the token does not contain username",
    ),
    (
        "a nonce that is used for the second time",
        |good| {
            let text = String::from_utf8(good).expect("a text");
            text.replace("nc=00000001", "nc=00000002").into()
        },
        "the token contains an unsupported value of nc",
    ),
    (
        "a nonce of another exchange",
        |good| {
            let text = String::from_utf8(good).expect("a text");
            text.replacen(",nonce=\"", ",nonce=\"A", 1).into()
        },
        "the nonce belongs to another exchange",
    ),
    (
        "a realm of another service",
        |good| {
            let text = String::from_utf8(good).expect("a text");
            text.replace("realm=\"zk-sasl-md5\"", "realm=\"other\"")
                .into()
        },
        "the token contains an unsupported value of realm",
    ),
];

/// Waits for a refusal of this peer.
fn refused(server: &Server, peer: &str, reason: &str) {
    let line = wait_for(reason, LIMIT, || {
        let log = server.log();
        let mut lines = log.lines();
        let of_peer = |line: &&str| line.contains(&format!("peer={peer} "));
        let line = lines.find(|line| of_peer(line) && line.contains("SASL login failed"));
        line.map(str::to_owned)
    });
    assert!(line.contains(reason), "{line}");
}

#[test]
fn each_bad_token_is_logged_without_effect_on_others() {
    let files = Files::new();
    let Some(server) = server(Flavour::Zoarium, &files) else {
        return;
    };
    let bystander = Bystander::start(&server.address(), Connector::plain());
    for (what, spoil, reason) in SPOILT {
        let mut session = open(&server.address());
        let token = spoil(response(&mut session));
        let answer = send(&mut session, &token).expect("an answer");
        assert_eq!(answer.err, -115, "{what}");
        refused(&server, &session.local_address().to_string(), reason);
        assert!(session.sync().is_err(), "{what}: the connection is closed");
    }
    // A correct response, sent again in its own exchange, which has ended.
    let mut session = open(&server.address());
    let token = response(&mut session);
    assert_eq!(send(&mut session, &token).expect("an answer").err, 0);
    assert_eq!(send(&mut session, &token).expect("an answer").err, -115);
    let peer = session.local_address().to_string();
    refused(&server, &peer, "the login has already ended");
    bystander.finish();
}

/// For a known and for an unknown name.
#[test]
fn wrong_and_empty_passwords_are_refused_equally() {
    let files = Files::new();
    let Some(server) = server(Flavour::Zoarium, &files) else {
        return;
    };
    let bystander = Bystander::start(&server.address(), Connector::plain());
    for (user, password) in [
        ("bob", WRONG),
        ("bob", ""),
        ("nobody", SASL_BOB),
        ("nobody", ""),
        ("", SASL_BOB),
    ] {
        let mut session = open(&server.address());
        assert_eq!(log_in(&mut session, user, password), Err(-115), "{user:?}");
        let peer = session.local_address().to_string();
        refused(&server, &peer, "wrong name or password");
    }
    let mut good = open(&server.address());
    assert_eq!(log_in(&mut good, "bob", SASL_BOB), Ok(()));
    bystander.finish();
}

const STUCK: usize = 2000;

fn frame(body: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
    let mut bytes = vec![0; 4];
    body(&mut bytes);
    let len = i32::try_from(bytes.len() - 4).expect("a small frame");
    bytes[..4].copy_from_slice(&len.to_be_bytes());
    bytes
}

fn next_frame(stream: &mut TcpStream) -> Vec<u8> {
    let mut len = [0; 4];
    stream.read_exact(&mut len).expect("the length of a frame");
    let len = usize::try_from(i32::from_be_bytes(len)).expect("a length");
    let mut frame = vec![0; len];
    stream.read_exact(&mut frame).expect("a frame");
    frame
}

/// Opens a connection that gets its challenge and does not answer it.
fn stuck(address: &str) -> TcpStream {
    let mut stream = TcpStream::connect(address).expect("a connection");
    stream.set_read_timeout(Some(LIMIT)).expect("a time limit");
    let hello = ConnectRequest {
        protocol_version: 0,
        last_zxid_seen: Zxid::ZERO,
        timeout_ms: 10_000,
        session_id: SessionId::NONE,
        password: Some(bytes::Bytes::from_static(&[0; 16])).into(),
        read_only: Some(false),
    };
    let mut bytes = frame(|out| hello.encode(out));
    bytes.extend(frame(|out| {
        let (xid, op) = (Xid(1), OpCode::Sasl.number());
        RequestHeader { xid, op }.encode(out);
        let token = Some(bytes::Bytes::new());
        let token = token.into();
        SaslToken { token }.encode(out);
    }));
    stream.write_all(&bytes).expect("a request");
    stream
}

/// They cost little and do not delay other clients.
#[test]
fn two_thousand_stalled_logins_do_not_block_others() {
    let files = Files::new();
    let Some(server) = server(Flavour::under_test(), &files) else {
        return;
    };
    let bystander = Bystander::start(&server.address(), Connector::plain());
    let mut streams: Vec<TcpStream> = (0..STUCK).map(|_| stuck(&server.address())).collect();
    for stream in &mut streams {
        next_frame(stream);
        let challenge = next_frame(stream);
        assert!(String::from_utf8_lossy(&challenge).contains("nonce="));
    }
    assert!(streams.len() == STUCK);
    let mut session = open(&server.address());
    assert_eq!(log_in(&mut session, "bob", SASL_BOB), Ok(()));
    let made = session.call(&Request::Write(create("/a", "", 0)));
    assert_eq!(made.expect("an answer").err, 0);
    bystander.finish();
}
