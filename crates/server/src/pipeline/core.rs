//! The thread that orders and applies.
//!
//! It takes messages in turns: requests first, all that wait under one hold of the tree, then what
//! happened elsewhere. [`driver`](super::driver) has what concerns roles.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use crossbeam_channel::{Receiver, RecvTimeoutError, Sender, TrySendError};
use parking_lot::{Mutex, RwLockWriteGuard};
use proto::request::WriteRequest;
use proto::txn::TxnRecord;
use proto::{ErrorCode, OpCode, SessionId, Sid, Zxid};
use session::Owner;
use tree::Overlay;
use zab::Record;
use zab::broadcast::Proposals;
use zab::leader::LinkId;
use zab::learner::Learner;

use super::deliver::Delivery;
use super::log::{LogFile, LogGroup, ToLog};
use super::member::Member;
use super::role::Role;
use super::{Submission, ToCore};
use crate::failure::Failure;
use crate::net::connection::{Connection, Identities};
use crate::net::large::LargeRequest;
use crate::shared::Shared;
use crate::{clock, limits};

/// Orders requests and applies what is committed.
pub(crate) struct Core {
    pub(super) shared: Arc<Shared>,
    inbox: Receiver<ToCore>,
    log: Sender<ToLog>,
    log_file: Arc<Mutex<LogFile>>,
    /// The last record handed to the log thread or written here.
    pub(super) handed: Zxid,
    pub(super) failure: Failure,
    pub(super) role: Role,
    /// `None` if there is no ensemble.
    pub(super) member: Option<Box<Member>>,
    /// Transactions that the log has had no room for yet.
    pub(super) group: LogGroup,
    pub(super) overlay: Overlay,
    /// The last zxid given out, or where the history ends.
    pub(super) last_zxid: Zxid,
    /// The last record handed to the log.
    pub(super) appended: Zxid,
    /// Up to where the log is on disk.
    pub(super) synced: Zxid,
    /// Transactions to be applied, oldest first.
    pub(super) in_flight: VecDeque<InFlight>,
    /// How many of them are committed.
    pub(super) committed: usize,
    /// A learner's committed records, not decoded yet.
    pub(super) delivered: Vec<Record>,
    /// A learner's records that are appended and not committed.
    pub(super) undelivered: VecDeque<Record>,
    /// What learners have passed on to this leader.
    pub(super) incoming: Vec<Incoming>,
    pub(super) delivery: Delivery,
    /// Requests of this turn.
    requests: Vec<Submission>,
    /// What else has come in this turn.
    events: VecDeque<ToCore>,
    /// Whether the log thread is loading the tree.
    pub(super) is_reloading: bool,
    /// Whether what operators are shown is out of date.
    pub(super) is_role_stale: bool,
    pub(super) is_ending: bool,
    /// The disk has failed: nothing is done any more.
    pub(super) is_failed: bool,
}

/// A transaction between its proposal and its application.
pub(super) struct InFlight {
    pub(super) record: TxnRecord,
    /// What was asked for; the transaction may be an error instead.
    pub(super) op: OpCode,
    pub(super) origin: Option<Arc<Connection>>,
    pub(super) large: Option<LargeRequest>,
    /// Whether it holds a permit.
    pub(super) is_metered: bool,
}

impl InFlight {
    /// One that no client of this server waits for.
    pub(super) fn of_others(record: TxnRecord) -> Self {
        let op = record.txn.op();
        Self {
            record,
            op,
            origin: None,
            large: None,
            is_metered: false,
        }
    }
}

/// A request to be ordered, whoever has brought it.
pub(super) struct Order {
    pub(super) origin: Option<Arc<Connection>>,
    /// The server that it came through.
    pub(super) owner: Owner,
    pub(super) session: SessionId,
    pub(super) cxid: i32,
    pub(super) op: OpCode,
    pub(super) identities: Identities,
    /// An error if it is refused unseen.
    pub(super) request: Result<WriteRequest, ErrorCode>,
    pub(super) large: Option<LargeRequest>,
    /// Whether it holds a permit.
    pub(super) is_metered: bool,
}

