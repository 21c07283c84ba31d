//! Calls that send several requests, and calls that wait for states.

use std::time::Duration;

use bytes::Bytes;
use jute::{Encode, Reader};
use proto::multi::{MultiHeader, encode_error_result};
use proto::request::{PathWatchRequest, Request, WriteRequest};
use proto::response::{CreateResponse, NamesResponse};
use proto::{ErrorCode, OpCode};
use zoarium_client::{Client, Create, Error, MultiResult, Stat, State};

use crate::support::{FakeConnection, FakeServer, Received, soon};

async fn connected(server: &FakeServer) -> (Client, FakeConnection) {
    let (client, (connection, _)) =
        tokio::join!(Client::connect(server.options()), server.accept_session());
    (client.unwrap(), connection)
}

async fn answer_children(connection: &mut FakeConnection, path: &str, names: &[&str]) {
    let request = connection.expect(OpCode::GetChildren).await;
    let asked = request.record::<PathWatchRequest>();
    assert_eq!(asked.path.as_deref(), Some(path));
    let names = names.iter().map(|name| (*name).into()).collect();
    let body = NamesResponse { names }.to_bytes();
    connection.reply(request.header.xid, 1, 0, &body).await;
}

/// Returns the opcode and the path of each operation.
fn operations(request: &Received) -> Vec<(OpCode, String)> {
    let mut input = Reader::new(request.body.clone());
    let request = Request::decode(OpCode::Multi, &mut input).unwrap();
    let Request::Write(WriteRequest::Multi(Ok(writes))) = request else {
        panic!("{request:?}");
    };
    let described = |write: &WriteRequest| (write.op(), write.path().unwrap().to_string());
    writes.iter().map(described).collect()
}

/// Answers a multi that deletes `paths`. `fault` is the index and the code of a failed deletion.
async fn answer_deletions(
    connection: &mut FakeConnection,
    paths: &[&str],
    fault: Option<(usize, ErrorCode)>,
) {
    let request = connection.expect(OpCode::Multi).await;
    let deletion = |path: &&str| (OpCode::Delete, (*path).to_owned());
    let deletions: Vec<_> = paths.iter().map(deletion).collect();
    assert_eq!(operations(&request), deletions);
    let mut body = Vec::new();
    for index in 0..paths.len() {
        match fault {
            None => MultiHeader::result(OpCode::Delete).encode(&mut body),
            Some((failed, code)) if failed == index => encode_error_result(code, &mut body),
            Some((failed, _)) if failed > index => encode_error_result(ErrorCode::Ok, &mut body),
            Some(_) => encode_error_result(ErrorCode::RuntimeInconsistency, &mut body),
        }
    }
    MultiHeader::END.encode(&mut body);
    connection.reply(request.header.xid, 1, 0, &body).await;
}

#[tokio::test]
async fn delete_all_adapts_to_concurrent_changes() {
    let server = FakeServer::start().await;
    let (client, mut connection) = connected(&server).await;
    let served = async {
        answer_children(&mut connection, "/t", &["a", "b"]).await;
        answer_children(&mut connection, "/t/a", &[]).await;
        answer_children(&mut connection, "/t/b", &[]).await;
        // Another client has deleted /t/b, and then creates /t/c.
        let gone = Some((0, ErrorCode::NoNode));
        answer_deletions(&mut connection, &["/t/b", "/t/a", "/t"], gone).await;
        let full = Some((1, ErrorCode::NotEmpty));
        answer_deletions(&mut connection, &["/t/a", "/t"], full).await;
        answer_deletions(&mut connection, &["/t/a"], None).await;
        answer_children(&mut connection, "/t", &["c"]).await;
        answer_children(&mut connection, "/t/c", &[]).await;
        answer_deletions(&mut connection, &["/t/c", "/t"], None).await;
    };
    let (result, ()) = tokio::join!(client.delete_all("/t"), served);
    result.unwrap();
    let error = client.delete_all("/").await.unwrap_err();
    assert_eq!(
        error.to_string(),
        "\"/\" is not a valid path: it is the root"
    );
}

#[tokio::test]
async fn delete_all_ends_if_others_create_znodes_faster() {
    let server = FakeServer::start().await;
    let (client, mut connection) = connected(&server).await;
    let served = async {
        for _ in 0..16 {
            answer_children(&mut connection, "/t", &[]).await;
            let full = Some((0, ErrorCode::NotEmpty));
            answer_deletions(&mut connection, &["/t"], full).await;
        }
    };
    let (result, ()) = tokio::join!(client.delete_all("/t"), served);
    let error = result.unwrap_err();
    assert!(error.is_not_empty(), "{error}");
    assert_eq!(error.path(), Some("/t"));
}

