//! State and entry points of the replica.

use std::collections::VecDeque;
use std::marker::PhantomData;

use proto::Zxid;
use tree::{Event, Overlay};
use zab::Record;

use crate::elections::voting_lists::ElectorateError;
use crate::interface::effect::Service;
use crate::interface::host::{Host, Now, State, Turn};
use crate::interface::input::{ClientRequest, Input, LeaderEvent, LearnerEvent, Port};
use crate::interface::settings::ReplicaSettings;
use crate::order::containers::ContainerCheck;
use crate::order::digests::Digests;
use crate::order::long_requests::{LongRequests, OrderItem};
use crate::order::proposals::{Backlog, InFlight};
use crate::order::restore::Restoring;
use crate::roles::member_state::{MemberStart, MemberState};
use crate::roles::{NextRole, Role};
use crate::session::expiry::Expiry;

/// Initial state of a replica. The tree is in the host's [`State`].
#[derive(Debug)]
pub struct Start {
    /// Settings that are fixed while the replica runs.
    pub settings: ReplicaSettings,
    /// Recovered state of a member; `None` for a standalone server.
    pub member: Option<MemberStart>,
    /// Seed of the delays that must differ between servers.
    pub seed: u64,
}

/// The core of one server. See the documentation of the crate.
///
/// Invariants:
///
/// - Zxids are applied in order, each one once.
/// - A reply follows only a commit of `zab`, and `zab` counts only records that the host has
///   reported as synced.
/// - Clients never see an appended record that is not committed.
pub struct Replica<H: Host> {
    pub(crate) settings: ReplicaSettings,
    pub(crate) role: Role,
    /// State of an ensemble's member; `None` without an ensemble.
    pub(crate) member: Option<Box<MemberState>>,
    pub(crate) service: Service,
    pub(crate) overlay: Overlay,
    /// Newest zxid that this server has assigned as leader, or the last zxid of the tree when the
    /// tree was last loaded or replaced. Not updated by a learner's transactions.
    pub(crate) last_zxid: Zxid,
    /// Zxid of the last record that was passed to the log.
    pub(crate) appended: Zxid,
    /// Zxid up to which the log is on disk.
    pub(crate) synced: Zxid,
    /// Records that were passed to the log and are not on disk yet.
    pub(crate) backlog: Backlog,
    /// Transactions to be applied, oldest first.
    pub(crate) in_flight: VecDeque<InFlight>,
    /// Number of committed transactions in `in_flight`.
    pub(crate) committed: usize,
    /// A learner's committed records that are not decoded yet.
    pub(crate) delivered: Vec<Record>,
    /// A learner's records that are appended and not known to be committed.
    pub(crate) undelivered: VecDeque<Record>,
    /// Requests from learners and from this leader itself.
    pub(crate) incoming: Vec<OrderItem>,
    /// Requests that a leader does not order yet.
    pub(crate) long_requests: LongRequests,
    /// Buffer that is empty between uses.
    pub(crate) events: Vec<Event>,
    /// Buffer for the record that is being encoded.
    pub(crate) scratch: Vec<u8>,
    /// Comparison of the tree's digest with the digests in transactions.
    pub(crate) digests: Digests,
    pub(crate) expiry: Expiry,
    pub(crate) containers: ContainerCheck,
    /// Number of writes of epoch files in progress.
    pub(crate) saves_pending: usize,
    /// Whether the host is loading the tree.
    pub(crate) is_reloading: bool,
    /// Whether the view for operators is out of date.
    pub(crate) is_view_stale: bool,
    pub(crate) is_ending: bool,
    /// Restore in progress, in which another tree replaces the current one.
    pub(crate) restoring: Option<Restoring>,
    /// Number of restores so far.
    pub(crate) restorations: u64,
    /// Whether the disk has failed, or the server must stop because its data is wrong.
    pub(crate) is_failed: bool,
    host: PhantomData<fn(&mut H)>,
}

impl<H: Host> Replica<H> {
    /// Creates a replica with this state. It is passive until [`Replica::begin`].
    ///
    /// # Errors
    /// If the member lists cannot be used for an election.
    pub fn new(start: Start, state: &H::State, now: Now) -> Result<Self, ElectorateError> {
        let (overlay, last_zxid, known_list) = {
            let tree = state.tree();
            (Overlay::new(&tree), tree.last_zxid(), tree.config_version())
        };
        let settings = start.settings;
        let member = match (start.member, &settings.ensemble) {
            (Some(member), Some(ensemble)) => Some(Box::new(MemberState::new(
                ensemble.clone(),
                member,
                known_list,
                start.seed,
            )?)),
            _ => None,
        };
        Ok(Self {
            role: Role::Looking,
            member,
            service: Service::None,
            overlay,
            last_zxid,
            appended: last_zxid,
            synced: last_zxid,
            backlog: Backlog::default(),
            in_flight: VecDeque::new(),
            committed: 0,
            delivered: Vec::new(),
            undelivered: VecDeque::new(),
            incoming: Vec::new(),
            long_requests: LongRequests::default(),
            events: Vec::new(),
            scratch: Vec::new(),
            digests: Digests::default(),
            expiry: Expiry::default(),
            containers: ContainerCheck::new(settings.containers, now.ms),
            saves_pending: 0,
            is_reloading: false,
            is_view_stale: false,
            is_ending: false,
            restoring: None,
            restorations: 0,
            is_failed: false,
            settings,
            host: PhantomData,
        })
    }

