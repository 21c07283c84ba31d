//! Lock with one holder at a time, granted in the order of arrival.

use std::collections::HashMap;
use std::sync::{Arc, Weak};

use bytes::Bytes;
use client::{Client, MultiOp};
use proto::ErrorCode;

use crate::error::Result;
use crate::names::{LOCKS, Layout, curator_blockers, ordered};
use crate::queue_entry::{Queue, QueueEntry, Token, UncertaintyCause};
use crate::session::{check_path, connected, retry};

/// Data of the holder's znode that requests the release of the lock.
///
/// Source: Curator's Revoker.
const REVOCATION: &[u8] = b"__REVOKE__";

/// Lock on a directory. Clones share the owners of [`acquire_as`](Self::acquire_as).
///
/// Curator's InterProcessMutex and LeaderSelector and kazoo's Lock can use the same queue if their
/// names have the same layout.
///
/// ```
/// # tests::documented(async |client| {
/// use zoarium_recipes::Mutex;
///
/// let mutex = Mutex::new(&client, "/locks/printer")?;
/// let guard = mutex.acquire().await?;
/// tokio::select! {
///     () = print(guard.token()) => {}
///     cause = guard.wait_until_uncertain() => println!("stopped: {cause:?}"),
/// }
/// guard.release().await?;
/// # async fn print(token: zoarium_recipes::Token) {
/// #     assert!(token.0 > 0);
/// # }
/// # Ok::<_, zoarium_recipes::Error>(())
/// # });
/// ```
///
/// | | requests | notifications |
/// |---|---|---|
/// | first contender | create, getChildren | 0 |
/// | waiter | create, getChildren, getData | 0 |
/// | change of holder | delete, getChildren | 1 |
/// | change with `requeue` | multi; getChildren; getChildren, getData | 1 |
#[derive(Debug, Clone)]
#[must_use = "it does nothing until one of its methods is called"]
pub struct Mutex {
    queue: Queue,
    data: Bytes,
    owned: Arc<parking_lot::Mutex<HashMap<String, Weak<QueueEntry>>>>,
}