impl Order {
    /// The server's own.
    pub(super) fn own(session: SessionId, request: WriteRequest) -> Self {
        Self {
            origin: None,
            owner: Owner::THIS_SERVER,
            session,
            cxid: 0,
            op: request.op(),
            identities: Arc::from([]),
            request: Ok(request),
            large: None,
            is_metered: false,
        }
    }
}

/// What a learner has passed on.
pub(super) enum Incoming {
    /// A request.
    Order(Order),
    /// A sync over this connection.
    Sync(LinkId),
}

/// This server's id towards `zab` when it is alone.
pub(crate) const STANDALONE: Sid = Sid(0);

/// What a core begins with.
pub(crate) struct CoreStart {
    pub(crate) shared: Arc<Shared>,
    pub(crate) inbox: Receiver<ToCore>,
    pub(crate) log: Sender<ToLog>,
    pub(crate) log_file: Arc<Mutex<LogFile>>,
    pub(crate) failure: Failure,
    /// `None` for a server that stands alone.
    pub(crate) member: Option<Box<Member>>,
}

impl Core {
    pub(crate) fn new(start: CoreStart) -> Self {
        let (overlay, last_zxid) = {
            let tree = start.shared.tree.read();
            (Overlay::new(&tree), tree.last_zxid())
        };
        let role = match start.member {
            Some(_) => Role::Looking,
            None => {
                let quorum = proto::quorum::Majority::new([STANDALONE]);
                Role::Alone(Box::new(Proposals::new(quorum, STANDALONE, last_zxid)))
            }
        };
        Self {
            shared: start.shared,
            inbox: start.inbox,
            log: start.log,
            log_file: start.log_file,
            handed: last_zxid,
            failure: start.failure,
            role,
            member: start.member,
            group: LogGroup::default(),
            overlay,
            last_zxid,
            appended: last_zxid,
            synced: last_zxid,
            in_flight: VecDeque::new(),
            committed: 0,
            delivered: Vec::new(),
            undelivered: VecDeque::new(),
            incoming: Vec::new(),
            delivery: Delivery::default(),
            requests: Vec::new(),
            events: VecDeque::new(),
            is_reloading: false,
            is_role_stale: false,
            is_ending: false,
            is_failed: false,
        }
    }

    /// Runs until told to end and everything proposed is applied, or until the disk fails.
    pub(crate) fn run(mut self) {
        self.begin();
        while !self.is_over() {
            match self.next_message() {
                Ok(first) => self.turn(first),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return,
            }
            let now_ms = clock::session_ms();
            if self.deadline_ms().is_some_and(|at_ms| at_ms <= now_ms) {
                self.handle_deadline();
            }
            if std::mem::take(&mut self.is_role_stale) {
                self.publish_role();
            }
        }
        tracing::debug!(zxid = %self.last_zxid, "core thread ends");
    }

    fn is_over(&self) -> bool {
        let is_done = match self.role {
            Role::Alone(_) => self.in_flight.is_empty(),
            Role::Looking => true,
            Role::Leading(_) | Role::Learning(_) | Role::Draining(_) => false,
        };
        self.is_failed || (self.is_ending && is_done)
    }

    fn next_message(&self) -> Result<ToCore, RecvTimeoutError> {
        let Some(at_ms) = self.deadline_ms() else {
            return self
                .inbox
                .recv()
                .map_err(|_| RecvTimeoutError::Disconnected);
        };
        let wait_ms = at_ms.saturating_sub(clock::session_ms()).max(0);
        self.inbox
            .recv_timeout(Duration::from_millis(wait_ms.unsigned_abs()))
    }

    /// Handles `first` and what else waits.
    fn turn(&mut self, first: ToCore) {
        let mut next = Some(first);
        while let Some(message) = next {
            match message {
                ToCore::Submit(batch) => self.requests.extend(batch),
                sync @ ToCore::ForwardSync(_) => {
                    self.events.push_back(sync);
                    // What its connection asks for next must not go up before it.
                    break;
                }
                event => self.events.push_back(event),
            }
            if self.requests.len() + self.events.len() >= limits::PREPARE_GROUP_MAX {
                break;
            }
            next = self.inbox.try_recv().ok();
        }
        if !self.requests.is_empty() {
            self.take_requests();
        }
        while let Some(event) = self.events.pop_front() {
            self.handle_event(event);
            if self.is_failed {
                return;
            }
        }
    }