    /// Starts the replica. A member looks for a leader. A standalone server leads.
    pub fn begin(&mut self, turn: &mut Turn<'_, H>) {
        match &self.member {
            None => self.begin_standalone(turn),
            Some(_) => {
                self.with_elections(turn, |elections, _, out| elections.begin(out));
                self.start_election(turn);
                self.show_config(turn);
                self.schedule_read_only(turn.now.ms);
            }
        }
        self.publish_view(turn);
    }

    /// Handles an event. A finished replica ignores events. For example, an election that is
    /// decided after the end does not set a role.
    pub fn handle(&mut self, input: Input, turn: &mut Turn<'_, H>) {
        if self.is_over() {
            return;
        }
        match input {
            Input::Requests(mut requests) => self.handle_requests(&mut requests, turn),
            Input::Sync(sync) => self.handle_sync(sync, turn),
            Input::Renew(renewal) => self.handle_renewal(renewal, turn),
            Input::Election(input) => self.with_elections(turn, |elections, now_ms, out| {
                elections.handle(input, now_ms, out);
            }),
            Input::Learner(Port::Learners, event) => self.handle_learner(event, turn),
            Input::Learner(Port::Observers, event) => self.handle_observer(event, turn),
            Input::ListenFailed { port, attempt } => self.handle_listen_failed(port, attempt, turn),
            Input::Leader { attempt, event } if self.is_learning_by(attempt) => {
                self.handle_leader(event, turn);
            }
            // The event belongs to an earlier role.
            Input::Leader { .. } => {}
            Input::Oracle { grants } => self.handle_oracle(grants, turn),
            Input::Synced(zxid) => self.handle_synced(zxid, turn),
            Input::AcceptedEpochSaved(epoch) => self.handle_accepted_epoch_saved(epoch, turn),
            Input::CurrentEpochSaved(epoch) => self.handle_current_epoch_saved(epoch, turn),
            Input::Reloaded { tree, end } => self.handle_reloaded(tree, end, turn),
            Input::SnapshotWritten { attempt, zxid } => {
                self.handle_snapshot_written(attempt, zxid, turn);
                self.handle_restored(attempt, turn);
            }
            Input::TreeKept { is_kept } => self.handle_tree_kept(is_kept, turn),
            Input::Restore(tree) => self.handle_restore(tree, turn),
            Input::DiskFailed => {
                self.stop_serving(turn);
                self.is_failed = true;
            }
            Input::Shutdown => {
                self.is_ending = true;
                self.end_role(turn);
            }
        }
        self.restore_if_idle(turn);
        self.publish_view_if_stale(turn);
    }

    /// Handles requests like [`Input::Requests`], for a host that reuses the memory of the list.
    /// The list is empty afterwards.
    pub fn handle_client_requests(
        &mut self,
        requests: &mut Vec<ClientRequest>,
        turn: &mut Turn<'_, H>,
    ) {
        if self.is_over() {
            return requests.clear();
        }
        self.handle_requests(requests, turn);
        self.publish_view_if_stale(turn);
    }

    /// Returns the time at which to call [`Replica::handle_deadline`] if no input arrives earlier,
    /// ms.
    pub fn deadline_ms(&self) -> Option<i64> {
        if self.is_over() {
            return None;
        }
        let of_role = self.role_deadline_ms();
        let expiry = self.expiry_ms();
        let containers = self.containers_ms();
        let elections = self.elections_ms();
        let all = [of_role, expiry, containers, elections];
        all.into_iter().flatten().min()
    }

    /// Handles the time of [`Replica::deadline_ms`]. A call at any other time is harmless.
    pub fn handle_deadline(&mut self, turn: &mut Turn<'_, H>) {
        if self.is_over() {
            return;
        }
        self.handle_elections_deadline(turn);
        self.handle_role_deadline(turn);
        self.expire_sessions(turn);
        self.delete_containers(turn);
        self.publish_view_if_stale(turn);
    }

