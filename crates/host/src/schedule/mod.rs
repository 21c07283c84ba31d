//! The threads that do the work of a server, and the times at which they do it.
//!
//! | question | asked with | answer |
//! |---|---|---|
//! | Which thread runs the core? | [`Schedule::runner_of_message`], [`Schedule::runner_after_sync`] | [`Runner`] |
//! | Which thread syncs the log? | [`Schedule::syncer`], [`Schedule::flush_group`], [`Schedule::sync_due`] | [`Syncer`] |
//! | Which thread writes to a socket? | [`Schedule::writer_to_clients`], [`Schedule::writer_to_members`] | [`Writer`] |
//! | Which member is written to first? | [`Schedule::flush_order_of_member`] | [`FlushOrder`] |
//! | When is a flush carried out? | [`Schedule::flush`] | [`FlushAt`] |
//!
//! The schedule is pure: threads, locks and clocks belong to the host. A host reports facts to it,
//! queries it, and executes the answers. The shipped server and the simulator query the same
//! schedule.

mod limits;

use std::time::Duration;

pub use limits::CLIENT_BYTES_WRITTEN_BY_CORE_MAX;

/// Facts that do not change while a server runs.
#[derive(Debug, Clone, Copy)]
pub struct ScheduleSettings {
    /// Number of processors that the process may use.
    pub processors: usize,
    /// Number of threads that deliver messages to the core. Such a thread (a *visitor*) may run the
    /// core itself.
    pub visitors: usize,
    /// Whether the server is a member of an ensemble.
    pub has_members: bool,
    /// Whether a group is synced as soon as possible, because `flushDelay` is 0.
    pub syncs_at_once: bool,
}

/// Thread that runs the core.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Runner {
    /// The core's own thread.
    OwnThread,
    /// The thread that delivers the message.
    VisitingThread,
    /// The log thread, which has just synced a group.
    LogThread,
}

/// Thread that writes and syncs a group of log records.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Syncer {
    /// The log thread.
    LogThread,
    /// The thread that runs the core, after the step.
    CoreThread,
    /// The visitor that runs the core, after its turn. Other threads can run the core meanwhile.
    Visitor,
    /// No thread, because the group waits.
    NotYet,
}

/// Thread that writes to sockets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Writer {
    /// The task of the connection, which must be woken.
    Task,
    /// The thread that runs the core, unless another thread is writing to the socket.
    Core,
}

/// Position of a member in a flush.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum FlushOrder {
    /// Before the other members.
    First,
    /// In the order of the packets.
    Later,
}

/// Time at which a flush is executed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum FlushAt {
    /// Immediately.
    Now,
    /// After the step, when the replies to clients have been sent.
    StepEnd,
    /// After the last input of the turn.
    TurnEnd,
}

/// Work that waits for the core.
#[derive(Debug, Clone, Copy, Default)]
pub struct WaitingWork {
    /// Whether another input follows in the same turn.
    pub is_in_turn: bool,
    /// Whether messages wait in the inbox.
    pub is_in_inbox: bool,
}

/// Records that wait for the log.
#[derive(Debug, Clone, Copy, Default)]
pub struct WaitingGroup {
    /// Number of transactions.
    pub txns: usize,
    /// Encoded length of the transactions, bytes.
    pub bytes: usize,
    /// Time since which the first record has been waiting, ms.
    pub since_ms: i64,
    /// Whether orders for the disk precede the group in the queue.
    pub follows_orders: bool,
    /// Whether a visitor has an earlier group that it has not synced yet.
    pub is_visitor_syncing: bool,
    /// Whether the log thread has finished all earlier groups and orders.
    pub is_log_idle: bool,
    /// Whether the queue of the log thread is full.
    pub is_log_full: bool,
}

/// Schedule of one server.
#[derive(Debug)]
pub struct Schedule {
    settings: ScheduleSettings,
    /// Number of consecutive latest groups that had one transaction each.
    singles: u32,
    /// Number of the next groups that the log thread must sync because a sync was slow.
    left_to_log_thread: u32,
    /// Whether the log may be synced late, because no thread or member waits for it.
    may_sync_late: bool,
    waiting: WaitingWork,
    /// Whether the thread that runs the core syncs the flushed group after this step.
    owes_sync: bool,
    /// Whether this turn is run by a visitor that can sync a group after the turn.
    can_visitor_sync: bool,
    /// Number of flushes in this turn that wait for its end.
    deferred_in_turn: usize,
    /// Whether the replies of this step precede its packets.
    replies_first: bool,
    is_flush_owed_by_step: bool,
}

