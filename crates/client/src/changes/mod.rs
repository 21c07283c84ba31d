//! Stream of committed changes below a path. Each change arrives once and in order, even when
//! members fail.
//!
//! Members that keep a change history (`history.enabled`) serve it at their admin port. Positions
//! are equal on all members. When a member fails, the stream therefore continues from its position
//! at the next member.
//!
//! ```no_run
//! # async fn follow() -> Result<(), Box<dyn std::error::Error>> {
//! use zoarium_client::changes::{ChangeOptions, Changes, Start};
//!
//! let servers = "10.0.0.1:8080,10.0.0.2:8080,10.0.0.3:8080";
//! let options = ChangeOptions::new(servers, "/app")
//!     .with_start(Start::From(zoarium_client::Zxid(0x2_0000_0000)))
//!     .with_authorization("digest reader:secret");
//! let mut changes = Changes::new(options);
//! loop {
//!     let change = changes.next().await?;
//!     println!("{} {} {}", change.position(), change.operation(), change.path());
//!     // A restarted program continues with Start::After.
//!     let _position = changes.position();
//! }
//! # }
//! ```
//!
//! The stream reads ahead only one line and the contents of the socket buffer. A server drops a
//! slow reader after some seconds. The reader then continues from its position.

mod change;
mod failures;
mod lines;
mod options;
#[cfg(test)]
mod tests;

use std::fmt;
use std::pin::Pin;
use std::time::Duration;

use http_body_util::BodyExt;
use hyper::body::Incoming;
use proto::Zxid;
use proto::position::Position;
use tokio::time::Instant;

use crate::admin::{AdminClient, AdminError, LINES, SILENCE_LIMIT, unreachable};

pub use change::{Change, ChangeData};
use failures::Failures;
use lines::{Line, Lines};
pub use options::{ChangeOptions, Start};

/// Admin command of the feed.
const FEED: &str = "history/feed";
/// Pause before all members are tried again.
const PAUSE: Duration = Duration::from_millis(500);

/// Reason why a feed cannot continue.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum ChangesError {
    /// No member keeps the next change any longer, or no member has ever received it.
    #[error(
        "no member stores the next changes; changes after {resume_after} are available: {last}"
    )]
    NotKept {
        /// Position after which changes are available again, according to the members. The feed has
        /// missed the changes up to this position.
        resume_after: Position,
        /// Error of the last member.
        last: AdminError,
    },
    /// The position of the feed is after the last transaction of every member, for example because
    /// a backup was restored. The feed would miss the changes up to its position.
    #[error("position {position} is after the last transaction of all members, {head}")]
    BeyondHead {
        /// Position of the feed.
        position: Position,
        /// Last transaction of the member that has recorded the most.
        head: Zxid,
    },
    /// No member keeps a change history (`history.enabled`).
    #[error("no member keeps a change history: {last}")]
    NoHistory {
        /// Error of the last member.
        last: AdminError,
    },
    /// No member could continue the feed within [`ChangeOptions::with_failure_limit`].
    #[error("no member could continue the feed in time: {last}")]
    Unreachable {
        /// Error of the last member.
        last: AdminError,
    },
    /// A member refused the request for a reason that applies to every member.
    #[error("{0}")]
    Refused(AdminError),
    /// The list of servers is empty.
    #[error("the list of admin servers is empty")]
    NoServers,
}

/// Event of a feed.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum ChangesEvent {
    /// A change.
    Change(Box<Change>),
    /// All visible changes up to the [position](Changes::position) have arrived.
    Progress(Progress),
    /// The connection to a member failed, or the member cannot continue. The feed tries the next
    /// member.
    Lost(AdminError),
}

/// Progress of a feed.
#[derive(Debug, Clone)]
pub struct Progress {
    /// Position up to which all changes have arrived.
    pub position: Position,
    /// Number of changes since the start of this connection that the reader may not see.
    pub hidden: u64,
    /// Last transaction that the member has recorded, if the member reported it.
    pub head: Option<Zxid>,
    line: bytes::Bytes,
}

impl Progress {
    /// Returns the line that the server sent: a JSON object and a line feed.
    pub fn line(&self) -> &[u8] {
        &self.line
    }
}

/// Feed of changes. See the [module](self).
#[derive(Debug)]
#[must_use = "a feed reads changes only in `next`, and dropping it closes its connection"]
pub struct Changes {
    client: AdminClient,
    options: ChangeOptions,
    position: Option<Position>,
    connection: Option<Connection>,
    /// Connection attempt to the next member. It stays here if a call is dropped, and the next call
    /// continues it.
    connecting: Option<Connecting>,
    /// Index of the next member.
    next_server: usize,
    failures: Failures,
    pause_until: Option<Instant>,
}

#[derive(Debug)]
struct Connection {
    server: String,
    body: Incoming,
    lines: Lines,
    /// Start of the current wait for data, across all calls.
    silent_since: Option<Instant>,
}

struct Connecting(Pin<Box<dyn Future<Output = Result<Connection, AdminError>> + Send>>);

impl fmt::Debug for Connecting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Connecting")
    }
}

