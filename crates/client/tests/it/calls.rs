//! Calls, replies and events of a client that stays connected.

use std::time::Duration;

use crate::support::{FakeConnection, FakeServer, SESSION, soon};
use bytes::Bytes;
use jute::Encode;
use proto::multi::{MultiHeader, encode_error_result};
use proto::request::{CreateRequest, PathWatchRequest};
use proto::response::{CreateResponse, GetDataResponse};
use proto::watch::EventType;
use proto::{ErrorCode, OpCode, Stat, Xid};
use zoarium_client::{Client, Create, Error, MultiOp, MultiResult, Options, State};

async fn connected() -> (Client, FakeConnection, FakeServer) {
    let server = FakeServer::start().await;
    let (client, (connection, _)) =
        tokio::join!(Client::connect(server.options()), server.accept_session());
    (client.unwrap(), connection, server)
}

fn data_reply(data: &'static [u8], version: i32) -> Bytes {
    GetDataResponse {
        data: Some(Bytes::from_static(data)),
        stat: Stat {
            version,
            ..Stat::default()
        },
    }
    .to_bytes()
}

#[tokio::test]
async fn a_new_session_is_requested_and_described() {
    let server = FakeServer::start().await;
    let (client, (_connection, request)) =
        tokio::join!(Client::connect(server.options()), server.accept_session());
    let client = client.unwrap();
    assert_eq!((request.session_id.0, request.timeout_ms), (0, 30_000));
    assert_eq!(request.read_only, Some(false));
    assert_eq!(client.session_id(), SESSION);
    let expected = State::Connected {
        server: server.address.clone(),
        session: SESSION,
        timeout: Duration::from_secs(30),
        read_only: false,
    };
    assert_eq!(*client.state().borrow(), expected);
    assert!(
        !format!("{client:?}").contains("0123456789"),
        "no password in a log"
    );
}

#[tokio::test]
async fn calls_are_pipelined_and_answered_in_order() {
    let (client, mut connection, _server) = connected().await;
    let asked = async { tokio::join!(client.get_data("/a"), client.get_data("/b")) };
    let served = async {
        let first = connection.expect(OpCode::GetData).await;
        let second = connection.expect(OpCode::GetData).await;
        let path = second.record::<PathWatchRequest>().path;
        assert_eq!(path.as_deref(), Some("/b"));
        connection
            .reply(first.header.xid, 1, 0, &data_reply(b"one", 1))
            .await;
        connection
            .reply(second.header.xid, 1, 0, &data_reply(b"two", 2))
            .await;
    };
    let ((a, b), ()) = tokio::join!(asked, served);
    assert_eq!(a.unwrap().0.as_deref(), Some(&b"one"[..]));
    assert_eq!(b.unwrap().1.version, 2);
}

#[tokio::test]
async fn an_error_names_operation_path_server_and_code() {
    let (client, mut connection, server) = connected().await;
    let served = async {
        let request = connection.expect(OpCode::Create).await;
        let record = request.record::<CreateRequest>();
        assert_eq!((record.flags, record.acl.unwrap().len()), (3, 1));
        let code = ErrorCode::NodeExists.code();
        connection.reply(request.header.xid, 5, code, &[]).await;
    };
    let create = Create::ephemeral().sequential();
    let (result, ()) = tokio::join!(client.create("/lock/n-", "", &create), served);
    let error = result.unwrap_err();
    assert_eq!(error.code(), Some(ErrorCode::NodeExists));
    assert!(error.is_node_exists() && !error.is_not_empty());
    assert_eq!(error.path(), Some("/lock/n-"));
    let address = &server.address;
    assert_eq!(
        error.to_string(),
        format!("create /lock/n- at {address}: NodeExists (-110)")
    );
}

#[tokio::test]
async fn exists_of_a_missing_znode_is_not_an_error() {
    let (client, mut connection, _server) = connected().await;
    let served = async {
        let request = connection.expect(OpCode::Exists).await;
        connection.reply(request.header.xid, 5, -101, &[]).await;
    };
    let (result, ()) = tokio::join!(client.exists("/nothing"), served);
    assert_eq!(result.unwrap(), None);
}

