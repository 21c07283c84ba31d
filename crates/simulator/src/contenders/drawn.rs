//! Programs of the recipes in `Recipe::DRAWN`, of which a seed draws two.

use std::time::Duration;

use recipes::{
    Error, LeaderLatch, LeaderSelector, Leadership, Mutex, Queue, ReadWriteLock, Result, Semaphore,
    TakenItems, UnfairElection,
};
use tokio::time::timeout;

use super::programs::{Contender, ProgramEvent};
use crate::invariants::recipes::{LEASES, Recipe};

impl Contender<'_> {
    pub(super) async fn lock(&mut self) -> Result<()> {
        let layout = self.layout();
        let mutex = Mutex::new(self.client, Recipe::Mutex.path())?.with_layout(layout);
        let Some(mut guard) = self.wait(mutex.acquire()).await? else {
            return Ok(());
        };
        loop {
            let (path, token) = (guard.path(), guard.token());
            self.hold(
                path,
                token,
                Some(guard.check()),
                guard.wait_until_uncertain(),
            )
            .await;
            if self.random.percent(70) {
                break;
            }
            match self.wait(mutex.requeue(guard)).await? {
                Some(next) => guard = next,
                None => return Ok(()),
            }
        }
        if self.random.percent(80) {
            guard.release().await.map(drop)
        } else {
            Ok(())
        }
    }

    pub(super) async fn read_or_write(&mut self) -> Result<()> {
        let layout = self.layout();
        let path = Recipe::ReadWriteLock.path();
        let lock = ReadWriteLock::new(self.client, path)?.with_layout(layout);
        let guard = if self.random.percent(50) {
            let Some(guard) = self.wait(lock.write()).await? else {
                return Ok(());
            };
            let (path, token) = (guard.path(), guard.token());
            self.hold(
                path,
                token,
                Some(guard.check()),
                guard.wait_until_uncertain(),
            )
            .await;
            if self.random.percent(50) {
                return guard.release().await;
            }
            guard.downgrade().await?
        } else {
            let Some(guard) = self.wait(lock.read()).await? else {
                return Ok(());
            };
            guard
        };
        // No check is needed, because readers share the lock and their writes need no order.
        let (path, token) = (guard.path(), guard.token());
        self.hold(path, token, None, guard.wait_until_uncertain())
            .await;
        guard.release().await.map(drop)
    }

    pub(super) async fn lease(&mut self) -> Result<()> {
        let semaphore = Semaphore::new(self.client, Recipe::Semaphore.path(), LEASES)?;
        let Some(lease) = self.wait(semaphore.acquire()).await? else {
            return Ok(());
        };
        self.hold(
            lease.path(),
            lease.token(),
            None,
            lease.wait_until_uncertain(),
        )
        .await;
        if self.random.percent(80) {
            lease.release().await
        } else {
            Ok(())
        }
    }

    pub(super) async fn latch(&mut self) -> Result<()> {
        let latch = LeaderLatch::start(self.client, Recipe::LeaderLatch.path(), "")?;
        self.lead(latch).await
    }

    pub(super) async fn lead(&mut self, latch: LeaderLatch) -> Result<()> {
        for _ in 0..=self.random.below(2) {
            let Some(leadership) = self.wait(latch.leads()).await? else {
                break;
            };
            let (path, token) = (leadership.path(), leadership.token());
            let check = Some(leadership.check());
            self.hold(path, token, check, latch.yields()).await;
        }
        if self.random.percent(80) {
            latch.close().await;
        }
        Ok(())
    }

    pub(super) async fn elect(&mut self) -> Result<()> {
        let election = UnfairElection::start(self.client, Recipe::UnfairElection.path(), "")?;
        for _ in 0..=self.random.below(2) {
            let Some(leadership) = self.wait(election.leads()).await? else {
                break;
            };
            // A check would only prove that some process leads, but not which process.
            let (path, token) = (leadership.path(), leadership.token());
            self.hold(path, token, None, election.yields()).await;
        }
        if self.random.percent(80) {
            election.close().await;
        }
        Ok(())
    }

    pub(super) async fn select(&mut self) -> Result<()> {
        let layout = self.layout();
        let selector = LeaderSelector::new(self.client, Recipe::LeaderSelector.path())?;
        let selector = selector.with_layout(layout);
        self.program.tell(ProgramEvent::Waits);
        let contender = &mut *self;
        let lead = |leadership: Leadership| async move {
            let (path, token) = (leadership.path(), leadership.token());
            let never = std::future::pending::<()>();
            contender
                .hold(path, token, Some(leadership.check()), never)
                .await;
        };
        selector.lead(lead).await.map(drop)
    }

    pub(super) async fn queue(&mut self) -> Result<()> {
        let queue = Queue::new(self.client, Recipe::Queue.path())?;
        if self.random.percent(50) {
            let item = format!("item-{}-{}-", self.program.seed, self.items);
            self.items += 1;
            queue.put(item.clone()).await?;
            self.program.tell(ProgramEvent::Put(item));
            return Ok(());
        }
        // The queue may be empty for longer than this limit.
        let limit = Duration::from_millis(500);
        let Ok(taken) = timeout(limit, queue.take()).await else {
            return Ok(());
        };
        self.process(taken?).await
    }

    /// Processes taken items, and then drops, returns, requeues or confirms them at random.
    pub(super) async fn process(&mut self, taken: TakenItems) -> Result<()> {
        let items: Vec<String> = taken
            .items()
            .iter()
            .map(|item| String::from_utf8_lossy(item).into_owned())
            .collect();
        let tell = |told: fn(String) -> ProgramEvent| {
            items
                .iter()
                .for_each(|item| self.program.tell(told(item.clone())));
        };
        tell(ProgramEvent::Taken);
        self.pause(0, 60).await;
        match self.random.below(10) {
            0 => drop(taken),
            1 => taken.give_back().await?,
            2 => drop(unless_lost(taken.requeue().await)?),
            _ if unless_lost(taken.confirm().await)? => tell(ProgramEvent::Confirmed),
            _ => {}
        }
        Ok(())
    }
}

/// Returns whether the items were still locked when their consumer confirmed or requeued them.
fn unless_lost(ended: Result<()>) -> Result<bool> {
    match ended {
        Ok(()) => Ok(true),
        Err(Error::NotHeld { .. }) => Ok(false),
        Err(error) => Err(error),
    }
}
