//! Handles of watches, other root directories, and the time limits of a session.

use std::time::Duration;

use crate::support::{FakeConnection, FakeServer, SESSION, soon};
use jute::Encode;
use proto::request::{CreateRequest, PathModeRequest, PathWatchRequest};
use proto::response::{CreateResponse, ErrorResponse, GetDataResponse};
use proto::watch::EventType;
use proto::{OpCode, SessionId, Stat};
use zoarium_client::{
    AddWatchMode, Change, Client, Create, Error, MultiOp, MultiResult, Options, State,
};

async fn connected(server: &FakeServer) -> (Client, FakeConnection) {
    connected_by(server, server.options()).await
}

async fn connected_by(server: &FakeServer, options: Options) -> (Client, FakeConnection) {
    let (client, (connection, _)) = tokio::join!(Client::connect(options), server.accept_session());
    (client.unwrap(), connection)
}

async fn answer_get_data(connection: &mut FakeConnection, zxid: i64) {
    let request = connection.expect(OpCode::GetData).await;
    let body = GetDataResponse {
        data: None,
        stat: Stat::default(),
    };
    let xid = request.header.xid;
    connection.reply(xid, zxid, 0, &body.to_bytes()).await;
}

async fn answer_add_watch(connection: &mut FakeConnection) {
    let request = connection.expect(OpCode::AddWatch).await;
    let body = ErrorResponse { err: 0 }.to_bytes();
    connection.reply(request.header.xid, 1, 0, &body).await;
}

#[tokio::test]
async fn a_watch_reports_its_change_after_a_reconnect() {
    let server = FakeServer::start().await;
    let (client, mut first) = connected(&server).await;
    let asked = async {
        let (_, _, one) = client.watch_data("/one").await.unwrap();
        let (_, _, two) = client.watch_data("/two").await.unwrap();
        (one, two)
    };
    let served = async {
        answer_get_data(&mut first, 1).await;
        answer_get_data(&mut first, 1).await;
        first.event(EventType::NodeDeleted, "/two", 5).await;
    };
    let ((mut one, mut two), ()) = tokio::join!(asked, served);
    let event = soon("the event", two.changed()).await.unwrap();
    assert_eq!((event.kind, event.zxid.0), (EventType::NodeDeleted, 5));
    assert_eq!(two.changed().await.unwrap(), event);
    drop(first);

    let (mut second, _) = server.accept_session().await;
    // Servers before 3.6 do not know setWatches2: they would close the connection.
    let again = second.expect(OpCode::SetWatches).await;
    let lists = [&b"\0\0\0\x01\0\0\0\x04/one"[..], &[0; 8]].concat();
    assert_eq!(again.body[8..], lists, "data, exist and child watches");
    second.event(EventType::NodeDataChanged, "/one", -1).await;
    let event = soon("the event", one.changed()).await.unwrap();
    assert_eq!(event.kind, EventType::NodeDataChanged);
}

#[tokio::test]
async fn a_dropped_watch_is_removed_from_the_server() {
    let server = FakeServer::start().await;
    let (client, mut connection) = connected(&server).await;
    let asked = async { tokio::join!(client.watch_data("/a"), client.watch_data("/a")) };
    let served = async {
        answer_get_data(&mut connection, 1).await;
        answer_get_data(&mut connection, 1).await;
    };
    let ((one, two), ()) = tokio::join!(asked, served);
    drop(one.unwrap());
    // The other handle is still waiting, so the watch is not removed before the next request.
    let (answer, ()) = tokio::join!(client.get_data("/b"), answer_get_data(&mut connection, 1));
    answer.unwrap();
    drop(two.unwrap());
    let removal = connection.expect(OpCode::RemoveWatches).await;
    let record = removal.record::<PathModeRequest>();
    assert_eq!((record.path.as_deref(), record.mode), (Some("/a"), 2));
    connection.reply(removal.header.xid, 1, 0, &[]).await;

    // The watch is removed even if its call was dropped before the reply.
    let given_up = client.watch_data("/c");
    let request = tokio::select! {
        _ = given_up => panic!("nobody answered"),
        request = connection.expect(OpCode::GetData) => request,
    };
    let body = GetDataResponse {
        data: None,
        stat: Stat::default(),
    };
    connection
        .reply(request.header.xid, 1, 0, &body.to_bytes())
        .await;
    let removal = connection.expect(OpCode::RemoveWatches).await;
    let record = removal.record::<PathModeRequest>();
    assert_eq!((record.path.as_deref(), record.mode), (Some("/c"), 2));
}