#[tokio::test]
async fn an_event_is_visible_before_the_following_reply() {
    let (client, mut connection, _server) = connected().await;
    let mut events = client.events();
    let served = async {
        let request = connection.expect(OpCode::Delete).await;
        connection.event(EventType::NodeDeleted, "/a", 9).await;
        connection.reply(request.header.xid, 9, 0, &[]).await;
    };
    let (result, ()) = tokio::join!(client.delete("/a", -1), served);
    result.unwrap();
    let event = events.try_recv().unwrap();
    assert_eq!(
        (event.kind, &*event.path, event.zxid.0),
        (EventType::NodeDeleted, "/a", 9)
    );
}

#[tokio::test]
async fn a_failed_multi_names_the_operation_at_fault() {
    let (client, mut connection, server) = connected().await;
    let served = async {
        let request = connection.expect(OpCode::Multi).await;
        let mut body = Vec::new();
        encode_error_result(ErrorCode::Ok, &mut body);
        encode_error_result(ErrorCode::BadVersion, &mut body);
        encode_error_result(ErrorCode::RuntimeInconsistency, &mut body);
        MultiHeader::END.encode(&mut body);
        connection.reply(request.header.xid, 9, 0, &body).await;
    };
    let ops = [
        MultiOp::create("/a", "", &Create::persistent()),
        MultiOp::check("/b", 3),
        MultiOp::delete("/c", -1),
    ];
    let (result, ()) = tokio::join!(client.multi(&ops), served);
    let error = result.unwrap_err();
    match error {
        Error::Multi { index, code, .. } => assert_eq!((index, code), (1, -103)),
        other => panic!("{other}"),
    }
    assert!(error.is_bad_version() && !error.is_no_node(), "{error}");
    assert_eq!(error.path(), Some("/b"));
    let beginning = format!("multi /b at {}: operation 1: ", server.address);
    assert!(error.to_string().starts_with(&beginning), "{error}");
}

#[tokio::test]
async fn a_multi_that_succeeds_brings_a_result_for_each_operation() {
    let (client, mut connection, _server) = connected().await;
    let served = async {
        let request = connection.expect(OpCode::Multi).await;
        let mut body = Vec::new();
        MultiHeader::result(OpCode::Create).encode(&mut body);
        CreateResponse { path: "/a".into() }.encode(&mut body);
        MultiHeader::result(OpCode::Delete).encode(&mut body);
        MultiHeader::END.encode(&mut body);
        connection.reply(request.header.xid, 9, 0, &body).await;
    };
    let ops = [
        MultiOp::create("/a", "", &Create::persistent()),
        MultiOp::delete("/c", -1),
    ];
    let (result, ()) = tokio::join!(client.multi(&ops), served);
    let created = MultiResult::Created {
        path: "/a".into(),
        stat: None,
    };
    assert_eq!(result.unwrap(), [created, MultiResult::Deleted]);
}

#[tokio::test]
async fn a_reply_that_does_not_decode_is_an_error_of_that_call_only() {
    let (client, mut connection, _server) = connected().await;
    let served = async {
        let first = connection.expect(OpCode::GetData).await;
        let second = connection.expect(OpCode::Exists).await;
        connection.reply(first.header.xid, 1, 0, &[0, 0, 0]).await;
        connection.reply(second.header.xid, 1, -101, &[]).await;
    };
    let asked = async { tokio::join!(client.get_data("/a"), client.exists("/a")) };
    let ((broken, whole), ()) = tokio::join!(asked, served);
    let text = broken.unwrap_err().to_string();
    assert!(
        text.contains("cannot decode the reply: record ends early"),
        "{text}"
    );
    assert_eq!(whole.unwrap(), None);
}

#[tokio::test]
async fn a_request_too_large_for_servers_is_not_sent() {
    let (client, mut connection, _server) = connected().await;
    let error = client
        .set_data("/a", vec![0; 2 << 20], -1)
        .await
        .unwrap_err();
    assert!(matches!(error, Error::TooLarge { .. }), "{error}");
    let (result, ()) = tokio::join!(client.close(), async {
        let request = connection.expect(OpCode::CloseSession).await;
        connection.reply(request.header.xid, 1, 0, &[]).await;
    });
    result.unwrap();
}

