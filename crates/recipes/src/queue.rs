//! Queues: items that outlive their producers, and are taken by one consumer each.

use std::sync::Arc;

use bytes::Bytes;
use client::Client;

use crate::error::Result;
use crate::item::{ITEM_WORD, priority_text};
use crate::items::Items;
use crate::taken::Taken;

/// Items in the order of their arrival.
///
/// ```
/// # tests::documented(async |client| {
/// use recipes::Queue;
///
/// let queue = Queue::new(&client, "/queues/mail")?;
/// queue.put("to: you").await?;
/// // In another program:
/// let taken = queue.take().await?;
/// assert_eq!(taken.items(), ["to: you"]);
/// if !taken.confirm().await? {
///     println!("the session ended meanwhile: somebody else takes it, too");
/// }
/// # Ok::<_, recipes::Error>(())
/// # });
/// ```
///
/// An item is put exactly once, or it is said that this is unknown. It is *taken at least once*: it
/// stays until its consumer [confirms](Taken::confirm), and is free again when that one gives it
/// back or its session ends. Only a consumer that does twice what may be done once, such as by
/// keeping the [`Token`](crate::Token), is safe from a repetition.
///
/// | | requests | notifications |
/// |---|---|---|
/// | put | 1 transaction | 1 to each consumer that waits |
/// | take | 2 getChildren, a transaction, getData | 1 to each consumer that waits |
/// | confirm | 1 transaction | 1 to each consumer that waits |
///
/// Source: DistributedQueue with a lock path. A consumer of Curator without one takes an item before
/// it works on it, and loses it in a crash: give it this queue's [`with_locks`](Self::with_locks).
#[derive(Debug, Clone)]
pub struct Queue {
    items: Arc<Items>,
}

/// Items of lower priority first, in the order of arrival among equals.
///
/// ```
/// # tests::documented(async |client| {
/// use recipes::PriorityQueue;
///
/// let queue = PriorityQueue::new(&client, "/queues/jobs")?;
/// queue.put(5, "sweep").await?;
/// queue.put(-1, "put out the fire").await?;
/// let fire = queue.take().await?;
/// assert_eq!(fire.items(), ["put out the fire"]);
/// fire.confirm().await?;
/// # Ok::<_, recipes::Error>(())
/// # });
/// ```
///
/// In all else it is a [`Queue`]. The two do not share a directory.
///
/// Source: DistributedPriorityQueue with a lock path.
#[derive(Debug, Clone)]
pub struct PriorityQueue {
    items: Arc<Items>,
}

impl Queue {
    /// A queue in the directory `path`, with its locks in the directory `<path>-locks`.
    ///
    /// # Errors
    /// If the path cannot be one.
    pub fn new(client: &Client, path: &str) -> Result<Self> {
        Self::with_locks(client, path, &format!("{path}-locks"))
    }

    /// The same with its locks elsewhere: Curator's `lockPath`. All consumers must have the same.
    ///
    /// # Errors
    /// If a path cannot be one.
    pub fn with_locks(client: &Client, path: &str, locks: &str) -> Result<Self> {
        let items = Arc::new(Items::new(client, path, locks, false)?);
        Ok(Self { items })
    }

    /// Puts an item at the end.
    ///
    /// # Errors
    /// [`Error::UnknownPut`](crate::Error::UnknownPut) if the session ended before the answer; that
    /// of a server that refuses.
    pub async fn put(&self, item: impl Into<Bytes>) -> Result<()> {
        self.put_together(&[item.into()]).await
    }

    /// Puts items that are to be taken together, by one consumer.
    ///
    /// # Errors
    /// The same.
    pub async fn put_together(&self, items: &[Bytes]) -> Result<()> {
        self.items.put(ITEM_WORD, items).await
    }

    /// Waits for an item and takes it. Dropping the future takes nothing.
    ///
    /// # Errors
    /// If the client is over, or a server refuses what is asked.
    pub async fn take(&self) -> Result<Taken> {
        self.items.take().await
    }

    /// Takes an item if there is one that nobody has taken.
    ///
    /// # Errors
    /// The same.
    pub async fn try_take(&self) -> Result<Option<Taken>> {
        self.items.try_take().await
    }

    /// How many there are, with those that are taken and not confirmed. Several that were put
    /// together count as one.
    ///
    /// # Errors
    /// If a server refuses that.
    pub async fn count(&self) -> Result<usize> {
        self.items.count().await
    }
}

impl PriorityQueue {
    /// A queue in the directory `path`, with its locks in the directory `<path>-locks`.
    ///
    /// # Errors
    /// If the path cannot be one.
    pub fn new(client: &Client, path: &str) -> Result<Self> {
        Self::with_locks(client, path, &format!("{path}-locks"))
    }

    /// The same with its locks elsewhere: Curator's `lockPath`. All consumers must have the same.
    ///
    /// # Errors
    /// If a path cannot be one.
    pub fn with_locks(client: &Client, path: &str, locks: &str) -> Result<Self> {
        let items = Arc::new(Items::new(client, path, locks, true)?);
        Ok(Self { items })
    }

    /// Puts an item behind all that have its priority or a lower one.
    ///
    /// # Errors
    /// As of [`Queue::put`].
    pub async fn put(&self, priority: i32, item: impl Into<Bytes>) -> Result<()> {
        self.put_together(priority, &[item.into()]).await
    }

    /// Puts items that are to be taken together, by one consumer.
    ///
    /// # Errors
    /// The same.
    pub async fn put_together(&self, priority: i32, items: &[Bytes]) -> Result<()> {
        let stem = format!("{ITEM_WORD}{}", priority_text(priority));
        self.items.put(&stem, items).await
    }

    /// As [`Queue::take`].
    ///
    /// # Errors
    /// If the client is over, or a server refuses what is asked.
    pub async fn take(&self) -> Result<Taken> {
        self.items.take().await
    }

    /// As [`Queue::try_take`].
    ///
    /// # Errors
    /// The same.
    pub async fn try_take(&self) -> Result<Option<Taken>> {
        self.items.try_take().await
    }

    /// As [`Queue::count`].
    ///
    /// # Errors
    /// If a server refuses that.
    pub async fn count(&self) -> Result<usize> {
        self.items.count().await
    }
}
