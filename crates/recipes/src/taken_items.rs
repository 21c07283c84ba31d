//! Items that a consumer has taken.

use std::sync::Arc;

use bytes::Bytes;
use client::{Create, MultiOp, MultiResult};
use proto::{ErrorCode, Stat};

use crate::error::{Error, Result};
use crate::item::parse;
use crate::items::Items;
use crate::once::{Marker, TxnOutcome};
use crate::queue_entry::{Token, UncertaintyCause};
use crate::session::retry;

/// Guard for taken items. Other consumers cannot take them while the session lives. Dropping the
/// guard within a tokio runtime releases the items in the background. Without a runtime, the end of
/// the session releases them.
#[derive(Debug)]
#[must_use = "dropping it gives the items back"]
pub struct TakenItems {
    item_lock: ItemLock,
    items: Vec<Bytes>,
    token: Token,
}

impl TakenItems {
    /// Returns the items. There is one item, unless several were added together.
    pub fn items(&self) -> &[Bytes] {
        &self.items
    }

    /// Returns the path of the item's znode.
    pub fn path(&self) -> String {
        self.item_lock.queue.item(&self.item_lock.name)
    }

    /// Returns the token, which increases from consumer to consumer of an item.
    pub fn token(&self) -> Token {
        self.token
    }

    /// Returns whether the client is connected, in the session that took the item.
    pub fn is_certain(&self) -> bool {
        self.item_lock
            .marker
            .as_ref()
            .is_some_and(Marker::is_certain)
    }

    /// Waits until another consumer may soon take the item.
    pub async fn wait_until_uncertain(&self) -> UncertaintyCause {
        match &self.item_lock.marker {
            Some(marker) => marker.wait_until_uncertain().await,
            None => UncertaintyCause::Gone,
        }
    }

    /// Removes the item from the queue permanently, after its consumer has processed it.
    ///
    /// # Errors
    /// [`Error::NotHeld`] if the session ended earlier, or if another client deleted the item or
    /// its lock. Another consumer may then take the item, or may already have taken it. If an
    /// answer was lost, this call may still have removed the item. [`Error::Client`] if a server
    /// refuses the request, or if the session has ended and the client does not renew it.
    pub async fn confirm(mut self) -> Result<()> {
        self.finish(None).await
    }

    /// Moves the item to the end of the queue, after other items of its priority, for a later
    /// attempt.
    ///
    /// # Errors
    /// See [`confirm`](Self::confirm).
    pub async fn requeue(mut self) -> Result<()> {
        let queue = &self.item_lock.queue;
        let stem =
            parse(&self.item_lock.name, queue.naming).map_or(queue.naming.word(), |name| name.stem);
        let creation = queue.creation(stem, &self.items);
        self.finish(Some(creation)).await
    }

    /// Releases the item, which keeps its position in the queue, so that another consumer can take
    /// it.
    ///
    /// # Errors
    /// If a server refuses the request, or if the session has ended and the client does not renew
    /// it.
    pub async fn give_back(mut self) -> Result<()> {
        self.item_lock.unlock_and_release().await
    }

    async fn finish(&mut self, also: Option<MultiOp>) -> Result<()> {
        let queue = Arc::clone(&self.item_lock.queue);
        let (lock, item) = (
            queue.lock(&self.item_lock.name),
            queue.item(&self.item_lock.name),
        );
        let mut ops = vec![MultiOp::delete(&lock, -1), MultiOp::delete(&item, -1)];
        ops.extend(also);
        let lost = Err(Error::NotHeld { path: lock });
        match self.item_lock.run(&ops).await? {
            TxnOutcome::Done(_) => {
                self.item_lock.release();
                Ok(())
            }
            TxnOutcome::Gone { .. } => lost,
            TxnOutcome::Refused { index, error } if error.code() == Some(ErrorCode::NoNode) => {
                // The operation with index 0 deletes the lock. If it failed, there is no lock to
                // release.
                self.item_lock.is_locked = index > 0;
                self.item_lock.unlock_and_release().await?;
                lost
            }
            TxnOutcome::Refused { error, .. } => Err(error.into()),
        }
    }
}

