//! A value that all see, and a number that all count with.

use bytes::Bytes;
use client::{Client, Create, Error as ClientError};
use proto::ErrorCode;

use crate::error::{Error, Result};
use crate::place::make_directory;
use crate::session::{check_path, connected, insist, may_pass};

/// Bytes in one znode, which outlive their writers.
///
/// ```
/// # tests::documented(async |client| {
/// use recipes::SharedValue;
///
/// let value = SharedValue::new(&client, "/settings/colour", "blue")?;
/// let read = value.get().await?;
/// if value.try_set(&read, "green").await?.is_none() {
///     println!("somebody was quicker");
/// }
/// let next = value.changed_from(&read).await?;
/// assert_eq!(next.data, "green");
/// # Ok::<_, recipes::Error>(())
/// # });
/// ```
///
/// Source: SharedValue.
#[derive(Debug, Clone)]
pub struct SharedValue {
    client: Client,
    path: String,
    seed: Bytes,
}

/// A value as it was at one time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Versioned {
    /// The bytes.
    pub data: Bytes,
    /// Of the znode's data.
    pub version: i32,
    /// The transaction that wrote it: tells apart what was deleted and made again.
    pub mzxid: i64,
}

impl SharedValue {
    /// A value at `path`; where there is none, it is made of `seed`.
    ///
    /// # Errors
    /// If the path cannot be one.
    pub fn new(client: &Client, path: &str, seed: impl Into<Bytes>) -> Result<Self> {
        check_path(path)?;
        Ok(Self {
            client: client.clone(),
            path: path.to_owned(),
            seed: seed.into(),
        })
    }

    /// The value, as the connected server knows it.
    ///
    /// # Errors
    /// If a server refuses that.
    pub async fn get(&self) -> Result<Versioned> {
        loop {
            match insist(&self.client, || self.client.get_data(&self.path)).await {
                Ok((data, stat)) => {
                    return Ok(Versioned {
                        data: data.unwrap_or_default(),
                        version: stat.version,
                        mzxid: stat.mzxid,
                    });
                }
                Err(error) if error.code() == Some(ErrorCode::NoNode) => self.make().await?,
                Err(error) => return Err(error.into()),
            }
        }
    }

