//! At most so many at a time.

use bytes::Bytes;
use client::{Client, MultiOp};
use proto::mutant::{self, Mutant};

use crate::error::Result;
use crate::mutex::Mutex;
use crate::names::{Layout, Word, exclusive};
use crate::place::{Doubt, Place, Queue, Token};
use crate::session::{check_path, connected, may_pass};

/// Leases, of which at most a number is out at a time; waiters in the order of arrival.
///
/// Every process must give the same number. A child of `<path>/leases` is a lease, whoever made it.
///
/// ```
/// # tests::documented(async |client| {
/// use recipes::Semaphore;
///
/// let downloads = Semaphore::new(&client, "/limits/downloads", 3)?;
/// let lease = downloads.acquire().await?;
/// lease.release().await?;
/// # Ok::<_, recipes::Error>(())
/// # });
/// ```
///
/// One waiter at a time, who has the gate in `<path>/locks`, watches the leases; the others wait for
/// the one ahead of them in the gate's queue: a lease that comes back costs one notification.
///
/// Source: InterProcessSemaphoreV2.
#[derive(Debug, Clone)]
pub struct Semaphore {
    gate: Mutex,
    leases: Queue,
    max: usize,
    data: Bytes,
}

const LEASES: &[Word] = &[exclusive("lease-")];

impl Semaphore {
    /// A semaphore on `path`, which is made when it is needed.
    ///
    /// # Errors
    /// If the path cannot be one.
    pub fn new(client: &Client, path: &str, max: usize) -> Result<Self> {
        check_path(path)?;
        let leases = Queue {
            client: client.clone(),
            directory: format!("{path}/leases"),
            layout: Layout::Curator,
            words: LEASES,
        };
        Ok(Self {
            gate: Mutex::new(client, &format!("{path}/locks"))?,
            leases,
            max,
            data: Bytes::new(),
        })
    }

    /// The same with data in each lease, for people who look at it.
    #[must_use]
    pub fn with_data(mut self, data: impl Into<Bytes>) -> Self {
        self.data = data.into();
        self
    }

    /// Waits for a lease. Dropping the future takes back what it has so far.
    ///
    /// # Errors
    /// As of [`Mutex::acquire`].
    pub async fn acquire(&self) -> Result<Lease> {
        loop {
            let gate = self.gate.acquire().await?;
            let place = self.leases.join("lease-", &self.data).await?;
            let has_room = tokio::select! {
                biased;
                has_room = self.wait_for_room(&place) => has_room?,
                // Whoever loses the gate stands at its end again.
                () = gate.place.gone() => false,
            };
            if has_room {
                gate.release().await?;
                return Ok(Lease { place });
            }
            place.leave().await?;
        }
    }

    /// Waits for `count` leases: all, or after an error or when the future is dropped none.
    ///
    /// # Errors
    /// The same.
    pub async fn acquire_many(&self, count: usize) -> Result<Vec<Lease>> {
        let mut leases = Vec::new();
        for _ in 0..count {
            leases.push(self.acquire().await?);
        }
        Ok(leases)
    }

    /// Whether the lease is among the first `max`, once it is; false if it is gone.
    async fn wait_for_room(&self, place: &Place) -> Result<bool> {
        let client = &self.leases.client;
        loop {
            connected(client).await?;
            if !place.is_certain() {
                // Another session, or a loss that is just seen.
                if place.doubt_in(&client.state().borrow()) == Some(Doubt::Gone) {
                    return Ok(false);
                }
                continue;
            }
            let (names, _, mut watch) = match client.watch_children(&self.leases.directory).await {
                Ok(answer) => answer,
                Err(error) if may_pass(client, &error) => continue,
                Err(error) if error.code() == Some(proto::ErrorCode::NoNode) => return Ok(false),
                Err(error) => return Err(error.into()),
            };
            if !names.iter().any(|name| **name == *place.name()) {
                return Ok(false);
            }
            let max = self.max + usize::from(mutant::is(Mutant::OneLeaseTooMany));
            if names.len() <= max {
                return Ok(place.is_certain());
            }
            match watch.changed().await {
                Err(error) if !may_pass(client, &error) => return Err(error.into()),
                _ => {}
            }
        }
    }
}

/// A lease that is out. Dropping it gives it back behind the scenes.
#[derive(Debug)]
pub struct Lease {
    place: Place,
}

impl Lease {
    /// Of each lease another, growing.
    pub fn token(&self) -> Token {
        self.place.token()
    }

    /// The lease's znode.
    pub fn path(&self) -> &str {
        self.place.path()
    }

    /// As [`crate::LockGuard::is_certain`].
    pub fn is_certain(&self) -> bool {
        self.place.is_certain()
    }

    /// As [`crate::LockGuard::in_doubt`].
    pub async fn in_doubt(&self) -> Doubt {
        self.place.doubt().await
    }

    /// As [`crate::LockGuard::check`].
    pub fn check(&self) -> MultiOp {
        MultiOp::check(self.path(), -1)
    }

    /// Gives it back.
    ///
    /// # Errors
    /// As of [`crate::LockGuard::release`].
    pub async fn release(self) -> Result<()> {
        self.place.leave().await
    }
}
