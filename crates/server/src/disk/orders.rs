//! The core's side of the disk: what waits for the log thread.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use bytes::Bytes;
use crossbeam_channel::{Receiver, Sender, TrySendError};
use hosting::{DiskQueue, Group as _};
use parking_lot::Mutex;
use proto::Zxid;
use replica::{DiskOrder, Input};

use super::log::{LogFile, LogGroup, Synced, ToLog};
use crate::{clock, limits};

/// Orders for the disk, in the order in which they were given.
pub(crate) struct Disk {
    log: Sender<ToLog>,
    /// Groups that the log thread has written, empty.
    spent: Receiver<LogGroup>,
    file: Arc<Mutex<LogFile>>,
    /// What the log thread has had no room for yet.
    queue: DiskQueue<LogGroup>,
    /// The last record handed to the log thread or written here.
    handed: Zxid,
    /// Up to where the log is known to be on disk.
    synced: Zxid,
    /// Orders that the log thread was given and has not carried out yet.
    orders_under_way: Arc<AtomicUsize>,
    own_syncs: OwnSyncs,
    /// Whether groups are synced at once (`flushDelay` is 0).
    is_prompt: bool,
    may_gather: bool,
    /// Groups of one transaction, one behind the other.
    singles: u32,
    nothing_else_waits: bool,
    /// Whether the core syncs what has gathered, at the end of this turn.
    is_due_here: bool,
    /// Whether there is no ensemble.
    is_alone: bool,
}

/// Whether the disk is quick enough for the core of a standalone server to wait for it. While the log thread syncs,
/// the core serves its clients.
#[derive(Debug, Default)]
struct OwnSyncs {
    /// Number of groups that are still left to the log thread.
    left_to_thread: u32,
}

impl OwnSyncs {
    fn are_quick(&self) -> bool {
        self.left_to_thread == 0
    }

    /// Notes how long a sync took, whichever thread waited for it: a disk that is always slow is left to the log thread
    /// for good.
    fn took(&mut self, time: Duration) {
        if time > limits::SYNC_BY_CORE_SLOW {
            self.left_to_thread = limits::GROUPS_LEFT_TO_LOG_THREAD;
        }
    }

    /// The log thread was given a group.
    fn handed_over(&mut self) {
        self.left_to_thread = self.left_to_thread.saturating_sub(1);
    }
}

impl Disk {
    pub(crate) fn new(
        (log, spent): (Sender<ToLog>, Receiver<LogGroup>),
        file: Arc<Mutex<LogFile>>,
        orders_under_way: Arc<AtomicUsize>,
        end: Zxid,
        (is_prompt, is_alone): (bool, bool),
    ) -> Self {
        Self {
            log,
            spent,
            file,
            queue: DiskQueue::default(),
            handed: end,
            synced: end,
            orders_under_way,
            own_syncs: OwnSyncs::default(),
            is_prompt,
            may_gather: false,
            singles: 0,
            nothing_else_waits: false,
            is_due_here: false,
            is_alone,
        }
    }

    /// Whether a group may wait for more, since nobody waits for it.
    pub(crate) fn set_may_gather(&mut self, may_gather: bool) {
        self.may_gather = may_gather;
    }

    /// Whether the core has nothing else to do.
    pub(crate) fn set_nothing_else_waits(&mut self, is_idle: bool) {
        self.nothing_else_waits = is_idle;
    }

    /// Whether transactions of an ensemble have come one by one lately, as those of a lone writer do.
    pub(crate) fn is_lone(&self) -> bool {
        !self.is_alone && self.singles >= limits::LONE_AFTER_GROUPS
    }

    fn note_group(&mut self, len: usize) {
        self.singles = match len {
            1 => self.singles.saturating_add(1),
            _ => 0,
        };
    }

    /// Notes a report of the log thread.
    pub(crate) fn note_synced(&mut self, synced: &Synced) {
        self.synced = self.synced.max(synced.upto);
        self.own_syncs.took(synced.took);
    }

    /// Another history has taken the place of this one, and ends here.
    pub(crate) fn note_replaced(&mut self, end: Zxid) {
        (self.handed, self.synced) = (end, end);
    }

    pub(crate) fn append(&mut self, zxid: Zxid, txn: &[u8]) {
        self.queue.group.push_bytes(zxid, txn);
    }

    /// The same of a transaction that others have, too.
    pub(crate) fn append_shared(&mut self, zxid: Zxid, txn: &Bytes) {
        self.queue.group.push(zxid, txn);
    }

    /// Gives an order, behind all that was appended.
    pub(crate) fn order(&mut self, order: DiskOrder) {
        if let DiskOrder::TakeOver { last, .. } = order {
            self.note_replaced(last);
        }
        self.handed = self.queue.group.last().unwrap_or(self.handed);
        let Self { queue, spent, .. } = self;
        queue.order(order, || spent.try_recv().unwrap_or_default());
        self.offer_waiting();
    }

    /// Nothing more is appended for now.
    pub(crate) fn flush(&mut self) {
        self.is_due_here = self.may_sync_here();
        if !self.is_due_here {
            self.offer(clock::session_ms());
        }
    }

