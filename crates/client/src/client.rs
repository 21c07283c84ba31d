//! Handle with which an application uses a session.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use bytes::Bytes;
use jute::{Decode, Encode, Limits, Reader, Str};
use parking_lot::Mutex;
use proto::{OpCode, SessionId};
use tokio::sync::{broadcast, mpsc, oneshot, watch};
use tokio::task::JoinHandle;
use tracing::Instrument;

use crate::chroot::Chroot;
use crate::cleanup::{Cleanup, CleanupQueue};
use crate::create::{CONTAINER_SEQUENTIAL, is_sequential};
use crate::driver::{self, Driver};
use crate::error::{Call, Error, Result};
use crate::handshake::Session;
use crate::limits::{COMMANDS_MAX, EVENTS_MAX};
use crate::machine::{
    AddWatchMode, Command, Hosts, Machine, MachineChannels, NewServers, Registration, Reply,
    WatchEffect,
};
use crate::options::{Options, WallClock, with_port};
use crate::path::{PathFault, check_path, check_prefix};
use crate::protected::uuid;
use crate::state::{State, WatchEvent};
use crate::state_channel::{StateReceiver, StateSender};
use crate::watch::{Watch, WatchStream};

/// A session with a ZooKeeper ensemble. Clones share the session.
///
/// Calls may run concurrently. They are sent in the order in which they were first polled, and
/// share writes to the socket. When the connection is lost, calls in flight fail with
/// [`Error::ConnectionLost`]. The session continues at the next server that accepts it, with its
/// login, credentials and watches. [`state`](Self::state) reports such changes.
///
/// Dropping the last handle closes the connection, but the session and its ephemerals stay until
/// the session timeout. [`close`](Self::close) ends the session.
///
/// ```no_run
/// use zoarium_client::{Client, Create, Options};
///
/// # async fn example() -> zoarium_client::Result<()> {
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
#[must_use = "dropping the last handle closes the connection, and later ends the session"]
pub struct Client {
    commands: mpsc::Sender<Command>,
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    /// Weak, so that subscribers see the channel end when the driver has ended.
    events: broadcast::WeakSender<WatchEvent>,
    state: StateReceiver,
    session: Arc<Mutex<Session>>,
    cleanups: Arc<CleanupQueue>,
    new_servers: NewServers,
    chroot: Chroot,
    random: Mutex<fastrand::Rng>,
    driver: Mutex<Option<Running>>,
    is_renewed: bool,
    wall_clock: Option<Arc<dyn WallClock>>,
    request_bytes_max: usize,
    limits: Limits,
}

/// Task that serves the handles.
#[derive(Debug)]
struct Running {
    task: JoinHandle<()>,
    leave: oneshot::Sender<()>,
}

