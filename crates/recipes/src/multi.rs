//! Several locks as one.

use crate::error::Result;
use crate::mutex::{LockGuard, Mutex};

/// Locks that are taken together: all, or after an error or when the future is dropped none.
///
/// They are taken in the order given. Give the same order everywhere, or two holders wait for each
/// other.
///
/// ```
/// # tests::documented(async |client| {
/// use recipes::{MultiLock, Mutex};
///
/// let accounts = ["/locks/account-1", "/locks/account-2"];
/// let locks: Result<Vec<_>, _> = accounts.map(|path| Mutex::new(&client, path)).into_iter().collect();
/// let guards = MultiLock::new(locks?).acquire().await?;
/// guards.release().await?;
/// # Ok::<_, recipes::Error>(())
/// # });
/// ```
///
/// Source: InterProcessMultiLock.
#[derive(Debug, Clone)]
pub struct MultiLock {
    locks: Vec<Mutex>,
}

impl MultiLock {
    /// Of these, in this order.
    pub fn new(locks: Vec<Mutex>) -> Self {
        Self { locks }
    }

    /// Waits for each of them in turn.
    ///
    /// # Errors
    /// As of [`Mutex::acquire`]; what was taken before is let go behind the scenes, the last first.
    pub async fn acquire(&self) -> Result<MultiGuard> {
        let mut taken = MultiGuard { guards: Vec::new() };
        for lock in &self.locks {
            taken.guards.push(lock.acquire().await?);
        }
        Ok(taken)
    }

    /// Takes them only if all are free.
    ///
    /// # Errors
    /// The same.
    pub async fn try_acquire(&self) -> Result<Option<MultiGuard>> {
        let mut taken = MultiGuard { guards: Vec::new() };
        for lock in &self.locks {
            match lock.try_acquire().await? {
                Some(guard) => taken.guards.push(guard),
                None => {
                    taken.release().await?;
                    return Ok(None);
                }
            }
        }
        Ok(Some(taken))
    }
}

/// Locks that are held. Dropping it lets go of them behind the scenes, the last first.
#[derive(Debug)]
pub struct MultiGuard {
    guards: Vec<LockGuard>,
}

impl MultiGuard {
    /// In the order of the locks.
    pub fn guards(&self) -> &[LockGuard] {
        &self.guards
    }

    /// Whether all of them are certain.
    pub fn is_certain(&self) -> bool {
        self.guards.iter().all(LockGuard::is_certain)
    }

    /// Lets go of all, the last first, even if one cannot be let go.
    ///
    /// # Errors
    /// The first one met.
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
