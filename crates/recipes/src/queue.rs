//! Queues of items. Items outlive their producers, and each item has one consumer at a time.

use std::sync::Arc;

use bytes::Bytes;
use client::Client;

use crate::error::Result;
use crate::item::{Naming, priority_stem};
use crate::items::Items;
use crate::taken_items::TakenItems;

/// Adds the constructors of a queue in Curator's layout.
macro_rules! created_with_locks {
    ($queue:ident, $naming:expr) => {
        impl $queue {
            /// Creates a handle for the queue in the directory `path`. The locks of its items are
            /// in the directory `<path>-locks`.
            ///
            /// # Errors
            /// If the path is invalid.
            pub fn new(client: &Client, path: &str) -> Result<Self> {
                Self::with_locks(client, path, &format!("{path}-locks"))
            }

            /// Creates a handle for a queue whose locks are in another directory (Curator's
            /// `lockPath`). All consumers must use the same directory.
            ///
            /// # Errors
            /// If a path is invalid.
            pub fn with_locks(client: &Client, path: &str, locks: &str) -> Result<Self> {
                let items = Arc::new(Items::new(client, path, locks, $naming)?);
                Ok(Self { items })
            }
        }
    };
}

/// Adds the methods of consumers that lock an item before they process it.
macro_rules! taken_by_consumers {
    ($queue:ident) => {
        impl $queue {
            /// Waits for an item and takes it. If the future is dropped, no item is taken.
            ///
            /// # Errors
            /// If the session has ended, or a server refuses a request.
            pub async fn take(&self) -> Result<TakenItems> {
                self.items.take().await
            }

            /// Takes an item, or returns `None` if no item is free.
            ///
            /// # Errors
            /// If the session has ended, or a server refuses a request.
            pub async fn try_take(&self) -> Result<Option<TakenItems>> {
                self.items.try_take().await
            }

            /// Returns the number of items, including items that are taken but not confirmed.
            /// Items that were added together count as one item.
            ///
            /// # Errors
            /// If a server refuses the read.
            pub async fn count(&self) -> Result<usize> {
                self.items.count().await
            }
        }
    };
}

pub(crate) use {created_with_locks, taken_by_consumers};

created_with_locks!(Queue, Naming::Plain);
taken_by_consumers!(Queue);
created_with_locks!(PriorityQueue, Naming::Priority);
taken_by_consumers!(PriorityQueue);

/// Queue of items in the order of their arrival.
///
/// ```
/// # tests::documented(async |client| {
/// use zoarium_recipes::Queue;
///
/// let queue = Queue::new(&client, "/queues/mail")?;
/// queue.put("to: you").await?;
/// // In another program:
/// let taken = queue.take().await?;
/// assert_eq!(taken.items(), ["to: you"]);
/// // Fails with `NotHeld` if the session has ended. Another client can then take the item.
/// taken.confirm().await?;
/// # Ok::<_, zoarium_recipes::Error>(())
/// # });
/// ```
///
/// An item is added exactly once, or the call reports that the result is unknown. It is *taken at
/// least once*: the item stays until its consumer [confirms](TakenItems::confirm) it, and is free
/// again when the consumer releases it or the consumer's session ends. A consumer must therefore
/// tolerate repetitions. The [`Token`](crate::Token) of a later consumer of the item is greater.
///
/// | | requests | notifications |
/// |---|---|---|
/// | put | 1 transaction | 1 per waiting consumer |
/// | take | 2 getChildren, a transaction, getData | 1 per waiting consumer |
/// | confirm | 1 transaction | 1 per waiting consumer |
///
/// Source: DistributedQueue with a lock path. A Curator consumer without a lock path removes an
/// item before it processes the item, and loses it in a crash. Configure it with the lock path of
/// this queue ([`with_locks`](Self::with_locks)).
#[derive(Debug, Clone)]
#[must_use = "it does nothing until one of its methods is called"]
pub struct Queue {
    items: Arc<Items>,
}

/// Queue that returns items with lower priority numbers first, and items with equal numbers in the
/// order of arrival.
///
/// ```
/// # tests::documented(async |client| {
/// use zoarium_recipes::PriorityQueue;
///
/// let queue = PriorityQueue::new(&client, "/queues/jobs")?;
/// queue.put(5, "sweep").await?;
/// queue.put(-1, "put out the fire").await?;
/// let fire = queue.take().await?;
/// assert_eq!(fire.items(), ["put out the fire"]);
/// fire.confirm().await?;
/// # Ok::<_, zoarium_recipes::Error>(())
/// # });
/// ```
///
/// In all other respects it behaves like a [`Queue`]. The two kinds cannot share a directory.
///
/// Source: DistributedPriorityQueue with a lock path.
#[derive(Debug, Clone)]
#[must_use = "it does nothing until one of its methods is called"]
pub struct PriorityQueue {
    items: Arc<Items>,
}

impl Queue {
    /// Adds an item at the end.
    ///
    /// # Errors
    /// [`Error::UnknownPut`](crate::Error::UnknownPut) if the session ended before the answer.
    /// [`Error::Client`](crate::Error::Client) if a server refuses the request.
    pub async fn put(&self, item: impl Into<Bytes>) -> Result<()> {
        self.put_together(&[item.into()]).await
    }

    /// Adds items that one consumer will take together.
    ///
    /// # Errors
    /// See [`put`](Self::put).
    pub async fn put_together(&self, items: &[Bytes]) -> Result<()> {
        self.items.put(Naming::Plain.word(), items).await
    }
}

impl PriorityQueue {
    /// Adds an item after all items with the same or a lower priority number.
    ///
    /// # Errors
    /// See [`Queue::put`].
    pub async fn put(&self, priority: i32, item: impl Into<Bytes>) -> Result<()> {
        self.put_together(priority, &[item.into()]).await
    }

    /// Adds items that one consumer will take together.
    ///
    /// # Errors
    /// See [`Queue::put`].
    pub async fn put_together(&self, priority: i32, items: &[Bytes]) -> Result<()> {
        self.items.put(&priority_stem(priority), items).await
    }
}