#[tokio::test]
async fn ensure_path_creates_only_what_is_missing() {
    let server = FakeServer::start().await;
    let options = server.options().with_chroot("/app");
    let (client, (mut connection, _)) =
        tokio::join!(Client::connect(options), server.accept_session());
    let client = client.unwrap();
    let answer_create = async |connection: &mut FakeConnection, path: &str, code: i32| {
        let request = connection.expect(OpCode::Create).await;
        let record = request.record::<proto::request::CreateRequest>();
        assert_eq!(record.path.as_deref(), Some(path));
        let body = CreateResponse { path: path.into() }.to_bytes();
        let body = if code == 0 { body } else { Bytes::new() };
        connection.reply(request.header.xid, 1, code, &body).await;
    };
    let no_node = ErrorCode::NoNode.code();
    let served = async {
        let request = connection.expect(OpCode::Exists).await;
        connection.reply(request.header.xid, 1, no_node, &[]).await;
        answer_create(&mut connection, "/app/a/b", no_node).await;
        answer_create(&mut connection, "/app/a", no_node).await;
        answer_create(&mut connection, "/app", 0).await;
        // Another client creates and deletes the same znodes.
        let exists = ErrorCode::NodeExists.code();
        answer_create(&mut connection, "/app/a", exists).await;
        answer_create(&mut connection, "/app/a/b", no_node).await;
        answer_create(&mut connection, "/app/a", 0).await;
        answer_create(&mut connection, "/app/a/b", 0).await;
    };
    let (result, ()) = tokio::join!(client.ensure_path("/a/b"), served);
    result.unwrap();
}

#[tokio::test]
async fn retry_repeats_a_call_after_a_lost_connection() {
    let server = FakeServer::start().await;
    let (client, mut first) = connected(&server).await;
    let served = async {
        first.expect(OpCode::Exists).await;
        drop(first);
        let (mut second, _) = server.accept_session().await;
        let request = second.expect(OpCode::Exists).await;
        let no_node = ErrorCode::NoNode.code();
        second.reply(request.header.xid, 1, no_node, &[]).await;
        // A refusal counts as an answer.
        let request = second.expect(OpCode::Delete).await;
        second.reply(request.header.xid, 1, no_node, &[]).await;
        second
    };
    let calls = async {
        let found = client.retry(|| client.exists("/a")).await;
        let deleted = client.retry(|| client.delete("/a", -1)).await;
        (found, deleted)
    };
    let ((found, deleted), connection) = tokio::join!(calls, served);
    assert_eq!(found.unwrap(), None);
    assert!(deleted.unwrap_err().is_no_node());
    drop(connection);

    // The session ends, so the call receives no answer.
    let refusing = async {
        let mut connection = server.accept().await;
        connection.read_connect().await;
        connection.refuse().await;
    };
    let (result, ()) = tokio::join!(client.retry(|| client.exists("/a")), refusing);
    assert!(result.unwrap_err().ends_session());
}

#[tokio::test]
async fn a_wait_for_a_state_ends_with_the_session() {
    let server = FakeServer::start().await;
    let (client, first) = connected(&server).await;
    let connected = |state: &State| state.connected_session().is_some();
    let now = soon("a state", client.wait_for_state(connected)).await;
    assert!(now.unwrap().connected_session().is_some());
    drop(first);
    let lost = client.wait_for_state(|state| *state == State::Reconnecting);
    soon("the loss", lost).await.unwrap();
    let refusing = async {
        let mut connection = server.accept().await;
        connection.read_connect().await;
        connection.refuse().await;
    };
    let (result, ()) = tokio::join!(client.wait_for_state(connected), refusing);
    let error = result.unwrap_err();
    assert!(matches!(error, Error::SessionExpired { .. }), "{error}");
    let expired = client.wait_for_state(|state| *state == State::Expired);
    assert_eq!(soon("the end", expired).await.unwrap(), State::Expired);
}

#[tokio::test]
async fn connect_waits_for_a_server_that_does_not_serve_yet() {
    let server = FakeServer::start().await;
    let served = async {
        drop(server.accept().await);
        drop(server.accept().await);
        server.accept_session().await
    };
    let options = server.options().with_wait(Duration::from_secs(60));
    let (client, _session) = tokio::join!(Client::connect(options), served);
    drop(client.unwrap());

    let closing = async {
        loop {
            drop(server.accept().await);
        }
    };
    let options = server.options().with_wait(Duration::from_millis(50));
    let error = tokio::select! {
        result = soon("the end", Client::connect(options)) => result.unwrap_err(),
        () = closing => unreachable!("it accepts forever"),
    };
    assert!(matches!(error, Error::Handshake { .. }), "{error}");
}

#[tokio::test]
async fn a_transaction_sends_its_operations_together() {
    let server = FakeServer::start().await;
    let (client, mut connection) = connected(&server).await;
    let served = async {
        let request = connection.expect(OpCode::Multi).await;
        let expected = [
            (OpCode::Check, "/a"),
            (OpCode::Create, "/b"),
            (OpCode::SetData, "/c"),
            (OpCode::Delete, "/d"),
        ];
        let expected = expected.map(|(op, path)| (op, path.to_owned()));
        assert_eq!(operations(&request), expected);
        let mut body = Vec::new();
        MultiHeader::result(OpCode::Check).encode(&mut body);
        MultiHeader::result(OpCode::Create).encode(&mut body);
        CreateResponse { path: "/b".into() }.encode(&mut body);
        MultiHeader::result(OpCode::SetData).encode(&mut body);
        Stat::default().encode(&mut body);
        MultiHeader::result(OpCode::Delete).encode(&mut body);
        MultiHeader::END.encode(&mut body);
        connection.reply(request.header.xid, 1, 0, &body).await;
    };
    let transaction = client
        .transaction()
        .check("/a", 1)
        .create("/b", "", &Create::persistent())
        .set_data("/c", "", -1)
        .delete("/d", -1);
    let (results, ()) = tokio::join!(transaction.commit(), served);
    let created = MultiResult::Created {
        path: "/b".into(),
        stat: None,
    };
    let set = MultiResult::Set(Stat::default());
    let expected = [MultiResult::Checked, created, set, MultiResult::Deleted];
    assert_eq!(results.unwrap(), expected);
}