    /// Returns whether the replica has finished. It finishes when the disk has failed or the
    /// server's data is wrong, or when the server was stopped and every proposal has been applied.
    pub fn is_over(&self) -> bool {
        let is_done = match self.role {
            Role::Leading(_) if self.is_alone() => self.in_flight.is_empty(),
            Role::Looking => true,
            Role::Leading(_) | Role::Learning(_) | Role::Draining(_) => false,
        };
        self.is_failed || (self.is_ending && is_done)
    }

    /// Returns whether the server is standalone.
    pub fn is_alone(&self) -> bool {
        self.member.is_none()
    }

    /// Returns whether this server orders requests.
    pub fn is_ordering(&self) -> bool {
        matches!(self.role, Role::Leading(_))
    }

    /// Returns whether a client of this server waits for the oldest transaction that is not applied
    /// yet.
    pub fn answers_next(&self) -> bool {
        let next = self.in_flight.front();
        next.is_some_and(|next| next.origin.is_some())
    }

    /// Returns whether this server forwards requests.
    pub fn is_forwarding(&self) -> bool {
        matches!(self.role, Role::Learning(_))
    }

    /// Returns whether a late sync of the log is harmless. It is harmless on an up-to-date
    /// observer, because no other server waits for its log. Each avoided sync relieves voters on
    /// the same disk.
    pub fn may_sync_late(&self) -> bool {
        match &self.role {
            Role::Learning(learning) => learning.is_observer && learning.is_live(),
            _ => false,
        }
    }

    /// Returns whether packets from the leader wait because the tree is being replaced or the log
    /// lags. The host must not release their memory reservation on the connection meanwhile.
    pub fn has_waiting_packets(&self) -> bool {
        matches!(&self.role, Role::Learning(learning) if !learning.waiting.is_empty())
    }

    /// Returns the newest zxid that this server has assigned as leader, or the last zxid of the
    /// tree when the tree was last loaded or replaced.
    pub fn last_zxid(&self) -> Zxid {
        self.last_zxid
    }

    fn handle_learner(&mut self, event: LearnerEvent, turn: &mut Turn<'_, H>) {
        match event {
            LearnerEvent::Connected { link } => {
                self.with_leader(turn, |leader, now_ms, _| {
                    leader.handle_connected(link, now_ms);
                });
                self.is_view_stale = true;
            }
            LearnerEvent::Packets { link, packets } => {
                self.handle_learner_packets(link, packets, turn);
            }
            LearnerEvent::Closed { link } => {
                turn.note(crate::Note::LearnerGone(link));
                self.long_requests.drop_link(link);
                self.with_leader(turn, |leader, _, _| leader.handle_closed(link));
                self.is_view_stale = true;
            }
            LearnerEvent::SnapshotSent { link } => self.with_leader(turn, |leader, now_ms, _| {
                leader.handle_snapshot_sent(link, now_ms);
            }),
            LearnerEvent::LogRecords { link, records } => {
                self.with_leader(turn, |leader, now_ms, out| {
                    leader.handle_log_records(link, &records, now_ms, out);
                });
            }
            LearnerEvent::LogUnusable { link } => self.with_leader(turn, |leader, now_ms, out| {
                leader.handle_log_unusable(link, now_ms, out);
            }),
        }
    }

    fn handle_leader(&mut self, event: LeaderEvent, turn: &mut Turn<'_, H>) {
        match event {
            LeaderEvent::Connected => self.handle_leader_connected(turn),
            LeaderEvent::Packets(packets) => self.handle_leader_packets(packets, turn),
            LeaderEvent::Closed => self.leave_role(NextRole::Look, turn),
            LeaderEvent::SnapshotProgress => {
                self.with_learner(turn, |learner, now_ms, _| learner.handle_progress(now_ms));
            }
            LeaderEvent::SnapshotReceived(tree) => self.handle_snapshot_received(*tree, turn),
            LeaderEvent::SnapshotDamaged => {
                self.with_learner(turn, |learner, _, out| learner.handle_snapshot_damaged(out));
            }
        }
    }

    /// Handles the completed sync of the log up to `zxid`.
    // Model: SyncLog.
    fn handle_synced(&mut self, zxid: Zxid, turn: &mut Turn<'_, H>) {
        let before = self.synced;
        self.synced = before.max(zxid);
        self.backlog.synced(zxid);
        match &self.role {
            Role::Leading(_) => self.handle_leader_synced(before, zxid, turn),
            Role::Learning(_) => {
                turn.note(crate::Note::Synced(zxid));
                self.with_learner(turn, |learner, _, out| learner.handle_synced(zxid, out));
                self.read_packets(turn);
            }
            Role::Draining(_) => self.drain(turn),
            Role::Looking => {}
        }
    }

    fn is_learning_by(&self, number: u64) -> bool {
        matches!(&self.role, Role::Learning(learning) if learning.attempt == number)
    }
}
