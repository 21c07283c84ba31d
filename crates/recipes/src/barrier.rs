//! Barriers: one that a client opens, and one that opens when enough members have entered.

use bytes::Bytes;
use client::{Client, Create};
use proto::ErrorCode;

use crate::error::{Error, Result};
use crate::names::Layout;
use crate::queue_entry::{Queue, QueueEntry};
use crate::session::{check_path, connected, is_transient, make_directory, retry};
use crate::watched::{WatchEnd, watch_ended};

/// Barrier that blocks all waiters while its znode exists.
///
/// ```
/// # tests::documented(async |client| {
/// use zoarium_recipes::Barrier;
///
/// let barrier = Barrier::new(&client, "/barriers/upgrade")?;
/// barrier.set().await?;
/// // In other programs, all waiters block while the znode exists.
/// let wait = barrier.wait();
/// // A program removes the znode to let them continue.
/// let remove = barrier.remove();
/// tokio::try_join!(wait, remove)?;
/// # Ok::<_, zoarium_recipes::Error>(())
/// # });
/// ```
///
/// The removal notifies all waiters and removes their watches.
///
/// Source: DistributedBarrier. kazoo's Barrier uses the same znode.
#[derive(Debug, Clone)]
#[must_use = "it does nothing until one of its methods is called"]
pub struct Barrier {
    client: Client,
    path: String,
}

impl Barrier {
    /// Creates a handle for the barrier at `path`.
    ///
    /// # Errors
    /// If the path is invalid.
    pub fn new(client: &Client, path: &str) -> Result<Self> {
        check_path(path)?;
        Ok(Self {
            client: client.clone(),
            path: path.to_owned(),
        })
    }

    /// Closes the barrier. Succeeds if the barrier is already closed.
    ///
    /// # Errors
    /// If a server refuses the operation.
    pub async fn set(&self) -> Result<()> {
        create_with_parents(&self.client, &self.path).await
    }

    /// Opens the barrier. Succeeds if the barrier is already open.
    ///
    /// # Errors
    /// If a server refuses the operation.
    pub async fn remove(&self) -> Result<()> {
        delete(&self.client, &self.path).await
    }

    /// Waits until the barrier is open, as seen by the server of this client.
    ///
    /// A server that lags may not yet know that the barrier was closed. A client that learned in
    /// another way that the barrier was closed should call [`Client::sync`] first.
    ///
    /// # Errors
    /// If the session has ended, or a server refuses the read.
    pub async fn wait(&self) -> Result<()> {
        while wait_for_change(&self.client, &self.path).await? == WatchEnd::ReadAgain {}
        Ok(())
    }
}

/// Barrier that lets members enter when enough of them are waiting, and leave when all of them want
/// to leave.
///
/// ```
/// # tests::documented(async |client| {
/// use zoarium_recipes::DoubleBarrier;
///
/// let barrier = DoubleBarrier::new(&client, "/barriers/step-1", 3)?;
/// let step = async || {
///     let inside = barrier.enter().await?;
///     // All three compute.
///     inside.leave().await
/// };
/// // Each call runs in a separate program.
/// tokio::try_join!(step(), step(), step())?;
/// # Ok::<_, zoarium_recipes::Error>(())
/// # });
/// ```
///
/// Every member must be configured with the same number of members, and must leave before it enters
/// again. Dropping the future of a wait removes the member.
///
/// Source: DistributedDoubleBarrier. kazoo's members can use the barrier, too.
#[derive(Debug, Clone)]
#[must_use = "it does nothing until one of its methods is called"]
pub struct DoubleBarrier {
    queue: Queue,
    members: usize,
}

impl DoubleBarrier {
    /// Creates a barrier in the directory `path` for this number of members.
    ///
    /// # Errors
    /// If the path is invalid, or `members` is 0.
    pub fn new(client: &Client, path: &str, members: usize) -> Result<Self> {
        check_path(path)?;
        if members == 0 {
            let reason = "a double barrier needs at least one member";
            return Err(Error::argument(path, reason));
        }
        let queue = Queue {
            client: client.clone(),
            directory: path.to_owned(),
            layout: Layout::Curator,
            words: &[],
        };
        Ok(Self { queue, members })
    }

    fn ready(&self) -> String {
        format!("{}/{READY}", self.queue.directory)
    }

    /// Joins as a member, and waits until there are enough members.
    ///
    /// # Errors
    /// If the session has ended, or a server refuses a request.
    pub async fn enter(&self) -> Result<Inside> {
        let client = &self.queue.client;
        let kind = Create::ephemeral();
        let mut entry = self.queue.join_as(MEMBER, &Bytes::new(), &kind).await?;
        loop {
            connected(client).await?;
            let (ready, watch) = match client.watch_exists(&self.ready()).await {
                Ok(answer) => answer,
                Err(error) if is_transient(client, &error) => continue,
                Err(error) => return Err(error.into()),
            };
            let members = self.list().await?;
            if !members.iter().any(|name| name == entry.name()) {
                // Either the session has ended, or an operator has deleted the znode.
                entry = self.queue.join_as(MEMBER, &Bytes::new(), &kind).await?;
                continue;
            }
            if ready.is_none() && members.len() < self.members {
                watch_ended(client, Ok((ready, members, watch))).await?;
                continue;
            }
            let opened = match ready {
                Some(ready) => Some(ready.czxid),
                None => self.open().await?,
            };
            let Some(opened) = opened else { continue };
            // The session may have ended meanwhile, and the znode with it.
            if entry.is_certain() {
                return Ok(Inside {
                    barrier: self.clone(),
                    entry,
                    opened,
                });
            }
        }
    }