impl Schedule {
    /// Creates the schedule of a server that starts.
    pub fn new(settings: ScheduleSettings) -> Self {
        Self {
            settings,
            singles: 0,
            left_to_log_thread: 0,
            may_sync_late: false,
            waiting: WaitingWork::default(),
            owes_sync: false,
            can_visitor_sync: false,
            deferred_in_turn: 0,
            replies_first: false,
            is_flush_owed_by_step: false,
        }
    }

    /// Records that `syncer` syncs a group of `txns` transactions.
    pub fn note_group(&mut self, txns: usize, syncer: Syncer) {
        self.singles = match txns {
            1 => self.singles.saturating_add(1),
            _ => 0,
        };
        if syncer == Syncer::LogThread {
            self.left_to_log_thread = self.left_to_log_thread.saturating_sub(1);
        }
    }

    /// Records the duration of a sync by any thread. The core therefore never syncs a disk that is
    /// always slow.
    pub fn note_sync(&mut self, took: Duration) {
        if took > limits::SYNC_BY_CORE_SLOW {
            self.left_to_log_thread = limits::GROUPS_LEFT_TO_LOG_THREAD;
        }
    }

    /// Records whether the log may be synced late, because no thread or member waits for it, as on
    /// an up-to-date observer.
    pub fn note_role(&mut self, may_sync_late: bool) {
        self.may_sync_late = may_sync_late;
    }

    /// Returns whether the latest transactions of an ensemble came one by one, like the
    /// transactions of a lone writer.
    pub fn is_writer_alone(&self) -> bool {
        self.settings.has_members && self.singles >= limits::LONE_AFTER_GROUPS
    }

    /// Returns the thread that runs the core for a message. A single writer waits for each wake-up.
    /// Many writers share the core's own thread, because the threads of their connections are busy
    /// enough.
    pub fn runner_of_message(&self) -> Runner {
        let ScheduleSettings {
            processors,
            visitors,
            ..
        } = self.settings;
        // While a visitor runs the core, other threads must be able to run.
        if self.is_writer_alone() && visitors.min(processors) > 1 {
            Runner::VisitingThread
        } else {
            Runner::OwnThread
        }
    }

    /// Returns the thread that runs the core after a sync of this number of transactions. After a
    /// small group, the log thread runs the core, which prepares the group for which the log thread
    /// would otherwise wait. After a large group, the log thread can write other groups meanwhile.
    pub fn runner_after_sync(txns: usize) -> Runner {
        if txns <= limits::LOG_GROUP_INLINE_MAX {
            Runner::LogThread
        } else {
            Runner::OwnThread
        }
    }

    /// Returns the thread that syncs the waiting group at this time.
    pub fn syncer(&self, group: &WaitingGroup, now_ms: i64) -> Syncer {
        let has_predecessor = group.follows_orders || group.is_visitor_syncing;
        if group.txns == 0 || has_predecessor {
            Syncer::NotYet
        } else if self.may_core_sync(group) {
            Syncer::CoreThread
        } else if self.may_visitor_sync(group) {
            Syncer::Visitor
        } else if group.is_log_full || self.gathers_until_ms(group).is_some_and(|at| now_ms < at) {
            Syncer::NotYet
        } else {
            Syncer::LogThread
        }
    }

    /// Returns the thread that syncs the group that is flushed now. If the core's thread syncs it,
    /// that thread calls [`Schedule::sync_due`] after the step, when the replies have been sent.
    pub fn flush_group(&mut self, group: &WaitingGroup, now_ms: i64) -> Syncer {
        let syncer = self.syncer(group, now_ms);
        self.owes_sync = syncer == Syncer::CoreThread;
        syncer
    }

    /// Returns whether the thread that runs the core syncs the flushed group now. It does not if
    /// more work or a longer group has arrived since the flush.
    pub fn sync_due(&mut self, group: impl FnOnce() -> WaitingGroup) -> bool {
        std::mem::take(&mut self.owes_sync) && self.may_core_sync(&group())
    }

    /// Returns whether the core may sync this group, which is possible only on a standalone server.
    /// The core of a member must answer the other members even if its disk is slow.
    fn may_core_sync(&self, group: &WaitingGroup) -> bool {
        !self.settings.has_members && self.is_hand_over_useless(group)
    }

    /// Returns whether the visitor may sync this group. A visitor syncs outside the core, and only
    /// if another thread continues the visitor's other work, because tokio's driver or packets of
    /// the leader may be waiting for that work.
    fn may_visitor_sync(&self, group: &WaitingGroup) -> bool {
        self.can_visitor_sync && self.settings.has_members && self.is_hand_over_useless(group)
    }

