//! Programs of the queues in `Recipe::ALONE`, each of which has separate runs.

use std::time::Duration;

use recipes::{
    DelayQueue, IdQueue, Layout, LockingQueue, PriorityQueue, Result, SimpleQueue, TakenItems,
};
use tokio::time::timeout;

use super::programs::{Contender, ProgramEvent};
use crate::invariants::recipes::{Recipe, Seen};

/// Time for which a consumer waits for an item. The queue may be empty for longer.
const TAKE_LIMIT: Duration = Duration::from_millis(500);
/// Id of the items that must be processed, and id of the items that may be removed.
const IDS: [&str; 2] = ["kept", "removed"];

impl Contender<'_> {
    /// Returns an item that no other process puts.
    fn item(&mut self) -> String {
        self.items += 1;
        format!("item-{}-{}-", self.program.seed, self.items)
    }

    /// Takes an item, reports it as the first free item of its queue, and processes it.
    async fn take(&mut self, taking: impl Future<Output = Result<TakenItems>>) -> Result<()> {
        let session = self.begin().await?;
        let Ok(taken) = timeout(TAKE_LIMIT, taking).await else {
            return Ok(());
        };
        let taken = taken?;
        let (recipe, path) = (self.program.recipe, taken.path());
        self.observe(session, Seen::First { recipe, path });
        self.process(taken).await
    }

    pub(super) async fn work_by_priority(&mut self) -> Result<()> {
        let queue = PriorityQueue::new(self.client, Recipe::PriorityQueue.path())?;
        if self.random.percent(50) {
            return self.take(queue.take()).await;
        }
        let priority = self.random.pick(&[-7, -1, 0, 1, 300]).unwrap_or_default();
        let item = self.item();
        queue.put(priority, item.clone()).await?;
        self.program.tell(ProgramEvent::Put(item));
        Ok(())
    }

    pub(super) async fn work_when_due(&mut self) -> Result<()> {
        let queue = DelayQueue::new(self.client, Recipe::DelayQueue.path())?;
        if self.random.percent(50) {
            return self.take(queue.take()).await;
        }
        let delay = u64::try_from(self.random.range(0, 1000)).unwrap_or_default();
        let item = self.item();
        queue
            .put(Duration::from_millis(delay), item.clone())
            .await?;
        self.program.tell(ProgramEvent::Put(item));
        Ok(())
    }

    /// Takes an item, or puts or removes items by id. Only items with the first id must be
    /// processed.
    pub(super) async fn work_by_id(&mut self) -> Result<()> {
        let queue = IdQueue::new(self.client, Recipe::IdQueue.path())?;
        match self.random.below(10) {
            0..5 => return self.take(queue.take()).await,
            5 => {
                queue.remove(IDS[1]).await?;
                self.program.tell(ProgramEvent::Done);
            }
            6 => {
                let item = self.item();
                queue.put(IDS[1], item).await?;
                self.program.tell(ProgramEvent::Done);
            }
            _ => {
                let item = self.item();
                queue.put(IDS[0], item.clone()).await?;
                self.program.tell(ProgramEvent::Put(item));
            }
        }
        Ok(())
    }

    pub(super) async fn work_with_kazoo(&mut self) -> Result<()> {
        let queue = LockingQueue::new(self.client, Recipe::LockingQueue.path())?;
        if self.random.percent(50) {
            return self.take(queue.take()).await;
        }
        let priority = self.random.pick(&[1, 100, 101, 999]).unwrap_or_default();
        let item = self.item();
        queue.put_first(priority, item.clone()).await?;
        self.program.tell(ProgramEvent::Put(item));
        Ok(())
    }

    /// Puts an item, or takes one. A call that fails or does not end may have deleted an item.
    pub(super) async fn pop(&mut self) -> Result<()> {
        let path = Recipe::SimpleQueue.path();
        // The two layouts cannot share a queue.
        let queue = SimpleQueue::with_layout(self.client, path, Layout::Curator)?;
        if self.random.percent(50) {
            let item = self.item();
            queue.put(item.clone()).await?;
            self.program.tell(ProgramEvent::Put(item));
            return Ok(());
        }
        self.program.tell(ProgramEvent::Waits);
        match queue.try_take().await {
            Ok(Some(item)) => {
                let item = String::from_utf8_lossy(&item).into_owned();
                self.program.tell(ProgramEvent::Taken(item.clone()));
                self.program.tell(ProgramEvent::Confirmed(item));
            }
            Ok(None) => self.program.tell(ProgramEvent::Done),
            Err(_) => self.program.tell(ProgramEvent::Unknown),
        }
        self.program.tell(ProgramEvent::WaitsNoMore);
        Ok(())
    }
}
