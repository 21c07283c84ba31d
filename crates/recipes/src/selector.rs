//! Leader election for a future that must run in one process at a time.

use bytes::Bytes;
use client::Client;

use crate::error::Result;
use crate::names::{LOCKS, Layout};
use crate::queue_entry::{Queue, QueueEntry, Token};
use crate::session::check_path;

/// Candidate that runs a future while it leads, and drops the future as soon as the leadership is
/// uncertain.
///
/// Curator's LeaderSelector and InterProcessMutex can use the same queue.
///
/// ```
/// # tests::documented(async |client| {
/// use zoarium_recipes::LeaderSelector;
///
/// let selector = LeaderSelector::new(&client, "/leaders/reports")?.with_id("host-7");
/// # let mut turns = 0;
/// // Leads, lets the next candidate lead, and joins the end of the queue again.
/// let leading = selector.run(|leadership| {
/// #     turns += 1;
/// #     let is_last = turns == 3;
/// #     let client = client.clone();
///     async move {
///         write_report(leadership.token()).await;
/// #         if is_last {
/// #             client.close().await.ok();
/// #         }
///     }
/// });
/// # // Ends with the client.
/// # assert!(leading.await.is_err());
/// # async fn write_report(_token: zoarium_recipes::Token) {}
/// # Ok::<_, zoarium_recipes::Error>(())
/// # });
/// ```
///
/// | | requests | notifications |
/// |---|---|---|
/// | waiter | create, getChildren, getData | 0 |
/// | change of leader | delete, getChildren, getData | 1 |
/// | change of leader by `run` | multi; getChildren, getData; getChildren, getData | 1 |
///
/// Source: LeaderSelector. An exception that cancels leadership corresponds to a dropped future
/// here.
#[derive(Debug, Clone)]
#[must_use = "it does nothing until one of its methods is called"]
pub struct LeaderSelector {
    queue: Queue,
    id: Bytes,
}

impl LeaderSelector {
    /// Creates a handle for the election at `path`. The first attempt creates the directory if
    /// necessary.
    ///
    /// # Errors
    /// If the path is invalid.
    pub fn new(client: &Client, path: &str) -> Result<Self> {
        check_path(path)?;
        let queue = Queue {
            client: client.clone(),
            directory: path.to_owned(),
            layout: Layout::Curator,
            words: LOCKS,
        };
        let id = Bytes::new();
        Ok(Self { queue, id })
    }

    /// Sets an id that other clients can read.
    pub fn with_id(mut self, id: impl Into<Bytes>) -> Self {
        self.id = id.into();
        self
    }

    /// Sets the layout of the names, for compatibility with other libraries.
    pub fn with_layout(mut self, layout: Layout) -> Self {
        self.queue.layout = layout;
        self
    }

    /// Waits for leadership, runs `lead`, and releases the leadership. Returns `None` if `lead` was
    /// dropped because the leadership was uncertain.
    ///
    /// # Errors
    /// If the session has ended, or a server refuses the creation.
    pub async fn lead<F: Future>(
        &self,
        lead: impl FnOnce(Leadership) -> F,
    ) -> Result<Option<F::Output>> {
        let entry = self.queue.acquire(self.word(), &self.id).await?;
        let led = lead_while_held(&entry, lead).await;
        entry.leave().await?;
        Ok(led)
    }

    fn word(&self) -> &'static str {
        match self.queue.layout {
            Layout::Curator => "lock-",
            Layout::Kazoo => "__lock__",
        }
    }

    /// Repeats [`lead`](Self::lead), each time from the end of the queue, until the future of this
    /// call is dropped or the session ends. One transaction releases the leadership and joins the
    /// queue again.
    ///
    /// # Errors
    /// If the session has ended, or a server refuses the creation.
    pub async fn run<F: Future>(&self, mut lead: impl FnMut(Leadership) -> F) -> Result<()> {
        let mut entry = self.queue.acquire(self.word(), &self.id).await?;
        loop {
            lead_while_held(&entry, &mut lead).await;
            let next = self.queue.acquire_after(entry, self.word(), &self.id);
            entry = next.await?;
        }
    }
}

/// Runs the future while the entry is certainly held.
async fn lead_while_held<F: Future>(
    entry: &QueueEntry,
    lead: impl FnOnce(Leadership) -> F,
) -> Option<F::Output> {
    let leadership = Leadership::of(entry);
    tokio::select! {
        biased;
        cause = entry.wait_until_uncertain() => {
            tracing::info!(path = entry.path(), ?cause, "leadership is uncertain");
            None
        }
        led = lead(leadership) => Some(led),
    }
}

/// Leadership of a candidate, with its token and its znode.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Leadership {
    token: Token,
    path: String,
}

impl Leadership {
    pub(crate) fn of(entry: &QueueEntry) -> Self {
        Self {
            token: entry.token(),
            path: entry.path().to_owned(),
        }
    }

    pub(crate) fn new(token: Token, path: &str) -> Self {
        let path = path.to_owned();
        Self { token, path }
    }

    /// Returns the token, which increases from leader to leader.
    pub fn token(&self) -> Token {
        self.token
    }

    /// Returns the path of the leader's znode.
    pub fn path(&self) -> &str {
        &self.path
    }

    /// Returns an operation that fails a multi unless this candidate still leads. In an
    /// [`UnfairElection`](crate::UnfairElection), the operation succeeds while any candidate leads,
    /// because all candidates share one znode.
    pub fn check(&self) -> client::MultiOp {
        client::MultiOp::check(&self.path, -1)
    }
}
