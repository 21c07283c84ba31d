//! The handle that applications hold.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use bytes::Bytes;
use jute::{Decode, Encode, Limits, Reader, Str};
use parking_lot::Mutex;
use proto::{OpCode, SessionId};
use tokio::sync::{broadcast, mpsc, oneshot, watch};
use tokio::task::JoinHandle;
use tokio::time::Instant;
use tracing::Instrument;

use crate::chores::{Chore, Chores};
use crate::chroot::Chroot;
use crate::driver::{self, Driver};
use crate::error::{Call, Error, Result};
use crate::handshake::Session;
use crate::limits::{COMMANDS_MAX, EVENTS_MAX};
use crate::machine::{
    AddWatchMode, Command, Ends, Hosts, Machine, Registration, Reply, Waiter, WatchEffect,
};
use crate::options::Options;
use crate::protected::uuid;
use crate::state::{State, WatchEvent};
use crate::telling::{Listening, Teller};
use crate::watch::{Watch, WatchStream};

/// A session with a ZooKeeper ensemble. Clones share it.
///
/// Calls may be made concurrently; they go out in the order in which they were first polled and
/// share writes to the socket. When the connection is lost, calls under way fail with
/// [`Error::ConnectionLost`] and the session goes on at the next server that takes it, with its
/// login, credentials and watches; [`state`](Self::state) tells.
///
/// Dropping the last handle drops the connection but leaves the session, with its ephemerals, to
/// time out; [`close`](Self::close) ends it.
///
/// ```no_run
/// use client::{Client, Create, Options};
///
/// # async fn example() -> client::Result<()> {
/// let client = Client::connect(Options::new("127.0.0.1:2181")).await?;
/// client.create("/greeting", "hello", &Create::ephemeral()).await?;
/// let mut state = client.state();
/// tokio::select! {
///     _ = state.wait_for(|state| state.connected_session().is_none()) => println!("cut off"),
///     (data, _) = async { client.get_data("/greeting").await.expect("data") } => println!("{data:?}"),
/// }
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
    state: Listening,
    session: Arc<Mutex<Session>>,
    chores: Arc<Chores>,
    chroot: Chroot,
    random: Mutex<fastrand::Rng>,
    driver: Mutex<Option<Running>>,
    is_renewed: bool,
    request_bytes_max: usize,
    limits: Limits,
}

/// The task behind the handles.
#[derive(Debug)]
struct Running {
    task: JoinHandle<()>,
    leave: oneshot::Sender<()>,
}

impl Client {
    /// Connects to the first server that answers and opens, or goes on with, a session.
    ///
    /// # Errors
    /// That of the last server tried; [`Error::SessionExpired`] and [`Error::Login`] at once.
    pub async fn connect(options: Options) -> Result<Self> {
        if !options.chroot.is_valid() {
            let chroot = options.chroot.as_str().to_owned();
            return Err(Error::Chroot { chroot });
        }
        let mut random = fastrand::Rng::with_seed(options.seed.unwrap_or_else(seed));
        let mut hosts = Hosts::new(&options.servers, options.is_shuffled, random.u64(..));
        let origin = Instant::now();
        let connection = driver::connect(&options, &mut hosts).await?;
        let accepted = &connection.accepted;
        let (commands, inbox) = mpsc::channel(COMMANDS_MAX);
        let (events, _) = broadcast::channel(EVENTS_MAX);
        let (state, state_seen) = Teller::new(State::connected(hosts.current(), accepted));
        let session = Arc::new(Mutex::new(accepted.session.clone()));
        let chores = Arc::<Chores>::default();
        let (leave, leaving) = oneshot::channel();
        let shared = Shared {
            events: events.downgrade(),
            state: state_seen,
            session: Arc::clone(&session),
            chores: Arc::clone(&chores),
            chroot: options.chroot.clone(),
            random: Mutex::new(random),
            driver: Mutex::new(None),
            is_renewed: options.is_renewed,
            request_bytes_max: options.request_bytes_max,
            limits: Limits::from_max_buffer(options.frame_bytes_max, 0),
        };
        let ends = Ends {
            inbox,
            chores: Arc::clone(&chores),
            events,
            state,
            session,
        };
        let driver = Driver {
            machine: Machine::new(options, hosts, ends, Duration::ZERO),
            chores,
            origin,
            leaving,
        };
        let span = tracing::debug_span!("client", session = %accepted.session.id);
        let task = tokio::spawn(driver.run(connection).instrument(span));
        *shared.driver.lock() = Some(Running { task, leave });
        Ok(Self {
            commands,
            shared: Arc::new(shared),
        })
    }

    /// The session: with it another client, or another process, can go on where this one is.
    pub fn session(&self) -> Session {
        self.shared.session.lock().clone()
    }

    /// The session's id. With [`Options::with_renewal`] it may be another one later.
    pub fn session_id(&self) -> SessionId {
        self.shared.session.lock().id
    }

    /// Whether another session follows one that is over: [`Options::with_renewal`].
    pub fn is_renewed(&self) -> bool {
        self.shared.is_renewed
    }

    /// How the session stands, now and later.
    pub fn state(&self) -> watch::Receiver<State> {
        self.shared.state.listen()
    }

