//! Several locks that behave as one.

use std::collections::HashSet;

use crate::error::{Error, Result};
use crate::mutex::{LockGuard, Mutex};

/// Locks that are acquired together. After an error or a dropped future, none of them is held.
///
/// The locks are acquired in the given order. All programs must use the same order, because two
/// holders could otherwise wait for each other.
///
/// ```
/// # tests::documented(async |client| {
/// use zoarium_recipes::{MultiLock, Mutex};
///
/// let accounts = ["/locks/account-1", "/locks/account-2"];
/// let locks: Result<Vec<_>, _> = accounts.map(|path| Mutex::new(&client, path)).into_iter().collect();
/// let guards = MultiLock::new(locks?)?.acquire().await?;
/// guards.release().await?;
/// # Ok::<_, zoarium_recipes::Error>(())
/// # });
/// ```
///
/// Source: InterProcessMultiLock.
#[derive(Debug, Clone)]
#[must_use = "it does nothing until one of its methods is called"]
pub struct MultiLock {
    locks: Vec<Mutex>,
}

impl MultiLock {
    /// Creates a lock from these locks, in this order.
    ///
    /// # Errors
    /// If the list is empty or contains a lock twice, because the second acquisition would wait for
    /// the first.
    pub fn new(locks: Vec<Mutex>) -> Result<Self> {
        let mut paths = HashSet::new();
        if let Some(twice) = locks.iter().find(|lock| !paths.insert(lock.path())) {
            let reason = "a lock that occurs twice waits for itself";
            return Err(Error::argument(twice.path(), reason));
        }
        if locks.is_empty() {
            return Err(Error::Argument {
                recipe: "several locks".to_owned(),
                reason: "there must be at least one lock".to_owned(),
            });
        }
        Ok(Self { locks })
    }

    /// Acquires the locks one after the other, and waits for each of them.
    ///
    /// # Errors
    /// See [`Mutex::acquire`]. Locks that were already acquired are released in the background, in
    /// reverse order.
    pub async fn acquire(&self) -> Result<MultiGuard> {
        let mut acquired = MultiGuard { guards: Vec::new() };
        for lock in &self.locks {
            acquired.guards.push(lock.acquire().await?);
        }
        Ok(acquired)
    }

    /// Acquires the locks only if all of them are free.
    ///
    /// # Errors
    /// See [`Mutex::acquire`]. Locks that were already acquired are released in the background, in
    /// reverse order.
    pub async fn try_acquire(&self) -> Result<Option<MultiGuard>> {
        let mut acquired = MultiGuard { guards: Vec::new() };
        for lock in &self.locks {
            match lock.try_acquire().await? {
                Some(guard) => acquired.guards.push(guard),
                None => {
                    acquired.release().await?;
                    return Ok(None);
                }
            }
        }
        Ok(Some(acquired))
    }
}

/// Guard of several held locks. Dropping it releases them in the background, in reverse order.
#[derive(Debug)]
#[must_use = "dropping it releases the locks"]
pub struct MultiGuard {
    guards: Vec<LockGuard>,
}

impl MultiGuard {
    /// Returns the guards in the order of the locks.
    pub fn guards(&self) -> &[LockGuard] {
        &self.guards
    }

    /// Returns whether all locks are certainly held.
    pub fn is_certain(&self) -> bool {
        self.guards.iter().all(LockGuard::is_certain)
    }

    /// Releases all locks in reverse order, even if one release fails.
    ///
    /// # Errors
    /// If a release fails. Returns the first error.
    pub async fn release(mut self) -> Result<()> {
        let mut released = Ok(());
        while let Some(guard) = self.guards.pop() {
            released = released.and(guard.release().await.map(drop));
        }
        released
    }
}

impl Drop for MultiGuard {
    fn drop(&mut self) {
        while let Some(guard) = self.guards.pop() {
            drop(guard);
        }
    }
}
