//! Queues whose items have a due time, an id, or kazoo's priority in their names.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use client::Client;

use crate::error::{Error, Result};
use crate::item::{Naming, due_stem, entry_stem, id_stem, id_text};
use crate::items::Items;
use crate::queue::{created_with_locks, taken_by_consumers};
use crate::simple_queue::PRIORITY;
use crate::taken_items::TakenItems;
use crate::wall_clock::{now_ms, since_1970};

created_with_locks!(DelayQueue, Naming::Due);
taken_by_consumers!(DelayQueue);
created_with_locks!(IdQueue, Naming::Id);
taken_by_consumers!(IdQueue);
taken_by_consumers!(LockingQueue);

/// Queue whose items can be taken from a given time on, according to the system clock of the
/// consumer. Items that are due earlier come first.
///
/// ```
/// # tests::documented(async |client| {
/// use std::time::Duration;
///
/// use zoarium_recipes::DelayQueue;
///
/// let reminders = DelayQueue::new(&client, "/queues/reminders")?;
/// let day = Duration::from_secs(86_400);
/// reminders.put(day, "water the plants").await?;
/// assert!(reminders.try_take().await?.is_none());
/// # Ok::<_, zoarium_recipes::Error>(())
/// # });
/// ```
///
/// In all other respects it behaves like a [`Queue`](crate::Queue).
///
/// Source: DistributedDelayQueue with a lock path.
#[derive(Debug, Clone)]
#[must_use = "it does nothing until one of its methods is called"]
pub struct DelayQueue {
    items: Arc<Items>,
}

const NANOS_PER_MS: u128 = 1_000_000;

impl DelayQueue {
    /// Adds an item that consumers can take after this delay, rounded up to ms. With a delay of
    /// zero, they can take it immediately.
    ///
    /// # Errors
    /// See [`Queue::put`](crate::Queue::put).
    pub async fn put(&self, delay: Duration, item: impl Into<Bytes>) -> Result<()> {
        // The current time is rounded down, like the current time of consumers. Otherwise, an item
        // without a delay would wait for the next ms.
        let due_ms = now_ms(&self.items.client).saturating_add(ms_rounded_up(delay));
        self.items.put(&due_stem(due_ms), &[item.into()]).await
    }

    /// Adds an item that consumers can take from this time on, rounded up to ms.
    ///
    /// # Errors
    /// See [`Queue::put`](crate::Queue::put).
    pub async fn put_at(&self, due: SystemTime, item: impl Into<Bytes>) -> Result<()> {
        let due_ms = ms_rounded_up(since_1970(due));
        self.items.put(&due_stem(due_ms), &[item.into()]).await
    }
}

fn ms_rounded_up(time: Duration) -> u64 {
    u64::try_from(time.as_nanos().div_ceil(NANOS_PER_MS)).unwrap_or(u64::MAX)
}

/// Queue whose items have ids, by which they can be removed.
///
/// ```
/// # tests::documented(async |client| {
/// use zoarium_recipes::IdQueue;
///
/// let orders = IdQueue::new(&client, "/queues/orders")?;
/// orders.put("order-7", "two chairs").await?;
/// assert_eq!(orders.remove("order-7").await?, 1);
/// # Ok::<_, zoarium_recipes::Error>(())
/// # });
/// ```
///
/// Several items may have the same id. In ids, `/` and `|` are treated as `_`. In all other
/// respects it behaves like a [`Queue`](crate::Queue).
///
/// Source: DistributedIdQueue with a lock path.
#[derive(Debug, Clone)]
#[must_use = "it does nothing until one of its methods is called"]
pub struct IdQueue {
    items: Arc<Items>,
}

impl IdQueue {
    /// Adds an item with an id at the end.
    ///
    /// # Errors
    /// See [`Queue::put`](crate::Queue::put).
    pub async fn put(&self, id: &str, item: impl Into<Bytes>) -> Result<()> {
        self.items.put(&id_stem(id), &[item.into()]).await
    }

    /// Removes all items with this id that no consumer has taken, and returns the number of removed
    /// items.
    ///
    /// # Errors
    /// If the session has ended, or a server refuses a request.
    pub async fn remove(&self, id: &str) -> Result<usize> {
        self.items.remove(&id_text(id)).await
    }
}

/// Queue in kazoo's layout whose items stay until their consumer confirms them.
///
/// ```
/// # tests::documented(async |client| {
/// use zoarium_recipes::LockingQueue;
///
/// let jobs = LockingQueue::new(&client, "/queues/builds")?;
/// jobs.put("build the docs").await?;
/// jobs.put_first(7, "build the release").await?;
/// let taken = jobs.take().await?;
/// assert_eq!(taken.items(), ["build the release"]);
/// taken.confirm().await?;
/// # Ok::<_, zoarium_recipes::Error>(())
/// # });
/// ```
///
/// In all other respects it behaves like a [`Queue`](crate::Queue).
///
/// Source: kazoo's LockingQueue.
#[derive(Debug, Clone)]
#[must_use = "it does nothing until one of its methods is called"]
pub struct LockingQueue {
    items: Arc<Items>,
}

/// Greatest priority. Names contain a priority of three digits.
const PRIORITY_MAX: u16 = 999;

impl LockingQueue {
    /// Creates a handle for the queue in the directory `path`.
    ///
    /// # Errors
    /// If the path is invalid.
    pub fn new(client: &Client, path: &str) -> Result<Self> {
        let (entries, taken) = (format!("{path}/entries"), format!("{path}/taken"));
        let items = Items::new(client, &entries, &taken, Naming::Entry)?;
        let items = Arc::new(items);
        Ok(Self { items })
    }

    /// Adds an item with priority 100, after the existing items with this priority.
    ///
    /// # Errors
    /// See [`Queue::put`](crate::Queue::put).
    pub async fn put(&self, item: impl Into<Bytes>) -> Result<()> {
        self.put_first(PRIORITY, item).await
    }

    /// Adds an item after all items with the same or a lower priority number. `priority` is at most
    /// 999.
    ///
    /// # Errors
    /// See [`Queue::put`](crate::Queue::put). [`Error::Argument`] if `priority` is greater than
    /// 999.
    pub async fn put_first(&self, priority: u16, item: impl Into<Bytes>) -> Result<()> {
        if priority > PRIORITY_MAX {
            let reason = format!("the priority {priority} is greater than {PRIORITY_MAX}");
            return Err(Error::argument(&self.items.item(""), reason));
        }
        self.items.put(&entry_stem(priority), &[item.into()]).await
    }
}
