//! Znode that outlives its client for a limited time.

use std::time::Duration;

use bytes::Bytes;
use client::{Client, Create};
use proto::ErrorCode;
use tokio::task::JoinHandle;

use crate::error::{Error, Result};
use crate::node::{NodeLife, PersistentNode};
use crate::session::retry;

/// Name of the child to which this recipe writes repeatedly, as in Curator.
const TOUCH: &str = "touch";
/// Number of writes during a TTL.
const TOUCHES: u32 = 2;

/// Znode that is recreated after every deletion, and that a server deletes some time after the last
/// client has stopped maintaining it. Unlike a [`PersistentNode`], it survives the end of a
/// session.
///
/// Servers create znodes with a TTL only if `extendedTypesEnabled` is set.
///
/// ```
/// # tests::documented(async |client| {
/// use std::time::Duration;
///
/// use zoarium_recipes::PersistentTtlNode;
///
/// let ttl = Duration::from_secs(60);
/// let node = PersistentTtlNode::start(&client, "/jobs/backup", ttl, "host-7")?;
/// node.is_there().await?;
/// // The znode remains for about a minute.
/// node.close().await;
/// # Ok::<_, zoarium_recipes::Error>(())
/// # });
/// ```
///
/// A write to the child `touch` after each half of the TTL keeps both znodes. These writes do not
/// fire watches on the znode itself.
///
/// Source: PersistentTtlNode.
#[derive(Debug)]
#[must_use = "dropping it stops to maintain the znode"]
pub struct PersistentTtlNode {
    node: PersistentNode,
    touching: Touching,
}

/// Task that writes to the child until this handle is dropped.
#[derive(Debug)]
struct Touching(JoinHandle<()>);

impl Drop for Touching {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl PersistentTtlNode {
    /// Starts maintaining a znode at `path`. Background tasks do the work, so the call requires a
    /// tokio runtime.
    ///
    /// # Errors
    /// If the path is invalid, or the TTL is shorter than a millisecond.
    pub fn start(
        client: &Client,
        path: &str,
        ttl: Duration,
        data: impl Into<Bytes>,
    ) -> Result<Self> {
        if ttl.as_millis() == 0 {
            return Err(Error::argument(
                path,
                "the TTL is shorter than a millisecond",
            ));
        }
        let kind = Create::ttl(ttl);
        let node =
            PersistentNode::start_as(client, path, data.into(), kind.clone(), NodeLife::Ttl)?;
        let (client, path) = (client.clone(), format!("{path}/{TOUCH}"));
        let touching = tokio::spawn(async move {
            let mut times = tokio::time::interval(ttl / TOUCHES);
            loop {
                times.tick().await;
                if let Err(error) = touch(&client, &path, &kind).await {
                    tracing::warn!(%error, path, "cannot prolong the life of a znode");
                    return;
                }
            }
        });
        let touching = Touching(touching);
        Ok(Self { node, touching })
    }

    /// Waits until the znode exists with the most recent data.
    ///
    /// # Errors
    /// See [`PersistentNode::is_there`]. A server without `extendedTypesEnabled` refuses the
    /// znode.
    pub async fn is_there(&self) -> Result<()> {
        self.node.is_there().await
    }

    /// Sets the data, both now and after each later creation of the znode.
    pub fn set_data(&self, data: impl Into<Bytes>) {
        self.node.set_data(data);
    }

    /// Returns the path of the znode.
    pub fn path(&self) -> &str {
        self.node.path()
    }

    /// Stops maintaining the znode. The znode remains until its TTL ends.
    pub async fn close(self) {
        let Self { node, touching } = self;
        drop(touching);
        node.close().await;
    }
}

/// Writes to the child, or creates it. Does nothing if the parent is currently missing.
async fn touch(client: &Client, path: &str, kind: &Create) -> Result<()> {
    loop {
        match retry(client, || client.set_data(path, "", -1)).await {
            Ok(_) => return Ok(()),
            Err(error) if error.code() == Some(ErrorCode::NoNode) => {}
            Err(error) => return Err(error.into()),
        }
        match retry(client, || client.create(path, "", kind)).await {
            Ok(_) => return Ok(()),
            Err(error) if error.code() == Some(ErrorCode::NodeExists) => {}
            Err(error) if error.code() == Some(ErrorCode::NoNode) => return Ok(()),
            Err(error) => return Err(error.into()),
        }
    }
}
