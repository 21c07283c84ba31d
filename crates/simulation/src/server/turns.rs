//! The times at which the core of a simulated server runs, syncs and flushes, decided by the
//! shipped schedule.
//!
//! A thread that delivers an input (a visiting thread) runs the core at the moment of the event.
//! The core's own thread must first be woken, and inputs accumulate meanwhile. A flush after the
//! replies of a step takes time, so a server can die between the replies and the flush. A sync in
//! place, on the core's thread, keeps the core from all other work.

use std::time::Duration;

use host::{
    DiskCommand, FlushAt, OrderResults, Runner, Schedule, ScheduleSettings, Syncer, WaitingGroup,
    WaitingWork, sync,
};
use proto::learner::LearnerPacket;
use proto::packet::QuorumPacket;
use replica::{Input, LeaderEvent, LearnerEvent, Replica, Turn};
use storage::StorageError;

use super::answers::Answer;
use super::{Server, SimHost};
use crate::checks::{ProcessChecks as _, StepChecks};
use crate::configured::sid_of;
use crate::network::Process;
use crate::queue::{MS, Micros, SECOND};
use crate::settings::EnsembleSettings;
use crate::world::Event;

/// Maximum duration of a thread's wake-up.
const WAKE_UP_MAX: Micros = 100;

/// Duration of the disk's work from which the disk is considered stalled.
const STALL: Micros = 200 * MS;

/// Maximum number of inputs in one turn. The others wait in the inbox.
const TURN_INPUTS_MAX: usize = 16;

/// Work that keeps the thread that runs the core from the next input.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Busy {
    /// The thread writes the replies of the last step. A flush follows.
    ReplyHost,
    /// The thread syncs the log.
    Syncing,
}

/// State of the core, without its replica.
#[derive(Debug)]
pub(crate) struct Core {
    schedule: Schedule,
    busy: Option<Busy>,
    /// Thread that syncs the current group of the disk.
    syncer: Syncer,
    /// Whether a thread is ready to run the core, for example the core's own thread after a
    /// wake-up, or the thread that has just synced a group.
    has_runner: bool,
    /// Whether a wake-up of the core's own thread is pending.
    is_waking: bool,
    /// Time at which the disk began its current work.
    pub(crate) disk_begun_at: Micros,
    /// Time since which the newest group has been waiting for more records, if it is waiting.
    gathers_since_ms: Option<i64>,
    /// Packets that wait for the next flush, with their connections.
    staged: Vec<(u64, QuorumPacket)>,
    /// Connection on which requests arrived last.
    latest_requester: u64,
}

impl Core {
    /// Creates the state of a core. Machines differ in their number of processors.
    pub(super) fn new(process: Process, settings: &EnsembleSettings) -> Self {
        let processors = 1 << (process.server % 4);
        Self {
            schedule: Schedule::new(ScheduleSettings {
                processors,
                visitors: processors,
                has_members: !settings.is_standalone(),
                syncs_at_once: true,
            }),
            busy: None,
            syncer: Syncer::NotYet,
            has_runner: false,
            is_waking: false,
            disk_begun_at: 0,
            gathers_since_ms: None,
            staged: Vec::new(),
            latest_requester: 0,
        }
    }

    /// Returns whether inputs must wait, because the core's thread is busy or not awake yet.
    pub(super) fn is_away(&self) -> bool {
        self.is_waking || self.busy.is_some()
    }

    /// Keeps a packet for the next flush.
    pub(super) fn stage(&mut self, to: u64, packet: QuorumPacket) {
        self.staged.push((to, packet));
    }

    /// Removes and returns the packets that wait for a flush, in sending order.
    pub(super) fn take_staged(&mut self) -> Vec<(u64, QuorumPacket)> {
        let mut staged = std::mem::take(&mut self.staged);
        staged.sort_by_key(|(to, _)| Schedule::flush_order_of_member(*to == self.latest_requester));
        staged
    }

    /// Records that requests have arrived on this connection, if the input contains requests.
    pub(super) fn note_packets(&mut self, from: u64, input: &Input) {
        if let Input::Learner(_, LearnerEvent::Packets { packets, .. }) = input
            && packets
                .iter()
                .any(|packet| matches!(packet, LearnerPacket::Request(_)))
        {
            self.latest_requester = from;
        }
    }
}

impl<C: StepChecks> SimHost<C> {
    /// Returns the number of packets and records that wait for a flush although no flush is
    /// scheduled.
    pub(super) fn unflushed(&self) -> usize {
        if self.core.busy == Some(Busy::ReplyHost) {
            return 0;
        }
        let will_be_taken = self.disk.at_work.is_some() || self.core.gathers_since_ms.is_some();
        let records = if will_be_taken {
            0
        } else {
            self.disk.queue.group.len()
        };
        self.core.staged.len() + records
    }

