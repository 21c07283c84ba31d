//! Tokens that no client sends, and servers that require a login.

use bytes::Bytes;
use proto::request::{CreateRequest, Request, WriteRequest};
use proto::{Acl, Id, OpCode};
use tests::requests::{create, create_with, get_data};
use tests::secrets::{SASL_BOB, SASL_SUPER};
use tests::{Flavour, RawSession, or_skip};
use transport::sasl::{CLIENTS, ClientExchange, ClientStep};

use crate::clients::{log_in, login, open, respond, send, token};
use crate::files::{Files, builder};

/// Runs a test with a server of each implementation: their answers are compared with the same
/// words.
fn both(test: impl Fn(&tests::Server, Flavour), settings: &[(&str, &str)]) {
    for flavour in [Flavour::under_test(), Flavour::Apache] {
        let files = Files::new();
        let mut builder = builder(flavour, &files);
        for (key, value) in settings {
            builder = builder.setting(key, value);
        }
        let Some(server) = or_skip("SASL", builder.start()) else {
            return;
        };
        test(&server, flavour);
    }
}

#[test]
#[ignore = "runs other people's programs"]
fn bad_tokens_are_refused_and_end_the_connection() {
    both(
        |server, flavour| {
            let long = vec![b'a'; 5000];
            let mut session = open(&server.address());
            let answer = send(&mut session, &long).expect("an answer");
            assert_eq!(answer.err, -115, "{flavour:?}");
            for bad in [&b"x"[..], b"a=b", b"username=\"bob\"", b"\0\xff", &long] {
                let mut session = open(&server.address());
                // The contents of the first token are ignored.
                let challenge = send(&mut session, b"x").expect("a challenge");
                assert_eq!(challenge.err, 0, "{flavour:?}");
                assert_eq!(
                    send(&mut session, bad).expect("an answer").err,
                    -115,
                    "{flavour:?}"
                );
            }
        },
        &[],
    );
}

#[test]
#[ignore = "runs other people's programs"]
fn a_replayed_token_is_refused() {
    both(
        |server, flavour| {
            let login = login("bob", SASL_BOB);
            let mut session = open(&server.address());
            let challenge = token(&send(&mut session, b"").expect("an answer")).expect("a token");
            let mut exchange = ClientExchange::new(CLIENTS, [5; 30]);
            let Ok(ClientStep::Respond(response)) = exchange.step(&challenge, &login) else {
                panic!("no response");
            };
            assert_eq!(send(&mut session, &response).expect("an answer").err, 0);
            // On another connection.
            let mut other = open(&server.address());
            send(&mut other, b"").expect("a challenge");
            assert_eq!(
                send(&mut other, &response).expect("an answer").err,
                -115,
                "{flavour:?}"
            );
            // On the same connection.
            assert_eq!(
                send(&mut session, &response).expect("an answer").err,
                -115,
                "{flavour:?}"
            );
            assert!(session.sync().is_err(), "{flavour:?}");
        },
        &[],
    );
}

/// Source: ZooKeeperServer.shouldAllowSaslFailedClientsConnect.
#[test]
#[ignore = "runs other people's programs"]
fn failed_logins_may_continue_if_configured() {
    both(
        |server, flavour| {
            let login = login("bob", "wrong");
            let mut session = open(&server.address());
            let mut exchange = ClientExchange::new(CLIENTS, [5; 30]);
            let answer = respond(&mut session, &mut exchange, &login).expect("an answer");
            assert_eq!((answer.err, token(&answer)), (0, None), "{flavour:?}");
            let path = format!("/{flavour:?}");
            let answer = session.call(&Request::Write(create(&path, "", 0)));
            assert_eq!(answer.expect("an answer").err, 0);
            let again = send(&mut session, b"").expect("an answer");
            assert_eq!((again.err, token(&again)), (0, None), "{flavour:?}");
        },
        &[("allowSaslFailedClients", "true")],
    );
}

#[test]
#[ignore = "runs other people's programs"]
fn required_sasl_refuses_all_requests_before_the_login() {
    for setting in [
        &[("sessionRequireClientSASLAuth", "true")][..],
        &[
            ("enforce.auth.enabled", "true"),
            ("enforce.auth.schemes", "sasl"),
        ],
    ] {
        both(
            |server, flavour| {
                let mut session = open(&server.address());
                let answer = session.call(&Request::Write(create("/a", "", 0)));
                assert_eq!(answer.expect("an answer").err, -124, "{flavour:?}");
                let mut session = open(&server.address());
                assert_eq!(
                    log_in(&mut session, "bob", "wrong"),
                    Err(-124),
                    "{flavour:?}"
                );
                let mut session = open(&server.address());
                assert_eq!(log_in(&mut session, "bob", SASL_BOB), Ok(()));
                let answer = session.call(&Request::Write(create("/a", "", 0)));
                assert_eq!(answer.expect("an answer").err, 0, "{flavour:?}");
            },
            setting,
        );
    }
}

fn create_for(path: &str, scheme: &str, id: &str) -> Request {
    let id = Id {
        scheme: scheme.into(),
        id: id.into(),
    };
    let acl = [Acl { perms: 31, id }];
    let create = create_with(OpCode::Create, path, Some(Bytes::new()), 0, &acl, -1);
    let WriteRequest::Create { request, .. } = &create else {
        panic!("no create");
    };
    let CreateRequest { path: Some(_), .. } = request else {
        panic!("no path");
    };
    Request::Write(create)
}

fn err(session: &mut RawSession, request: &Request) -> i32 {
    session.call(request).expect("an answer").err
}

#[test]
#[ignore = "runs other people's programs"]
fn acls_of_the_scheme_sasl_admit_the_named_users() {
    both(
        |server, flavour| {
            let mut bob = open(&server.address());
            log_in(&mut bob, "bob", SASL_BOB).expect("bob is in");
            let mut admin = open(&server.address());
            log_in(&mut admin, "super", SASL_SUPER).expect("super is in");
            let mut stranger = open(&server.address());
            assert_eq!(err(&mut bob, &create_for("/own", "sasl", "bob")), 0);
            assert_eq!(err(&mut bob, &create_for("/auth", "auth", "")), 0);
            assert_eq!(err(&mut bob, &create_for("/eve", "sasl", "eve")), 0);
            assert_eq!(err(&mut bob, &create_for("/any", "sasl", "anybody")), 0);
            assert_eq!(err(&mut bob, &create_for("/bad", "sasl", "a@b@c")), -114);
            for (path, of_bob, of_admin) in [
                ("/own", 0, 0),
                ("/auth", 0, 0),
                ("/eve", -102, 0),
                ("/any", 0, 0),
            ] {
                let read = get_data(path);
                assert_eq!(err(&mut bob, &read), of_bob, "{path} {flavour:?}");
                assert_eq!(err(&mut admin, &read), of_admin, "{path} {flavour:?}");
                assert_eq!(err(&mut stranger, &read), -102, "{path} {flavour:?}");
            }
        },
        &[("letAnySaslUserDoX", "anybody")],
    );
}