    /// Events of all watches from now on, for tools that show what happens. An event is here before
    /// the reply that reveals its change.
    ///
    /// A listener that falls thousands of events behind gets `Lagged` in their place; the channel
    /// ends with the session. Whoever waits for one change takes a handle, with which that cannot
    /// happen: [`watch_data`](Self::watch_data) and its kin.
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
        let running = self.shared.driver.lock().take();
        if let Some(running) = running {
            // It has nothing left to do but to say so.
            let _ = running.task.await;
        }
        Ok(())
    }

    /// Ends this client, with all its handles, and leaves the session open: whoever has it
    /// ([`Options::with_session`]) within its timeout goes on with it, ephemerals and all.
    ///
    /// ```no_run
    /// # use client::{Client, Options};
    /// # async fn example(old: Client) -> client::Result<()> {
    /// let session = old.hand_over().await;
    /// // Here, or in another process that was told id and password:
    /// let new = Client::connect(Options::new("zk1:2181").with_session(session)).await?;
    /// # Ok(())
    /// # }
    /// ```
    pub async fn hand_over(&self) -> Session {
        let running = self.shared.driver.lock().take();
        if let Some(Running { task, leave }) = running {
            // If it has ended already, there is nobody to tell.
            let _ = leave.send(());
            let _ = task.await;
        }
        self.session()
    }

    pub(crate) fn outside(&self, path: &str) -> Str {
        self.shared.chroot.outside(path)
    }

    pub(crate) fn inside(&self, path: Str) -> Str {
        self.shared.chroot.inside(path)
    }

    pub(crate) fn push_chore(&self, chore: Chore) {
        self.shared.chores.push(chore);
    }

    /// For names that nobody else has, not for secrets.
    pub fn random_uuid(&self) -> String {
        uuid(self.shared.random.lock().u128(..))
    }

    /// A handle for a watch on `path`, and what goes with the request that sets it.
    pub(crate) fn new_watch(&self, path: &str, effect: WatchEffect) -> (Watch, Registration) {
        let Shared { chroot, chores, .. } = &*self.shared;
        let (watch, waiter) = Watch::new(path, chroot, chores);
        (watch, self.registration(path, effect, Some(waiter)))
    }

    pub(crate) fn new_stream(&self, path: &str, mode: AddWatchMode) -> (WatchStream, Registration) {
        let Shared { chroot, chores, .. } = &*self.shared;
        let (stream, waiter) = WatchStream::new(path, chroot, chores);
        let effect = WatchEffect::Add(mode);
        (stream, self.registration(path, effect, Some(waiter)))
    }

    /// A watch for the listeners of [`events`](Self::events), or a removal.
    pub(crate) fn registration(
        &self,
        path: &str,
        effect: WatchEffect,
        waiter: Option<Waiter>,
    ) -> Registration {
        let path = self.outside(path);
        Registration {
            effect,
            path,
            waiter,
        }
    }

    /// Sends any operation with any record, as it is, and returns the reply as it is.
    ///
    /// `path` is for errors only, and the record's paths are those of the server: the root of
    /// [`Options::chroot`] is not put in front of them. Watches that the record sets are not set again after a
    /// reconnect; those of the methods are.
    ///
    /// # Errors
    /// As for every operation.
    pub async fn call(&self, op: OpCode, path: Option<Str>, body: Bytes) -> Result<Reply> {
        self.command(op, path, body, None, None).await
    }

    pub(crate) async fn request<T: Decode>(
        &self,
        op: OpCode,
        path: &str,
        record: &impl Encode,
        watch: Option<Registration>,
    ) -> Result<T> {
        let reply = self
            .command(op, Some(self.outside(path)), record.to_bytes(), watch, None)
            .await?;
        self.decode(op, path, reply, T::decode)
    }

    /// A request whose reply has no body of interest.
    pub(crate) async fn request_plain(
        &self,
        op: OpCode,
        path: &str,
        record: &impl Encode,
        watch: Option<Registration>,
    ) -> Result<()> {
        self.command(op, Some(self.outside(path)), record.to_bytes(), watch, None)
            .await
            .map(drop)
    }

    /// A request without a body of interest, in this session or not at all.
    pub(crate) async fn request_in(
        &self,
        session: SessionId,
        op: OpCode,
        path: &str,
        record: &impl Encode,
    ) -> Result<()> {
        let (command, answer) = Command::new(op, Some(self.outside(path)), record.to_bytes());
        let command = Command {
            session: Some(session),
            ..command
        };
        self.send(command, answer).await.map(drop)
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
            call: self.describe(op, Some(self.outside(path))),
            source,
        })
    }

    pub(crate) fn describe(&self, op: OpCode, path: Option<Str>) -> Call {
        let server = match &*self.shared.state.now() {
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
        watch: Option<Registration>,
        is_sent: Option<Arc<AtomicBool>>,
    ) -> Result<Reply> {
        let (command, answer) = Command::new(op, path, body);
        let command = Command {
            watch,
            is_sent,
            ..command
        };
        self.send(command, answer).await
    }

    async fn send(
        &self,
        command: Command,
        answer: oneshot::Receiver<Result<Reply>>,
    ) -> Result<Reply> {
        let op = command.op;
        let limit = self.shared.request_bytes_max;
        let bytes = command.body.len() + HEADER_BYTES;
        if bytes > limit {
            let call = self.describe(op, command.path);
            return Err(Error::TooLarge { call, bytes, limit });
        }
        if self.commands.send(command).await.is_err() {
            return Err(self.ended(op));
        }
        answer.await.unwrap_or_else(|_| Err(self.ended(op)))
    }

    /// Why nobody answers any more.
    fn ended(&self, op: OpCode) -> Error {
        let state = self.shared.state.now();
        state.refusal(op, self.session_id())
    }
}

/// In front of every request's record.
const HEADER_BYTES: usize = 8;

/// Chance enough for the order of servers and for names; a system without randomness has other
/// worries.
fn seed() -> u64 {
    let mut bytes = [0; 8];
    let filled = getrandom::fill(&mut bytes);
    if let Err(error) = filled {
        tracing::warn!(%error, "no random bytes");
    }
    u64::from_ne_bytes(bytes)
}
