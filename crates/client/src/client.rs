//! The handle that applications hold.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use jute::{Decode, Encode, Limits, Reader, Str};
use proto::{OpCode, SessionId, Zxid};
use tokio::sync::{Mutex, broadcast, mpsc, oneshot, watch};
use tokio::task::JoinHandle;

use crate::driver::{self, Command, Driver, State, WatchEvent};
use crate::error::{Call, Error, Result};
use crate::handshake::Session;
use crate::in_flight::Reply;
use crate::limits::{COMMANDS_MAX, EVENTS_MAX};
use crate::options::Options;
use crate::watches::{WatchEffect, Watches};

/// A session with a ZooKeeper ensemble. Clones share it.
///
/// Calls may be made concurrently; they go out in the order in which they were first polled and
/// share writes to the socket. When the connection is lost, calls under way fail with
/// [`Error::ConnectionLost`] and the session goes on at the next server that takes it, with its
/// credentials and watches; [`state`](Self::state) tells.
///
/// Dropping the last handle drops the connection but leaves the session, with its ephemerals, to
/// time out; [`close`](Self::close) ends it.
///
/// ```no_run
/// use client::{Client, Create, Options};
///
/// # async fn example() -> client::Result<()> {
/// let client = Client::connect(Options::new("127.0.0.1:2181")).await?;
/// let mut events = client.events();
/// client.create("/greeting", "hello", &Create::persistent()).await?;
/// let (data, stat) = client.get_data_and_watch("/greeting").await?;
/// assert_eq!((data.as_deref(), stat.version), (Some(&b"hello"[..]), 0));
/// client.set_data("/greeting", "good bye", stat.version).await?;
/// assert_eq!(&*events.recv().await.expect("one event").path, "/greeting");
/// client.close().await
/// # }
/// ```
#[derive(Debug, Clone)]
pub struct Client {
    commands: mpsc::Sender<Command>,
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    /// Weak, so that subscribers see the end of the channel when the driver is gone.
    events: broadcast::WeakSender<WatchEvent>,
    state: watch::Receiver<State>,
    session: Session,
    driver: Mutex<Option<JoinHandle<()>>>,
    request_bytes_max: usize,
    limits: Limits,
}

impl Client {
    /// Connects to the first server that answers and opens, or goes on with, a session.
    ///
    /// # Errors
    /// That of the last server tried; [`Error::SessionExpired`] at once.
    pub async fn connect(options: Options) -> Result<Self> {
        let (server, connection) = driver::connect(&options).await?;
        let accepted = connection.accepted.clone();
        let name = options.servers.get(server).cloned().unwrap_or_default();
        let (commands, inbox) = mpsc::channel(COMMANDS_MAX);
        let (events, _) = broadcast::channel(EVENTS_MAX);
        let (state, state_seen) = watch::channel(State::connected(name, &accepted));
        let shared = Shared {
            events: events.downgrade(),
            state: state_seen,
            session: accepted.session.clone(),
            driver: Mutex::new(None),
            request_bytes_max: options.request_bytes_max,
            limits: Limits::from_max_buffer(options.frame_bytes_max, 0),
        };
        let driver = Driver {
            options,
            commands: inbox,
            events,
            state,
            server,
            session: accepted.session,
            timeout: Duration::ZERO,
            last_zxid: Zxid::ZERO,
            watches: Watches::default(),
            auths: Vec::new(),
            next_xid: 1,
        };
        let task = tokio::spawn(driver.run(connection));
        *shared.driver.lock().await = Some(task);
        Ok(Self {
            commands,
            shared: Arc::new(shared),
        })
    }

    /// The session: with it another client, or another process, can go on where this one is.
    pub fn session(&self) -> &Session {
        &self.shared.session
    }

    /// The session's id.
    pub fn session_id(&self) -> SessionId {
        self.shared.session.id
    }

