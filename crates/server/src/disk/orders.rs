//! The core's side of the disk: what waits for the log thread.

use std::sync::Arc;

use bytes::Bytes;
use crossbeam_channel::{Receiver, Sender, TrySendError};
use hosting::{DiskQueue, Group as _};
use parking_lot::Mutex;
use proto::Zxid;
use replica::{DiskOrder, Input};

use super::log::{LogFile, LogGroup, ToLog};
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
    /// Whether there is no ensemble.
    is_alone: bool,
    /// Whether groups are synced at once (`flushDelay` is 0).
    is_prompt: bool,
    may_gather: bool,
    nothing_else_waits: bool,
    /// What was written here, to be told to the replica.
    written: Option<Input>,
}

impl Disk {
    pub(crate) fn new(
        (log, spent): (Sender<ToLog>, Receiver<LogGroup>),
        file: Arc<Mutex<LogFile>>,
        end: Zxid,
        is_alone: bool,
        is_prompt: bool,
    ) -> Self {
        Self {
            log,
            spent,
            file,
            queue: DiskQueue::default(),
            handed: end,
            synced: end,
            is_alone,
            is_prompt,
            may_gather: false,
            nothing_else_waits: false,
            written: None,
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

    /// The log thread has reported this.
    pub(crate) fn note_synced(&mut self, upto: Zxid) {
        self.synced = self.synced.max(upto);
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
        if self.may_sync_here() {
            self.sync_here();
        } else {
            self.offer(clock::session_ms());
        }
    }

    /// What was written without the log thread.
    pub(crate) fn take_input(&mut self) -> Option<Input> {
        self.written.take()
    }

    /// Whether nothing else is under way, so that handing a small group over and back would cost
    /// a lone writer two wake-ups and gain nothing.
    fn may_sync_here(&self) -> bool {
        self.is_alone
            && self.is_prompt
            && self.nothing_else_waits
            && !self.queue.group.is_empty()
            && self.queue.group.len() <= limits::LOG_GROUP_SYNCED_BY_CORE_MAX
            && self.handed == self.synced
            && self.queue.is_at_group()
            && self.written.is_none()
    }

    fn sync_here(&mut self) {
        let Some(last) = self.queue.group.last() else {
            return;
        };
        let mut file = self.file.lock();
        let written = file.write(&self.queue.group);
        self.queue.group.clear();
        self.written = Some(match written {
            Ok(synced) => {
                (self.handed, self.synced) = (last, last);
                synced
            }
            Err(error) => {
                file.fail(&error);
                Input::DiskFailed
            }
        });
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
        let group = self.take_group();
        match self.log.try_send(ToLog::Group(group)) {
            Ok(()) => self.handed = last,
            Err(TrySendError::Full(ToLog::Group(group))) => self.queue.group = group,
            // The log thread is gone; `DiskFailed` is on its way.
            Err(_) => {}
        }
    }

    /// What has gathered; an empty group takes its place.
    fn take_group(&mut self) -> LogGroup {
        let next = self.spent.try_recv().unwrap_or_default();
        std::mem::replace(&mut self.queue.group, next)
    }

    fn offer_waiting(&mut self) {
        while let Some(next) = self.queue.take_waiting() {
            if let Err(TrySendError::Full(next)) = self.log.try_send(next) {
                return self.queue.put_back(next);
            }
        }
    }
}