    /// Syncs what is due without the log thread and returns the input for the replica. At the end of a turn, so that
    /// replies have left.
    pub(crate) fn sync_due(&mut self) -> Option<Input> {
        let is_due = std::mem::take(&mut self.is_due_here) && self.may_sync_here();
        is_due.then(|| self.sync_here()).flatten()
    }

    /// Whether nothing else is under way, so that a hand-over to the log thread would cost a lone writer two wake-ups
    /// and gain nothing.
    ///
    /// Only on a standalone server. The core of a member must answer the other members however long its disk takes, and
    /// a task that visits the core must not wait for the disk at all: tokio's driver may be waiting behind it.
    fn may_sync_here(&self) -> bool {
        self.is_alone
            && self.is_prompt
            && !self.may_gather
            && self.own_syncs.are_quick()
            && self.nothing_else_waits
            && !self.queue.group.is_empty()
            && self.queue.group.len() <= limits::LOG_GROUP_SYNCED_BY_CORE_MAX
            && self.queue.group.bytes() <= limits::LOG_GROUP_BYTES_SYNCED_BY_CORE_MAX
            && self.handed == self.synced
            && self.queue.is_at_group()
            && self.orders_under_way.load(Ordering::Acquire) == 0
    }

    fn sync_here(&mut self) -> Option<Input> {
        let last = self.queue.group.last()?;
        self.note_group(self.queue.group.len());
        let begun = Instant::now();
        let mut file = self.file.lock();
        let written = file.write(&self.queue.group);
        self.queue.group.clear();
        self.own_syncs.took(begun.elapsed());
        Some(match written {
            Ok(Synced { upto, .. }) => {
                (self.handed, self.synced) = (last, last);
                Input::Synced(upto)
            }
            Err(error) => {
                file.fail(&error);
                Input::DiskFailed
            }
        })
    }

    /// Until when a group waits for more, ms; `None` if it does not. While the log has no room there
    /// is no such time: it could pass, and nothing could be done about it.
    pub(crate) fn gathers_until_ms(&self) -> Option<i64> {
        let is_small = self.queue.group.bytes() < limits::OBSERVER_GROUP_BYTES;
        let gathers = self.may_gather && !self.queue.group.is_empty() && is_small;
        (gathers && self.queue.is_at_group() && !self.log.is_full())
            .then(|| self.queue.group.since_ms() + limits::OBSERVER_GROUP_MS)
    }

    /// Hands the log what has gathered, unless more is waited for (the deadline brings us back here),
    /// or the log is still busy with earlier groups (its next report does).
    pub(crate) fn offer(&mut self, now_ms: i64) {
        if self.is_due_here {
            // Not the log thread's.
            return;
        }
        self.offer_waiting();
        let Some(last) = self.queue.group.last() else {
            return;
        };
        let until_ms = self.gathers_until_ms();
        if !self.queue.is_at_group() || until_ms.is_some_and(|until_ms| now_ms < until_ms) {
            return;
        }
        if self.log.is_full() {
            return;
        }
        let next = self.spent.try_recv().unwrap_or_default();
        let group = std::mem::replace(&mut self.queue.group, next);
        self.note_group(group.len());
        self.own_syncs.handed_over();
        match self.send(ToLog::Group(group)) {
            Ok(()) => self.handed = last,
            Err(TrySendError::Full(ToLog::Group(group))) => self.queue.group = group,
            // The log thread is gone; `DiskFailed` is on its way.
            Err(_) => {}
        }
    }

    fn offer_waiting(&mut self) {
        while let Some(next) = self.queue.take_waiting() {
            if let Err(TrySendError::Full(next)) = self.send(next) {
                return self.queue.put_back(next);
            }
        }
    }

    fn send(&self, next: ToLog) -> Result<(), TrySendError<ToLog>> {
        let orders = usize::from(matches!(next, ToLog::Order(_)));
        self.orders_under_way.fetch_add(orders, Ordering::Relaxed);
        let sent = self.log.try_send(next);
        if sent.is_err() {
            self.orders_under_way.fetch_sub(orders, Ordering::Relaxed);
        }
        sent
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn behind_a_slow_sync_the_log_thread_has_the_next_groups() {
        let mut syncs = OwnSyncs::default();
        syncs.took(limits::SYNC_BY_CORE_SLOW);
        assert!(syncs.are_quick());
        syncs.took(limits::SYNC_BY_CORE_SLOW * 2);
        for _ in 0..limits::GROUPS_LEFT_TO_LOG_THREAD {
            assert!(!syncs.are_quick());
            syncs.handed_over();
        }
        assert!(syncs.are_quick());
    }

    #[test]
    fn a_disk_that_is_always_slow_is_left_to_the_log_thread() {
        let mut syncs = OwnSyncs::default();
        for _ in 0..2 * limits::GROUPS_LEFT_TO_LOG_THREAD {
            syncs.took(limits::SYNC_BY_CORE_SLOW * 2);
            assert!(!syncs.are_quick());
            syncs.handed_over();
        }
    }
}