    /// Opens the barrier, and returns the zxid of the opening. Returns `None` if the barrier is
    /// already open, or if its directory is missing.
    async fn open(&self) -> Result<Option<i64>> {
        let (client, ready) = (&self.queue.client, self.ready());
        let kind = Create::persistent();
        match retry(client, || client.create2(&ready, "", &kind)).await {
            Ok((_, stat)) => Ok(Some(stat.czxid)),
            Err(error) => match error.code() {
                Some(ErrorCode::NodeExists | ErrorCode::NoNode) => Ok(None),
                _ => Err(error.into()),
            },
        }
    }

    /// Removes the last member, and closes the barrier if the transaction `opened` opened it.
    ///
    /// If possible, one transaction does both, because a new member could otherwise find the
    /// barrier open.
    async fn close_with(&self, entry: QueueEntry, opened: i64) -> Result<()> {
        if !self.is_open_since(opened).await? {
            return entry.leave().await;
        }
        if entry.leave_with(&self.ready()).await? {
            return Ok(());
        }
        self.close(opened).await
    }

    async fn is_open_since(&self, opened: i64) -> Result<bool> {
        let (client, ready) = (&self.queue.client, self.ready());
        let stat = retry(client, || client.exists(&ready)).await?;
        Ok(stat.is_some_and(|stat| stat.czxid == opened))
    }

    /// Closes the barrier if the transaction `opened` opened it. Another member may already have
    /// closed it, and the next round may have opened it again.
    ///
    /// The write makes the version unique to this caller, so the deletion cannot affect a later
    /// znode.
    async fn close(&self, opened: i64) -> Result<()> {
        let (client, ready) = (&self.queue.client, self.ready());
        loop {
            let stat = match retry(client, || client.set_data(&ready, "", -1)).await {
                Ok(stat) if stat.czxid == opened => stat,
                Err(error) if error.code() != Some(ErrorCode::NoNode) => return Err(error.into()),
                _ => return Ok(()),
            };
            match retry(client, || client.delete(&ready, stat.version)).await {
                Err(error) if error.code() == Some(ErrorCode::BadVersion) => {}
                Err(error) if error.code() != Some(ErrorCode::NoNode) => return Err(error.into()),
                _ => return Ok(()),
            }
        }
    }

    /// Returns the sorted names of the members.
    async fn list(&self) -> Result<Vec<String>> {
        let mut names = self.queue.list().await?.unwrap_or_default();
        names.retain(|name| name != READY);
        names.sort();
        Ok(names)
    }
}

/// Member inside a double barrier. Dropping it removes the member without waiting for others.
#[derive(Debug)]
#[must_use = "dropping it removes the member without waiting for the others"]
pub struct Inside {
    barrier: DoubleBarrier,
    entry: QueueEntry,
    /// Zxid of the transaction that opened the barrier for this round.
    opened: i64,
}

impl Inside {
    /// Waits until all members want to leave or have disappeared.
    ///
    /// The first member, by name, stays until all others have left. The others can therefore watch
    /// a single znode.
    ///
    /// # Errors
    /// If the session has ended, or a server refuses a request.
    pub async fn leave(self) -> Result<()> {
        let Self {
            barrier,
            entry,
            opened,
        } = self;
        let client = &barrier.queue.client;
        let own = entry.name().to_owned();
        let mut entry = Some(entry);
        let mut inside = None;
        loop {
            let mut members = barrier.list().await?;
            let inside = inside.get_or_insert_with(|| members.clone());
            // Members that are not in the first list wait for the next round. If this member is not
            // in the first list, its znode was deleted, so it has already left.
            members.retain(|name| inside.contains(&own) && inside.contains(name));
            let directory = &barrier.queue.directory;
            let other = match &members[..] {
                [] => break,
                [only] if *only == own => break,
                [first, .., last] if *first == own => last,
                [first, ..] => first,
            };
            if members.first() != Some(&own)
                && let Some(entry) = entry.take()
            {
                entry.leave().await?;
            }
            wait_for_change(client, &format!("{directory}/{other}")).await?;
        }
        if let Some(entry) = entry {
            return barrier.close_with(entry, opened).await;
        }
        // The last member normally closes the barrier. If the session of that member ended first,
        // this member closes it.
        if barrier.is_open_since(opened).await? {
            barrier.close(opened).await?;
        }
        Ok(())
    }
}

/// Names as in Curator and kazoo.
const READY: &str = "ready";
const MEMBER: &str = "member";

/// Waits until a znode changes or is deleted. Returns immediately if the znode is missing.
async fn wait_for_change(client: &Client, path: &str) -> Result<WatchEnd> {
    connected(client).await?;
    watch_ended(client, client.watch_data(path).await).await
}

/// Creates a persistent znode and its parent directories. Succeeds if the znode exists.
pub(crate) async fn create_with_parents(client: &Client, path: &str) -> Result<()> {
    let kind = Create::persistent();
    loop {
        match retry(client, || client.create(path, "", &kind)).await {
            Ok(_) => return Ok(()),
            Err(error) if error.code() == Some(ErrorCode::NodeExists) => return Ok(()),
            Err(error) if error.code() == Some(ErrorCode::NoNode) => {
                if let Some((parent, _)) = path.rsplit_once('/') {
                    make_directory(client, parent).await?;
                }
            }
            Err(error) => return Err(error.into()),
        }
    }
}

/// Deletes a znode. Succeeds if the znode is missing.
pub(crate) async fn delete(client: &Client, path: &str) -> Result<()> {
    match retry(client, || client.delete(path, -1)).await {
        Ok(()) => Ok(()),
        Err(error) if error.code() == Some(ErrorCode::NoNode) => Ok(()),
        Err(error) => Err(error.into()),
    }
}
