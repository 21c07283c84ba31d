//! Futures that are dropped before they end: one test for each statement of the documentation.

use std::pin::pin;
use std::task::Poll;

use bytes::Bytes;
use jute::Encode;
use proto::multi::MultiHeader;
use proto::response::{CreateResponse, ErrorResponse, GetDataResponse, NamesResponse};
use proto::watch::EventType;
use proto::{ErrorCode, OpCode};
use zoarium_client::{AddWatchMode, Change, Client, Stat, State};

use crate::support::{FakeConnection, FakeServer, soon};

async fn connected(server: &FakeServer) -> (Client, FakeConnection) {
    let (client, (connection, _)) =
        tokio::join!(Client::connect(server.options()), server.accept_session());
    (client.unwrap(), connection)
}

/// Polls the future once, and drops it while it waits.
async fn dropped<T>(future: impl Future<Output = T>) {
    let mut future = pin!(future);
    std::future::poll_fn(|context| {
        assert!(
            future.as_mut().poll(context).is_pending(),
            "it did not wait"
        );
        Poll::Ready(())
    })
    .await;
}

/// Answers a request with this body, or with an error code.
async fn answer(connection: &mut FakeConnection, op: OpCode, body: Result<Bytes, ErrorCode>) {
    let request = connection.expect(op).await;
    let code = body.as_ref().err().map_or(0, |code| code.code());
    let body = body.unwrap_or_default();
    connection.reply(request.header.xid, 1, code, &body).await;
}

fn data() -> Result<Bytes, ErrorCode> {
    let stat = Stat::default();
    Ok(GetDataResponse { data: None, stat }.to_bytes())
}

#[tokio::test]
async fn the_answer_of_a_sent_call_is_discarded() {
    let server = FakeServer::start().await;
    let (client, mut connection) = connected(&server).await;
    let request = tokio::select! {
        _ = client.delete("/a", 1) => panic!("nobody answered"),
        request = connection.expect(OpCode::Delete) => request,
    };
    let refused = ErrorCode::BadVersion.code();
    connection.reply(request.header.xid, 1, refused, &[]).await;
    // The next call receives its own answer.
    let served = answer(&mut connection, OpCode::GetData, data());
    let (found, ()) = tokio::join!(client.get_data("/b"), served);
    found.unwrap();
}

#[tokio::test]
async fn a_dropped_wait_for_a_watch_loses_no_change() {
    let server = FakeServer::start().await;
    let (client, mut connection) = connected(&server).await;
    let served = answer(&mut connection, OpCode::GetData, data());
    let (watched, ()) = tokio::join!(client.watch_data("/a"), served);
    let (_, _, mut watch) = watched.unwrap();
    dropped(watch.changed()).await;
    connection.event(EventType::NodeDataChanged, "/a", 7).await;
    let event = soon("the event", watch.changed()).await.unwrap();
    assert_eq!((event.kind, event.zxid.0), (EventType::NodeDataChanged, 7));
}

#[tokio::test]
async fn a_dropped_wait_for_a_stream_loses_no_change() {
    let server = FakeServer::start().await;
    let (client, mut connection) = connected(&server).await;
    let done = Ok(ErrorResponse { err: 0 }.to_bytes());
    let served = answer(&mut connection, OpCode::AddWatch, done);
    let mode = AddWatchMode::Persistent;
    let (stream, ()) = tokio::join!(client.watch_stream("/a", mode), served);
    let mut stream = stream.unwrap();
    dropped(stream.next()).await;
    for zxid in [7, 8] {
        connection
            .event(EventType::NodeDataChanged, "/a", zxid)
            .await;
    }
    for zxid in [7, 8] {
        let change = soon("an event", stream.next()).await.unwrap();
        assert!(matches!(change, Change::Event(event) if event.zxid.0 == zxid));
    }
    dropped(stream.next()).await;
}

