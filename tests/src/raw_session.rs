//! A session with explicit requests, for tests that must know which requests were sent and
//! answered.

use std::collections::VecDeque;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use client::frame::{put_request, split_reply};
use client::{Error, Handshake, RawConnection, Session};
use jute::{Decode, Encode, Reader};
use proto::connect::AuthPacket;
use proto::request::{PathRequest, Request, WriteRequest};
use proto::{OpCode, Xid, Zxid};
use tokio::net::TcpSocket;
use tokio::runtime::{Builder, Runtime};

use crate::secrets::{learn, search_answer};

/// A connection with its session. Calls block. Nothing is sent without a call: no pings, no
/// reconnects.
///
/// Requests are answered in the order in which they were [`put`](Self::put).
#[derive(Debug)]
pub struct RawSession {
    runtime: Runtime,
    connection: RawConnection,
    next_xid: i32,
    unanswered: VecDeque<Xid>,
    patience: Duration,
}

/// Default time limit for an answer, longer than any test.
const PATIENCE: Duration = Duration::from_secs(600);

/// Answer to a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    /// Zxid of the transaction, or the last one that a read has seen.
    pub zxid: Zxid,
    /// Error code, or 0.
    pub err: i32,
    /// Record, which is empty after an error.
    pub body: Bytes,
}

impl Answer {
    /// Decodes the record. Panics if it has another type, or the answer is an error.
    pub fn record<T: Decode>(&self) -> T {
        assert_eq!(self.err, 0, "an error instead of a record");
        T::decode(&mut Reader::new(self.body.clone())).expect("the record of a reply")
    }
}

/// Returns the parameters of a session with this timeout.
pub fn handshake(timeout_ms: i32) -> Handshake {
    let timeout_ms = u64::try_from(timeout_ms).expect("a timeout that is not negative");
    Handshake::default().with_session_timeout(Duration::from_millis(timeout_ms))
}

/// The connection has ended. Pending requests have an unknown outcome.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lost(pub String);

impl RawSession {
    /// Connects and opens a session, or resumes the given one.
    ///
    /// # Errors
    /// If the server does not run, does not answer, or reports that the session has expired.
    pub fn open(
        address: &str,
        continued: Option<&Session>,
        timeout_ms: i32,
    ) -> Result<RawSession, Error> {
        let handshake = handshake(timeout_ms).with_session(continued.cloned());
        RawSession::with_handshake(address, &handshake)
    }

    /// Connects with a handshake from the test.
    ///
    /// # Errors
    /// Under the conditions of [`open`](Self::open).
    pub fn with_handshake(address: &str, handshake: &Handshake) -> Result<RawSession, Error> {
        let runtime = Builder::new_current_thread()
            .enable_all()
            .build()
            .expect("a runtime for a session");
        let address = Arc::from(address);
        let connection = runtime.block_on(RawConnection::open(&address, handshake))?;
        Ok(RawSession::of(runtime, connection))
    }

    /// Connects with a handshake, from another address of this machine.
    ///
    /// # Errors
    /// Under the conditions of [`open`](Self::open).
    pub fn open_from(from: Ipv4Addr, address: &str, handshake: &Handshake) -> Result<Self, Error> {
        let runtime = Builder::new_current_thread()
            .enable_all()
            .build()
            .expect("a runtime for a session");
        let server = address.parse().expect("an address");
        let connecting = async {
            let socket = TcpSocket::new_v4().expect("a socket");
            socket.bind((from, 0).into()).expect("an address of ours");
            let stream = socket.connect(server).await.expect("a server");
            let address = Arc::from(address);
            let stream = handshake
                .connector()
                .establish(stream, &["127.0.0.1"])
                .await;
            let stream = stream.map_err(|source| Error::Connect {
                server: Arc::clone(&address),
                source: Arc::new(source),
            })?;
            RawConnection::over(stream, &address, handshake).await
        };
        let connection = runtime.block_on(connecting)?;
        Ok(RawSession::of(runtime, connection))
    }

    fn of(runtime: Runtime, connection: RawConnection) -> RawSession {
        let password = &connection.accepted.session.password;
        learn("a session's password", password);
        RawSession {
            runtime,
            connection,
            next_xid: 1,
            unanswered: VecDeque::new(),
            patience: PATIENCE,
        }
    }

    /// Sets the time limit for answers, after which the connection counts as lost.
    pub fn set_patience(&mut self, patience: Duration) {
        self.patience = patience;
    }

    /// Returns the data with which another connection can resume the session.
    pub fn session(&self) -> &Session {
        &self.connection.accepted.session
    }

    /// Returns the local address of the connection.
    pub fn local_address(&self) -> SocketAddr {
        let address = self.connection.wire.stream().local_addr();
        address.expect("a connection has an address")
    }

    /// Returns whether the server reported that it is read-only.
    pub fn is_read_only(&self) -> bool {
        self.connection.accepted.read_only
    }

    /// Returns the number of pending requests.
    pub fn unanswered(&self) -> usize {
        self.unanswered.len()
    }

