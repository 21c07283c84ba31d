//! Queue whose items are deleted when they are taken.

use std::sync::Arc;

use bytes::Bytes;
use client::Client;

use crate::error::Result;
use crate::item::{Naming, entry_stem};
use crate::items::Items;
use crate::names::Layout;

/// Priority of kazoo's items that were added without a priority.
pub(crate) const PRIORITY: u16 = 100;

/// Queue that deletes an item before its consumer processes it. An item is therefore taken *at most
/// once*, and is lost if its consumer dies. [`Queue`](crate::Queue) would keep it.
///
/// ```
/// # tests::documented(async |client| {
/// use zoarium_recipes::SimpleQueue;
///
/// let samples = SimpleQueue::new(&client, "/queues/samples")?;
/// samples.put("21.5").await?;
/// assert_eq!(samples.take().await?, "21.5");
/// # Ok::<_, zoarium_recipes::Error>(())
/// # });
/// ```
///
/// A put or take is executed only once, even after a lost answer. For this purpose, each client has
/// ephemeral znodes in the directory `<path>-locks`.
///
/// | | requests | notifications |
/// |---|---|---|
/// | put | 1 transaction | 1 per waiting consumer |
/// | take | getChildren, getData, 1 transaction | 1 per waiting consumer |
///
/// Source: SimpleDistributedQueue; kazoo's Queue with [`Layout::Kazoo`].
#[derive(Debug, Clone)]
#[must_use = "it does nothing until one of its methods is called"]
pub struct SimpleQueue {
    items: Arc<Items>,
    stem: String,
}

impl SimpleQueue {
    /// Creates a handle for the queue in the directory `path`.
    ///
    /// # Errors
    /// If the path is invalid.
    pub fn new(client: &Client, path: &str) -> Result<Self> {
        Self::with_layout(client, path, Layout::Curator)
    }

    /// Creates a handle for a queue whose names have this layout. The two layouts cannot share a
    /// directory.
    ///
    /// # Errors
    /// If the path is invalid.
    pub fn with_layout(client: &Client, path: &str, layout: Layout) -> Result<Self> {
        let (naming, stem) = match layout {
            Layout::Curator => (Naming::Simple, Naming::Simple.word().to_owned()),
            Layout::Kazoo => (Naming::Entry, entry_stem(PRIORITY)),
        };
        let items = Items::new(client, path, &format!("{path}-locks"), naming)?;
        let items = Arc::new(items);
        Ok(Self { items, stem })
    }

    /// Adds an item at the end.
    ///
    /// # Errors
    /// See [`Queue::put`](crate::Queue::put).
    pub async fn put(&self, item: impl Into<Bytes>) -> Result<()> {
        self.items.put(&self.stem, &[item.into()]).await
    }

    /// Waits for an item, deletes it and returns it. A future that is dropped after the deletion
    /// loses the item.
    ///
    /// # Errors
    /// [`Error::Unknown`](crate::Error::Unknown) if the session ended before the answer, so it is
    /// unknown whether this client has taken an item.
    pub async fn take(&self) -> Result<Bytes> {
        self.items.pop().await
    }

    /// Deletes and returns the first item, or returns `None` if the queue is empty.
    ///
    /// # Errors
    /// See [`take`](Self::take).
    pub async fn try_take(&self) -> Result<Option<Bytes>> {
        self.items.try_pop().await
    }

    /// Returns the number of items.
    ///
    /// # Errors
    /// If a server refuses the read.
    pub async fn count(&self) -> Result<usize> {
        self.items.count().await
    }
}
