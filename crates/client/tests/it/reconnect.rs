//! Behaviour of a client after the loss of its connection.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use crate::support::{FakeConnection, FakeServer, PASSWORD, Received, SESSION, soon};
use bytes::Bytes;
use jute::{Encode, Reader};
use proto::connect::AuthPacket;
use proto::request::{ReadRequest, Request, SetWatchesRequest};
use proto::response::{ErrorResponse, GetDataResponse};
use proto::watch::EventType;
use proto::{OpCode, SessionId, Stat, Xid};
use tokio::io::{AsyncRead, AsyncWrite, DuplexStream};
use tokio::sync::mpsc;
use tokio::time::sleep;
use zoarium_client::{AddWatchMode, Client, Dial, Dialing, Duplex, Error, Options, Session, State};

async fn connected(server: &FakeServer) -> (Client, FakeConnection) {
    let (client, (connection, _)) =
        tokio::join!(Client::connect(server.options()), server.accept_session());
    (client.unwrap(), connection)
}

async fn answer_get_data(connection: &mut FakeConnection, zxid: i64) {
    let request = connection.expect(OpCode::GetData).await;
    answer(connection, &request, zxid).await;
}

/// Answers a getData request.
async fn answer<S: AsyncRead + AsyncWrite + Unpin>(
    connection: &mut FakeConnection<S>,
    request: &Received,
    zxid: i64,
) {
    let body = GetDataResponse {
        data: None,
        stat: Stat::default(),
    };
    connection
        .reply(request.header.xid, zxid, 0, &body.to_bytes())
        .await;
}

fn set_watches(received: &Received) -> SetWatchesRequest {
    let mut input = Reader::new(received.body.clone());
    match Request::decode(OpCode::SetWatches2, &mut input).unwrap() {
        Request::Read(ReadRequest::SetWatches(request)) => request,
        other => panic!("{other:?}"),
    }
}

fn paths(list: Option<Vec<Option<jute::Str>>>) -> Vec<String> {
    let list = list.expect("no null lists");
    list.into_iter()
        .flatten()
        .map(|path| path.to_string())
        .collect()
}

#[tokio::test]
async fn a_reconnect_restores_credentials_and_watches() {
    let server = FakeServer::start().await;
    let (client, mut first) = connected(&server).await;
    let mut events = client.events();

    let prepared = async {
        client.add_auth("digest", "user:pass").await.unwrap();
        client.get_data_and_watch("/data").await.unwrap();
        client.get_data_and_watch("/fired").await.unwrap();
        assert_eq!(client.exists_and_watch("/later").await.unwrap(), None);
        client
            .add_watch("/tree", AddWatchMode::PersistentRecursive)
            .await
            .unwrap();
    };
    let served = async {
        first.expect(OpCode::Auth).await;
        first.reply(Xid::AUTH, 0, 0, &[]).await;
        answer_get_data(&mut first, 40).await;
        answer_get_data(&mut first, 41).await;
        first.event(EventType::NodeDataChanged, "/fired", 42).await;
        let exists = first.expect(OpCode::Exists).await;
        first.reply(exists.header.xid, 42, -101, &[]).await;
        let add = first.expect(OpCode::AddWatch).await;
        let body = ErrorResponse { err: 0 }.to_bytes();
        first.reply(add.header.xid, 42, 0, &body).await;
    };
    tokio::join!(prepared, served);
    drop(first);

    let (mut second, request) = server.accept_session().await;
    assert_eq!(request.session_id, SESSION);
    assert_eq!(request.password.expose().as_deref(), Some(&PASSWORD[..]));
    assert_eq!(request.last_zxid_seen.0, 42);

    let auth = second.expect(OpCode::Auth).await;
    assert_eq!(auth.header.xid, Xid::AUTH);
    let packet = auth.record::<AuthPacket>();
    assert_eq!(packet.auth.expose().as_deref(), Some(&b"user:pass"[..]));
    second.reply(Xid::AUTH, 0, 0, &[]).await;

    let again = second.expect(OpCode::SetWatches2).await;
    assert_eq!(again.header.xid, Xid::SET_WATCHES);
    let again = set_watches(&again);
    assert_eq!(again.relative_zxid, 42);
    assert_eq!(paths(again.data), ["/data"]);
    assert_eq!(paths(again.exist), ["/later"]);
    assert_eq!(paths(again.child), [""; 0]);
    assert_eq!(paths(again.persistent), [""; 0]);
    assert_eq!(paths(again.persistent_recursive), ["/tree"]);
    second.event(EventType::NodeDataChanged, "/data", -1).await;
    second.reply(Xid::SET_WATCHES, 43, 0, &[]).await;

    // The new connection serves calls, and reports the missed events.
    let ((), result) = tokio::join!(answer_get_data(&mut second, 44), client.get_data("/data"));
    result.unwrap();
    assert_eq!(&*events.recv().await.unwrap().path, "/fired");
    let caught_up = events.recv().await.unwrap();
    assert_eq!((&*caught_up.path, caught_up.zxid.0), ("/data", -1));
}