#[tokio::test]
async fn a_stream_reports_possibly_missed_events() {
    let server = FakeServer::start().await;
    let (client, mut first) = connected(&server).await;
    let mode = AddWatchMode::PersistentRecursive;
    let (stream, ()) = tokio::join!(
        client.watch_stream("/tree", mode),
        answer_add_watch(&mut first)
    );
    let mut stream = stream.unwrap();
    first.event(EventType::NodeCreated, "/tree/a", 3).await;
    let Change::Event(event) = soon("the event", stream.next()).await.unwrap() else {
        panic!("nothing was missed");
    };
    assert_eq!(&*event.path, "/tree/a");
    drop(first);
    let (second, _) = server.accept_session().await;
    let next = soon("word of the gap", stream.next()).await.unwrap();
    assert_eq!(next, Change::Missed);

    drop(second);
    let mut third = server.accept().await;
    third.read_connect().await;
    third.refuse().await;
    let end = soon("the end", stream.next()).await.unwrap_err();
    assert!(matches!(end, Error::SessionExpired { .. }), "{end}");
}

#[tokio::test]
async fn paths_are_below_the_root_of_the_client() {
    let server = FakeServer::start().await;
    let options = Options::new(&format!("{}/app/one", server.address));
    let (client, mut connection) = connected_by(&server, options).await;
    let asked = async {
        let persistent = Create::persistent();
        let path = client.create("/a", "", &persistent).await.unwrap();
        assert_eq!(&*path, "/a");
        let ops = [MultiOp::create("/b", "", &persistent)];
        let [MultiResult::Created { path, .. }] = &client.multi(&ops).await.unwrap()[..] else {
            panic!("one result");
        };
        assert_eq!(&**path, "/b");
        client.watch_data("/").await.unwrap().2
    };
    let served = async {
        let request = connection.expect(OpCode::Create).await;
        let path = request.record::<CreateRequest>().path;
        assert_eq!(path.as_deref(), Some("/app/one/a"));
        let path = "/app/one/a".into();
        let body = CreateResponse { path }.to_bytes();
        connection.reply(request.header.xid, 1, 0, &body).await;
        let multi = connection.expect(OpCode::Multi).await;
        let mut body = Vec::new();
        proto::multi::MultiHeader::result(OpCode::Create).encode(&mut body);
        let path = "/app/one/b".into();
        CreateResponse { path }.encode(&mut body);
        proto::multi::MultiHeader::END.encode(&mut body);
        connection.reply(multi.header.xid, 1, 0, &body).await;
        let sent = String::from_utf8_lossy(&multi.body).into_owned();
        assert!(sent.contains("/app/one/b"), "{sent}");

        let read = connection.expect(OpCode::GetData).await;
        let path = read.record::<PathWatchRequest>().path;
        assert_eq!(path.as_deref(), Some("/app/one"));
        let body = GetDataResponse {
            data: None,
            stat: Stat::default(),
        };
        connection
            .reply(read.header.xid, 1, 0, &body.to_bytes())
            .await;
        let changed = EventType::NodeDataChanged;
        connection.event(changed, "/app/one", 7).await;
    };
    let (mut watch, ()) = tokio::join!(asked, served);
    let event = soon("the event", watch.changed()).await.unwrap();
    assert_eq!(&*event.path, "/");

    let refused = Client::connect(Options::new("127.0.0.1:1/a//b")).await;
    assert!(matches!(refused, Err(Error::Chroot { .. })));
}

