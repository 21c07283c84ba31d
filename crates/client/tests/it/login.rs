//! SASL logins, which precede any request on each connection and always require proof.

use bytes::Bytes;
use jute::Encode;
use proto::connect::SaslToken;
use proto::response::StatResponse;
use proto::{OpCode, Stat};
use transport::sasl::{CLIENTS, NONCE_BYTES, SaslUsers, ServerExchange, ServerStep};
use zoarium_client::{Client, Error, Login, LoginFailure, Options, Refusal, Secret, State};

use crate::support::{FakeConnection, FakeServer, SESSION, soon};

const PASSWORD: &str = "b0bsecret";

fn users(password: &str) -> SaslUsers {
    SaslUsers::new([("bob".to_owned(), Secret::new(password))])
}

fn options(server: &FakeServer) -> Options {
    let login = Login::digest_md5("bob", Secret::new(PASSWORD));
    server.options().with_login(login)
}

/// Returns the next request, which must be a token.
async fn take(connection: &mut FakeConnection) -> (proto::Xid, Bytes) {
    let request = connection.any().await;
    assert_eq!(request.header.op, OpCode::Sasl.number());
    let token = request.record::<SaslToken>().token;
    (request.header.xid, token.into_exposed().expect("a token"))
}

async fn answer(connection: &mut FakeConnection, xid: proto::Xid, token: Option<Vec<u8>>) {
    let token = token.map(Bytes::from);
    let body = SaslToken {
        token: token.into(),
    }
    .to_bytes();
    connection.reply(xid, 1, 0, &body).await;
}

/// Acts as a server with these users. Returns the user, or the error code in the answer.
async fn admit(connection: &mut FakeConnection, users: &SaslUsers) -> Result<String, i32> {
    let mut exchange = ServerExchange::new(CLIENTS, [7; NONCE_BYTES]);
    loop {
        let (xid, token) = take(connection).await;
        match exchange.step(&token, users) {
            Ok(ServerStep::Challenge(token)) => answer(connection, xid, Some(token)).await,
            Ok(ServerStep::Done { token, user, .. }) => {
                answer(connection, xid, Some(token)).await;
                return Ok(user);
            }
            other => {
                assert!(matches!(other, Err(Refusal::WrongPassword)), "{other:?}");
                connection.reply(xid, 1, -115, &[]).await;
                return Err(-115);
            }
        }
    }
}

async fn answer_exists(connection: &mut FakeConnection) {
    let request = connection.expect(OpCode::Exists).await;
    let stat = Stat::default();
    let body = StatResponse { stat }.to_bytes();
    connection.reply(request.header.xid, 2, 0, &body).await;
}

async fn logged_in(server: &FakeServer) -> (Client, FakeConnection) {
    let admitted = async {
        let (mut connection, _) = server.accept_session().await;
        assert_eq!(
            admit(&mut connection, &users(PASSWORD)).await.unwrap(),
            "bob"
        );
        connection
    };
    let (client, connection) = tokio::join!(Client::connect(options(server)), admitted);
    (client.unwrap(), connection)
}

/// Returns the error of a connection to a server that runs `serve`.
async fn failure(serve: impl AsyncFnOnce(&mut FakeConnection)) -> Error {
    let server = FakeServer::start().await;
    let serving = async {
        let (mut connection, _) = server.accept_session().await;
        serve(&mut connection).await;
        connection.closed_by_client().await;
    };
    let (client, ()) = tokio::join!(Client::connect(options(&server)), serving);
    client.unwrap_err()
}

#[tokio::test]
async fn a_connection_logs_in_again_before_its_requests() {
    let server = FakeServer::start().await;
    let (client, mut first) = logged_in(&server).await;
    let (there, ()) = tokio::join!(client.exists("/a"), answer_exists(&mut first));
    assert!(there.unwrap().is_some());
    let mut state = client.state();
    drop(first);
    let lost = state.wait_for(|state| *state == State::Reconnecting);
    soon("the loss", lost).await.unwrap();

    // A request waits for the next connection and its login.
    let serving = async {
        let (mut second, request) = server.accept_session().await;
        assert_eq!(request.session_id, SESSION);
        assert_eq!(admit(&mut second, &users(PASSWORD)).await.unwrap(), "bob");
        answer_exists(&mut second).await;
    };
    let (there, ()) = tokio::join!(client.exists("/a"), serving);
    assert!(there.unwrap().is_some());
}

