//! Candidate that leads until it is closed.

use std::sync::Arc;

use bytes::Bytes;
use client::Client;
use tokio::sync::watch;
use tokio::task::JoinHandle;

use crate::election::{Participant, participants};
use crate::error::{Error, Result};
use crate::names::{LATCHES, Layout};
use crate::queue_entry::{Queue, QueueEntry, UncertaintyCause, WaitOutcome};
use crate::selector::Leadership;
use crate::session::{check_path, connected, wait_for_either, wait_until_changed};

/// Candidate for leadership, from its start until it is closed or dropped. Once it has become the
/// leader, it leads until it is closed or dropped, or until its session ends.
///
/// When the connection is lost, the candidate immediately stops being the leader. If the session
/// survives, the candidate keeps its place in the queue and leads again without an election.
///
/// ```
/// # tests::documented(async |client| {
/// use zoarium_recipes::LeaderLatch;
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
/// # Ok::<_, zoarium_recipes::Error>(())
/// # });
/// ```
///
/// | | requests | notifications |
/// |---|---|---|
/// | candidate | create, getChildren, getData | 0 |
/// | change of leader | delete, getChildren, getData | 1 |
///
/// Source: LeaderLatch. Unlike Curator, this recipe watches its own znode while it leads, and
/// therefore detects when an operator deletes the znode.
#[derive(Debug)]
#[must_use = "dropping it leaves the election"]
pub struct LeaderLatch {
    queue: Queue,
    standing: watch::Receiver<LatchState>,
    stop: watch::Sender<bool>,
    task: Option<JoinHandle<()>>,
}

/// State of the candidate's task.
#[derive(Debug, Clone)]
enum LatchState {
    Waiting,
    Leading(Arc<QueueEntry>),
    Over(Option<Error>),
}

impl LeaderLatch {
    /// Joins the election at `path`, and creates the directory if necessary. Other clients can read
    /// the id. A background task does the work, so the call requires a tokio runtime.
    ///
    /// # Errors
    /// If the path is invalid.
    pub fn start(client: &Client, path: &str, id: impl Into<Bytes>) -> Result<Self> {
        check_path(path)?;
        let queue = Queue {
            client: client.clone(),
            directory: path.to_owned(),
            layout: Layout::Curator,
            words: LATCHES,
        };
        let (standing_seen, standing) = watch::channel(LatchState::Waiting);
        let (stop, stopped) = watch::channel(false);
        let task = LatchTask {
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

    /// Returns the leadership if this candidate leads and the client is connected.
    pub fn leadership(&self) -> Option<Leadership> {
        match &*self.standing.borrow() {
            LatchState::Leading(entry) if entry.is_certain() => Some(Leadership::of(entry)),
            _ => None,
        }
    }

    /// Returns whether this candidate leads at this moment.
    pub fn has_leadership(&self) -> bool {
        self.leadership().is_some()
    }

    /// Waits until this candidate leads.
    ///
    /// # Errors
    /// If the candidate was closed or the session has ended.
    pub async fn leads(&self) -> Result<Leadership> {
        let mut standing = self.standing.clone();
        let mut state = self.queue.client.state();
        loop {
            state.mark_unchanged();
            if let LatchState::Over(error) = &*standing.borrow_and_update() {
                return Err(self.end_error(error.as_ref()));
            }
            if let Some(leadership) = self.leadership() {
                return Ok(leadership);
            }
            if !wait_for_either(&mut standing, &mut state).await {
                return Err(self.end_error(None));
            }
        }
    }

    /// Waits until the current leadership ends or becomes uncertain. Returns immediately if the
    /// candidate does not lead.
    pub async fn yields(&self) {
        let token = || self.leadership().map(|leadership| leadership.token());
        wait_until_changed(&self.queue.client, self.standing.clone(), token).await;
    }

    fn end_error(&self, error: Option<&Error>) -> Error {
        let path = self.queue.directory.clone();
        error.cloned().unwrap_or(Error::Closed { path })
    }

    /// Returns the candidates in the order in which they will lead.
    ///
    /// # Errors
    /// If a server refuses the read.
    pub async fn participants(&self) -> Result<Vec<Participant>> {
        participants(&self.queue, usize::MAX).await
    }

    /// Leaves the election. When the call returns, the candidate's znode has been deleted. If the
    /// connection is lost first, the deletion continues in the background.
    pub async fn close(mut self) {
        self.stop.send_replace(true);
        if let Some(task) = self.task.take() {
            // The task ends without a result.
            let _ = task.await;
        }
    }
}

impl Drop for LeaderLatch {
    fn drop(&mut self) {
        self.stop.send_replace(true);
    }
}

/// Background task of a latch.
struct LatchTask {
    queue: Queue,
    id: Bytes,
    standing: watch::Sender<LatchState>,
}

impl LatchTask {
    async fn run(self, mut stopped: watch::Receiver<bool>) {
        let end = tokio::select! {
            biased;
            _ = stopped.wait_for(|stopped| *stopped) => None,
            error = self.run_election() => Some(error),
        };
        let before = self.standing.send_replace(LatchState::Over(end));
        if let LatchState::Leading(entry) = before
            && let Some(entry) = Arc::into_inner(entry)
            && let Err(error) = entry.leave().await
        {
            tracing::warn!(%error, "cannot delete the znode of a candidate");
        }
    }

    /// Takes part in the election. Returns the first permanent error.
    async fn run_election(&self) -> Error {
        loop {
            let entry = match self.queue.join("latch-", &self.id).await {
                Ok(entry) => Arc::new(entry),
                Err(error) => return error,
            };
            if let Err(error) = self.lead_in_turns(&entry).await {
                return error;
            }
        }
    }

    /// Alternates between waiting and leading until the entry is lost.
    async fn lead_in_turns(&self, entry: &Arc<QueueEntry>) -> Result<()> {
        loop {
            if entry.wait().await? == WaitOutcome::Gone {
                return Ok(());
            }
            let leading = LatchState::Leading(Arc::clone(entry));
            self.standing.send_replace(leading);
            let cause = entry.wait_until_uncertain().await;
            tracing::info!(path = entry.path(), ?cause, "leadership is uncertain");
            self.standing.send_replace(LatchState::Waiting);
            if cause == UncertaintyCause::Gone {
                return Ok(());
            }
            connected(&self.queue.client).await?;
        }
    }
}