    /// Returns the duration of the disk's next work.
    pub(super) fn disk_delay(&mut self) -> Micros {
        let is_group = matches!(self.disk.at_work, Some(DiskCommand::Group(_)));
        let is_visit = is_group && self.core.syncer == Syncer::Visitor;
        if is_visit && self.world.stalls_visit() {
            return self.world.random.range(STALL, SECOND);
        }
        self.world.sync_delay()
    }

    /// Counts an answer of the schedule.
    fn note(&mut self, answer: Answer) {
        let stalls_since = self
            .disk
            .at_work
            .is_some()
            .then_some(self.core.disk_begun_at);
        let is_stalled = stalls_since.is_some_and(|at| self.world.now() - at >= STALL);
        self.world.answers.note(answer, is_stalled);
    }

    /// Returns whether a flush that the replica requests is executed now.
    pub(super) fn flushes_now(&mut self) -> bool {
        let at = self.core.schedule.flush();
        self.note(Answer::Flush(at));
        at == FlushAt::Now
    }

    /// Executes a deferred flush.
    fn flush_deferred(&mut self) {
        self.flush_packets();
        self.offer_group();
        self.sync_due();
    }

    /// Lets time pass for the replies of a step, then flushes.
    fn flush_after_replies(&mut self) {
        self.core.busy = Some(Busy::ReplyHost);
        let delay = self.world.random.range(1, WAKE_UP_MAX);
        self.world.start(self.process, delay, |host| {
            (host.core.busy, host.core.has_runner) = (None, true);
            host.flush_deferred();
        });
    }

    /// Returns the facts about the records that were appended last.
    fn waiting_group(&self) -> WaitingGroup {
        let records = &self.disk.queue.group;
        let now_ms = self.world.now_ms();
        WaitingGroup {
            txns: records.len(),
            bytes: records.bytes(),
            since_ms: self.core.gathers_since_ms.unwrap_or(now_ms),
            follows_orders: !self.disk.queue.is_at_group(),
            is_visitor_syncing: self.disk.at_work.is_some() && self.core.syncer == Syncer::Visitor,
            is_log_idle: self.disk.at_work.is_none(),
            is_log_full: false,
        }
    }

    /// Lets the schedule decide which thread syncs the newest group. Called at a flush, when no
    /// further record is appended for now.
    pub(super) fn offer_group(&mut self) {
        let (group, now_ms) = (self.waiting_group(), self.world.now_ms());
        if self.core.schedule.flush_group(&group, now_ms) != Syncer::CoreThread {
            self.start_order();
        }
    }

    /// Begins to sync the newest group on the core's thread if the schedule decides so.
    fn sync_due(&mut self) {
        let group = self.waiting_group();
        if self.core.schedule.sync_due(|| group) && self.ended.is_none() {
            self.core.busy = Some(Busy::Syncing);
            self.start_order();
        }
    }

    /// Removes and returns the records that were appended last, unless they wait for more records
    /// or for their flush.
    pub(super) fn take_group(&mut self) -> Option<DiskCommand> {
        if self.core.busy == Some(Busy::ReplyHost) {
            return None;
        }
        if self.disk.queue.group.is_empty() {
            self.core.gathers_since_ms = None;
            return None;
        }
        let (group, now_ms) = (self.waiting_group(), self.world.now_ms());
        let core = &mut self.core;
        let syncer = core.schedule.syncer(&group, now_ms);
        if syncer != Syncer::NotYet {
            core.gathers_since_ms = None;
            core.syncer = match core.busy {
                Some(Busy::Syncing) => Syncer::CoreThread,
                _ if syncer == Syncer::Visitor => syncer,
                _ => Syncer::LogThread,
            };
            core.schedule.note_group(group.txns, core.syncer);
            return self.disk.queue.take();
        }
        let is_new = core.gathers_since_ms.is_none();
        if let Some(at_ms) = core.schedule.gathers_until_ms(&group).filter(|_| is_new) {
            core.gathers_since_ms = Some(group.since_ms);
            let delay = (at_ms - group.since_ms) * MS;
            self.note(Answer::Sync(Syncer::NotYet));
            self.world.start(self.process, delay, Self::start_order);
        }
        None
    }

    /// Syncs the written group of `txns` transactions. After a sync on the core's own thread, the
    /// core handles the report about the sync before all other inputs.
    pub(super) fn sync_group(&mut self, txns: usize) -> Result<OrderResults, StorageError> {
        let synced = sync(&mut self.disk.history)?.1;
        let took = self.world.now() - self.core.disk_begun_at;
        let core = &mut self.core;
        core.schedule
            .note_sync(Duration::from_micros(took.unsigned_abs()));
        let in_place = core.busy == Some(Busy::Syncing);
        let runs_core = in_place || Schedule::runner_after_sync(txns) == Runner::LogThread;
        core.has_runner |= runs_core;
        let is_stalled = took >= STALL;
        let mut note = |answer| self.world.answers.note(answer, is_stalled);
        if in_place {
            core.busy = None;
            note(Answer::Sync(Syncer::CoreThread));
            self.inputs.push_front(synced);
            return Ok(OrderResults::default());
        }
        note(Answer::Sync(core.syncer));
        if runs_core {
            note(Answer::Run(Runner::LogThread));
        }
        Ok(OrderResults::from(synced))
    }

