//! A lock for one holder at a time, in the order of arrival.

use std::collections::HashMap;
use std::sync::{Arc, Weak};

use bytes::Bytes;
use client::{Client, MultiOp};
use proto::ErrorCode;

use crate::error::Result;
use crate::names::{LOCKS, Layout, hold_up_curator, ordered};
use crate::place::{Doubt, Place, Queue, Token};
use crate::session::{check_path, connected, insist};

/// Data by which a holder is asked to let go.
///
/// Source: Revoker, of Curator.
const LET_GO: &[u8] = b"__REVOKE__";

/// A lock on a directory. Clones share who owns what.
///
/// Curator's InterProcessMutex and LeaderSelector and kazoo's Lock stand in the same queue, if they
/// are given names of one layout.
///
/// ```
/// # tests::documented(async |client| {
/// use recipes::Mutex;
///
/// let mutex = Mutex::new(&client, "/locks/printer")?;
/// let guard = mutex.acquire().await?;
/// tokio::select! {
///     () = print(guard.token()) => {}
///     doubt = guard.in_doubt() => println!("stopped: {doubt:?}"),
/// }
/// guard.release().await?;
/// # async fn print(token: recipes::Token) {
/// #     assert!(token.0 > 0);
/// # }
/// # Ok::<_, recipes::Error>(())
/// # });
/// ```
///
/// | | requests | notifications |
/// |---|---|---|
/// | first to come | create, getChildren | 0 |
/// | waiter | create, getChildren, getData | 0 |
/// | change of holder | delete, getChildren | 1 |
/// | change, and the end of the queue | multi; getChildren; getChildren, getData | 1 |
#[derive(Debug, Clone)]
pub struct Mutex {
    queue: Queue,
    data: Bytes,
    owned: Arc<parking_lot::Mutex<HashMap<String, Weak<Place>>>>,
}