#[tokio::test]
async fn a_session_lost_by_the_clock_may_be_continued() {
    let server = FakeServer::start().await;
    let granting = async {
        let mut connection = server.accept().await;
        connection.read_connect().await;
        connection.grant(200).await;
    };
    let (client, ()) = tokio::join!(Client::connect(server.options()), granting);
    let client = client.unwrap();
    let mut state = client.state();
    // The server accepts connections but never answers. Only the passing time reveals such a
    // partition.
    let lost = state.wait_for(|state| *state == State::Lost);
    soon("the loss", lost).await.unwrap();
    let answering = async {
        loop {
            let mut connection = server.accept().await;
            let shaken = connection.try_read_connect().await;
            if shaken && connection.try_grant(30_000).await {
                return connection;
            }
        }
    };
    let back = async {
        let back = state.wait_for(|state| state.connected_session() == Some(SESSION));
        soon("the session", back).await.map(drop).unwrap();
    };
    let (_connection, ()) = tokio::join!(answering, back);
}

#[tokio::test]
async fn with_renewal_another_session_follows() {
    let server = FakeServer::start().await;
    let options = server.options().with_renewal();
    let (client, mut first) = connected_by(&server, options).await;
    let asked = client.watch_data("/a");
    let (watched, ()) = tokio::join!(asked, answer_get_data(&mut first, 40));
    let (_, _, mut watch) = watched.unwrap();
    let mut state = client.state();
    drop(first);
    let mut second = server.accept().await;
    assert_eq!(second.read_connect().await.session_id, SESSION);
    second.refuse().await;
    let mut third = server.accept().await;
    let request = third.read_connect().await;
    assert_eq!(request.session_id, SessionId::NONE);
    assert_eq!(request.last_zxid_seen.0, 0);
    let other = SessionId(0x77);
    third.grant_as(30_000, other).await;
    let renewed = state.wait_for(|state| state.connected_session() == Some(other));
    soon("the new session", renewed).await.unwrap();
    assert_eq!(client.session_id(), other);
    let ended = soon("the end of the watch", watch.changed()).await;
    let error = ended.unwrap_err();
    assert!(matches!(error, Error::SessionExpired { session, .. } if session == SESSION));
    let (answer, ()) = tokio::join!(client.get_data("/a"), answer_get_data(&mut third, 1));
    answer.unwrap();
}

#[tokio::test]
async fn a_session_can_be_handed_to_another_client() {
    let server = FakeServer::start().await;
    let (client, mut first) = connected(&server).await;
    let other = client.clone();
    let session = soon("the end", client.hand_over()).await;
    first.closed_by_client().await;
    assert_eq!(session.id, SESSION);
    assert_eq!(*other.state().borrow(), State::Closed);
    let error = other.exists("/a").await.unwrap_err();
    assert!(matches!(error, Error::Closed { .. }), "{error}");
    let options = server.options().with_session(session);
    let (_next, request) = tokio::join!(Client::connect(options), server.accept_session());
    assert_eq!(request.1.session_id, SESSION);
}

#[tokio::test]
async fn a_call_dropped_before_sending_is_not_sent() {
    let server = FakeServer::start().await;
    let (client, first) = connected(&server).await;
    drop(first);
    let mut state = client.state();
    let cut = state.wait_for(|state| *state == State::Reconnecting);
    soon("the loss", cut).await.unwrap();
    let waiting = tokio::time::timeout(Duration::from_millis(20), client.delete("/a", -1));
    assert!(waiting.await.is_err());
    let (mut second, _) = server.accept_session().await;
    let (answer, ()) = tokio::join!(client.get_data("/b"), answer_get_data(&mut second, 1));
    answer.unwrap();
}
