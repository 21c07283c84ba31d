//! Leases that last for a fixed time, in kazoo's layout.

use std::time::Duration;

use client::{Client, Create, MultiOp};
use jiff::Timestamp;
use jiff::tz::TimeZone;
use proto::ErrorCode;
use serde_json::Value;

use crate::error::{Error, Result};
use crate::mutex::{LockGuard, Mutex};
use crate::names::Layout;
use crate::session::data_of;
use crate::wall_clock::now_ms;

/// Version of the format of a lease's data.
const VERSION: u64 = 1;
/// Format of the time at which a lease ends, in UTC. Strings in this format have the same order as
/// their times.
const END: &str = "%Y-%m-%dT%H:%M:%S";

/// Right to do something, for a fixed time. The holder does not need a session, and may obtain the
/// lease again before it ends.
///
/// ```
/// # tests::documented(async |client| {
/// use std::time::Duration;
///
/// use zoarium_recipes::NonBlockingLease;
///
/// let cleanup = NonBlockingLease::new(&client, "/leases/cleanup", "host-7")?;
/// if cleanup.obtain(Duration::from_secs(3600)).await? {
///     println!("cleaning up");
/// }
/// # Ok::<_, zoarium_recipes::Error>(())
/// # });
/// ```
///
/// The end is a time on the clock of the holder, so the clocks of all clients must agree roughly.
/// Use a [`Mutex`] where two holders would cause harm.
///
/// Cost: a [`Mutex`], getData, and one transaction.
///
/// Source: kazoo's NonBlockingLease.
#[derive(Debug, Clone)]
#[must_use = "it does nothing until one of its methods is called"]
pub struct NonBlockingLease {
    client: Client,
    mutex: Mutex,
    identifier: String,
}

impl NonBlockingLease {
    /// Creates a handle for the lease at `path`. `identifier` names the holder.
    ///
    /// # Errors
    /// If the path is invalid.
    pub fn new(client: &Client, path: &str, identifier: &str) -> Result<Self> {
        let mutex = Mutex::new(client, path)?.with_layout(Layout::Kazoo);
        Ok(Self {
            client: client.clone(),
            mutex: mutex.with_data(identifier.to_owned()),
            identifier: identifier.to_owned(),
        })
    }

    /// Obtains the lease for this time, starting now, if no other holder has it. Returns whether it
    /// was obtained.
    ///
    /// # Errors
    /// If the time is shorter than a second, or a server refuses a request.
    pub async fn obtain(&self, duration: Duration) -> Result<bool> {
        let end = i64::try_from(duration.as_secs())
            .ok()
            .filter(|seconds| *seconds > 0);
        let now = i64::try_from(now_ms(&self.client) / 1000).unwrap_or(i64::MAX);
        let end = end.and_then(|seconds| text(now.checked_add(seconds)?));
        let (Some(now), Some(end)) = (text(now), end) else {
            let reason = format!("a lease cannot last {duration:?}");
            return Err(Error::argument(self.mutex.path(), reason));
        };
        let guard = self.mutex.acquire().await?;
        let obtained = self.obtain_as(&guard, &now, &end).await;
        // The transaction was conditional, so it is valid even if the lock was lost.
        let _ = guard.release().await;
        obtained
    }

    async fn obtain_as(&self, guard: &LockGuard, now: &str, end: &str) -> Result<bool> {
        let path = format!("{}/lease_holder", self.mutex.path());
        let found = data_of(&self.client, &path).await?;
        if let Some(data) = &found
            && !is_free(data, &self.identifier, now)
        {
            return Ok(false);
        }
        let holder = Value::from(self.identifier.as_str());
        let data = format!("{{\"version\": {VERSION}, \"holder\": {holder}, \"end\": \"{end}\"}}");
        let write = match found {
            Some(_) => MultiOp::set_data(&path, data, -1),
            None => MultiOp::create(&path, data, &Create::persistent()),
        };
        match self.client.multi(&[guard.check(), write]).await {
            Ok(_) => Ok(true),
            // The lock was lost meanwhile, so another client may have obtained the lease.
            Err(error) if error.code() == Some(ErrorCode::NoNode) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }
}

/// Returns whether a client may obtain a lease with this data.
fn is_free(data: &[u8], identifier: &str, now: &str) -> bool {
    let Ok(lease) = serde_json::from_slice::<Value>(data) else {
        return false;
    };
    let text = |key: &str| lease.get(key).and_then(Value::as_str);
    let is_own = text("holder") == Some(identifier);
    let is_over = text("end").is_some_and(|end| end <= now);
    lease.get("version").and_then(Value::as_u64) == Some(VERSION) && (is_own || is_over)
}

/// Formats a time in seconds since 1970. Returns `None` if it is too late for the format.
fn text(seconds: i64) -> Option<String> {
    let time = Timestamp::from_second(seconds)
        .ok()?
        .to_zoned(TimeZone::UTC);
    Some(time.strftime(END).to_string())
}

/// Leases for a limited number of holders.
///
/// ```
/// # tests::documented(async |client| {
/// use std::time::Duration;
///
/// use zoarium_recipes::MultiNonBlockingLease;
///
/// let two = MultiNonBlockingLease::new(&client, "/leases/report", 2, "host-7")?;
/// assert_eq!(two.obtain(Duration::from_secs(60)).await?, Some(0));
/// # Ok::<_, zoarium_recipes::Error>(())
/// # });
/// ```
///
/// Source: kazoo's MultiNonBlockingLease.
#[derive(Debug, Clone)]
#[must_use = "it does nothing until one of its methods is called"]
pub struct MultiNonBlockingLease {
    leases: Vec<NonBlockingLease>,
}

impl MultiNonBlockingLease {
    /// Creates a handle for `count` leases below `path`. `identifier` names the holder.
    ///
    /// # Errors
    /// If the path is invalid, or `count` is 0.
    pub fn new(client: &Client, path: &str, count: usize, identifier: &str) -> Result<Self> {
        if count == 0 {
            return Err(Error::argument(path, "there must be at least one lease"));
        }
        let lease = |number| NonBlockingLease::new(client, &format!("{path}/{number}"), identifier);
        let leases = (0..count).map(lease).collect::<Result<_>>()?;
        Ok(Self { leases })
    }

    /// Obtains the first free lease, and returns its number, starting at 0. Returns `None` if no
    /// lease is free.
    ///
    /// # Errors
    /// See [`NonBlockingLease::obtain`].
    pub async fn obtain(&self, duration: Duration) -> Result<Option<usize>> {
        for (number, lease) in self.leases.iter().enumerate() {
            if lease.obtain(duration).await? {
                return Ok(Some(number));
            }
        }
        Ok(None)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lease_is_free_after_its_end_and_for_its_holder() {
        let now = text(1_700_000_000).unwrap();
        assert_eq!(now, "2023-11-14T22:13:20");
        let lease = |version: u32, end: &str| {
            format!("{{\"version\": {version}, \"holder\": \"a\", \"end\": \"{end}\"}}")
        };
        for (data, by_a, by_b) in [
            (lease(1, "2023-11-14T22:13:21"), true, false),
            (lease(1, "2023-11-14T22:13:20"), true, true),
            (lease(2, "2023-11-14T22:13:20"), false, false),
            ("{}".to_owned(), false, false),
            ("?".to_owned(), false, false),
        ] {
            assert_eq!(is_free(data.as_bytes(), "a", &now), by_a, "{data}");
            assert_eq!(is_free(data.as_bytes(), "b", &now), by_b, "{data}");
        }
    }
}
