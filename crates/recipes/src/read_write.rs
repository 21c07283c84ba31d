//! A lock that readers share.

use std::sync::Arc;

use bytes::Bytes;
use client::{Client, Create, MultiOp};
use proto::mutant::{self, Mutant};

use crate::error::{Error, Result};
use crate::mutex::LockGuard;
use crate::names::{Layout, READERS_AND_WRITERS};
use crate::place::{Doubt, Place, Queue, Token};
use crate::session::{check_path, insist};

/// A lock with readers, who share it, and writers, who do not; in the order of arrival, so that
/// writers are not starved.
///
/// A reader waits for the nearest writer ahead, a writer for whoever is next ahead: when a writer
/// lets go, all readers up to the next writer are told, which is no herd, since all of them may go
/// on. Whoever reads and asks to write waits for itself: release first.
///
/// ```
/// # tests::documented(async |client| {
/// use recipes::ReadWriteLock;
///
/// let lock = ReadWriteLock::new(&client, "/locks/catalogue")?;
/// let writing = lock.write().await?;
/// // From writer to reader without letting another writer in between.
/// let reading = writing.downgrade().await?;
/// reading.release().await?;
/// # Ok::<_, recipes::Error>(())
/// # });
/// ```
///
/// Source: InterProcessReadWriteLock; kazoo's ReadLock and WriteLock with [`Layout::Kazoo`].
#[derive(Debug, Clone)]
pub struct ReadWriteLock {
    queue: Queue,
    data: Bytes,
}

impl ReadWriteLock {
    /// A lock on `path`, which is made when it is needed.
    ///
    /// # Errors
    /// If the path cannot be one.
    pub fn new(client: &Client, path: &str) -> Result<Self> {
        check_path(path)?;
        let queue = Queue {
            client: client.clone(),
            directory: path.to_owned(),
            layout: Layout::Curator,
            words: READERS_AND_WRITERS,
        };
        let data = Bytes::new();
        Ok(Self { queue, data })
    }

    /// The same with names that other libraries give.
    #[must_use]
    pub fn with_layout(mut self, layout: Layout) -> Self {
        self.queue.layout = layout;
        self
    }

    /// Waits for the lock together with other readers.
    ///
    /// # Errors
    /// As of [`crate::Mutex::acquire`].
    pub async fn read(&self) -> Result<LockGuard> {
        let place = self.queue.acquire(self.words().0, &self.data).await?;
        let place = Arc::new(place);
        Ok(LockGuard { place })
    }

    /// Waits for the lock alone.
    ///
    /// # Errors
    /// The same.
    pub async fn write(&self) -> Result<WriteGuard> {
        let place = self.queue.acquire(self.words().1, &self.data).await?;
        Ok(WriteGuard { place })
    }

    fn words(&self) -> (&'static str, &'static str) {
        words(self.queue.layout)
    }
}

/// Of readers and of writers.
fn words(layout: Layout) -> (&'static str, &'static str) {
    match layout {
        Layout::Curator => ("__READ__", "__WRIT__"),
        Layout::Kazoo => ("__rlock__", "__lock__"),
    }
}

/// A lock held alone. Dropping it lets go behind the scenes.
#[derive(Debug)]
pub struct WriteGuard {
    place: Place,
}

impl WriteGuard {
    /// Grows from writer to writer.
    pub fn token(&self) -> Token {
        self.place.token()
    }

    /// The contender's znode.
    pub fn path(&self) -> &str {
        self.place.path()
    }

    /// As [`LockGuard::is_certain`].
    pub fn is_certain(&self) -> bool {
        self.place.is_certain()
    }

    /// As [`LockGuard::in_doubt`].
    pub async fn in_doubt(&self) -> Doubt {
        self.place.doubt().await
    }

    /// As [`LockGuard::check`].
    pub fn check(&self) -> MultiOp {
        MultiOp::check(self.path(), -1)
    }

    /// Becomes a reader, ahead of every writer who waits: its znode has the writer's number.
    ///
    /// The token of the reader is later than that of a writer who waits already; work that is
    /// guarded by tokens goes on with the writer's.
    ///
    /// Source: CURATOR-276, CURATOR-621.
    ///
    /// # Errors
    /// If the reader's znode cannot be made; the lock is let go then. [`Error::NotHeld`] if the lock was
    /// lost before: somebody else may have it.
    pub async fn downgrade(self) -> Result<LockGuard> {
        let queue = self.place.queue();
        let name = format!("{}{}", words(queue.layout).0, self.place.digits());
        let kind = Create::ephemeral();
        let reader = queue.join_as(&name, &Bytes::new(), &kind).await?;
        // Nobody has waited for the reader's turn: it has its place from a writer who is still there.
        // The server that answers has seen the reader's creation, and so what was deleted before it.
        let writer = self.place.path();
        let client = &queue.client;
        let there = insist(client, || client.exists(writer)).await?;
        if there.is_none() && !mutant::is(Mutant::DowngradeUnchecked) {
            reader.leave().await?;
            let path = queue.directory.clone();
            return Err(Error::NotHeld { path });
        }
        self.place.leave().await?;
        let place = Arc::new(reader);
        Ok(LockGuard { place })
    }

    /// Lets go.
    ///
    /// # Errors
    /// As of [`LockGuard::release`].
    pub async fn release(self) -> Result<()> {
        self.place.leave().await
    }
}
