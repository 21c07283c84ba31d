//! The core's side of the disk, which issues orders to the log thread.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use bytes::Bytes;
use crossbeam_channel::{Receiver, Sender, TrySendError};
use host::{DiskCommand, DiskQueue, LogGroup, Schedule, Syncer, WaitingGroup};
use parking_lot::Mutex;
use proto::Zxid;
use replica::{DiskOrder, Input};

use super::deferred_sync::{DeferredSync, DeferredSyncSlot};
use super::log::{LogFile, Synced};
use crate::clock;

/// Queue of disk operations, in order.
pub(crate) struct Disk {
    log: Sender<DiskCommand>,
    /// Receiver of groups that were written and emptied.
    spent: Receiver<LogGroup>,
    /// Sender that returns a visitor's group to `spent`.
    recycle: Sender<LogGroup>,
    file: Arc<Mutex<LogFile>>,
    /// The newest group, and the orders that do not fit into the log thread's channel yet.
    queue: DiskQueue,
    /// Last transaction that was passed to another thread, precedes a queued order, or was written
    /// by the core.
    queued_at_log_thread: Zxid,
    /// Last transaction that is known to be on disk.
    synced: Zxid,
    /// Number of orders that the log thread has received and not executed yet.
    orders_under_way: Arc<AtomicUsize>,
    deferred_syncs: Arc<DeferredSyncSlot>,
    /// Whether a visitor has received a group and has not reported its sync yet. The log thread
    /// receives no orders meanwhile.
    is_visitor_syncing: bool,
}

impl Disk {
    pub(crate) fn new(
        log: Sender<DiskCommand>,
        recycle: Sender<LogGroup>,
        spent: Receiver<LogGroup>,
        file: Arc<Mutex<LogFile>>,
        orders_under_way: Arc<AtomicUsize>,
        deferred_syncs: Arc<DeferredSyncSlot>,
        end: Zxid,
    ) -> Self {
        Self {
            log,
            spent,
            recycle,
            file,
            queue: DiskQueue::default(),
            queued_at_log_thread: end,
            synced: end,
            orders_under_way,
            deferred_syncs,
            is_visitor_syncing: false,
        }
    }

    /// Handles the report about a sync on another thread.
    pub(crate) fn note_synced(&mut self, synced: &Synced) {
        self.synced = self.synced.max(synced.upto);
        self.is_visitor_syncing &= synced.syncer != Syncer::Visitor;
    }

    /// Records that another log has replaced this one. `end` is the last transaction of the new
    /// log.
    pub(crate) fn note_replaced(&mut self, end: Zxid) {
        (self.queued_at_log_thread, self.synced) = (end, end);
    }

    pub(crate) fn append(&mut self, zxid: Zxid, txn: &[u8]) {
        self.queue.group.push_bytes(zxid, txn, clock::monotonic_ms);
    }

    /// Appends a transaction whose buffer may be shared.
    pub(crate) fn append_shared(&mut self, zxid: Zxid, txn: &Bytes) {
        self.queue.group.push(zxid, txn, clock::monotonic_ms);
    }

    /// Queues an order after all appended transactions.
    pub(crate) fn order(&mut self, order: DiskOrder) {
        if let DiskOrder::TakeOver { last, .. } = order {
            self.note_replaced(last);
        }
        self.queued_at_log_thread = self.queue.group.last().unwrap_or(self.queued_at_log_thread);
        let Self { queue, spent, .. } = self;
        queue.order(order, || spent.try_recv().unwrap_or_default());
        self.pass_waiting_to_log_thread();
    }

    /// Flushes the newest group. Unless the core syncs the group itself, passes it on as the
    /// schedule decides. Called when no transaction follows for now.
    pub(crate) fn flush(&mut self, schedule: &mut Schedule) {
        let now_ms = clock::session_ms();
        if schedule.flush_group(&self.waiting_group(), now_ms) != Syncer::CoreThread {
            self.pass_to_log_thread(schedule, now_ms);
        }
    }

