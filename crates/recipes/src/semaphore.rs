//! Semaphore that limits the number of concurrent holders.

use bytes::Bytes;
use client::{Client, MultiOp};

use crate::error::{Error, Result};
use crate::names::{LOCKS, Layout, NamePrefix, exclusive};
use crate::queue_entry::{Queue, QueueEntry, Token, UncertaintyCause};
use crate::session::{check_path, connected, is_transient};
use crate::watched::watch_ended;

/// Set of leases with a maximum number of holders. Waiters are served in the order of arrival.
///
/// Every process must use the same maximum and the same layout. Every child of the directory of
/// leases is counted as a lease, regardless of its creator.
///
/// ```
/// # tests::documented(async |client| {
/// use zoarium_recipes::Semaphore;
///
/// let downloads = Semaphore::new(&client, "/limits/downloads", 3)?;
/// let lease = downloads.acquire().await?;
/// lease.release().await?;
/// # Ok::<_, zoarium_recipes::Error>(())
/// # });
/// ```
///
/// The waiter that holds the gate, which is a lock, watches the leases. Each other waiter waits for
/// its predecessor in the queue of the gate. A released lease therefore causes one notification.
///
/// | | leases | gate |
/// |---|---|---|
/// | [`Layout::Curator`] | `<path>/leases` | `<path>/locks` |
/// | [`Layout::Kazoo`] | `<path>` | `<path>-__lock__` |
///
/// Source: InterProcessSemaphoreV2; kazoo's Semaphore.
#[derive(Debug, Clone)]
#[must_use = "it does nothing until one of its methods is called"]
pub struct Semaphore {
    path: String,
    gate: Queue,
    leases: Queue,
    max: usize,
    data: Bytes,
}

const LEASES: &[NamePrefix] = &[exclusive("lease-")];

impl Semaphore {
    /// Creates a handle for the semaphore at `path`. The first acquisition creates the directory if
    /// necessary.
    ///
    /// # Errors
    /// If the path is invalid, or `max` is 0.
    pub fn new(client: &Client, path: &str, max: usize) -> Result<Self> {
        check_path(path)?;
        if max == 0 {
            return Err(Error::argument(
                path,
                "a semaphore needs at least one lease",
            ));
        }
        let queue = |name: &str, words| Queue {
            client: client.clone(),
            directory: format!("{path}/{name}"),
            layout: Layout::Curator,
            words,
        };
        Ok(Self {
            path: path.to_owned(),
            gate: queue("locks", LOCKS),
            leases: queue("leases", LEASES),
            max,
            data: Bytes::new(),
        })
    }

    /// Sets the layout of the directories and names, for compatibility with other libraries.
    ///
    /// ```
    /// # tests::documented(async |client| {
    /// use zoarium_recipes::{Layout, Semaphore};
    ///
    /// let downloads = Semaphore::new(&client, "/limits/kazoo", 3)?.with_layout(Layout::Kazoo);
    /// downloads.acquire().await?.release().await?;
    /// # Ok::<_, zoarium_recipes::Error>(())
    /// # });
    /// ```
    pub fn with_layout(mut self, layout: Layout) -> Self {
        let path = &self.path;
        let (leases, gate) = match layout {
            Layout::Curator => (format!("{path}/leases"), format!("{path}/locks")),
            Layout::Kazoo => (path.clone(), format!("{path}-__lock__")),
        };
        (self.leases.directory, self.gate.directory) = (leases, gate);
        (self.leases.layout, self.gate.layout) = (layout, layout);
        self
    }

    /// Sets the data of each lease, as information for operators.
    pub fn with_data(mut self, data: impl Into<Bytes>) -> Self {
        self.data = data.into();
        self
    }

    /// Waits for a lease. If the future is dropped, a lease that it has already acquired is
    /// released.
    ///
    /// # Errors
    /// See [`Mutex::acquire`](crate::Mutex::acquire).
    pub async fn acquire(&self) -> Result<Lease> {
        loop {
            if let Some(lease) = self.acquire_together(1).await?.pop() {
                return Ok(lease);
            }
        }
    }

    /// Waits for `count` leases. After an error or a dropped future, none of the leases is held.
    ///
    /// # Errors
    /// See [`Mutex::acquire`](crate::Mutex::acquire). [`Error::Argument`] if `count` is 0 or
    /// greater than the maximum of the semaphore.
    pub async fn acquire_many(&self, count: usize) -> Result<Leases> {
        if !(1..=self.max).contains(&count) {
            let reason = format!("{count} of {} leases cannot be acquired", self.max);
            return Err(Error::argument(&self.path, reason));
        }
        self.acquire_together(count).await.map(Leases)
    }