#[tokio::test]
async fn calls_in_flight_fail_and_later_ones_wait_for_the_next_connection() {
    let server = FakeServer::start().await;
    let (client, mut first) = connected(&server).await;
    let losing = async {
        first.expect(OpCode::GetData).await;
        drop(first);
    };
    let (lost, ()) = tokio::join!(client.get_data("/a"), losing);
    let error = lost.unwrap_err();
    assert!(matches!(error, Error::ConnectionLost { .. }), "{error}");
    let text = error.to_string();
    assert!(text.contains("closed by the server"), "{text}");

    let next = async {
        let (mut second, _) = server.accept_session().await;
        answer_get_data(&mut second, 1).await;
        second
    };
    let (result, _second) = tokio::join!(client.get_data("/a"), next);
    result.unwrap();
}

#[tokio::test]
async fn a_refused_session_ends_the_client() {
    let server = FakeServer::start().await;
    let (client, first) = connected(&server).await;
    let mut state = client.state();
    drop(first);
    let mut second = server.accept().await;
    second.read_connect().await;
    second.refuse().await;
    let ended = soon("the end", state.wait_for(|state| *state == State::Expired)).await;
    ended.unwrap();
    let error = client.get_data("/a").await.unwrap_err();
    assert!(matches!(error, Error::SessionExpired { session, .. } if session == SESSION));
    assert!(error.ends_session());
}

#[tokio::test]
async fn a_session_of_another_client_is_continued_or_refused() {
    let server = FakeServer::start().await;
    let session = Session {
        id: SESSION,
        password: Bytes::from_static(PASSWORD),
    };
    let options = || server.options().with_session(session.clone());
    let (client, (_connection, request)) =
        tokio::join!(Client::connect(options()), server.accept_session());
    assert_eq!(request.session_id, SESSION);
    assert_eq!(client.unwrap().session(), session);

    let refusing = async {
        let mut connection = server.accept().await;
        connection.read_connect().await;
        connection.refuse().await;
    };
    let (refused, ()) = tokio::join!(Client::connect(options()), refusing);
    let error = refused.unwrap_err();
    assert!(matches!(error, Error::SessionExpired { session, .. } if session == SESSION));
}

#[tokio::test]
async fn the_next_server_is_tried() {
    let (one, two) = (FakeServer::start().await, FakeServer::start().await);
    let options = Options::new(&format!("{},{}", one.address, two.address)).in_order();
    let (client, (first, _)) = tokio::join!(Client::connect(options), one.accept_session());
    let client = client.unwrap();
    drop(first);
    let (_second, request) = two.accept_session().await;
    assert_eq!(request.session_id, SESSION);
    let mut state = client.state();
    let address = two.address.clone();
    let connected = state
        .wait_for(|state| matches!(state, State::Connected { server, .. } if *server == address));
    soon("the other server", connected).await.unwrap();
}

#[tokio::test]
async fn a_client_leaves_a_removed_server_after_its_last_answer() {
    let (old, new) = (FakeServer::start().await, FakeServer::start().await);
    let (client, mut first) = connected(&old).await;
    assert!(matches!(client.set_servers(&[]), Err(Error::NoServers)));
    // The connection to a server of the list stays.
    client.set_servers(&[&new.address, &old.address]).unwrap();
    let answered = answer_get_data(&mut first, 1);
    let (read, ()) = tokio::join!(client.get_data("/stays"), answered);
    read.unwrap();

    let removing = async {
        let request = first.expect(OpCode::GetData).await;
        client.set_servers(&[&new.address]).unwrap();
        answer(&mut first, &request, 2).await;
        first.closed_by_client().await;
        new.accept_session().await
    };
    let (read, (mut second, request)) = tokio::join!(client.get_data("/last"), removing);
    read.unwrap();
    assert_eq!(request.session_id, SESSION);
    let answered = answer_get_data(&mut second, 3);
    let (read, ()) = tokio::join!(client.get_data("/moved"), answered);
    read.unwrap();
    let address = new.address.clone();
    let is_there =
        |state: &State| matches!(state, State::Connected { server, .. } if *server == address);
    soon("the other server", client.wait_for_state(is_there))
        .await
        .unwrap();
}

