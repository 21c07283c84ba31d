//! The programs of barriers, counters and leases.

use std::time::{Duration, UNIX_EPOCH};

use bytes::Bytes;
use recipes::{
    Barrier, Counter, DoubleBarrier, MultiNonBlockingLease, Mutex, NonBlockingLease, Result,
    SharedValue,
};

use super::programs::{Contender, ProgramEvent};
use crate::invariants::recipes::{LeaseTime, MEMBERS, Recipe, Seen};

/// Duration of a lease. All leases have the same duration, because a holder could otherwise shorten
/// its lease by a request whose reply is lost.
const LEASE: Duration = Duration::from_secs(2);
const LEASE_S: i64 = 2;

impl Contender<'_> {
    /// Closes a barrier, opens it, or waits until it is open.
    pub(super) async fn pass(&mut self) -> Result<()> {
        let path = Recipe::Barrier.path();
        let barrier = Barrier::new(self.client, path)?;
        match self.random.below(3) {
            0 => barrier.set().await?,
            1 => barrier.remove().await?,
            _ => {
                let session = self.begin().await?;
                let delay = self.random.range(50, 300);
                let opening = async {
                    let delay = u64::try_from(delay).unwrap_or_default();
                    tokio::time::sleep(Duration::from_millis(delay)).await;
                    barrier.remove().await
                };
                // If possible, this process observes the open barrier before it removes the barrier
                // itself. After the removal, the observation is always true.
                let passing = async {
                    barrier.wait().await?;
                    self.observe(session, Seen::Missing(path.to_owned()));
                    Ok(())
                };
                // All processes may be waiting, so each of them opens the barrier.
                let both = async { tokio::try_join!(passing, opening) };
                self.unless_ending(both).await?;
            }
        }
        self.program.tell(ProgramEvent::Done);
        Ok(())
    }

    /// Enters a double barrier together with another member, and usually leaves it again.
    pub(super) async fn meet(&mut self) -> Result<()> {
        let barrier = DoubleBarrier::new(self.client, Recipe::DoubleBarrier.path(), MEMBERS)?;
        let Some(inside) = self.unless_ending(barrier.enter()).await? else {
            return Ok(());
        };
        let entered_in = self.client.session_id();
        self.pause(0, 60).await;
        if self.random.percent(10) {
            return Ok(());
        }
        let session = self.begin().await?;
        if self.unless_ending(inside.leave()).await?.is_some() {
            // A member whose session has ended has already left.
            if session == entered_in {
                self.observe(session, Seen::Alone { session });
            }
            self.program.tell(ProgramEvent::Done);
        }
        Ok(())
    }

    /// Increments a number, either as a counter or as a shared value.
    pub(super) async fn count(&mut self) -> Result<()> {
        let path = Recipe::Counter.path();
        self.program.tell(ProgramEvent::Waits);
        let counted = if self.random.percent(70) {
            let lock = Mutex::new(self.client, "/counter-lock")?;
            let counter = Counter::new(self.client, path)?.with_promotion(lock, 1);
            counter.add(1).await.map(|_| true)
        } else {
            self.increment(path).await
        };
        match counted {
            Ok(true) => self.program.tell(ProgramEvent::Incremented),
            Ok(false) => {}
            Err(_) => self.program.tell(ProgramEvent::Unknown),
        }
        self.program.tell(ProgramEvent::WaitsNoMore);
        self.program.tell(ProgramEvent::Done);
        Ok(())
    }

    async fn increment(&mut self, path: &str) -> Result<bool> {
        let value = SharedValue::new(self.client, path, Bytes::new())?;
        let read = value.get().await?;
        let number = read
            .data
            .first_chunk()
            .map_or(0, |data| i64::from_be_bytes(*data));
        self.pause(0, 30).await;
        let next = Bytes::copy_from_slice(&(number + 1).to_be_bytes());
        Ok(value.try_set(&read, next).await?.is_some())
    }

    /// Obtains a lease for one holder, or one of the leases for two holders, and reports its times.
    pub(super) async fn obtain(&mut self) -> Result<()> {
        let path = Recipe::Lease.path();
        let holder = format!("host-{}", self.program.number);
        let from_s = self.wall_s();
        let obtained = if self.random.percent(60) {
            let one = NonBlockingLease::new(self.client, &format!("{path}/one"), &holder)?;
            let obtained = one.obtain(LEASE).await?;
            obtained.then(|| format!("{path}/one"))
        } else {
            let two = MultiNonBlockingLease::new(self.client, &format!("{path}/two"), 2, &holder)?;
            let obtained = two.obtain(LEASE).await?;
            // The second lease is requested later, so its times are unknown.
            obtained
                .filter(|number| *number == 0)
                .map(|_| format!("{path}/two/0"))
        };
        if let Some(path) = obtained {
            let end_s = from_s + LEASE_S;
            self.program.tell(ProgramEvent::Leased(LeaseTime {
                path,
                from_s,
                end_s,
            }));
        }
        self.program.tell(ProgramEvent::Done);
        Ok(())
    }

    /// Returns the time by the simulated clock, in seconds since 1970.
    fn wall_s(&self) -> i64 {
        let now = self.client.wall_clock().map(|clock| clock.now());
        let since = now.and_then(|now| now.duration_since(UNIX_EPOCH).ok());
        i64::try_from(since.unwrap_or_default().as_secs()).unwrap_or_default()
    }
}