#[tokio::test]
async fn a_wrong_password_is_a_separate_error_and_not_retried() {
    let server = FakeServer::start().await;
    let refusing = async {
        let (mut connection, _) = server.accept_session().await;
        assert_eq!(admit(&mut connection, &users("another")).await, Err(-115));
    };
    let two = format!("{0},{0}", server.address);
    let login = Login::digest_md5("bob", Secret::new(PASSWORD));
    let options = Options::new(&two).with_login(login);
    let (client, ()) = tokio::join!(Client::connect(options), refusing);
    let error = client.unwrap_err();
    let Error::Login { reason, .. } = &error else {
        panic!("{error}");
    };
    assert_eq!(*reason, LoginFailure::Refused(-115));
    assert!(error.ends_session());
    let expected = format!(
        "login at {} failed: the server refused the user name or password: AuthFailed (-115)",
        server.address
    );
    assert_eq!(error.to_string(), expected);
}

#[tokio::test]
async fn a_login_that_is_refused_on_reconnect_ends_the_client() {
    let server = FakeServer::start().await;
    let (client, first) = logged_in(&server).await;
    drop(first);
    let refusing = async {
        let (mut second, _) = server.accept_session().await;
        assert_eq!(admit(&mut second, &users("another")).await, Err(-115));
    };
    let (waiting, ()) = tokio::join!(client.exists("/a"), refusing);
    let mut state = client.state();
    let ended = state.wait_for(|state| matches!(state, State::LoginRefused { .. }));
    soon("the end", ended).await.unwrap();
    for error in [waiting.unwrap_err(), client.exists("/a").await.unwrap_err()] {
        let is_refusal = matches!(
            &error,
            Error::Login {
                reason: LoginFailure::Refused(-115),
                ..
            }
        );
        // The call may have been in flight when the first connection ended.
        assert!(
            is_refusal || matches!(error, Error::ConnectionLost { .. }),
            "{error}"
        );
    }
}

#[tokio::test]
async fn a_server_without_sasl_does_not_count_as_logged_in() {
    let error = failure(async |connection| {
        let (xid, first) = take(connection).await;
        assert!(first.is_empty());
        answer(connection, xid, None).await;
    });
    let error = error.await;
    let Error::Login { reason, .. } = &error else {
        panic!("{error}");
    };
    assert_eq!(*reason, LoginFailure::NoToken);
}

#[tokio::test]
async fn a_server_that_does_not_prove_the_password_is_rejected() {
    for (last, reason) in [
        (
            &b"rspauth=00000000000000000000000000000000"[..],
            LoginFailure::ServerUnproven,
        ),
        (b"rspauth", LoginFailure::Token(Refusal::Malformed)),
        (
            b"nonce=\"x\"",
            LoginFailure::Token(Refusal::Missing("rspauth")),
        ),
    ] {
        let error = failure(async |connection| {
            let mut exchange = ServerExchange::new(CLIENTS, [7; NONCE_BYTES]);
            let (xid, token) = take(connection).await;
            let Ok(ServerStep::Challenge(token)) = exchange.step(&token, &users("any")) else {
                panic!("no challenge");
            };
            answer(connection, xid, Some(token)).await;
            let (xid, _) = take(connection).await;
            answer(connection, xid, Some(last.to_vec())).await;
        });
        match error.await {
            Error::Login { reason: found, .. } => assert_eq!(found, reason),
            other => panic!("{other}"),
        }
    }
}

#[tokio::test]
async fn too_long_tokens_and_unexpected_replies_end_the_connection() {
    let error = failure(async |connection| {
        let (xid, _) = take(connection).await;
        answer(connection, xid, Some(vec![b'a'; 4000])).await;
    });
    let error = error.await;
    let Error::Login {
        reason: LoginFailure::Token(reason),
        ..
    } = &error
    else {
        panic!("{error}");
    };
    assert!(matches!(reason, Refusal::TooLong { len: 4000, .. }));

    // The length exceeds every token, so the client refuses the frame by its length alone.
    let error = failure(async |connection| {
        take(connection).await;
        connection.send_bytes(&(1i32 << 20).to_be_bytes()).await;
    });
    let text = error.await.to_string();
    assert!(text.contains("frame length 1048576"), "{text}");

    let error = failure(async |connection| {
        take(connection).await;
        answer(connection, proto::Xid(9), Some(Vec::new())).await;
    });
    let text = error.await.to_string();
    assert!(text.contains("reply with xid 9"), "{text}");
}

#[test]
fn no_password_appears_in_debug_output() {
    let login = Login::digest_md5("bob", Secret::new(PASSWORD));
    let options = Options::new("a").with_login(login.clone());
    let handshake = zoarium_client::Handshake::default().with_login(login);
    let shown = format!("{options:?} {handshake:?}");
    assert!(shown.contains("DIGEST-MD5 as \"bob\""), "{shown}");
    assert!(!shown.contains(PASSWORD), "{shown}");
}