    /// How the session stands, now and later.
    pub fn state(&self) -> watch::Receiver<State> {
        self.shared.state.clone()
    }

    /// Watch events from now on. An event is here before the reply that reveals its change.
    ///
    /// A subscriber that falls thousands of events behind gets `Lagged` in their place; the
    /// channel ends with the session.
    pub fn events(&self) -> broadcast::Receiver<WatchEvent> {
        match self.shared.events.upgrade() {
            Some(events) => events.subscribe(),
            None => broadcast::channel(1).1,
        }
    }

    /// Ends the session: its ephemerals are deleted, and the connection is closed.
    ///
    /// # Errors
    /// If the server could not be told; the session then ends by its timeout.
    pub async fn close(&self) -> Result<()> {
        self.call(OpCode::CloseSession, None, Bytes::new()).await?;
        if let Some(driver) = self.shared.driver.lock().await.take() {
            // It has nothing left to do but to say so.
            let _ = driver.await;
        }
        Ok(())
    }

    /// Sends any operation with any record, as it is, and returns the reply as it is.
    ///
    /// `path` is for errors only. Watches that the record sets are not set again after a
    /// reconnect; those of the methods are.
    ///
    /// # Errors
    /// As for every operation.
    pub async fn call(&self, op: OpCode, path: Option<Str>, body: Bytes) -> Result<Reply> {
        self.command(op, path, body, None).await
    }

    pub(crate) async fn request<T: Decode>(
        &self,
        op: OpCode,
        path: &str,
        record: &impl Encode,
        watch: Option<WatchEffect>,
    ) -> Result<T> {
        let reply = self
            .command(op, Some(path.into()), record.to_bytes(), watch)
            .await?;
        self.decode(op, path, reply, T::decode)
    }

    /// A request whose reply has no body of interest.
    pub(crate) async fn request_plain(
        &self,
        op: OpCode,
        path: &str,
        record: &impl Encode,
        watch: Option<WatchEffect>,
    ) -> Result<()> {
        self.command(op, Some(path.into()), record.to_bytes(), watch)
            .await
            .map(drop)
    }

    pub(crate) fn decode<T>(
        &self,
        op: OpCode,
        path: &str,
        reply: Reply,
        decode: impl FnOnce(&mut Reader) -> Result<T, jute::DecodeError>,
    ) -> Result<T> {
        let mut input = Reader::with_limits(reply.body, self.shared.limits);
        decode(&mut input).map_err(|source| Error::Reply {
            call: self.describe(op, Some(path.into())),
            source,
        })
    }

    pub(crate) fn describe(&self, op: OpCode, path: Option<Str>) -> Call {
        let server = match &*self.shared.state.borrow() {
            State::Connected { server, .. } => Arc::clone(server),
            _ => Arc::from("no server"),
        };
        Call { op, path, server }
    }

    pub(crate) async fn command(
        &self,
        op: OpCode,
        path: Option<Str>,
        body: Bytes,
        watch: Option<WatchEffect>,
    ) -> Result<Reply> {
        let limit = self.shared.request_bytes_max;
        let bytes = body.len() + HEADER_BYTES;
        if bytes > limit {
            let call = self.describe(op, path);
            return Err(Error::TooLarge { call, bytes, limit });
        }
        let (reply, answer) = oneshot::channel();
        let command = Command {
            op,
            path,
            body,
            watch,
            reply,
        };
        if self.commands.send(command).await.is_err() {
            return Err(self.ended(op));
        }
        answer.await.unwrap_or_else(|_| Err(self.ended(op)))
    }

    /// Why nobody answers any more.
    fn ended(&self, op: OpCode) -> Error {
        match &*self.shared.state.borrow() {
            State::Expired => Error::SessionExpired {
                session: self.shared.session.id,
                server: "the ensemble".into(),
            },
            _ => Error::Closed { op },
        }
    }
}

/// In front of every request's record.
const HEADER_BYTES: usize = 8;
