//! A stream of committed changes below a path, each once and in order, over the loss of members.
//!
//! Members that keep a change history (`history.enabled`) serve it at their admin port. A position is
//! the same on all of them, so when one is lost the next goes on where it was.
//!
//! ```no_run
//! # async fn follow() -> Result<(), Box<dyn std::error::Error>> {
//! use client::changes::{ChangeOptions, Changes, Start};
//!
//! let servers = "10.0.0.1:8080,10.0.0.2:8080,10.0.0.3:8080";
//! let options = ChangeOptions::new(servers, "/app")
//!     .with_start(Start::From(proto::Zxid(0x2_0000_0000)))
//!     .with_authorization("digest reader:secret");
//! let mut changes = Changes::new(options);
//! loop {
//!     let change = changes.next().await?;
//!     println!("{} {} {}", change.position(), change.operation(), change.path());
//!     // Where a program that is started again goes on: Start::After.
//!     let _position = changes.position();
//! }
//! # }
//! ```
//!
//! Nothing is read ahead but what the socket holds and one line: a reader that is slow is dropped by
//! its server after some seconds, and goes on from its position.

mod change;
mod lines;
mod options;
#[cfg(test)]
mod tests;

use std::fmt;
use std::pin::Pin;
use std::time::Duration;

use http_body_util::BodyExt;
use hyper::StatusCode;
use hyper::body::Incoming;
use proto::position::Position;
use tokio::time::Instant;

use crate::admin::{AdminClient, AdminError, LINES, SILENCE_LIMIT, unreachable};

pub use change::{Change, ChangeData};
use lines::{Line, Lines};
pub use options::{ChangeOptions, Start};

/// The command.
const FEED: &str = "history/feed";
/// Until all members are tried once more.
const PAUSE: Duration = Duration::from_millis(500);

/// Why a feed cannot go on.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum ChangesError {
    /// No member keeps what is next any more, or none has ever seen it.
    #[error("no member keeps what is next; changes after {resume_after} are there: {last}")]
    NotKept {
        /// Behind this there are changes again, as far as members say; what is before it is lost to this
        /// feed.
        resume_after: Position,
        /// What the last member said.
        last: AdminError,
    },
    /// A member refuses in a way in which every one would.
    #[error("{0}")]
    Refused(AdminError),
    /// No servers were named.
    #[error("no admin server named to connect to")]
    NoServers,
}

/// What there is to tell.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum ChangesEvent {
    /// A change.
    Change(Box<Change>),
    /// There is nothing else up to the [position](Changes::position), but for what may not be seen.
    Progress(Progress),
    /// A member was lost, or cannot go on; the next one is tried.
    Lost(AdminError),
}

/// How far a feed is.
#[derive(Debug, Clone)]
pub struct Progress {
    /// All up to here was told.
    pub position: Position,
    /// Changes that may not be seen, since this connection was made.
    pub hidden: u64,
    line: bytes::Bytes,
}

impl Progress {
    /// As the server sent it: an object of JSON and the end of the line.
    pub fn line(&self) -> &[u8] {
        &self.line
    }
}

/// Follows changes; see the [module](self).
#[derive(Debug)]
pub struct Changes {
    client: AdminClient,
    options: ChangeOptions,
    position: Option<Position>,
    connection: Option<Connection>,
    /// The connection to the member to be asked next, on its way: a call that is dropped meanwhile
    /// does not begin it anew.
    connecting: Option<Connecting>,
    /// The member to be asked next.
    next_server: usize,
    /// How many in a row could not go on.
    failed: usize,
    /// How many of them said that what is next is not kept, and where they could go on.
    not_kept: (usize, Option<Position>),
    pause_until: Option<Instant>,
}

#[derive(Debug)]
struct Connection {
    server: String,
    body: Incoming,
    lines: Lines,
    /// Since when more is waited for, over all calls that did.
    silent_since: Option<Instant>,
}

struct Connecting(Pin<Box<dyn Future<Output = Result<Connection, AdminError>> + Send>>);

impl fmt::Debug for Connecting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Connecting")
    }
}

impl Changes {
    /// A feed that connects with the first call for a change.
    pub fn new(options: ChangeOptions) -> Self {
        let client = AdminClient {
            servers: options.servers.clone(),
            authorization: options.authorization.clone(),
            connector: options.connector.clone(),
        };
        Self {
            client,
            position: match options.start {
                Start::After(position) => Some(position),
                Start::Now | Start::From(_) => None,
            },
            options,
            connection: None,
            connecting: None,
            next_server: 0,
            failed: 0,
            not_kept: (0, None),
            pause_until: None,
        }
    }

    /// All up to here was told; `None` before anything was. A feed that begins [after](Start::After) it
    /// goes on.
    pub fn position(&self) -> Option<Position> {
        self.position
    }

    /// The next change, waiting for it and for members to come back.
    ///
    /// May be dropped while it waits: nothing is lost.
    ///
    /// # Errors
    /// See [`ChangesError`]. Another call tries again.
    pub async fn next(&mut self) -> Result<Change, ChangesError> {
        loop {
            if let ChangesEvent::Change(change) = self.next_event().await? {
                return Ok(*change);
            }
        }
    }