    /// Returns whether a thread runs the core now. If the core is idle although inputs wait, wakes
    /// the core's own thread.
    fn has_runner(&mut self) -> bool {
        let is_ready = std::mem::take(&mut self.core.has_runner);
        let is_busy = self.core.busy.is_some();
        if self.ended.is_some() || is_busy || self.inputs.is_empty() {
            return false;
        }
        if is_ready {
            return true;
        }
        if self.core.schedule.runner_of_message() == Runner::VisitingThread {
            self.note(Answer::Run(Runner::VisitingThread));
            // Only the task that receives the leader's packets can sync after it has run the core.
            let brings_packets = matches!(
                self.inputs.front(),
                Some(Input::Leader {
                    event: LeaderEvent::Packets(_),
                    ..
                })
            );
            self.core.schedule.begin_turn(brings_packets);
            return true;
        }
        if !std::mem::replace(&mut self.core.is_waking, true) {
            self.note(Answer::Run(Runner::OwnThread));
            let delay = self.world.random.range(1, WAKE_UP_MAX);
            self.world.start(self.process, delay, |host| {
                (host.core.is_waking, host.core.has_runner) = (false, true);
            });
        }
        false
    }
}

impl<C: StepChecks> Server<C> {
    pub(super) fn turn(
        &mut self,
        step: impl FnOnce(&mut Replica<SimHost<C>>, &mut Turn<'_, SimHost<C>>),
    ) {
        let Self { replica, host, .. } = self;
        if host.core.busy.is_some() {
            let text = format!(
                "two threads run the core of server {}",
                sid_of(host.process.server)
            );
            host.world.checks.fail("one thread runs a core", text);
        }
        let answers_own = replica.is_ordering() && replica.answers_next();
        host.core.schedule.begin_step(answers_own);
        let (now, state) = (
            host.world.clocks_of(host.process.server),
            &*host.state.clone(),
        );
        step(replica, &mut Turn { now, state, host });
        if host.core.schedule.end_step() {
            host.flush_after_replies();
        }
        host.core.schedule.note_role(replica.may_sync_late());
        host.sync_due();
    }

    /// Handles a wake-up, at which a deadline may be due.
    pub(crate) fn handle_wake(&mut self) {
        self.wake_at = None;
        let now_ms = self.host.world.now_ms();
        let is_due = self.replica.deadline_ms().is_some_and(|at| at <= now_ms);
        if is_due && self.host.core.busy.is_none() {
            self.turn(|replica, turn| replica.handle_deadline(turn));
            self.host.start_order();
        }
    }

    /// Runs the turns of the core after any event, and schedules the next wake-up.
    pub(crate) fn settle(&mut self) {
        while self.host.has_runner() {
            self.take_turn();
        }
        if self.host.ended.is_none() {
            self.host.flush_clients();
        }
        self.host.show_held_back();
        // The next wake-up is at least 1 ms later than now, even if a deadline has passed.
        let soonest = self.host.world.now() + 1000;
        let at_deadline = |ms: i64| ms.saturating_mul(1000).max(soonest);
        let at = self.replica.deadline_ms().map(at_deadline);
        if let Some(at) = at.filter(|at| self.wake_at.is_none_or(|before| *at < before)) {
            self.wake_at = Some(at);
            let process = self.host.process;
            self.host.world.queue.at(at, Event::Wake { process });
        }
    }

    /// Runs one turn of the core.
    fn take_turn(&mut self) {
        let mut left = TURN_INPUTS_MAX;
        while left > 0
            && self.host.ended.is_none()
            && self.host.core.busy.is_none()
            && let Some(input) = self.host.inputs.pop_front()
        {
            left -= 1;
            let waiting = self.host.inputs.len();
            self.host.core.schedule.begin_input(WaitingWork {
                is_in_turn: waiting > 0 && left > 0,
                is_in_inbox: waiting > left,
            });
            let SimHost {
                observed, world, ..
            } = &mut self.host;
            observed.input(&input, world);
            self.turn(|replica, turn| replica.handle(input, turn));
        }
        if self.host.core.schedule.end_turn()
            && self.host.ended.is_none()
            && self.host.core.busy != Some(Busy::ReplyHost)
        {
            self.host.flush_deferred();
        }
        self.host.start_order();
        // The thread that releases the core checks the inbox once more.
        self.host.core.has_runner = !self.host.inputs.is_empty();
    }
}