    /// Waits for `count` leases while holding the gate. If two contenders waited with a part of
    /// their leases, each could hold the leases that the other needs.
    async fn acquire_together(&self, count: usize) -> Result<Vec<Lease>> {
        let word = match self.gate.layout {
            Layout::Curator => "lock-",
            Layout::Kazoo => "__lock__",
        };
        loop {
            let gate = self.gate.acquire(word, &Bytes::new()).await?;
            let mut leases = Vec::new();
            for _ in 0..count {
                let entry = self.leases.join("lease-", &self.data).await?;
                leases.push(Lease { entry });
            }
            let is_granted = tokio::select! {
                biased;
                is_granted = self.wait_for_leases(&leases) => is_granted?,
                // A waiter that lost the gate joins the queue of the gate again.
                () = gate.wait_until_lost() => false,
            };
            if is_granted {
                gate.leave().await?;
                return Ok(leases);
            }
            for lease in leases {
                lease.entry.leave().await?;
            }
        }
    }

    /// Waits until the number of leases is at most the maximum, and returns true. Returns false if
    /// one of this contender's own leases is lost first.
    async fn wait_for_leases(&self, own: &[Lease]) -> Result<bool> {
        let client = &self.leases.client;
        loop {
            connected(client).await?;
            if !own.iter().all(Lease::is_certain) {
                // Either the session has changed, or the connection was just lost.
                let state = client.state();
                let state = state.borrow();
                let mut causes = own.iter().map(|lease| lease.entry.uncertainty_in(&state));
                if causes.any(|cause| cause == Some(UncertaintyCause::Gone)) {
                    return Ok(false);
                }
                continue;
            }
            let (names, stat, watch) = match client.watch_children(&self.leases.directory).await {
                Ok(answer) => answer,
                Err(error) if is_transient(client, &error) => continue,
                Err(error) if error.code() == Some(proto::ErrorCode::NoNode) => return Ok(false),
                Err(error) => return Err(error.into()),
            };
            let is_listed = |lease: &Lease| names.iter().any(|name| **name == *lease.entry.name());
            if !own.iter().all(is_listed) {
                return Ok(false);
            }
            if names.len() <= self.max {
                return Ok(own.iter().all(Lease::is_certain));
            }
            watch_ended(client, Ok((names, stat, watch))).await?;
        }
    }
}

/// Guards of several leases. Dropping this value releases the leases in the background.
#[derive(Debug)]
#[must_use = "dropping it returns the leases"]
pub struct Leases(Vec<Lease>);

impl Leases {
    /// Returns the guards.
    pub fn as_slice(&self) -> &[Lease] {
        &self.0
    }

    /// Converts this value to separate guards.
    pub fn into_vec(self) -> Vec<Lease> {
        self.0
    }

    /// Releases all leases.
    ///
    /// # Errors
    /// See [`crate::LockGuard::release`]. The other leases are released in the background.
    pub async fn release(self) -> Result<()> {
        for lease in self.0 {
            lease.release().await?;
        }
        Ok(())
    }
}

/// Guard of a lease. Dropping the guard releases the lease in the background.
#[derive(Debug)]
#[must_use = "dropping it returns the lease"]
pub struct Lease {
    entry: QueueEntry,
}

impl Lease {
    /// Returns the token. Tokens of leases are unique and increase.
    pub fn token(&self) -> Token {
        self.entry.token()
    }

    /// Returns the path of the lease's znode.
    pub fn path(&self) -> &str {
        self.entry.path()
    }

    /// Returns whether the lease is certainly held. See [`crate::LockGuard::is_certain`].
    pub fn is_certain(&self) -> bool {
        self.entry.is_certain()
    }

    /// Waits until it is uncertain whether the lease is held. See
    /// [`crate::LockGuard::wait_until_uncertain`].
    pub async fn wait_until_uncertain(&self) -> UncertaintyCause {
        self.entry.wait_until_uncertain().await
    }

    /// Returns an operation that fails a multi unless the lease is held. See
    /// [`crate::LockGuard::check`].
    pub fn check(&self) -> MultiOp {
        MultiOp::check(self.path(), -1)
    }

    /// Releases the lease.
    ///
    /// # Errors
    /// See [`crate::LockGuard::release`].
    pub async fn release(self) -> Result<()> {
        self.entry.release().await
    }
}