/// Takes one item if it exists and is free.
pub(crate) async fn take(items: &Arc<Items>, name: &str) -> Result<Option<TakenItems>> {
    let mut item_lock = ItemLock {
        queue: Arc::clone(items),
        marker: Some(items.markers.get().await?),
        name: name.to_owned(),
        is_locked: false,
    };
    let kind = Create::ephemeral().with_stat();
    let taking = [
        MultiOp::check(&items.item(name), -1),
        MultiOp::create(&items.lock(name), "", &kind),
    ];
    let results = match item_lock.run(&taking).await? {
        TxnOutcome::Done(results) => results,
        TxnOutcome::Gone { .. } => return Ok(None),
        TxnOutcome::Refused { error, .. } => {
            item_lock.release();
            return match error.code() {
                Some(ErrorCode::NoNode | ErrorCode::NodeExists) => Ok(None),
                _ => Err(error.into()),
            };
        }
    };
    item_lock.is_locked = true;
    let Some(stat) = item_lock.stat_of_lock(&results).await? else {
        return Ok(None);
    };
    let path = items.item(name);
    let data = match retry(&items.client, || items.client.get_data(&path)).await {
        Ok((data, _)) => data.unwrap_or_default(),
        Err(error) if error.code() == Some(ErrorCode::NoNode) => {
            item_lock.unlock_and_release().await?;
            return Ok(None);
        }
        Err(error) => return Err(error.into()),
    };
    match items.naming.decode(data) {
        Ok(contents) => Ok(Some(TakenItems {
            item_lock,
            items: contents,
            token: Token(stat.czxid),
        })),
        Err(reason) => {
            tracing::warn!(
                path,
                reason,
                "cannot decode an item of a queue, leaving it in the queue"
            );
            items.unreadable.lock().insert(name.to_owned());
            item_lock.unlock_and_release().await?;
            Ok(None)
        }
    }
}

/// Lock of an item that has been requested or is held. Dropping it releases the lock in the
/// background.
#[derive(Debug)]
struct ItemLock {
    queue: Arc<Items>,
    marker: Option<Marker>,
    name: String,
    is_locked: bool,
}

impl ItemLock {
    async fn run(&mut self, ops: &[MultiOp]) -> Result<TxnOutcome> {
        match &mut self.marker {
            Some(marker) => {
                let outcome = marker.run(ops).await?;
                if matches!(outcome, TxnOutcome::Gone { .. }) {
                    self.marker = None;
                }
                Ok(outcome)
            }
            None => Ok(TxnOutcome::Gone { is_known: true }),
        }
    }

    /// Ends the guard without unlocking the item, and makes the marker available again.
    fn release(&mut self) {
        self.is_locked = false;
        if let Some(marker) = self.marker.take() {
            self.queue.markers.put_back(marker);
        }
    }

    /// Ensures that the marker belongs to the same session as the lock, and returns the Stat of the
    /// lock. Returns `None` if this is impossible.
    async fn stat_of_lock(&mut self, results: &[MultiResult]) -> Result<Option<Stat>> {
        let (queue, lock) = (Arc::clone(&self.queue), self.queue.lock(&self.name));
        let known = results.iter().find_map(|result| match result {
            MultiResult::Created { stat, .. } => *stat,
            _ => None,
        });
        let stat = match known {
            Some(stat) => Some(stat),
            None => retry(&queue.client, || queue.client.exists(&lock)).await?,
        };
        let owner = stat.map(|stat| stat.ephemeral_owner);
        let is_of = |marker: &Option<Marker>| {
            let session = marker.as_ref().map(|marker| marker.owner().0);
            session.is_some() && session == owner
        };
        if !is_of(&self.marker) {
            // A new session took the lock with the marker of the previous session.
            self.marker = None;
            self.marker = Some(queue.markers.get().await?);
        }
        if !is_of(&self.marker) {
            self.release();
            return Ok(None);
        }
        Ok(stat)
    }

    /// Releases the lock and the marker.
    async fn unlock_and_release(&mut self) -> Result<()> {
        let Some(marker) = &mut self.marker else {
            return Ok(());
        };
        if unlock(&self.queue, marker, &self.name, self.is_locked).await? {
            self.release();
        } else {
            self.marker = None;
        }
        Ok(())
    }
}

/// Deletes the lock of an item if this marker holds it. Returns whether the marker still exists.
async fn unlock(queue: &Items, marker: &mut Marker, name: &str, is_locked: bool) -> Result<bool> {
    let Some(is_done) = marker.settle().await? else {
        return Ok(false);
    };
    if !is_locked && !is_done {
        return Ok(true);
    }
    let deletion = [MultiOp::delete(&queue.lock(name), -1)];
    match marker.run(&deletion).await? {
        TxnOutcome::Refused { error, .. } if error.code() != Some(ErrorCode::NoNode) => {
            Err(error.into())
        }
        TxnOutcome::Gone { .. } => Ok(false),
        _ => Ok(true),
    }
}

impl Drop for ItemLock {
    fn drop(&mut self) {
        let Some(mut marker) = self.marker.take() else {
            return;
        };
        // Without a runtime, the end of the session releases the lock.
        let Ok(runtime) = tokio::runtime::Handle::try_current() else {
            return;
        };
        let (queue, is_locked) = (Arc::clone(&self.queue), self.is_locked);
        let name = std::mem::take(&mut self.name);
        // The task must not contain an `ItemLock`. A runtime that shuts down drops the task
        // immediately, and dropping an `ItemLock` would start a task again.
        runtime.spawn(async move {
            match unlock(&queue, &mut marker, &name, is_locked).await {
                Ok(true) => queue.markers.put_back(marker),
                Ok(false) => {}
                Err(error) => tracing::debug!(%error, name, "an item remains locked"),
            }
        });
    }
}
