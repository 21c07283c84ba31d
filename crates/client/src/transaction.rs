//! Builder of a multi.

use bytes::Bytes;

use crate::client::Client;
use crate::create::{Create, Version};
use crate::error::Result;
use crate::multi::{MultiOp, MultiResult};

/// Operations that a server executes together or not at all. Nothing is sent before
/// [`commit`](Self::commit).
///
/// ```no_run
/// # use zoarium_client::{Client, Create, Version};
/// # async fn example(client: &Client) -> zoarium_client::Result<()> {
/// let results = client
///     .transaction()
///     .check("/config", 3)
///     .create("/config/new", "1", &Create::persistent())
///     .delete("/config/old", Version::Any)
///     .commit()
///     .await?;
/// assert_eq!(results.len(), 3);
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone)]
#[must_use = "nothing is sent before `commit`"]
pub struct Transaction<'a> {
    client: &'a Client,
    ops: Vec<MultiOp>,
}

impl Client {
    /// Begins a transaction without operations.
    pub fn transaction(&self) -> Transaction<'_> {
        let ops = Vec::new();
        Transaction { client: self, ops }
    }
}

impl Transaction<'_> {
    /// Adds an operation.
    pub fn op(mut self, op: MultiOp) -> Self {
        self.ops.push(op);
        self
    }

    /// Adds the creation of a znode.
    pub fn create(self, path: &str, data: impl Into<Bytes>, create: &Create) -> Self {
        self.op(MultiOp::create(path, data, create))
    }

    /// Adds the deletion of a znode.
    pub fn delete(self, path: &str, version: impl Into<Version>) -> Self {
        self.op(MultiOp::delete(path, version))
    }

    /// Adds the replacement of a znode's data.
    pub fn set_data(self, path: &str, data: impl Into<Bytes>, version: impl Into<Version>) -> Self {
        self.op(MultiOp::set_data(path, data, version))
    }

    /// Adds a check of the version. A different version, or a missing znode, fails the transaction.
    pub fn check(self, path: &str, version: impl Into<Version>) -> Self {
        self.op(MultiOp::check(path, version))
    }

    /// Executes all operations or none. The results are in the order of the operations.
    ///
    /// # Errors
    /// See [`Client::multi`].
    pub async fn commit(self) -> Result<Vec<MultiResult>> {
        self.client.multi(&self.ops).await
    }
}
