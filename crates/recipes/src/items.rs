//! Functions that add items to a queue and find a free item.

use std::collections::HashSet;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use client::{Client, Create, Error as ClientError, MultiOp};
use proto::ErrorCode;

use crate::barrier::create_with_parents;
use crate::error::{Error, Result};
use crate::item::{Naming, in_order, parse};
use crate::names::Layout;
use crate::once::{Markers, TxnOutcome};
use crate::queue_entry::Queue as Contenders;
use crate::session::{check_path, children_of, connected, data_of, is_transient};
use crate::taken_items::{TakenItems, take};
use crate::wall_clock::now_ms;
use crate::watched::watch_ended;

/// State that all kinds of queues have in common.
#[derive(Debug)]
pub(crate) struct Items {
    pub(crate) client: Client,
    directory: String,
    pub(crate) markers: Markers,
    pub(crate) naming: Naming,
    /// Names of items that cannot be decoded. They stay in the queue for an operator.
    pub(crate) unreadable: parking_lot::Mutex<HashSet<String>>,
}

impl Items {
    pub(crate) fn new(client: &Client, path: &str, locks: &str, naming: Naming) -> Result<Self> {
        check_path(path)?;
        check_path(locks)?;
        if path == locks {
            let path = path.to_owned();
            let reason = "the locks of a queue need a separate directory";
            return Err(Error::Path { path, reason });
        }
        let contenders = Contenders {
            client: client.clone(),
            directory: locks.to_owned(),
            layout: Layout::Curator,
            words: &[],
        };
        Ok(Self {
            client: client.clone(),
            directory: path.to_owned(),
            markers: Markers::new(contenders),
            naming,
            unreadable: parking_lot::Mutex::default(),
        })
    }

    pub(crate) fn item(&self, name: &str) -> String {
        format!("{}/{name}", self.directory)
    }

    pub(crate) fn lock(&self, name: &str) -> String {
        format!("{}/{name}", self.markers.directory())
    }

    /// Returns the operation that creates an item after all items with the same stem.
    pub(crate) fn creation(&self, stem: &str, items: &[Bytes]) -> MultiOp {
        let kind = Create::persistent().sequential();
        MultiOp::create(&self.item(stem), self.naming.encode(items), &kind)
    }

    pub(crate) async fn put(&self, stem: &str, items: &[Bytes]) -> Result<()> {
        let creation = [self.creation(stem, items)];
        loop {
            let mut marker = self.markers.get().await?;
            let outcome = marker.run(&creation).await?;
            match outcome {
                TxnOutcome::Done(_) => {
                    self.markers.put_back(marker);
                    return Ok(());
                }
                TxnOutcome::Refused { error, .. } => {
                    self.markers.put_back(marker);
                    if error.code() != Some(ErrorCode::NoNode) {
                        return Err(error.into());
                    }
                    create_with_parents(&self.client, &self.directory).await?;
                }
                TxnOutcome::Gone { is_known: true } => {}
                TxnOutcome::Gone { is_known: false } => {
                    let path = self.directory.clone();
                    return Err(Error::UnknownPut { path });
                }
            }
        }
    }

    async fn list(&self) -> Result<Vec<String>> {
        children_of(&self.client, &self.directory).await
    }

    pub(crate) async fn count(&self) -> Result<usize> {
        Ok(in_order(&self.list().await?, self.naming).len())
    }

