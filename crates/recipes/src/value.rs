//! Shared value.

use bytes::Bytes;
use client::{Client, Create, Error as ClientError};
use proto::{ErrorCode, Stat};

use crate::error::{Error, Result};
use crate::session::{check_path, connected, is_transient, make_directory, retry};
use crate::watched::watch_ended;

/// Value that is stored in one znode and outlives its writers.
///
/// ```
/// # tests::documented(async |client| {
/// use zoarium_recipes::SharedValue;
///
/// let value = SharedValue::new(&client, "/settings/colour", "blue")?;
/// let read = value.get().await?;
/// if value.try_set(&read, "green").await?.is_none() {
///     println!("another client has changed the value first");
/// }
/// let next = value.changed_from(&read).await?;
/// assert_eq!(next.data, "green");
/// # Ok::<_, zoarium_recipes::Error>(())
/// # });
/// ```
///
/// Source: SharedValue.
#[derive(Debug, Clone)]
#[must_use = "it does nothing until one of its methods is called"]
pub struct SharedValue {
    client: Client,
    pub(crate) path: String,
    seed: Bytes,
}

/// Value that was read or written at one time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Versioned {
    /// Data of the znode.
    pub data: Bytes,
    /// Version of the znode's data.
    pub version: i32,
    /// Zxid of the transaction that wrote the value. It distinguishes a znode from an earlier znode
    /// at the same path.
    pub mzxid: i64,
}

impl SharedValue {
    /// Creates a handle for the value at `path`. A missing value is created from `seed`.
    ///
    /// # Errors
    /// If the path is invalid.
    pub fn new(client: &Client, path: &str, seed: impl Into<Bytes>) -> Result<Self> {
        check_path(path)?;
        Ok(Self {
            client: client.clone(),
            path: path.to_owned(),
            seed: seed.into(),
        })
    }

    /// Returns the value that the connected server knows.
    ///
    /// # Errors
    /// If a server refuses the read.
    pub async fn get(&self) -> Result<Versioned> {
        loop {
            match retry(&self.client, || self.client.get_data(&self.path)).await {
                Ok((data, stat)) => {
                    return Ok(Versioned {
                        data: data.unwrap_or_default(),
                        version: stat.version,
                        mzxid: stat.mzxid,
                    });
                }
                Err(error) if error.code() == Some(ErrorCode::NoNode) => self.create().await?,
                Err(error) => return Err(error.into()),
            }
        }
    }

    async fn create(&self) -> Result<()> {
        let kind = Create::persistent();
        let create = || self.client.create(&self.path, self.seed.clone(), &kind);
        match retry(&self.client, create).await {
            Ok(_) => Ok(()),
            Err(error) if error.code() == Some(ErrorCode::NodeExists) => Ok(()),
            Err(error) if error.code() == Some(ErrorCode::NoNode) => {
                let parent = self.path.rsplit_once('/').map_or("", |(parent, _)| parent);
                make_directory(&self.client, parent).await
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Replaces any existing value.
    ///
    /// # Errors
    /// If a server refuses the write.
    pub async fn set(&self, data: impl Into<Bytes>) -> Result<()> {
        let data = data.into();
        loop {
            let set = || self.client.set_data(&self.path, data.clone(), -1);
            match retry(&self.client, set).await {
                Ok(_) => return Ok(()),
                Err(error) if error.code() == Some(ErrorCode::NoNode) => self.create().await?,
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Replaces the value if it has not changed since `read`. Returns `None` if it has changed.
    ///
    /// # Errors
    /// [`Error::Unknown`] if the connection was lost before the answer and the value has changed.
    /// Either this call or another client may have changed it.
    pub async fn try_set(
        &self,
        read: &Versioned,
        data: impl Into<Bytes>,
    ) -> Result<Option<Versioned>> {
        let data = data.into();
        let mut is_asked = false;
        loop {
            let set = self.client.set_data(&self.path, data.clone(), read.version);
            match set.await {
                Ok(stat) => {
                    return Ok(Some(Versioned {
                        data,
                        version: stat.version,
                        mzxid: stat.mzxid,
                    }));
                }
                Err(error) if was_changed(&error) && !is_asked => return Ok(None),
                Err(error) if was_changed(&error) => return self.find_outcome(read, &data).await,
                // A repetition cannot write again, because the first write changes the version.
                Err(error) if is_transient(&self.client, &error) => {
                    is_asked |= !matches!(error, ClientError::Unreachable { .. });
                    connected(&self.client).await?;
                }
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Determines whether a request without an answer wrote the value, after the value has changed.
    async fn find_outcome(&self, read: &Versioned, data: &Bytes) -> Result<Option<Versioned>> {
        match retry(&self.client, || self.client.get_data(&self.path)).await {
            Ok((now, stat))
                if is_written_by_another(read, data, now.as_deref().unwrap_or_default(), &stat) =>
            {
                Ok(None)
            }
            Err(error) if error.code() != Some(ErrorCode::NoNode) => Err(error.into()),
            _ => Err(Error::Unknown {
                path: self.path.clone(),
            }),
        }
    }

    /// Waits until the value differs from `read`, and returns the new value. Intermediate values
    /// may be missed.
    ///
    /// # Errors
    /// If the session has ended, or a server refuses the read.
    pub async fn changed_from(&self, read: &Versioned) -> Result<Versioned> {
        loop {
            connected(&self.client).await?;
            // Creates the znode if an operator deleted it.
            let now = self.get().await?;
            if now.mzxid != read.mzxid {
                return Ok(now);
            }
            match self.client.watch_data(&self.path).await {
                Ok((_, stat, _)) if stat.mzxid != read.mzxid => {}
                watched => {
                    watch_ended(&self.client, watched).await?;
                }
            }
        }
    }
}

/// Returns whether another client wrote the version after `read`. A write of `data` on condition of
/// `read` was then not executed and never will be.
fn is_written_by_another(read: &Versioned, data: &Bytes, now: &[u8], stat: &Stat) -> bool {
    // Versions of a later znode at the same path reveal nothing about the znode that was read.
    let is_same_znode = stat.czxid <= read.mzxid;
    is_same_znode && stat.version == read.version.wrapping_add(1) && now != data
}

fn was_changed(error: &ClientError) -> bool {
    matches!(
        error.code(),
        Some(ErrorCode::BadVersion | ErrorCode::NoNode)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_next_version_of_the_same_znode_shows_that_another_client_wrote_it() {
        let read = Versioned {
            data: Bytes::from_static(b"read"),
            version: 0,
            mzxid: 10,
        };
        let (ours, theirs) = (Bytes::from_static(b"ours"), Bytes::from_static(b"theirs"));
        let is_theirs = |now: &Bytes, version, czxid| {
            let stat = Stat {
                czxid,
                version,
                ..Stat::default()
            };
            is_written_by_another(&read, &ours, now, &stat)
        };
        assert!(is_theirs(&theirs, 1, 10));
        assert!(!is_theirs(&ours, 1, 10));
        assert!(!is_theirs(&theirs, 2, 10), "this call may have written 1");
        // Our write was executed. Then the znode was deleted, created again and written.
        assert!(!is_theirs(&theirs, 1, 12));
    }
}