#[tokio::test]
async fn a_silent_server_is_disconnected() {
    let server = FakeServer::start().await;
    let granting = async {
        let mut connection = server.accept().await;
        connection.read_connect().await;
        connection.grant(300).await;
        connection
    };
    let (client, _silent) = tokio::join!(Client::connect(server.options()), granting);
    let client = client.unwrap();
    let (lost, (_second, request)) = tokio::join!(client.get_data("/a"), server.accept_session());
    let text = lost.unwrap_err().to_string();
    assert!(text.contains("no reply for"), "{text}");
    assert_eq!(request.session_id, SESSION);
}

#[tokio::test]
async fn a_reply_without_a_request_ends_the_connection() {
    let server = FakeServer::start().await;
    let (client, mut first) = connected(&server).await;
    let confusing = async {
        let request = first.expect(OpCode::GetData).await;
        let other = Xid(request.header.xid.0 + 5);
        first.reply(other, 1, 0, &[]).await;
    };
    let (lost, ()) = tokio::join!(client.get_data("/a"), confusing);
    let text = lost.unwrap_err().to_string();
    assert!(text.contains("received a reply with xid"), "{text}");
    let (_second, request) = server.accept_session().await;
    assert_ne!(request.session_id, SessionId::NONE);
}

#[tokio::test]
async fn without_any_server_calls_fail_after_the_session_timeout() {
    let server = FakeServer::start().await;
    let granting = async {
        let mut connection = server.accept().await;
        connection.read_connect().await;
        connection.grant(200).await;
    };
    let (client, ()) = tokio::join!(Client::connect(server.options()), granting);
    let client = client.unwrap();
    drop(server);
    let mut state = client.state();
    let lost = state.wait_for(|state| *state == State::Reconnecting);
    soon("the loss", lost).await.unwrap();
    let error = soon("the refusal", client.get_data("/a"))
        .await
        .unwrap_err();
    assert!(matches!(error, Error::Unreachable { .. }), "{error}");
    let error = soon("the end", client.close()).await.unwrap_err();
    assert!(matches!(error, Error::Unreachable { .. }), "{error}");
    let closed = state.wait_for(|state| *state == State::Closed);
    soon("the closed state", closed).await.unwrap();
}

#[tokio::test]
async fn refused_credentials_are_not_sent_again() {
    let server = FakeServer::start().await;
    let (client, mut first) = connected(&server).await;
    let refusing = async {
        first.expect(OpCode::Auth).await;
        first.reply(Xid::AUTH, 0, -115, &[]).await;
        drop(first);
    };
    let (result, ()) = tokio::join!(client.add_auth("nonsense", "x"), refusing);
    let text = result.unwrap_err().to_string();
    assert!(text.contains("AuthFailed (-115)"), "{text}");
    let (mut second, _) = server.accept_session().await;
    let ((), result) = tokio::join!(answer_get_data(&mut second, 1), client.get_data("/a"));
    result.unwrap();
}

/// Fails slowly several times, then connects.
#[derive(Debug)]
struct SlowNetwork {
    failures_left: AtomicU32,
    connected: mpsc::UnboundedSender<DuplexStream>,
}

impl Dial for SlowNetwork {
    fn dial(&self, _server: &str) -> Dialing {
        let left = self.failures_left.load(Ordering::Relaxed);
        let connected = self.connected.clone();
        if left > 0 {
            self.failures_left.store(left - 1, Ordering::Relaxed);
            return Box::pin(async {
                sleep(Duration::from_secs(4)).await;
                Err(io::ErrorKind::HostUnreachable.into())
            });
        }
        Box::pin(async move {
            let (ours, theirs) = tokio::io::duplex(1 << 16);
            connected.send(theirs).unwrap();
            Ok(Box::new(ours) as Box<dyn Duplex>)
        })
    }
}

/// Attempts that failed before take longer than the session timeout.
#[tokio::test(start_paused = true)]
async fn a_slow_connect_does_not_use_up_the_session() {
    let (connected, mut connections) = mpsc::unbounded_channel();
    let network = SlowNetwork {
        failures_left: AtomicU32::new(3),
        connected,
    };
    let options = Options::new("a:1")
        .with_dialer(Arc::new(network))
        .with_wait(Duration::from_secs(60));
    let serving = async {
        let mut connection = FakeConnection::over(connections.recv().await.unwrap());
        connection.read_connect().await;
        connection.grant(4000).await;
        connection
    };
    let (client, mut connection) = tokio::join!(Client::connect(options), serving);
    let client = client.unwrap();
    let state = client.state();
    let serving = async {
        let request = connection.expect(OpCode::GetData).await;
        answer(&mut connection, &request, 1).await;
    };
    let (found, ()) = tokio::join!(client.get_data("/a"), serving);
    found.unwrap();
    let state = state.borrow();
    assert!(matches!(*state, State::Connected { .. }), "{state:?}");
}