    /// Returns the free items that are due, in the order of the queue, and the time until the next
    /// item is due, if any.
    fn free<'a>(&self, items: &'a [String], locks: &[String]) -> (Vec<&'a str>, Option<Duration>) {
        let locks: HashSet<&str> = locks.iter().map(String::as_str).collect();
        let items = in_order(items, self.naming);
        let mut unreadable = self.unreadable.lock();
        if !unreadable.is_empty() {
            let existing: HashSet<_> = items.iter().copied().collect();
            unreadable.retain(|name| existing.contains(name.as_str()));
        }
        let free = items.into_iter();
        let free = free.filter(|name| !locks.contains(name) && !unreadable.contains(*name));
        if self.naming != Naming::Due {
            return (free.collect(), None);
        }
        let due = |name: &str| parse(name, self.naming).map_or(0, |item| item.due_ms);
        let now = now_ms(&self.client);
        let (now_due, later): (Vec<_>, Vec<_>) = free.partition(|name| due(name) <= now);
        let next = later.first().map(|name| due(name).saturating_sub(now));
        (now_due, next.map(Duration::from_millis))
    }

    pub(crate) async fn take(self: &Arc<Self>) -> Result<TakenItems> {
        loop {
            if let Some(taken) = self.try_take().await? {
                return Ok(taken);
            }
            self.changed().await?;
        }
    }

    pub(crate) async fn try_take(self: &Arc<Self>) -> Result<Option<TakenItems>> {
        let items = self.list().await?;
        let locks = self.markers.list().await?;
        for name in self.free(&items, &locks).0 {
            if let Some(taken) = take(self, name).await? {
                return Ok(Some(taken));
            }
        }
        Ok(None)
    }

    /// Removes free items with this label, and returns their number.
    pub(crate) async fn remove(self: &Arc<Self>, label: &str) -> Result<usize> {
        let names = self.list().await?;
        let mut removed = 0;
        for name in in_order(&names, self.naming) {
            let is_meant = parse(name, self.naming).is_some_and(|item| item.label == label);
            if is_meant && let Some(taken) = take(self, name).await? {
                match taken.confirm().await {
                    Ok(()) => removed += 1,
                    Err(Error::NotHeld { .. }) => {}
                    Err(error) => return Err(error),
                }
            }
        }
        Ok(removed)
    }

    /// Deletes the first item and returns its data, or returns `None` if the queue is empty.
    pub(crate) async fn try_pop(&self) -> Result<Option<Bytes>> {
        for name in in_order(&self.list().await?, self.naming) {
            let path = self.item(name);
            let Some(data) = data_of(&self.client, &path).await? else {
                continue;
            };
            loop {
                let mut marker = self.markers.get().await?;
                match marker.run(&[MultiOp::delete(&path, -1)]).await? {
                    TxnOutcome::Done(_) => {
                        self.markers.put_back(marker);
                        return Ok(Some(data));
                    }
                    TxnOutcome::Refused { error, .. } => {
                        self.markers.put_back(marker);
                        if error.code() != Some(ErrorCode::NoNode) {
                            return Err(error.into());
                        }
                        break;
                    }
                    TxnOutcome::Gone { is_known: true } => {}
                    TxnOutcome::Gone { is_known: false } => return Err(Error::Unknown { path }),
                }
            }
        }
        Ok(None)
    }

    pub(crate) async fn pop(&self) -> Result<Bytes> {
        loop {
            if let Some(data) = self.try_pop().await? {
                return Ok(data);
            }
            self.changed().await?;
        }
    }

    /// Waits until there may be a free item, because an item was added, was released, or became
    /// due.
    async fn changed(&self) -> Result<()> {
        // The directory of the locks exists as long as this marker.
        let marker = self.markers.get().await?;
        let pass = |error: ClientError| {
            if is_transient(&self.client, &error) {
                Ok(())
            } else {
                Err(Error::from(error))
            }
        };
        let (items, stat, item_watch) = match self.client.watch_children(&self.directory).await {
            Ok(watched) => watched,
            Err(error) if error.code() == Some(ErrorCode::NoNode) => {
                self.markers.put_back(marker);
                return create_with_parents(&self.client, &self.directory).await;
            }
            Err(error) => return pass(error),
        };
        let directory = self.markers.directory();
        let (locks, lock_stat, lock_watch) = match self.client.watch_children(directory).await {
            Ok(watched) => watched,
            Err(error) if error.code() == Some(ErrorCode::NoNode) => return Ok(()),
            Err(error) => return pass(error),
        };
        let item_names: Vec<_> = items.iter().map(|name| name.to_string()).collect();
        let lock_names: Vec<_> = locks.iter().map(|name| name.to_string()).collect();
        let (free, next_due) = self.free(&item_names, &lock_names);
        if free.is_empty() {
            let mut item_end = pin!(watch_ended(&self.client, Ok((items, stat, item_watch))));
            let mut lock_end = pin!(watch_ended(
                &self.client,
                Ok((locks, lock_stat, lock_watch))
            ));
            let due = async {
                match next_due {
                    Some(next_due) => tokio::time::sleep(next_due).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                biased;
                end = &mut item_end => {
                    end?;
                }
                end = &mut lock_end => {
                    end?;
                }
                () = due => {}
            }
        }
        connected(&self.client).await?;
        self.markers.put_back(marker);
        Ok(())
    }
}