impl Mutex {
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
            words: LOCKS,
        };
        Ok(Self {
            queue,
            data: Bytes::new(),
            owned: Arc::default(),
        })
    }

    /// Sets the layout of the names, for compatibility with other libraries.
    ///
    /// ```
    /// # tests::documented(async |client| {
    /// use zoarium_recipes::{Layout, Mutex};
    ///
    /// let mutex = Mutex::new(&client, "/locks/printer")?.with_layout(Layout::Kazoo);
    /// mutex.acquire().await?.release().await?;
    /// # Ok::<_, zoarium_recipes::Error>(())
    /// # });
    /// ```
    pub fn with_layout(mut self, layout: Layout) -> Self {
        self.queue.layout = layout;
        self
    }

    /// Sets the data of each contender's znode, as information for operators.
    pub fn with_data(mut self, data: impl Into<Bytes>) -> Self {
        self.data = data.into();
        self
    }

    /// Returns the path of the directory.
    pub fn path(&self) -> &str {
        &self.queue.directory
    }

    fn word(&self) -> &'static str {
        match self.queue.layout {
            Layout::Curator => "lock-",
            Layout::Kazoo => "__lock__",
        }
    }

    /// Waits for the lock. Dropping the future leaves the queue.
    ///
    /// # Errors
    /// If the session has ended, or a server refuses the creation.
    pub async fn acquire(&self) -> Result<LockGuard> {
        let entry = self.queue.acquire(self.word(), &self.data).await?;
        Ok(LockGuard {
            entry: Arc::new(entry),
        })
    }

    /// Releases the lock and [`acquire`](Self::acquire)s it again at the end of the queue, for
    /// clients that take turns.
    ///
    /// One transaction releases the lock and enters the queue, so a turn needs one request fewer.
    /// If the owner has further guards, the lock stays held and the guard is returned. The returned
    /// guard has the same owner as `guard`.
    ///
    /// # Errors
    /// See [`acquire`](Self::acquire).
    pub async fn requeue(&self, guard: LockGuard) -> Result<LockGuard> {
        let owner = self.owner_of(&guard);
        let entry = match Arc::try_unwrap(guard.entry) {
            Ok(entry) => entry,
            Err(entry) => return Ok(LockGuard { entry }),
        };
        let queue = entry.queue().clone();
        let next = queue.acquire_after(entry, self.word(), &self.data);
        let entry = Arc::new(next.await?);
        if let Some(owner) = owner {
            self.owned.lock().insert(owner, Arc::downgrade(&entry));
        }
        Ok(LockGuard { entry })
    }

    /// Acquires the lock only if no other contender holds it or waits for it.
    ///
    /// # Errors
    /// See [`acquire`](Self::acquire).
    pub async fn try_acquire(&self) -> Result<Option<LockGuard>> {
        let entry = self.queue.join(self.word(), &self.data).await?;
        if entry.is_granted().await? {
            let entry = Arc::new(entry);
            return Ok(Some(LockGuard { entry }));
        }
        entry.leave().await?;
        Ok(None)
    }

    /// Works like [`acquire`](Self::acquire), but succeeds immediately if `owner` already holds the
    /// lock. The last guard of the owner releases the lock. Only this `Mutex` and its clones know
    /// the owners.
    ///
    /// # Errors
    /// See [`acquire`](Self::acquire).
    pub async fn acquire_as(&self, owner: &str) -> Result<LockGuard> {
        while let Some(entry) = self.owned_by(owner) {
            match entry.uncertainty_in(&self.queue.client.state().borrow()) {
                None => return Ok(LockGuard { entry }),
                Some(UncertaintyCause::Gone) => break,
                Some(UncertaintyCause::Disconnected) => {}
            }
            connected(&self.queue.client).await?;
        }
        let guard = self.acquire().await?;
        let mut owned = self.owned.lock();
        owned.retain(|_, entry| entry.strong_count() > 0);
        owned.insert(owner.to_owned(), Arc::downgrade(&guard.entry));
        drop(owned);
        Ok(guard)
    }

    fn owner_of(&self, guard: &LockGuard) -> Option<String> {
        let entry = Arc::downgrade(&guard.entry);
        let owned = self.owned.lock();
        let mut owners = owned.iter().filter(|(_, known)| known.ptr_eq(&entry));
        owners.next().map(|(owner, _)| owner.clone())
    }

    fn owned_by(&self, owner: &str) -> Option<Arc<QueueEntry>> {
        self.owned.lock().get(owner).and_then(Weak::upgrade)
    }

    /// Requests the holder to release the lock, and returns whether the lock was held.
    ///
    /// A holder that uses this crate sees the request in [`LockGuard::is_asked_for`], and a Curator
    /// holder sees it if its lock is revocable. Both may ignore it.
    ///
    /// ```
    /// # tests::documented(async |client| {
    /// use zoarium_recipes::Mutex;
    ///
    /// let mutex = Mutex::new(&client, "/locks/printer")?;
    /// # let guard = mutex.acquire().await?;
    /// mutex.ask_for().await?;
    /// // In the program of the holder:
    /// assert!(guard.is_asked_for().await);
    /// guard.release().await?;
    /// # Ok::<_, zoarium_recipes::Error>(())
    /// # });
    /// ```
    ///
    /// # Errors
    /// If a server refuses to read the directory or to write to the holder's znode.
    pub async fn ask_for(&self) -> Result<bool> {
        let client = &self.queue.client;
        loop {
            let names = self.queue.list().await?.unwrap_or_default();
            let Some(holder) = ordered(names.iter().map(String::as_str), LOCKS)
                .first()
                .copied()
            else {
                return Ok(false);
            };
            let path = format!("{}/{holder}", self.queue.directory);
            match retry(client, || client.set_data(&path, REVOCATION, -1)).await {
                Ok(_) => return Ok(true),
                // The holder has released the lock. The next contender may already hold it.
                Err(error) if error.code() == Some(ErrorCode::NoNode) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Returns children of the directory that are not contenders, but for which a stock Curator
    /// peer would wait indefinitely. The locks of this crate ignore these children.
    ///
    /// # Errors
    /// If a server refuses to read the directory.
    pub async fn strangers(&self) -> Result<Vec<String>> {
        let names = self.queue.list().await?.unwrap_or_default();
        let names = names.iter().map(String::as_str);
        let found = curator_blockers(names, LOCKS).into_iter();
        Ok(found.map(str::to_owned).collect())
    }
}

/// Guard of a held lock. Dropping the owner's last guard releases the lock in the background.
#[derive(Debug)]
#[must_use = "dropping it releases the lock"]
pub struct LockGuard {
    pub(crate) entry: Arc<QueueEntry>,
}

impl LockGuard {
    /// Returns the token, which increases from holder to holder.
    pub fn token(&self) -> Token {
        self.entry.token()
    }

    /// Returns the path of the contender's znode.
    pub fn path(&self) -> &str {
        self.entry.path()
    }

    /// Returns whether the client is connected, in the session that holds the lock. Only
    /// [`wait_until_uncertain`](Self::wait_until_uncertain) detects that an operator deleted the
    /// znode.
    pub fn is_certain(&self) -> bool {
        self.entry.is_certain()
    }

    /// Waits until another client may soon hold the lock. Work under the lock must then stop.
    pub async fn wait_until_uncertain(&self) -> UncertaintyCause {
        self.entry.wait_until_uncertain().await
    }

    /// Waits until another client requests the lock with [`Mutex::ask_for`] or Curator's `Revoker`,
    /// and returns true. Returns false if the lock is lost first. The lock stays held until it is
    /// released.
    pub async fn is_asked_for(&self) -> bool {
        self.entry.wait_for_data(|data| data == REVOCATION).await
    }

    /// Returns an operation that fails a multi unless the lock is still held. A write after this
    /// operation in the same multi is refused if the lock has been lost.
    pub fn check(&self) -> MultiOp {
        MultiOp::check(self.path(), -1)
    }

    /// Returns another guard of the owner. The last guard releases the lock.
    pub fn again(&self) -> Self {
        let entry = Arc::clone(&self.entry);
        Self { entry }
    }

    /// Releases the lock if this is the owner's last guard, and returns whether it was the last. If
    /// the connection is lost meanwhile, the release continues in the background.
    ///
    /// # Errors
    /// [`Error::NotHeld`](crate::Error::NotHeld) if the lock was already lost, so another client
    /// may have held it meanwhile. [`Error::Client`](crate::Error::Client) if a server refuses the
    /// deletion. The end of the session then releases the lock.
    pub async fn release(self) -> Result<bool> {
        match Arc::into_inner(self.entry) {
            Some(entry) => entry.release().await.map(|()| true),
            None => Ok(false),
        }
    }
}