    /// Returns whether handing the group to the log thread would be useless, because it would only
    /// add wake-ups for which a single writer waits.
    fn is_hand_over_useless(&self, group: &WaitingGroup) -> bool {
        !group.follows_orders
            && self.settings.syncs_at_once
            && !self.may_sync_late
            && self.left_to_log_thread == 0
            && self.has_time()
            && group.txns <= limits::LOG_GROUP_SYNCED_BY_CORE_MAX
            && group.bytes <= limits::LOG_GROUP_BYTES_SYNCED_BY_CORE_MAX
            && group.is_log_idle
    }

    /// Returns the time until which the group waits for more records, ms. Returns `None` while the
    /// log thread's queue is full or a visitor syncs, because that time could pass without any
    /// effect.
    pub fn gathers_until_ms(&self, group: &WaitingGroup) -> Option<i64> {
        let gathers = self.may_sync_late
            && group.txns > 0
            && group.bytes < limits::OBSERVER_GROUP_BYTES
            && !group.follows_orders
            && !group.is_visitor_syncing
            && !group.is_log_full;
        gathers.then(|| group.since_ms + limits::OBSERVER_GROUP_MS)
    }

    /// Returns the thread that writes to the clients that a turn has answered. `clients` is their
    /// number.
    pub fn writer_to_clients(&self, clients: usize) -> Writer {
        // With few processors, the tasks would wait for the core's processor.
        let has_time = self.has_time() || self.settings.processors <= limits::PROCESSORS_FEW;
        if has_time && clients <= limits::CLIENTS_WRITTEN_BY_CORE_MAX {
            Writer::Core
        } else {
            Writer::Task
        }
    }

    /// Returns the thread that writes to this number of members. With many members, each write
    /// would delay the others.
    pub fn writer_to_members(members: usize) -> Writer {
        if members <= limits::LINKS_WRITTEN_BY_CORE_MAX {
            Writer::Core
        } else {
            Writer::Task
        }
    }

    /// Returns the position of a member in a flush. `is_latest_requester` states whether the member
    /// sent the latest requests. Such a member is first, because a single writer there waits only
    /// for the commit.
    pub fn flush_order_of_member(is_latest_requester: bool) -> FlushOrder {
        if is_latest_requester {
            FlushOrder::First
        } else {
            FlushOrder::Later
        }
    }

    /// Returns whether no work waits for the core.
    fn has_time(&self) -> bool {
        !self.waiting.is_in_turn && !self.waiting.is_in_inbox
    }

    /// Begins a turn. `can_visitor_sync` states whether the turn is run by a visitor that can sync
    /// a group afterwards while another thread continues its other work.
    pub fn begin_turn(&mut self, can_visitor_sync: bool) {
        self.can_visitor_sync = can_visitor_sync;
    }

    /// Begins the next input of a turn. `waiting` is the work that waits after this input.
    pub fn begin_input(&mut self, waiting: WaitingWork) {
        self.waiting = waiting;
    }

    /// Begins a step of the replica. `answers_own` states whether a leader's next commit answers
    /// the leader's own client. A single writer then receives the reply before the members receive
    /// their packets, each of which takes as long to send as the reply.
    pub fn begin_step(&mut self, answers_own: bool) {
        self.replies_first = answers_own && self.is_writer_alone();
    }

    /// Returns when to execute a flush that the replica requests now. One flush is enough for the
    /// inputs of a turn: members receive one write for them, and the log receives one group. There
    /// is a limit, because members wait for the packets. A standalone server does not defer
    /// flushes, because its disk would be idle meanwhile. Neither does a member with a single
    /// writer, because that writer waits for the first packet.
    pub fn flush(&mut self) -> FlushAt {
        if self.replies_first {
            self.is_flush_owed_by_step = true;
            return FlushAt::StepEnd;
        }
        let may_wait = self.settings.has_members && !self.is_writer_alone();
        let is_deferred = self.waiting.is_in_turn
            && may_wait
            && self.deferred_in_turn < limits::FLUSHES_DEFERRED_MAX;
        self.deferred_in_turn += usize::from(is_deferred);
        if is_deferred {
            FlushAt::TurnEnd
        } else {
            FlushAt::Now
        }
    }

    /// Ends a step. Returns whether a flush must be executed now.
    pub fn end_step(&mut self) -> bool {
        self.replies_first = false;
        std::mem::take(&mut self.is_flush_owed_by_step)
    }

    /// Ends a turn. Returns whether a flush must be executed now. The flush has no effect if
    /// another flush was executed meanwhile.
    pub fn end_turn(&mut self) -> bool {
        self.can_visitor_sync = false;
        self.waiting.is_in_turn = false;
        std::mem::take(&mut self.deferred_in_turn) > 0
    }
}