impl Client {
    /// Connects to the first server that answers, and opens a session or continues an existing one.
    /// Tries each server once, unless [`Options::with_wait`] is set.
    ///
    /// If the future is dropped, the client closes its connection. A new session may remain on a
    /// server until its timeout.
    ///
    /// # Errors
    /// The error of the last server tried. [`Error::SessionExpired`] and [`Error::Login`] are
    /// returned without trying further servers.
    pub async fn connect(options: Options) -> Result<Self> {
        options.chroot.check().map_err(|reason| Error::Chroot {
            chroot: options.chroot.as_str().to_owned(),
            reason,
        })?;
        let mut random = fastrand::Rng::with_seed(options.seed.unwrap_or_else(seed));
        let mut hosts = Hosts::new(&options.servers, options.is_shuffled, random.u64(..));
        // The session began with this attempt. Earlier failed attempts do not shorten it.
        let (connection, origin) = driver::connect(&options, &mut hosts).await?;
        let accepted = &connection.accepted;
        let (commands, inbox) = mpsc::channel(COMMANDS_MAX);
        let (events, _) = broadcast::channel(EVENTS_MAX);
        let (state, state_seen) = StateSender::new(State::connected(hosts.current(), accepted));
        let session = Arc::new(Mutex::new(accepted.session.clone()));
        let cleanups = Arc::<CleanupQueue>::default();
        let new_servers = NewServers::default();
        let (leave, leaving) = oneshot::channel();
        let shared = Shared {
            events: events.downgrade(),
            state: state_seen,
            session: Arc::clone(&session),
            cleanups: Arc::clone(&cleanups),
            new_servers: Arc::clone(&new_servers),
            chroot: options.chroot.clone(),
            random: Mutex::new(random),
            driver: Mutex::new(None),
            is_renewed: options.is_renewed,
            wall_clock: options.wall_clock.clone(),
            request_bytes_max: options.request_bytes_max,
            limits: Limits::from_max_buffer(options.frame_bytes_max, 0),
        };
        let ends = MachineChannels {
            new_servers,
            inbox,
            cleanups: Arc::clone(&cleanups),
            events,
            state,
            session,
        };
        let driver = Driver {
            machine: Machine::new(options, hosts, ends, Duration::ZERO),
            cleanups,
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

    /// Returns the session. Another client, or another process, can continue this session.
    pub fn session(&self) -> Session {
        self.shared.session.lock().clone()
    }

    /// Returns the session's id. With [`Options::with_renewal`] the id can change.
    pub fn session_id(&self) -> SessionId {
        self.shared.session.lock().id
    }

    /// Returns whether a new session replaces an expired one. See [`Options::with_renewal`].
    pub fn is_renewed(&self) -> bool {
        self.shared.is_renewed
    }

    /// Replaces the servers, for example after a reconfiguration. Each is `host:port`, and the
    /// default port is 2181.
    ///
    /// If the list does not contain the `host:port` of the connected server, the client waits for
    /// the answers to the requests in flight, and then continues the session at a server of the
    /// list. [`State::Reconnecting`] reports the change. Otherwise the connection stays, and the
    /// client uses the list from the next connection attempt on.
    ///
    /// # Errors
    /// [`Error::NoServers`] if the list is empty.
    pub fn set_servers(&self, servers: &[&str]) -> Result<()> {
        if servers.is_empty() {
            return Err(Error::NoServers);
        }
        let servers = servers.iter().map(|server| with_port(server));
        *self.shared.new_servers.lock() = Some(servers.collect());
        self.shared.cleanups.woken.notify_one();
        Ok(())
    }

    /// Subscribes to the state of the session.
    #[must_use = "dropping the receiver ends the subscription"]
    pub fn state(&self) -> watch::Receiver<State> {
        self.shared.state.listen()
    }

    /// Subscribes to the events of all watches from now on, for tools that display events. An event
    /// arrives before the reply that reveals its change.
    ///
    /// A listener that is thousands of events late receives `Lagged` instead of the missed events.
    /// The channel ends with the session. A [`Watch`] cannot miss its change, so use
    /// [`watch_data`](Self::watch_data) and similar methods to wait for one change.
    #[must_use = "dropping the receiver ends the subscription"]
    pub fn events(&self) -> broadcast::Receiver<WatchEvent> {
        match self.shared.events.upgrade() {
            Some(events) => events.subscribe(),
            None => broadcast::channel(1).1,
        }
    }

    /// Ends the session. The server deletes the session's ephemerals and closes the connection.
    ///
    /// Concurrent calls wait for the same request. A call on a closed client succeeds. If the
    /// future is dropped, the session may or may not end, and the call can be repeated.
    ///
    /// # Errors
    /// If no server confirmed the end of the session. The session then ends at its timeout.
    /// [`Error::SessionExpired`] or [`Error::Login`] if the session had already ended for that
    /// reason.
    pub async fn close(&self) -> Result<()> {
        let mut state = self.state();
        loop {
            state.mark_unchanged();
            match self.call(OpCode::CloseSession, None, Bytes::new()).await {
                Ok(_) => break,
                Err(Error::Closed { .. }) if *state.borrow() == State::Closed => break,
                // Another call is closing the client. If that call fails, this call sends the
                // request again.
                Err(Error::Closed { .. }) => {
                    if state.changed().await.is_err() {
                        break;
                    }
                }
                Err(error) => return Err(error),
            }
        }
        let running = self.shared.driver.lock().take();
        if let Some(running) = running {
            // This wait is short, because the driver only has to report the end of the session.
            let _ = running.task.await;
        }
        Ok(())
    }

    /// Ends this client and all its handles, but leaves the session open. Within the timeout,
    /// another client can continue it, with its ephemerals ([`Options::with_session`]).
    ///
    /// ```no_run
    /// # use zoarium_client::{Client, Options};
    /// # async fn example(old: Client) -> zoarium_client::Result<()> {
    /// let session = old.hand_over().await;
    /// // Here, or in another process that received the id and the password:
    /// let new = Client::connect(Options::new("zk1:2181").with_session(session)).await?;
    /// # Ok(())
    /// # }
    /// ```
    pub async fn hand_over(&self) -> Session {
        let running = self.shared.driver.lock().take();
        if let Some(Running { task, leave }) = running {
            // Sending fails if the driver has already ended.
            let _ = leave.send(());
            let _ = task.await;
        }
        self.session()
    }

    /// Converts a path of the application to a server path.
    ///
    /// # Errors
    /// [`Error::Path`] if the path is invalid.
    pub(crate) fn outside(&self, path: &str) -> Result<Str> {
        check_path(path).map_err(|reason| invalid(path, reason))?;
        Ok(self.shared.chroot.outside(path))
    }

    /// Converts a prefix of the application's paths to a server path. The prefix may end in a
    /// slash.
    ///
    /// # Errors
    /// [`Error::Path`] if no valid path has this prefix.
    pub(crate) fn outside_prefix(&self, prefix: &str) -> Result<Str> {
        check_prefix(prefix).map_err(|reason| invalid(prefix, reason))?;
        Ok(self.shared.chroot.outside_prefix(prefix))
    }

    /// Converts the path of a new znode to a server path.
    ///
    /// # Errors
    /// If the path is invalid, or `flags` describe a sequential container.
    pub(crate) fn outside_to_create(&self, path: &str, flags: i32) -> Result<Str> {
        if flags == CONTAINER_SEQUENTIAL {
            let path = path.to_owned();
            return Err(Error::SequentialContainer { path });
        }
        if is_sequential(flags) {
            self.outside_prefix(path)
        } else {
            self.outside(path)
        }
    }

    pub(crate) fn inside(&self, path: Str) -> Str {
        self.shared.chroot.inside(path)
    }

    pub(crate) fn push_cleanup(&self, cleanup: Cleanup) {
        self.shared.cleanups.push(cleanup);
    }

    /// Returns a random UUID for unique names. Do not use it as a secret.
    pub fn random_uuid(&self) -> String {
        uuid(self.shared.random.lock().u128(..))
    }

    /// Returns the clock that replaces the system clock, if any.
    pub fn wall_clock(&self) -> Option<&dyn WallClock> {
        self.shared.wall_clock.as_deref()
    }

    /// Creates a handle for a watch on `path`, and the registration for the request that sets the
    /// watch.
    pub(crate) fn new_watch(
        &self,
        path: &str,
        effect: WatchEffect,
    ) -> Result<(Watch, Registration)> {
        let outside = self.outside(path)?;
        let Shared {
            chroot, cleanups, ..
        } = &*self.shared;
        let (watch, waiter) = Watch::new(path, chroot, cleanups);
        let registration = Registration {
            effect,
            path: outside,
            waiter: Some(waiter),
        };
        Ok((watch, registration))
    }

    pub(crate) fn new_stream(
        &self,
        path: &str,
        mode: AddWatchMode,
    ) -> Result<(WatchStream, Registration)> {
        let outside = self.outside(path)?;
        let Shared {
            chroot, cleanups, ..
        } = &*self.shared;
        let (stream, waiter) = WatchStream::new(path, chroot, cleanups);
        let registration = Registration {
            effect: WatchEffect::Add(mode),
            path: outside,
            waiter: Some(waiter),
        };
        Ok((stream, registration))
    }

    /// Creates the registration of a watch for the listeners of [`events`](Self::events), or the
    /// registration of a removal.
    pub(crate) fn registration(&self, path: &str, effect: WatchEffect) -> Result<Registration> {
        Ok(Registration {
            effect,
            path: self.outside(path)?,
            waiter: None,
        })
    }

    /// Sends an operation with an encoded record, and returns the reply unchanged.
    ///
    /// `path` is used only in errors. The paths in the record are server paths, so the root of
    /// [`Options::chroot`] is not added to them, and the client does not check them. Watches that
    /// the record sets are not set again after a reconnect, unlike watches of the other methods.
    ///
    /// # Errors
    /// See [`Error`].
    pub async fn call(&self, op: OpCode, path: Option<Str>, body: Bytes) -> Result<Reply> {
        self.command(op, path, body, None, None).await
    }

    /// Sends a request about `path`, which is a server path, and decodes the reply.
    pub(crate) async fn request<T: Decode>(
        &self,
        op: OpCode,
        path: Str,
        record: &impl Encode,
        watch: Option<Registration>,
    ) -> Result<T> {
        let path = Some(path);
        let reply = self
            .command(op, path.clone(), record.to_bytes(), watch, None)
            .await?;
        self.decode(op, path, reply, T::decode)
    }

    /// Sends a request whose reply body is not used.
    pub(crate) async fn request_plain(
        &self,
        op: OpCode,
        path: Str,
        record: &impl Encode,
        watch: Option<Registration>,
    ) -> Result<()> {
        self.command(op, Some(path), record.to_bytes(), watch, None)
            .await
            .map(drop)
    }

    /// Sends a request only if `session` is the current session. The reply body is not used.
    pub(crate) async fn request_in(
        &self,
        session: SessionId,
        op: OpCode,
        path: Str,
        record: &impl Encode,
    ) -> Result<()> {
        let (command, answer) = Command::new(op, Some(path), record.to_bytes());
        let command = Command {
            session: Some(session),
            ..command
        };
        self.send(command, answer).await.map(drop)
    }

    pub(crate) fn decode<T>(
        &self,
        op: OpCode,
        path: Option<Str>,
        reply: Reply,
        decode: impl FnOnce(&mut Reader) -> Result<T, jute::DecodeError>,
    ) -> Result<T> {
        let mut input = Reader::with_limits(reply.body, self.shared.limits);
        decode(&mut input).map_err(|source| Error::Reply {
            call: self.describe(op, path),
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

    /// Returns the error for a request after the end of the driver.
    fn ended(&self, op: OpCode) -> Error {
        let state = self.shared.state.now();
        state.refusal(op, self.session_id())
    }
}

fn invalid(path: &str, reason: PathFault) -> Error {
    Error::Path {
        path: path.to_owned(),
        reason,
    }
}

/// Bytes of the header before every request's record.
const HEADER_BYTES: usize = 8;

/// Returns a random seed for the order of servers and for names, or 0 if the random source of the
/// system fails.
fn seed() -> u64 {
    let mut bytes = [0; 8];
    let filled = getrandom::fill(&mut bytes);
    if let Err(error) = filled {
        tracing::warn!(%error, "cannot get random bytes");
    }
    u64::from_ne_bytes(bytes)
}