    async fn make(&self) -> Result<()> {
        let kind = Create::persistent();
        let create = || self.client.create(&self.path, self.seed.clone(), &kind);
        match insist(&self.client, create).await {
            Ok(_) => Ok(()),
            Err(error) if error.code() == Some(ErrorCode::NodeExists) => Ok(()),
            Err(error) if error.code() == Some(ErrorCode::NoNode) => {
                let parent = self.path.rsplit_once('/').map_or("", |(parent, _)| parent);
                make_directory(&self.client, parent).await
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Replaces the value whatever it is.
    ///
    /// # Errors
    /// If a server refuses that.
    pub async fn set(&self, data: impl Into<Bytes>) -> Result<()> {
        let data = data.into();
        loop {
            let set = || self.client.set_data(&self.path, data.clone(), -1);
            match insist(&self.client, set).await {
                Ok(_) => return Ok(()),
                Err(error) if error.code() == Some(ErrorCode::NoNode) => self.make().await?,
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Replaces the value if it is still the one that was read; `None` if it is not.
    ///
    /// # Errors
    /// [`Error::Unknown`] if the connection was lost before the answer and the value is another one
    /// now: it may have been replaced by this or by somebody else.
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
                Err(error) if is_another(&error) && !is_asked => return Ok(None),
                Err(error) if is_another(&error) => return self.judge(read, &data).await,
                // To ask once more cannot write twice: the version is another one by then.
                Err(error) if may_pass(&self.client, &error) => {
                    is_asked |= !matches!(error, ClientError::Unreachable { .. });
                    connected(&self.client).await?;
                }
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Whether it was written by a request without an answer, when the value is another one by now.
    async fn judge(&self, read: &Versioned, data: &Bytes) -> Result<Option<Versioned>> {
        let now = self.get().await?;
        // The next version is somebody else's: ours can never have been, nor be, written.
        if now.version == read.version.wrapping_add(1) && now.data != *data {
            return Ok(None);
        }
        let path = self.path.clone();
        Err(Error::Unknown { path })
    }

    /// Waits until the value is not the one that was read, and gives what it is then. Values in
    /// between may be missed.
    ///
    /// # Errors
    /// If the client is over, or a server refuses the read.
    pub async fn changed_from(&self, read: &Versioned) -> Result<Versioned> {
        loop {
            connected(&self.client).await?;
            // It makes the znode if an operator deleted it.
            let now = self.get().await?;
            if now.mzxid != read.mzxid {
                return Ok(now);
            }
            let changed = match self.client.watch_data(&self.path).await {
                Ok((_, stat, mut watch)) if stat.mzxid == read.mzxid => watch.changed().await,
                Ok(_) => continue,
                Err(error) => Err(error),
            };
            match changed {
                Ok(_) => {}
                Err(error) if error.code() == Some(ErrorCode::NoNode) => {}
                Err(error) if may_pass(&self.client, &error) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }
}

fn is_another(error: &ClientError) -> bool {
    matches!(
        error.code(),
        Some(ErrorCode::BadVersion | ErrorCode::NoNode)
    )
}

/// How a number is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Width {
    /// 8 bytes, big-endian: DistributedAtomicLong.
    #[default]
    Long,
    /// 4 bytes, big-endian: SharedCount, DistributedAtomicInteger, kazoo's Counter with
    /// `support_curator`.
    Int,
}

/// A number that clients add to.
///
/// ```
/// # tests::documented(async |client| {
/// use recipes::Counter;
///
/// let tickets = Counter::new(&client, "/counters/tickets")?;
/// assert_eq!(tickets.add(1).await?, 1);
/// assert_eq!(tickets.add(1).await?, 2);
/// # Ok::<_, recipes::Error>(())
/// # });
/// ```
///
/// Where there is no znode, or an empty one, the number is 0.
#[derive(Debug, Clone)]
pub struct Counter {
    value: SharedValue,
    width: Width,
}

impl Counter {
    /// A number at `path`.
    ///
    /// # Errors
    /// If the path cannot be one.
    pub fn new(client: &Client, path: &str) -> Result<Self> {
        Ok(Self {
            value: SharedValue::new(client, path, Bytes::new())?,
            width: Width::Long,
        })
    }

    /// The same, written in another width.
    #[must_use]
    pub fn with_width(mut self, width: Width) -> Self {
        self.width = width;
        self
    }

    /// The number, as the connected server knows it.
    ///
    /// # Errors
    /// [`Error::Number`] if the znode holds something else.
    pub async fn get(&self) -> Result<i64> {
        self.decode(&self.value.get().await?.data)
    }

    /// Adds, and gives the sum.
    ///
    /// # Errors
    /// [`Error::Unknown`] if the connection was lost before an answer and it cannot be told whether
    /// this was added: it is never added twice. [`Error::Number`] if the sum does not fit.
    pub async fn add(&self, delta: i64) -> Result<i64> {
        loop {
            let read = self.value.get().await?;
            let number = self.decode(&read.data)?;
            let sum = number.checked_add(delta);
            let sum = sum.ok_or_else(|| self.misfit(format!("{number} + {delta}")))?;
            let data = self.encode(sum)?;
            if self.value.try_set(&read, data).await?.is_some() {
                return Ok(sum);
            }
        }
    }

    /// Writes `new` if the number is `expected`, and says whether it was.
    ///
    /// # Errors
    /// The same.
    pub async fn compare_and_set(&self, expected: i64, new: i64) -> Result<bool> {
        let data = self.encode(new)?;
        loop {
            let read = self.value.get().await?;
            if self.decode(&read.data)? != expected {
                return Ok(false);
            }
            if self.value.try_set(&read, data.clone()).await?.is_some() {
                return Ok(true);
            }
        }
    }

    fn misfit(&self, what: String) -> Error {
        let path = self.value.path.clone();
        Error::Number { path, what }
    }

    fn decode(&self, data: &[u8]) -> Result<i64> {
        let number = match (self.width, data) {
            (_, []) => Some(0),
            (Width::Long, data) => data.try_into().ok().map(i64::from_be_bytes),
            (Width::Int, data) => data
                .try_into()
                .ok()
                .map(|data| i32::from_be_bytes(data).into()),
        };
        number.ok_or_else(|| self.misfit(format!("{:02x?}", data.get(..32).unwrap_or(data))))
    }

    fn encode(&self, number: i64) -> Result<Bytes> {
        match self.width {
            Width::Long => Ok(Bytes::copy_from_slice(&number.to_be_bytes())),
            Width::Int => match i32::try_from(number) {
                Ok(number) => Ok(Bytes::copy_from_slice(&number.to_be_bytes())),
                Err(_) => Err(self.misfit(number.to_string())),
            },
        }
    }
}