#[tokio::test]
async fn a_dropped_wait_for_a_state_can_be_repeated() {
    let server = FakeServer::start().await;
    let (client, connection) = connected(&server).await;
    let is_reconnecting = |state: &State| *state == State::Reconnecting;
    dropped(client.wait_for_state(is_reconnecting)).await;
    drop(connection);
    let state = soon("the loss", client.wait_for_state(is_reconnecting)).await;
    assert_eq!(state.unwrap(), State::Reconnecting);
}

#[tokio::test]
async fn a_dropped_connect_closes_its_connection() {
    let server = FakeServer::start().await;
    let accepted = async {
        let mut connection = server.accept().await;
        connection.read_connect().await;
        connection
    };
    let mut connection = tokio::select! {
        _ = Client::connect(server.options()) => panic!("nobody answered"),
        connection = accepted => connection,
    };
    connection.closed_by_client().await;
}

#[tokio::test]
async fn a_dropped_close_can_be_repeated() {
    let server = FakeServer::start().await;
    let (client, mut connection) = connected(&server).await;
    let request = tokio::select! {
        _ = client.close() => panic!("nobody answered"),
        request = connection.expect(OpCode::CloseSession) => request,
    };
    let served = async {
        connection.reply(request.header.xid, 1, 0, &[]).await;
        drop(connection);
    };
    let (closed, ()) = tokio::join!(soon("the end", client.close()), served);
    closed.unwrap();
    assert_eq!(*client.state().borrow(), State::Closed);
}

#[tokio::test]
async fn a_dropped_ensure_path_can_be_repeated() {
    let server = FakeServer::start().await;
    let (client, mut connection) = connected(&server).await;
    let created = |path: &str| Ok(CreateResponse { path: path.into() }.to_bytes());
    let missing = || Err(ErrorCode::NoNode);
    let begun = async {
        answer(&mut connection, OpCode::Exists, missing()).await;
        answer(&mut connection, OpCode::Create, missing()).await;
        answer(&mut connection, OpCode::Create, created("/a")).await;
        connection.expect(OpCode::Create).await
    };
    let request = tokio::select! {
        _ = client.ensure_path("/a/b") => panic!("nobody answered"),
        request = begun => request,
    };
    // The server executes the last creation.
    let xid = request.header.xid;
    let body = created("/a/b").unwrap_or_default();
    connection.reply(xid, 2, 0, &body).await;
    let served = async {
        let stat = proto::response::StatResponse {
            stat: Stat::default(),
        };
        answer(&mut connection, OpCode::Exists, Ok(stat.to_bytes())).await;
    };
    let (ensured, ()) = tokio::join!(client.ensure_path("/a/b"), served);
    ensured.unwrap();
}

#[tokio::test]
async fn a_dropped_delete_all_can_be_repeated() {
    let server = FakeServer::start().await;
    let (client, mut connection) = connected(&server).await;
    let names = |names: &[&str]| {
        let names = names.iter().map(|name| (*name).into()).collect();
        Ok(NamesResponse { names }.to_bytes())
    };
    let begun = async {
        answer(&mut connection, OpCode::GetChildren, names(&["b"])).await;
        connection.expect(OpCode::GetChildren).await
    };
    let request = tokio::select! {
        _ = client.delete_all("/a") => panic!("nobody answered"),
        request = begun => request,
    };
    let body = names(&[]).unwrap_or_default();
    connection.reply(request.header.xid, 1, 0, &body).await;
    let mut deleted = Vec::new();
    MultiHeader::result(OpCode::Delete).encode(&mut deleted);
    MultiHeader::END.encode(&mut deleted);
    let served = async {
        answer(&mut connection, OpCode::GetChildren, names(&[])).await;
        answer(&mut connection, OpCode::Multi, Ok(deleted.into())).await;
    };
    let (ended, ()) = tokio::join!(client.delete_all("/a"), served);
    ended.unwrap();
}
