//! Lock that readers share.

use std::sync::Arc;

use bytes::Bytes;
use client::{Client, Create, MultiOp};

use crate::error::{Error, Result};
use crate::mutex::LockGuard;
use crate::names::{Layout, READERS_AND_WRITERS};
use crate::queue_entry::{Queue, QueueEntry, Token, UncertaintyCause};
use crate::session::{check_path, retry};

/// Lock with readers, which share it, and writers, which hold it alone. The order of arrival
/// applies to both, so writers do not starve.
///
/// A reader waits for the last writer before it, and a writer waits for the last contender before
/// it. When a writer releases the lock, all readers up to the next writer are notified. All of them
/// can proceed, so this is not a herd effect. A reader must release its lock before it requests the
/// write lock, because it would otherwise wait for itself.
///
/// ```
/// # tests::documented(async |client| {
/// use zoarium_recipes::ReadWriteLock;
///
/// let lock = ReadWriteLock::new(&client, "/locks/catalogue")?;
/// let writing = lock.write().await?;
/// // From writer to reader without letting another writer in between.
/// let reading = writing.downgrade().await?;
/// reading.release().await?;
/// # Ok::<_, zoarium_recipes::Error>(())
/// # });
/// ```
///
/// Source: InterProcessReadWriteLock; kazoo's ReadLock and WriteLock with [`Layout::Kazoo`].
#[derive(Debug, Clone)]
#[must_use = "it does nothing until one of its methods is called"]
pub struct ReadWriteLock {
    queue: Queue,
    data: Bytes,
}

impl ReadWriteLock {
    /// Creates a handle for the lock at `path`. The first acquisition creates the directory if
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
            words: READERS_AND_WRITERS,
        };
        let data = Bytes::new();
        Ok(Self { queue, data })
    }

    /// Sets the layout of the names, for compatibility with other libraries.
    pub fn with_layout(mut self, layout: Layout) -> Self {
        self.queue.layout = layout;
        self
    }

    /// Waits for the lock and shares it with other readers.
    ///
    /// # Errors
    /// See [`crate::Mutex::acquire`].
    pub async fn read(&self) -> Result<LockGuard> {
        let entry = self.queue.acquire(self.words().0, &self.data).await?;
        let entry = Arc::new(entry);
        Ok(LockGuard { entry })
    }

    /// Waits for the lock and holds it alone.
    ///
    /// # Errors
    /// See [`crate::Mutex::acquire`].
    pub async fn write(&self) -> Result<WriteGuard> {
        let entry = self.queue.acquire(self.words().1, &self.data).await?;
        Ok(WriteGuard { entry })
    }

    fn words(&self) -> (&'static str, &'static str) {
        words(self.queue.layout)
    }
}

/// Returns the words of readers and of writers.
fn words(layout: Layout) -> (&'static str, &'static str) {
    match layout {
        Layout::Curator => ("__READ__", "__WRIT__"),
        Layout::Kazoo => ("__rlock__", "__lock__"),
    }
}

/// Guard of a write lock. Dropping it releases the lock in the background.
#[derive(Debug)]
#[must_use = "dropping it releases the lock"]
pub struct WriteGuard {
    entry: QueueEntry,
}

impl WriteGuard {
    /// Returns the token, which increases from writer to writer.
    pub fn token(&self) -> Token {
        self.entry.token()
    }

    /// Returns the path of the contender's znode.
    pub fn path(&self) -> &str {
        self.entry.path()
    }

    /// Returns whether the lock is certainly held. See [`LockGuard::is_certain`].
    pub fn is_certain(&self) -> bool {
        self.entry.is_certain()
    }

    /// Waits until it is uncertain whether the lock is held. See
    /// [`LockGuard::wait_until_uncertain`].
    pub async fn wait_until_uncertain(&self) -> UncertaintyCause {
        self.entry.wait_until_uncertain().await
    }

    /// Returns an operation that fails a multi unless the lock is held. See [`LockGuard::check`].
    pub fn check(&self) -> MultiOp {
        MultiOp::check(self.path(), -1)
    }

    /// Turns the writer into a reader, which precedes every waiting writer. The reader's znode has
    /// the writer's number.
    ///
    /// The token of the reader is greater than the tokens of writers that already wait. Work that
    /// tokens guard must therefore continue with the writer's token.
    ///
    /// Source: CURATOR-276, CURATOR-621.
    ///
    /// # Errors
    /// If a server refuses the creation of the reader's znode. The lock is then released.
    /// [`Error::NotHeld`] if the lock was already lost. Another client may then hold it.
    pub async fn downgrade(self) -> Result<LockGuard> {
        let queue = self.entry.queue();
        let name = format!("{}{}", words(queue.layout).0, self.entry.digits());
        let kind = Create::ephemeral();
        let reader = queue.join_as(&name, &Bytes::new(), &kind).await?;
        // The reader did not wait for its turn. It is entitled to its entry only if the writer's
        // znode still exists. The server that answers has applied the reader's creation, and
        // therefore all earlier deletions.
        let writer = self.entry.path();
        let client = &queue.client;
        let stat = retry(client, || client.exists(writer)).await?;
        if stat.is_none() {
            reader.leave().await?;
            let path = queue.directory.clone();
            return Err(Error::NotHeld { path });
        }
        self.entry.leave().await?;
        let entry = Arc::new(reader);
        Ok(LockGuard { entry })
    }

    /// Releases the lock.
    ///
    /// # Errors
    /// See [`LockGuard::release`].
    pub async fn release(self) -> Result<()> {
        self.entry.release().await
    }
}