    /// Orders the requests of this turn, or passes them on.
    fn take_requests(&mut self) {
        let mut requests = std::mem::take(&mut self.requests);
        let (count, begun_ms) = (requests.len(), clock::monotonic_ms());
        let orders = matches!(self.role, Role::Alone(_) | Role::Leading(_));
        if orders {
            let since_ms = requests.iter().map(|request| request.received_ms);
            let metrics = &self.shared.metrics;
            metrics.preparing(begun_ms, since_ms, self.inbox.len());
        }
        match self.role {
            Role::Alone(_) => {
                let shared = self.shared.clone();
                let tree = shared.tree.read();
                let now_ms = clock::wall_ms();
                for submission in requests.drain(..) {
                    self.order_alone(&tree, submission.into(), now_ms);
                }
                drop(tree);
                self.note_prepared(count, begun_ms);
                if self.may_sync_here() {
                    self.sync_here();
                } else {
                    self.offer_group();
                }
            }
            Role::Leading(_) => {
                let actions = self.order_all(requests.drain(..));
                self.note_prepared(count, begun_ms);
                self.carry_out_leader(actions);
            }
            Role::Learning(_) => {
                for submission in requests.drain(..) {
                    self.forward_upgrade(&submission);
                    let body = submission.body.clone();
                    self.forward(submission.into(), body);
                }
            }
            Role::Looking | Role::Draining(_) => {
                for submission in requests.drain(..) {
                    self.drop_order(submission.into());
                }
            }
        }
        // Kept for its memory.
        self.requests = requests;
    }

    /// Before the disk has its turn: that is no part of it, and replies may come at any time after.
    fn note_prepared(&self, count: usize, begun_ms: u64) {
        let took_ms = clock::monotonic_ms() - begun_ms;
        self.shared.metrics.prepared(count, took_ms);
    }

    fn order_alone(&mut self, tree: &tree::Tree, order: Order, now_ms: i64) {
        let zxid = self.last_zxid.next();
        let (in_flight, _) = self.prepare_at(tree, order, zxid, now_ms);
        self.group.push(&in_flight.record);
        self.appended = zxid;
        if let Role::Alone(proposals) = &mut self.role {
            proposals.propose(zxid);
        }
        self.in_flight.push_back(in_flight);
    }

    fn handle_event(&mut self, event: ToCore) {
        match event {
            // Taken before.
            ToCore::Submit(_) => {}
            ToCore::ForwardSync(sync) => self.forward_sync(sync),
            ToCore::Revalidate(revalidation) => self.revalidate(revalidation),
            ToCore::Mesh(event) => self.handle_mesh(event),
            ToCore::Peer(event) => self.handle_peer(event),
            ToCore::Observer(event) => self.handle_observer(event),
            ToCore::Oracle { grants } => self.handle_oracle(grants),
            ToCore::Synced(zxid) => self.handle_synced(zxid),
            ToCore::SnapshotWritten { attempt } => self.handle_snapshot_written(attempt),
            ToCore::Reloaded { tree, end } => self.handle_reloaded(tree, end),
            ToCore::LogFailed => {
                self.shared.stop_serving();
                self.is_failed = true;
            }
            ToCore::Shutdown => {
                self.is_ending = true;
                self.end_role();
            }
        }
    }

    /// The log is on disk up to `zxid`.
    fn handle_synced(&mut self, zxid: Zxid) {
        self.synced = self.synced.max(zxid);
        self.offer_group();
        match &mut self.role {
            Role::Alone(proposals) => {
                match proposals.handle_synced(zxid) {
                    Ok(committed) => self.committed += committed.len(),
                    Err(fault) => {
                        tracing::error!(err = %fault, "the log reports what was never proposed");
                    }
                }
                self.apply_committed();
            }
            Role::Leading(_) => self.handle_leader_synced(zxid),
            Role::Learning(learning) => {
                learning.ages.begin(clock::wall_ms());
                learning.ages.synced(zxid, 0);
                self.with_learner(|learner, _, out| learner.handle_synced(zxid, out));
                self.read_packets();
            }
            Role::Draining(_) => self.drain(),
            Role::Looking => {}
        }
    }

