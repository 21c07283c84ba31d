//! Scripted server on a real socket.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use jute::{Decode, Encode, Reader};
use proto::connect::{ConnectRequest, ConnectResponse, ReplyHeader, RequestHeader};
use proto::watch::{EventType, STATE_SYNC_CONNECTED, WatcherEvent};
use proto::{OpCode, SessionId, Xid, Zxid};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use zoarium_client::frame::put_frame;
use zoarium_client::{Options, Wire};

/// Time limit of a step. It suffices for a slow machine, and only a failing test reaches it.
const PATIENCE: Duration = Duration::from_secs(20);

pub(crate) const SESSION: SessionId = SessionId(0x0100_0157_d6a5_0000);
pub(crate) const PASSWORD: &[u8; 16] = b"0123456789abcdef";

/// Waits for `future`. Fails the test after the time limit.
pub(crate) async fn soon<T>(what: &str, future: impl Future<Output = T>) -> T {
    match tokio::time::timeout(PATIENCE, future).await {
        Ok(value) => value,
        Err(_) => panic!("waited in vain: {what}"),
    }
}

pub(crate) struct FakeServer {
    listener: TcpListener,
    pub(crate) address: Arc<str>,
}

impl FakeServer {
    pub(crate) async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap().to_string().into();
        Self { listener, address }
    }

    /// Starts a server at the address of an earlier server.
    pub(crate) async fn start_at(address: &Arc<str>) -> Self {
        let listener = TcpListener::bind(&**address).await.unwrap();
        let address = Arc::clone(address);
        Self { listener, address }
    }

    pub(crate) fn options(&self) -> Options {
        Options::new(&self.address)
    }

    /// Accepts the next connection, before its handshake.
    pub(crate) async fn accept(&self) -> FakeConnection {
        let (stream, _) = soon("a connection", self.listener.accept()).await.unwrap();
        stream.set_nodelay(true).unwrap();
        FakeConnection::over(stream)
    }

    /// Accepts the next connection, with a session timeout of 30 s.
    pub(crate) async fn accept_session(&self) -> (FakeConnection, ConnectRequest) {
        let mut connection = self.accept().await;
        let request = connection.read_connect().await;
        connection.grant(30_000).await;
        (connection, request)
    }
}

pub(crate) struct FakeConnection<S = TcpStream> {
    wire: Wire<S>,
}

/// Request as the server received it.
#[derive(Debug)]
pub(crate) struct Received {
    pub(crate) header: RequestHeader,
    pub(crate) body: Bytes,
}

impl Received {
    pub(crate) fn record<T: Decode>(&self) -> T {
        T::decode(&mut Reader::new(self.body.clone())).unwrap()
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> FakeConnection<S> {
    pub(crate) fn over(stream: S) -> Self {
        Self {
            wire: Wire::new(stream, 1 << 20),
        }
    }

    async fn frame(&mut self) -> Bytes {
        let next = async {
            loop {
                if let Some(frame) = self.wire.next_frame().unwrap() {
                    return Bytes::copy_from_slice(frame);
                }
                self.wire.turn().await.unwrap();
            }
        };
        soon("a frame from the client", next).await
    }

    pub(crate) async fn read_connect(&mut self) -> ConnectRequest {
        ConnectRequest::decode(&mut Reader::new(self.frame().await)).unwrap()
    }

    pub(crate) async fn grant(&mut self, timeout_ms: i32) {
        self.answer_connect(timeout_ms, SESSION).await;
    }

    pub(crate) async fn grant_as(&mut self, timeout_ms: i32, session: SessionId) {
        self.answer_connect(timeout_ms, session).await;
    }

    /// Reads the connect request. Returns whether it arrived, because the client may have dropped
    /// this connection.
    pub(crate) async fn try_read_connect(&mut self) -> bool {
        loop {
            if self.wire.next_frame().unwrap().is_some() {
                return true;
            }
            if self.wire.turn().await.is_err() {
                return false;
            }
        }
    }

    /// Sends the connect response. Returns whether it was sent, because the client may have dropped
    /// this connection.
    pub(crate) async fn try_grant(&mut self, timeout_ms: i32) -> bool {
        self.put_connect_response(timeout_ms, SESSION);
        self.wire.flush().await.is_ok()
    }

    pub(crate) async fn refuse(&mut self) {
        self.answer_connect(0, SessionId::NONE).await;
    }

    async fn answer_connect(&mut self, timeout_ms: i32, session_id: SessionId) {
        self.put_connect_response(timeout_ms, session_id);
        self.wire.flush().await.unwrap();
    }

    fn put_connect_response(&mut self, timeout_ms: i32, session_id: SessionId) {
        let response = ConnectResponse {
            protocol_version: 0,
            timeout_ms,
            session_id,
            password: Bytes::from_static(PASSWORD).into(),
            read_only: Some(false),
        };
        put_frame(self.wire.outbound(), |out| response.encode(out));
    }

    /// Returns the next request, which must have this opcode. Answers pings that arrive before the
    /// request.
    pub(crate) async fn expect(&mut self, op: OpCode) -> Received {
        loop {
            let received = self.any().await;
            if received.header.op == op.number() {
                return received;
            }
            assert_eq!(
                received.header.op,
                OpCode::Ping.number(),
                "wanted {}",
                op.name()
            );
            self.reply(Xid::PING, 0, 0, &[]).await;
        }
    }

    pub(crate) async fn any(&mut self) -> Received {
        let mut input = Reader::new(self.frame().await);
        let header = RequestHeader::decode(&mut input).unwrap();
        let body = input.rest();
        Received { header, body }
    }

    pub(crate) async fn reply(&mut self, xid: Xid, zxid: i64, err: i32, body: &[u8]) {
        put_frame(self.wire.outbound(), |out| {
            let zxid = Zxid(zxid);
            ReplyHeader { xid, zxid, err }.encode(out);
            out.extend_from_slice(body);
        });
        self.wire.flush().await.unwrap();
    }

    pub(crate) async fn event(&mut self, kind: EventType, path: &str, zxid: i64) {
        let event = WatcherEvent {
            event_type: kind as i32,
            state: STATE_SYNC_CONNECTED,
            path: path.into(),
        };
        self.reply(Xid::EVENT, zxid, 0, &event.to_bytes()).await;
    }

    pub(crate) async fn send_bytes(&mut self, bytes: &[u8]) {
        self.wire.outbound().extend_from_slice(bytes);
        self.wire.flush().await.unwrap();
    }

    /// Waits until the client has closed its side.
    pub(crate) async fn closed_by_client(&mut self) {
        soon("the client to close", async {
            while self.wire.turn().await.is_ok() {}
        })
        .await;
    }
}