impl Changes {
    /// Constructs a feed that connects at the first call for a change.
    pub fn new(options: ChangeOptions) -> Self {
        Self {
            client: options.admin_client(),
            position: match options.start {
                Start::After(position) => Some(position),
                Start::Now | Start::From(_) => None,
            },
            options,
            connection: None,
            connecting: None,
            next_server: 0,
            failures: Failures::default(),
            pause_until: None,
        }
    }

    /// Returns the position up to which all changes have arrived. Returns `None` if the feed
    /// started with [`Start::Now`] or [`Start::From`] and has not received a position yet. A feed
    /// that starts [after](Start::After) this position continues this feed.
    pub fn position(&self) -> Option<Position> {
        self.position
    }

    /// Returns the next change. Waits for the change and, if no member is reachable, for the
    /// members until [`ChangeOptions::with_failure_limit`] has passed.
    ///
    /// The future may be dropped while it waits. No change is lost.
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

    /// Returns the next event.
    ///
    /// The future may be dropped while it waits. No event is lost.
    ///
    /// # Errors
    /// See [`ChangesError`]. Another call tries again.
    pub async fn next_event(&mut self) -> Result<ChangesEvent, ChangesError> {
        if self.client.servers().is_empty() {
            return Err(ChangesError::NoServers);
        }
        match self.read().await {
            Ok(event) => Ok(event),
            Err(error) => self.lose(error),
        }
    }

    /// Returns the next event if it has already arrived. A program can use this function to write
    /// several events with one operation.
    ///
    /// # Errors
    /// See [`ChangesError`]. Another call tries again.
    pub fn ready_event(&mut self) -> Result<Option<ChangesEvent>, ChangesError> {
        match self.take_line() {
            Ok(event) => Ok(event),
            Err(error) => self.lose(error).map(Some),
        }
    }

    /// Selects the next member after a member failed. Returns an error if the feed cannot continue.
    fn lose(&mut self, error: AdminError) -> Result<ChangesEvent, ChangesError> {
        self.connection = None;
        if !error.may_be_known_elsewhere() {
            return Err(ChangesError::Refused(error));
        }
        self.note_failure(&error)?;
        Ok(ChangesEvent::Lost(error))
    }

    fn note_failure(&mut self, error: &AdminError) -> Result<(), ChangesError> {
        let members = self.client.servers().len();
        let now = Instant::now();
        self.next_server = (self.next_server + 1) % members;
        if !self.failures.note(error, members, now) {
            return Ok(());
        }
        self.pause_until = Some(now + PAUSE);
        let limit = self.options.failure_limit;
        self.failures
            .end_round(error, limit, now)
            .map_or(Ok(()), Err)
    }

    /// Reads the next event from a member. Connects first if no connection exists.
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

    /// Returns the event of the next line if the whole line has arrived.
    fn take_line(&mut self) -> Result<Option<ChangesEvent>, AdminError> {
        let Some(connection) = &mut self.connection else {
            return Ok(None);
        };
        let Some(line) = connection.next_line(self.position)? else {
            return Ok(None);
        };
        let (position, event) = match line {
            Line::Change(change) => (change.position(), ChangesEvent::Change(Box::new(change))),
            Line::Progress(progress) => {
                let position = progress.position;
                // The member has not yet recorded the changes up to this position, and would later
                // omit them from the feed.
                if let Some(head) = progress.head.filter(|head| *head < position.zxid) {
                    return Err(AdminError::Lagging {
                        server: connection.server.clone(),
                        position,
                        head,
                    });
                }
                (position, ChangesEvent::Progress(progress))
            }
            Line::End(end) => {
                // Transactions without a visible change may precede the end. Without this position,
                // every member would process them again and end the feed again.
                self.position = end.position.or(self.position);
                return Err(end.into_error(&connection.server));
            }
        };
        self.failures = Failures::default();
        self.position = Some(position);
        Ok(Some(event))
    }

    fn connect(&self) -> Connecting {
        let server = self.client.servers()[self.next_server].clone();
        let parameters = self.options.parameters(self.position);
        let client = self.client.clone();
        Connecting(Box::pin(async move {
            let opening = client.open_one(&server, FEED, &parameters, LINES);
            Ok(Connection {
                body: opening.await?.into_body(),
                server,
                lines: Lines::default(),
                silent_since: None,
            })
        }))
    }
}

impl Connection {
    /// Returns the next complete line, or `None` until more data arrives. A line that is out of
    /// order after `position` is an error.
    fn next_line(&mut self, position: Option<Position>) -> Result<Option<Line>, AdminError> {
        let line = self.lines.next(position);
        line.map_err(|reason| unreachable(&self.server, &reason))
    }

    async fn read_more(&mut self) -> Result<(), AdminError> {
        let server = &self.server;
        let since = *self.silent_since.get_or_insert_with(Instant::now);
        let frame = tokio::time::timeout_at(since + SILENCE_LIMIT, self.body.frame()).await;
        self.silent_since = None;
        let frame = frame.map_err(|_| unreachable(server, &"the server stopped sending"))?;
        let frame = frame.ok_or_else(|| unreachable(server, &"the feed was interrupted"))?;
        let frame = frame.map_err(|error| unreachable(server, &error))?;
        if let Ok(data) = frame.into_data() {
            self.lines.put(&data);
        }
        Ok(())
    }
}