    /// Whether nothing else is under way, so that handing a small group over and back would cost
    /// a lone writer two wake-ups and gain nothing.
    fn may_sync_here(&self) -> bool {
        self.group.len() <= limits::LOG_GROUP_SYNCED_BY_CORE_MAX
            && self.handed == self.synced
            && self.events.is_empty()
            && self.inbox.is_empty()
            && self.shared.settings.group_commit.flush_delay.is_zero()
    }

    fn sync_here(&mut self) {
        let group = std::mem::take(&mut self.group);
        let Some(last) = group.last() else { return };
        let mut file = self.log_file.lock();
        if let Err(error) = file.write(&group) {
            file.fail(&error);
            drop(file);
            return self.handle_event(ToCore::LogFailed);
        }
        drop(file);
        self.handed = last;
        self.handle_synced(last);
    }

    /// Until when an observer's group may wait for more, ms: nobody waits for its log, and each
    /// sync that it saves is one that voters on the same disk need not wait for. While the log has
    /// no room there is no such time: it could pass, and nothing could be done about it.
    pub(super) fn gathers_until_ms(&self) -> Option<i64> {
        let gathers = match &self.role {
            Role::Learning(learning) => {
                let learner = learning.learner.as_ref();
                learning.is_observer && learner.is_some_and(Learner::is_live)
            }
            _ => false,
        };
        let is_small = self.group.bytes() < limits::OBSERVER_GROUP_BYTES;
        (gathers && !self.group.is_empty() && is_small && !self.log.is_full())
            .then(|| self.group.since_ms() + limits::OBSERVER_GROUP_MS)
    }

    /// Hands the log what has gathered, unless more is waited for (the deadline brings us back here),
    /// or the log is still busy with earlier groups (its next `Synced` does).
    pub(super) fn offer_group(&mut self) {
        let Some(last) = self.group.last() else {
            return;
        };
        let until_ms = self.gathers_until_ms();
        if until_ms.is_some_and(|until_ms| clock::session_ms() < until_ms) {
            return;
        }
        match self
            .log
            .try_send(ToLog::Group(std::mem::take(&mut self.group)))
        {
            Ok(()) => self.handed = last,
            Err(TrySendError::Full(ToLog::Group(group))) => self.group = group,
            // The log thread is gone; `LogFailed` is on its way.
            Err(_) => {}
        }
    }

    /// Orders something of the log thread, behind all that was appended. Waits for room there:
    /// nobody is served meanwhile.
    pub(super) fn order_log(&mut self, order: ToLog) {
        if !self.group.is_empty() {
            let _ = self.log.send(ToLog::Group(std::mem::take(&mut self.group)));
        }
        let _ = self.log.send(order);
    }

    /// Applies what is committed, and answers each `sync` of a leader's own clients in its place.
    pub(super) fn apply_committed(&mut self) {
        while let Some(before) = self.committed_before_own_sync() {
            self.committed -= before;
            self.apply(before);
            self.answer_own_sync();
        }
        let committed = std::mem::take(&mut self.committed);
        self.apply(committed);
    }

    /// Applies so many in groups, so that readers get their turn.
    fn apply(&mut self, mut committed: usize) {
        if committed == 0 {
            return;
        }
        let shared = self.shared.clone();
        while committed > 0 {
            let group = committed.min(limits::APPLY_GROUP_MAX);
            committed -= group;
            let mut tree = shared.tree.write();
            let applied = self.in_flight.drain(..group);
            for (in_flight, left) in applied.zip((0..group).rev()) {
                self.overlay.applied(in_flight.record.header.zxid);
                self.delivery
                    .apply(&shared, &mut tree, &in_flight, left == 0);
            }
            RwLockWriteGuard::unlock_fair(tree);
            self.delivery.settle(&shared);
            self.delivery.wake();
        }
    }
}

impl From<Submission> for Order {
    fn from(submission: Submission) -> Self {
        Self {
            origin: submission.origin,
            owner: Owner::THIS_SERVER,
            session: submission.session,
            cxid: submission.cxid,
            op: submission.request.op(),
            identities: submission.identities,
            request: Ok(submission.request),
            large: submission.large,
            is_metered: true,
        }
    }
}