    /// Queues a request, which is sent with the next [`take`](Self::take) or
    /// [`flush`](Self::flush).
    pub fn put(&mut self, request: &Request) {
        let xid = self.next_xid;
        self.next_xid += 1;
        self.put_with_xid(xid, request);
    }

    /// Queues a request with this xid, which other requests may have as well.
    pub fn put_with_xid(&mut self, xid: i32, request: &Request) {
        let mut record = Vec::new();
        request.encode(&mut record).expect("a request of a client");
        self.put_record(Xid(xid), request.op(), &record);
    }

    /// Queues a request with a record that may be invalid.
    pub fn put_bytes(&mut self, op: OpCode, record: &[u8]) {
        let xid = Xid(self.next_xid);
        self.next_xid += 1;
        self.put_record(xid, op, record);
    }

    /// Queues bytes that may not be a frame.
    pub fn put_unframed(&mut self, bytes: &[u8]) {
        self.connection.wire.outbound().extend_from_slice(bytes);
    }

    fn put_record(&mut self, xid: Xid, op: OpCode, record: &[u8]) {
        let out = self.connection.wire.outbound();
        put_request(xid, op.number(), out, |out| out.extend_from_slice(record));
        self.unanswered.push_back(xid);
    }

    /// Sends all queued requests.
    ///
    /// # Errors
    /// If the connection has ended.
    pub fn flush(&mut self) -> Result<(), Lost> {
        let sent = self.connection.wire.flush();
        within(&self.runtime, self.patience, sent)
    }

    /// Waits for the answer to the oldest pending request. Watch events are skipped.
    ///
    /// # Errors
    /// If the connection has ended. Panics if another request is answered.
    pub fn take(&mut self) -> Result<Answer, Lost> {
        self.take_with_events().map(|(_, answer)| answer)
    }

    /// Waits for the answer, and also returns the packets of the watch events before it, oldest
    /// first.
    ///
    /// # Errors
    /// Under the conditions of [`take`](Self::take).
    pub fn take_with_events(&mut self) -> Result<(Vec<Bytes>, Answer), Lost> {
        let mut events = Vec::new();
        loop {
            let frame = self.connection.wire.next_frame();
            if let Some(frame) = frame.map_err(|error| Lost(error.to_string()))? {
                let (header, body) = split_reply(frame).map_err(|error| Lost(error.to_string()))?;
                if header.xid == Xid::EVENT {
                    events.push(Bytes::copy_from_slice(frame));
                    continue;
                }
                let expected = self.unanswered.pop_front();
                assert_eq!(Some(header.xid), expected, "an answer out of order");
                let answer = Answer {
                    zxid: header.zxid,
                    err: header.err,
                    body: Bytes::copy_from_slice(body),
                };
                search_answer(&answer.body);
                return Ok((events, answer));
            }
            let turn = self.connection.wire.turn();
            within(&self.runtime, self.patience, turn)?;
        }
    }

    /// Sends one request and waits for its answer.
    ///
    /// # Errors
    /// If the connection has ended.
    pub fn call(&mut self, request: &Request) -> Result<Answer, Lost> {
        assert!(self.unanswered.is_empty(), "call after requests put ahead");
        self.put(request);
        self.take()
    }

    /// Waits until the server has applied all earlier commits.
    ///
    /// # Errors
    /// If the connection has ended.
    pub fn sync(&mut self) -> Result<Answer, Lost> {
        let path = Some("/".into());
        self.call(&Request::Sync(PathRequest { path }))
    }

    /// Sends a ping.
    ///
    /// # Errors
    /// If the connection has ended.
    pub fn ping(&mut self) -> Result<Answer, Lost> {
        self.put_record(Xid::PING, OpCode::Ping, &[]);
        self.take()
    }

    /// Adds an identity to the connection.
    ///
    /// # Errors
    /// If the connection has ended, as it does after a refusal.
    pub fn authenticate(&mut self, scheme: &str, auth: &'static str) -> Result<Answer, Lost> {
        let packet = AuthPacket {
            auth_type: 0,
            scheme: Some(scheme.into()),
            auth: Some(auth.into()).into(),
        };
        self.put_record(Xid::AUTH, OpCode::Auth, &packet.to_bytes());
        self.take()
    }

    /// Ends the session.
    ///
    /// # Errors
    /// If the connection has ended before the answer.
    pub fn close(mut self) -> Result<Answer, Lost> {
        self.call(&Request::Write(WriteRequest::CloseSession))
    }
}

fn within(
    runtime: &Runtime,
    patience: Duration,
    exchange: impl Future<Output = io::Result<()>>,
) -> Result<(), Lost> {
    let limited = async { tokio::time::timeout(patience, exchange).await };
    match runtime.block_on(limited) {
        Ok(outcome) => outcome.map_err(|error| Lost(error.to_string())),
        Err(_) => Err(Lost(format!("no answer within {patience:?}"))),
    }
}