impl Mutex {
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
            words: LOCKS,
        };
        Ok(Self {
            queue,
            data: Bytes::new(),
            owned: Arc::default(),
        })
    }

    /// The same with names that other libraries give.
    #[must_use]
    pub fn with_layout(mut self, layout: Layout) -> Self {
        self.queue.layout = layout;
        self
    }

    /// The same with data in each contender's znode, for people who look at it.
    #[must_use]
    pub fn with_data(mut self, data: impl Into<Bytes>) -> Self {
        self.data = data.into();
        self
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
    /// If the client is over, or a server refuses the creation.
    pub async fn acquire(&self) -> Result<LockGuard> {
        let place = self.queue.acquire(self.word(), &self.data).await?;
        Ok(LockGuard {
            place: Arc::new(place),
        })
    }

    /// Lets go and [`acquire`](Self::acquire)s again, from the end of the queue: for what takes turns. Letting
    /// go and standing in the queue again is one transaction, so a turn costs a request less. A guard
    /// that is not its owner's last lets nothing go, and is given back; an owner stays the owner.
    ///
    /// # Errors
    /// The same.
    pub async fn requeue(&self, guard: LockGuard) -> Result<LockGuard> {
        let owner = self.owner_of(&guard);
        let place = match Arc::try_unwrap(guard.place) {
            Ok(place) => place,
            Err(place) => return Ok(LockGuard { place }),
        };
        let queue = place.queue().clone();
        let next = queue.acquire_after(place, self.word(), &self.data);
        let place = Arc::new(next.await?);
        if let Some(owner) = owner {
            self.owned.lock().insert(owner, Arc::downgrade(&place));
        }
        Ok(LockGuard { place })
    }

    /// Takes the lock only if nobody has it or waits for it.
    ///
    /// # Errors
    /// The same.
    pub async fn try_acquire(&self) -> Result<Option<LockGuard>> {
        let place = self.queue.join(self.word(), &self.data).await?;
        if place.is_granted().await? {
            let place = Arc::new(place);
            return Ok(Some(LockGuard { place }));
        }
        place.leave().await?;
        Ok(None)
    }

    /// [`acquire`](Self::acquire) for an owner who may have it already: then it is granted at once,
    /// and let go when the owner's last guard is. Owners are known to this `Mutex` and its clones.
    ///
    /// # Errors
    /// The same.
    pub async fn acquire_as(&self, owner: &str) -> Result<LockGuard> {
        while let Some(place) = self.owned_by(owner) {
            match place.doubt_in(&self.queue.client.state().borrow()) {
                None => return Ok(LockGuard { place }),
                Some(Doubt::Gone) => break,
                Some(Doubt::Disconnected) => {}
            }
            connected(&self.queue.client).await?;
        }
        let guard = self.acquire().await?;
        let mut owned = self.owned.lock();
        owned.retain(|_, place| place.strong_count() > 0);
        owned.insert(owner.to_owned(), Arc::downgrade(&guard.place));
        drop(owned);
        Ok(guard)
    }

    fn owner_of(&self, guard: &LockGuard) -> Option<String> {
        let place = Arc::downgrade(&guard.place);
        let owned = self.owned.lock();
        let mut owners = owned.iter().filter(|(_, known)| known.ptr_eq(&place));
        owners.next().map(|(owner, _)| owner.clone())
    }

    fn owned_by(&self, owner: &str) -> Option<Arc<Place>> {
        self.owned.lock().get(owner).and_then(Weak::upgrade)
    }

    /// Asks whoever has the lock to let go, and says whether somebody had it. A holder of this crate
    /// hears of it by [`LockGuard::is_asked_for`], one of Curator if it is revocable; neither has to
    /// do anything about it.
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
            match insist(client, || client.set_data(&path, LET_GO, -1)).await {
                Ok(_) => return Ok(true),
                // It went meanwhile: perhaps the next one has it.
                Err(error) if error.code() == Some(ErrorCode::NoNode) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Children of the directory that are no contenders, but for which a stock Curator peer waits
    /// for ever. This crate ignores them.
    ///
    /// # Errors
    /// If the directory cannot be read.
    pub async fn strangers(&self) -> Result<Vec<String>> {
        let names = self.queue.list().await?.unwrap_or_default();
        let names = names.iter().map(String::as_str);
        let found = hold_up_curator(names, LOCKS).into_iter();
        Ok(found.map(str::to_owned).collect())
    }
}

/// A lock that is held. Dropping the last of its owner lets go behind the scenes.
#[derive(Debug)]
pub struct LockGuard {
    pub(crate) place: Arc<Place>,
}

impl LockGuard {
    /// Grows from holder to holder.
    pub fn token(&self) -> Token {
        self.place.token()
    }

    /// The contender's znode.
    pub fn path(&self) -> &str {
        self.place.path()
    }

    /// Whether the client is connected, in the session that the lock was granted to. What an
    /// operator deleted is noticed by [`in_doubt`](Self::in_doubt) only.
    pub fn is_certain(&self) -> bool {
        self.place.is_certain()
    }

    /// Waits until the lock may be somebody else's soon: whoever works under it stops then.
    pub async fn in_doubt(&self) -> Doubt {
        self.place.doubt().await
    }

    /// Waits until somebody asks for the lock by [`Mutex::ask_for`], or by Curator's `Revoker`: true;
    /// false when it is gone before. It is held on until it is let go.
    pub async fn is_asked_for(&self) -> bool {
        self.place.until_data(|data| data == LET_GO).await
    }

    /// An operation that fails a multi unless the lock is still held: with it in front, a write is
    /// refused that comes too late.
    pub fn check(&self) -> MultiOp {
        MultiOp::check(self.path(), -1)
    }

    /// The same lock once more, for the same owner: it is let go with the last guard.
    #[must_use]
    pub fn again(&self) -> Self {
        let place = Arc::clone(&self.place);
        Self { place }
    }

    /// Lets go, if this is the owner's last guard, and says whether it was. If the connection is
    /// lost meanwhile, that is seen to behind the scenes.
    ///
    /// # Errors
    /// If a server refuses the deletion; the lock then goes with the session.
    pub async fn release(self) -> Result<bool> {
        match Arc::into_inner(self.place) {
            Some(place) => place.leave().await.map(|()| true),
            None => Ok(false),
        }
    }
}