#[tokio::test]
async fn close_ends_the_session_and_everything_after_it_fails() {
    let (client, mut connection, _server) = connected().await;
    let mut events = client.events();
    let other = client.clone();
    let (result, ()) = tokio::join!(client.close(), async {
        let request = connection.expect(OpCode::CloseSession).await;
        connection.reply(request.header.xid, 1, 0, &[]).await;
        connection.closed_by_client().await;
    });
    result.unwrap();
    assert_eq!(*client.state().borrow(), State::Closed);
    let error = other.exists("/a").await.unwrap_err();
    assert_eq!(
        error.to_string(),
        "exists not sent because the client is closed"
    );
    assert!(soon("the end of events", events.recv()).await.is_err());
    client.close().await.unwrap();
    other.close().await.unwrap();
}

#[tokio::test]
async fn concurrent_closes_wait_for_the_end_of_the_session() {
    let (client, mut connection, _server) = connected().await;
    let other = client.clone();
    let served = async {
        let request = connection.expect(OpCode::CloseSession).await;
        let second = tokio::spawn(async move { other.close().await });
        // Nothing is sent after a close.
        let error = client.exists("/a").await.unwrap_err();
        assert!(matches!(error, Error::Closed { .. }), "{error}");
        assert!(!second.is_finished());
        connection.reply(request.header.xid, 1, 0, &[]).await;
        soon("the second close", second).await.unwrap()
    };
    let (first, second) = tokio::join!(client.close(), served);
    first.unwrap();
    second.unwrap();
}

#[tokio::test]
async fn a_close_after_a_lost_close_ends_the_session() {
    let (client, mut first, server) = connected().await;
    let other = client.clone();
    let served = async {
        first.expect(OpCode::CloseSession).await;
        let second = tokio::spawn(async move { other.close().await });
        let error = client.exists("/a").await.unwrap_err();
        assert!(matches!(error, Error::Closed { .. }), "{error}");
        drop(first);
        let (mut next, _) = server.accept_session().await;
        let request = next.expect(OpCode::CloseSession).await;
        next.reply(request.header.xid, 1, 0, &[]).await;
        soon("the second close", second).await.unwrap()
    };
    let (first, second) = tokio::join!(client.close(), served);
    let error = first.unwrap_err();
    assert!(matches!(error, Error::ConnectionLost { .. }), "{error}");
    second.unwrap();
}

#[tokio::test]
async fn dropping_the_last_handle_closes_only_the_socket() {
    let (client, mut connection, _server) = connected().await;
    drop(client);
    connection.closed_by_client().await;
}

#[tokio::test]
async fn an_idle_client_pings() {
    let server = FakeServer::start().await;
    let granted = async {
        let mut connection = server.accept().await;
        connection.read_connect().await;
        connection.grant(300).await;
        let ping = connection.any().await;
        assert_eq!(
            (ping.header.xid, ping.header.op, ping.body.len()),
            (Xid::PING, 11, 0)
        );
    };
    let (client, ()) = tokio::join!(Client::connect(server.options()), granted);
    drop(client.unwrap());
}

#[tokio::test]
async fn a_refused_connection_is_an_error_that_names_the_server() {
    let server = FakeServer::start().await;
    let address = server.address.clone();
    drop(server);
    let error = Client::connect(Options::new(&address)).await.unwrap_err();
    assert!(
        error
            .to_string()
            .starts_with(&format!("cannot connect to {address}: ")),
        "{error}"
    );
    let error = Client::connect(Options::new("")).await.unwrap_err();
    assert!(matches!(error, Error::NoServers));
}

#[tokio::test]
async fn a_server_that_closes_at_the_handshake_is_named() {
    let server = FakeServer::start().await;
    let closing = async { drop(server.accept().await) };
    let (client, ()) = tokio::join!(Client::connect(server.options()), closing);
    let error = client.unwrap_err();
    assert!(matches!(error, Error::Handshake { .. }), "{error}");
}

#[tokio::test]
async fn garbage_instead_of_a_handshake_is_refused() {
    let server = FakeServer::start().await;
    let serving = async {
        let mut connection = server.accept().await;
        connection.read_connect().await;
        connection.send_bytes(b"HTTP/1.1 400\r\n").await;
        connection.closed_by_client().await;
    };
    let (client, ()) = tokio::join!(Client::connect(server.options()), serving);
    let text = client.unwrap_err().to_string();
    assert!(text.contains("frame length 1213486160"), "{text}");
}
