//! Shared number.

use bytes::Bytes;
use client::Client;

use crate::error::{Error, Result};
use crate::mutex::Mutex;
use crate::value::SharedValue;

/// Encoding of a number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Width {
    /// 8 bytes, big-endian, as in DistributedAtomicLong.
    #[default]
    Long,
    /// 4 bytes, big-endian, as in SharedCount, DistributedAtomicInteger, and kazoo's Counter with
    /// `support_curator`.
    Int,
}

/// Number that clients increment.
///
/// ```
/// # tests::documented(async |client| {
/// use zoarium_recipes::Counter;
///
/// let tickets = Counter::new(&client, "/counters/tickets")?;
/// assert_eq!(tickets.add(1).await?, 1);
/// assert_eq!(tickets.add(1).await?, 2);
/// # Ok::<_, zoarium_recipes::Error>(())
/// # });
/// ```
///
/// A missing znode and empty data mean 0.
///
/// Source: SharedCount, DistributedAtomicLong, DistributedAtomicInteger; kazoo's Counter.
#[derive(Debug, Clone)]
#[must_use = "it does nothing until one of its methods is called"]
pub struct Counter {
    value: SharedValue,
    width: Width,
    promotion: Option<(Mutex, usize)>,
}

impl Counter {
    /// Creates a handle for the counter at `path`.
    ///
    /// # Errors
    /// If the path is invalid.
    pub fn new(client: &Client, path: &str) -> Result<Self> {
        Ok(Self {
            value: SharedValue::new(client, path, Bytes::new())?,
            width: Width::Long,
            promotion: None,
        })
    }

    /// Makes a change of the counter acquire `lock` after this number of conflicts with other
    /// clients. Without a lock, a slow client may have conflicts for a long time.
    ///
    /// Source: PromotedToLock.
    pub fn with_promotion(mut self, lock: Mutex, conflicts: usize) -> Self {
        self.promotion = Some((lock, conflicts));
        self
    }

    /// Sets the width of the number.
    ///
    /// ```
    /// # tests::documented(async |client| {
    /// use zoarium_recipes::{Counter, Width};
    ///
    /// let seats = Counter::new(&client, "/counters/seats")?.with_width(Width::Int);
    /// assert_eq!(seats.add(-2).await?, -2);
    /// # Ok::<_, zoarium_recipes::Error>(())
    /// # });
    /// ```
    pub fn with_width(mut self, width: Width) -> Self {
        self.width = width;
        self
    }

    /// Returns the number that the connected server knows.
    ///
    /// # Errors
    /// [`Error::Number`] if the data is not a number of this width.
    pub async fn get(&self) -> Result<i64> {
        self.decode(&self.value.get().await?.data)
    }

    /// Adds `delta` and returns the sum. Never adds it twice.
    ///
    /// # Errors
    /// [`Error::Unknown`] if the connection was lost before an answer and it cannot be determined
    /// whether `delta` was added. [`Error::Number`] if the sum does not fit.
    pub async fn add(&self, delta: i64) -> Result<i64> {
        let sum = |number: i64| number.checked_add(delta);
        self.change(sum, |number| format!("{number} + {delta}"))
            .await
    }

    /// Multiplies the number and returns the product. Never multiplies it twice.
    ///
    /// # Errors
    /// See [`add`](Self::add).
    pub async fn multiply(&self, factor: i64) -> Result<i64> {
        let product = |number: i64| number.checked_mul(factor);
        self.change(product, |number| format!("{number} * {factor}"))
            .await
    }

    /// Replaces the number with the result of a function. `shown` formats the change for errors.
    async fn change(
        &self,
        result: impl Fn(i64) -> Option<i64>,
        shown: impl Fn(i64) -> String,
    ) -> Result<i64> {
        let mut conflicts = 0;
        let mut guard = None;
        loop {
            if let Some((lock, conflicts_max)) = &self.promotion
                && guard.is_none()
                && conflicts >= *conflicts_max
            {
                guard = Some(lock.acquire().await?);
            }
            let read = self.value.get().await?;
            let number = self.decode(&read.data)?;
            let next = result(number).ok_or_else(|| self.invalid_number(shown(number)))?;
            let data = self.encode(next)?;
            if self.value.try_set(&read, data).await?.is_some() {
                if let Some(guard) = guard {
                    // The write was conditional, so it is valid even if the lock was lost.
                    let _ = guard.release().await;
                }
                return Ok(next);
            }
            conflicts += 1;
        }
    }

    /// Writes `new` if the number is `expected`, and returns whether it was written.
    ///
    /// # Errors
    /// [`Error::Unknown`] if the connection was lost before an answer and it cannot be determined
    /// whether `new` was written. [`Error::Number`] if `new` does not fit.
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

    fn invalid_number(&self, what: String) -> Error {
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
        number
            .ok_or_else(|| self.invalid_number(format!("{:02x?}", data.get(..32).unwrap_or(data))))
    }

    fn encode(&self, number: i64) -> Result<Bytes> {
        match self.width {
            Width::Long => Ok(Bytes::copy_from_slice(&number.to_be_bytes())),
            Width::Int => match i32::try_from(number) {
                Ok(number) => Ok(Bytes::copy_from_slice(&number.to_be_bytes())),
                Err(_) => Err(self.invalid_number(number.to_string())),
            },
        }
    }
}