    /// Syncs the newest group on this thread if the schedule decides so, and returns the report for
    /// the replica. Call it after the step, when the replies have been sent.
    pub(crate) fn sync_due(&mut self, schedule: &mut Schedule) -> Option<Input> {
        let is_due = schedule.sync_due(|| self.waiting_group());
        is_due.then(|| self.sync_in_core(schedule)).flatten()
    }

    /// Returns the facts that the schedule needs.
    fn waiting_group(&self) -> WaitingGroup {
        let group = &self.queue.group;
        WaitingGroup {
            txns: group.len(),
            bytes: group.bytes(),
            since_ms: group.queued_ms().cast_signed(),
            follows_orders: !self.queue.is_at_group(),
            is_visitor_syncing: self.is_visitor_syncing,
            is_log_idle: self.queued_at_log_thread == self.synced
                && self.orders_under_way.load(Ordering::Acquire) == 0,
            is_log_full: self.log.is_full(),
        }
    }

    fn sync_in_core(&mut self, schedule: &mut Schedule) -> Option<Input> {
        let last = self.queue.group.last()?;
        schedule.note_group(self.queue.group.len(), Syncer::CoreThread);
        let begun = Instant::now();
        blocking::mark("wait for the log file");
        let mut file = self.file.lock();
        let written = file.write(&self.queue.group, Syncer::CoreThread);
        self.queue.group.clear();
        schedule.note_sync(begun.elapsed());
        Some(match written {
            Ok(Synced { upto, .. }) => {
                (self.queued_at_log_thread, self.synced) = (last, last);
                Input::Synced(upto)
            }
            Err(error) => {
                file.fail(&error);
                Input::DiskFailed
            }
        })
    }

    /// Returns the time until which the last group waits for more transactions, ms.
    pub(crate) fn gathers_until_ms(&self, schedule: &Schedule) -> Option<i64> {
        schedule.gathers_until_ms(&self.waiting_group())
    }

    /// Passes the waiting orders to the log thread, and the last group to the log thread or a
    /// visitor, as far as the channel has space and the schedule permits. The core tries again at
    /// the group's deadline and when a sync is reported.
    pub(crate) fn pass_to_log_thread(&mut self, schedule: &mut Schedule, now_ms: i64) {
        self.pass_waiting_to_log_thread();
        let syncer = schedule.syncer(&self.waiting_group(), now_ms);
        let last = self.queue.group.last();
        let (Some(last), Syncer::LogThread | Syncer::Visitor) = (last, syncer) else {
            return;
        };
        let next = self.spent.try_recv().unwrap_or_default();
        let group = std::mem::replace(&mut self.queue.group, next);
        schedule.note_group(group.len(), syncer);
        if syncer == Syncer::Visitor {
            (self.queued_at_log_thread, self.is_visitor_syncing) = (last, true);
            let (file, spent) = (self.file.clone(), self.recycle.clone());
            return self.deferred_syncs.put(DeferredSync { file, group, spent });
        }
        match self.send(DiskCommand::Group(group)) {
            Ok(()) => self.queued_at_log_thread = last,
            Err(TrySendError::Full(DiskCommand::Group(group))) => self.queue.group = group,
            // The log thread has ended. `DiskFailed` follows.
            Err(_) => {}
        }
    }

    fn pass_waiting_to_log_thread(&mut self) {
        if self.is_visitor_syncing {
            // The orders must follow the visitor's group.
            return;
        }
        while let Some(next) = self.queue.take_waiting() {
            if let Err(TrySendError::Full(next)) = self.send(next) {
                return self.queue.put_back(next);
            }
        }
    }

    fn send(&self, next: DiskCommand) -> Result<(), TrySendError<DiskCommand>> {
        let orders = usize::from(matches!(next, DiskCommand::Order(_)));
        self.orders_under_way.fetch_add(orders, Ordering::Relaxed);
        let sent = self.log.try_send(next);
        if sent.is_err() {
            self.orders_under_way.fetch_sub(orders, Ordering::Relaxed);
        }
        sent
    }
}