    /// The next change, or what else there is to tell.
    ///
    /// May be dropped while it waits: nothing is lost.
    ///
    /// # Errors
    /// As [`next`](Self::next).
    pub async fn next_event(&mut self) -> Result<ChangesEvent, ChangesError> {
        if self.client.servers.is_empty() {
            return Err(ChangesError::NoServers);
        }
        match self.read().await {
            Ok(event) => Ok(event),
            Err(error) => self.lose(error),
        }
    }

    /// The next event if it has come already: whoever writes what it gets need not do so for each.
    ///
    /// # Errors
    /// As [`next`](Self::next).
    pub fn ready_event(&mut self) -> Result<Option<ChangesEvent>, ChangesError> {
        match self.take_line() {
            Ok(event) => Ok(event),
            Err(error) => self.lose(error).map(Some),
        }
    }

    /// A member cannot go on.
    fn lose(&mut self, told: AdminError) -> Result<ChangesEvent, ChangesError> {
        self.connection = None;
        if !told.may_be_known_elsewhere() {
            return Err(ChangesError::Refused(told));
        }
        self.note_failure(&told)?;
        Ok(ChangesEvent::Lost(told))
    }

    fn note_failure(&mut self, told: &AdminError) -> Result<(), ChangesError> {
        self.next_server = (self.next_server + 1) % self.client.servers.len();
        self.failed += 1;
        if let AdminError::Refused { status, answer, .. } = told
            && *status == StatusCode::GONE
        {
            let offered = answer["resume_after"].as_str();
            let offered = offered.and_then(|text| Position::parse(text).ok());
            let (count, nearest) = self.not_kept;
            let both = nearest.into_iter().chain(offered);
            self.not_kept = (count + 1, both.min());
        }
        if self.failed < self.client.servers.len() {
            return Ok(());
        }
        self.pause_until = Some(Instant::now() + PAUSE);
        let (refusals, nearest) = self.not_kept;
        let all = self.failed;
        self.forget_failures();
        match nearest {
            Some(resume_after) if refusals == all => Err(ChangesError::NotKept {
                resume_after,
                last: told.clone(),
            }),
            _ => Ok(()),
        }
    }

    fn forget_failures(&mut self) {
        (self.failed, self.not_kept) = (0, (0, None));
    }

    /// What comes next from a member, which is connected to if none is.
    async fn read(&mut self) -> Result<ChangesEvent, AdminError> {
        if self.connection.is_none() {
            if let Some(until) = self.pause_until {
                tokio::time::sleep_until(until).await;
                self.pause_until = None;
            }
            let connected = match &mut self.connecting {
                Some(connecting) => connecting.0.as_mut().await,
                None => {
                    let connecting = self.connect();
                    self.connecting.insert(connecting).0.as_mut().await
                }
            };
            self.connecting = None;
            self.connection = Some(connected?);
        }
        loop {
            if let Some(event) = self.take_line()? {
                return Ok(event);
            }
            if let Some(connection) = &mut self.connection {
                connection.read_more().await?;
            }
        }
    }

    /// What the next line says, if one is there.
    fn take_line(&mut self) -> Result<Option<ChangesEvent>, AdminError> {
        let Some(connection) = &mut self.connection else {
            return Ok(None);
        };
        let Some(line) = connection.next_line(self.position)? else {
            return Ok(None);
        };
        self.forget_failures();
        self.position = Some(line.position());
        Ok(Some(match line {
            Line::Change(change) => ChangesEvent::Change(Box::new(change)),
            Line::Progress(progress) => ChangesEvent::Progress(progress),
        }))
    }

    fn connect(&self) -> Connecting {
        let server = self.client.servers[self.next_server].clone();
        let parameters = self.options.parameters(self.position);
        let client = self.client.clone();
        Connecting(Box::pin(async move {
            let asked = client.open_one(&server, FEED, &parameters, LINES);
            Ok(Connection {
                body: asked.await?.into_body(),
                server,
                lines: Lines::default(),
                silent_since: None,
            })
        }))
    }
}

impl Connection {
    /// The next line that is there whole; its position is behind the one given.
    fn next_line(&mut self, position: Option<Position>) -> Result<Option<Line>, AdminError> {
        let line = self.lines.next(position);
        line.map_err(|reason| unreachable(&self.server, &reason))
    }

    async fn read_more(&mut self) -> Result<(), AdminError> {
        let server = &self.server;
        let since = *self.silent_since.get_or_insert_with(Instant::now);
        let frame = tokio::time::timeout_at(since + SILENCE_LIMIT, self.body.frame()).await;
        self.silent_since = None;
        let frame = frame.map_err(|_| unreachable(server, &"it says nothing any more"))?;
        let frame = frame.ok_or_else(|| unreachable(server, &"the feed broke off"))?;
        let frame = frame.map_err(|error| unreachable(server, &error))?;
        if let Ok(data) = frame.into_data() {
            self.lines.put(&data);
        }
        Ok(())
    }
}
