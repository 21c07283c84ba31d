//! A candidate that leads until it is closed.

use std::sync::Arc;

use bytes::Bytes;
use client::Client;
use proto::ErrorCode;
use tokio::sync::watch;
use tokio::task::JoinHandle;

use crate::error::{Error, Result};
use crate::names::{LATCHES, Layout, ordered};
use crate::place::{Doubt, Place, Queue, Turn};
use crate::selector::Leadership;
use crate::session::{check_path, connected, either_changes, insist, until_other};

/// A candidate for leadership, from its start until it is closed or dropped; once it leads, it does
/// so until then, or until its session ends.
///
/// A lost connection means: not leader, at once. If the session outlives it, the place in the queue
/// is kept and leadership comes back without an election.
///
/// ```
/// # tests::documented(async |client| {
/// use recipes::LeaderLatch;
///
/// let latch = LeaderLatch::start(&client, "/leaders/scheduler", "host-7")?;
/// let leadership = latch.leads().await?;
/// println!("leading with token {}", leadership.token());
/// # let mut pieces = 3;
/// while latch.has_leadership() {
///     // One piece of work, with the token where it matters.
/// #     pieces -= 1;
/// #     if pieces == 0 { break }
/// }
/// latch.close().await;
/// # Ok::<_, recipes::Error>(())
/// # });
/// ```
///
/// | | requests | notifications |
/// |---|---|---|
/// | candidate | create, getChildren, getData | 0 |
/// | change of leader | delete, getChildren, getData | 1 |
///
/// Source: LeaderLatch. Unlike it, this one watches its own znode while it leads, and so notices
/// when an operator deletes it.
#[derive(Debug)]
pub struct LeaderLatch {
    queue: Queue,
    standing: watch::Receiver<Standing>,
    stop: watch::Sender<bool>,
    task: Option<JoinHandle<()>>,
}

/// One candidate of an election.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Participant {
    /// What it gave as its id.
    pub id: Bytes,
    /// Whether it is the first in the queue.
    pub is_leader: bool,
}

/// What the candidate's task knows.
#[derive(Debug, Clone)]
enum Standing {
    Waiting,
    Leading(Arc<Place>),
    Over(Option<Error>),
}

impl LeaderLatch {
    /// Joins the election at `path`, which is made when it is needed, with an id that others can
    /// read. It goes on behind the scenes; this is to be called within a tokio runtime.
    ///
    /// # Errors
    /// If the path cannot be one.
    pub fn start(client: &Client, path: &str, id: impl Into<Bytes>) -> Result<Self> {
        check_path(path)?;
        let queue = Queue {
            client: client.clone(),
            directory: path.to_owned(),
            layout: Layout::Curator,
            words: LATCHES,
        };
        let (standing_seen, standing) = watch::channel(Standing::Waiting);
        let (stop, stopped) = watch::channel(false);
        let task = Candidate {
            queue: queue.clone(),
            id: id.into(),
            standing: standing_seen,
        };
        let task = tokio::spawn(task.run(stopped));
        Ok(Self {
            queue,
            standing,
            stop,
            task: Some(task),
        })
    }

    /// The leadership, if this one leads and the client is connected at this moment.
    pub fn leadership(&self) -> Option<Leadership> {
        match &*self.standing.borrow() {
            Standing::Leading(place) if place.is_certain() => Some(Leadership::of(place)),
            _ => None,
        }
    }

    /// Whether this one leads at this moment.
    pub fn has_leadership(&self) -> bool {
        self.leadership().is_some()
    }

    /// Waits until this one leads.
    ///
    /// # Errors
    /// If it never will: it was closed, or the client is over.
    pub async fn leads(&self) -> Result<Leadership> {
        let mut standing = self.standing.clone();
        let mut state = self.queue.client.state();
        loop {
            state.mark_unchanged();
            if let Standing::Over(error) = &*standing.borrow_and_update() {
                return Err(self.over(error.as_ref()));
            }
            if let Some(leadership) = self.leadership() {
                return Ok(leadership);
            }
            if !either_changes(&mut standing, &mut state).await {
                return Err(self.over(None));
            }
        }
    }

    /// Waits until the leadership of this moment is over, or not certain; at once if there is none.
    pub async fn yields(&self) {
        let token = || self.leadership().map(|leadership| leadership.token());
        until_other(&self.queue.client, self.standing.clone(), token).await;
    }

    fn over(&self, error: Option<&Error>) -> Error {
        let path = self.queue.directory.clone();
        error.cloned().unwrap_or(Error::Closed { path })
    }

    /// The candidates in the order in which they will lead.
    ///
    /// # Errors
    /// If a server refuses that.
    pub async fn participants(&self) -> Result<Vec<Participant>> {
        let names = self.queue.list().await?.unwrap_or_default();
        let client = &self.queue.client;
        let mut participants = Vec::new();
        for name in ordered(names.iter().map(String::as_str), LATCHES) {
            let path = format!("{}/{name}", self.queue.directory);
            let read = || client.get_data(&path);
            match insist(client, read).await {
                Ok((data, _)) => participants.push(Participant {
                    id: data.unwrap_or_default(),
                    is_leader: participants.is_empty(),
                }),
                Err(error) if error.code() == Some(ErrorCode::NoNode) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(participants)
    }

    /// Leaves the election. When this returns, the candidate is gone, or seen to behind the scenes
    /// if the connection was lost.
    pub async fn close(mut self) {
        self.stop.send_replace(true);
        if let Some(task) = self.task.take() {
            // It has nothing to say.
            let _ = task.await;
        }
    }
}

impl Drop for LeaderLatch {
    fn drop(&mut self) {
        self.stop.send_replace(true);
    }
}

/// The task behind a latch.
struct Candidate {
    queue: Queue,
    id: Bytes,
    standing: watch::Sender<Standing>,
}

impl Candidate {
    async fn run(self, mut stopped: watch::Receiver<bool>) {
        let end = tokio::select! {
            biased;
            _ = stopped.wait_for(|stopped| *stopped) => None,
            error = self.stand() => Some(error),
        };
        let before = self.standing.send_replace(Standing::Over(end));
        if let Standing::Leading(place) = before
            && let Some(place) = Arc::into_inner(place)
            && let Err(error) = place.leave().await
        {
            tracing::warn!(%error, "a candidate cannot be deleted");
        }
    }

    /// Until something goes wrong for good.
    async fn stand(&self) -> Error {
        loop {
            let place = match self.queue.join("latch-", &self.id).await {
                Ok(place) => Arc::new(place),
                Err(error) => return error,
            };
            if let Err(error) = self.keep(&place).await {
                return error;
            }
        }
    }

    /// Waits and leads by turns, until the place is gone.
    async fn keep(&self, place: &Arc<Place>) -> Result<()> {
        loop {
            if place.wait().await? == Turn::Gone {
                return Ok(());
            }
            let leading = Standing::Leading(Arc::clone(place));
            self.standing.send_replace(leading);
            let doubt = place.doubt().await;
            tracing::info!(path = place.path(), ?doubt, "leadership is in doubt");
            self.standing.send_replace(Standing::Waiting);
            if doubt == Doubt::Gone {
                return Ok(());
            }
            connected(&self.queue.client).await?;
        }
    }
}
