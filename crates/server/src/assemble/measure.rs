//! Figures of the server: metrics of the replica, and its role as shown to operators.

use std::sync::Arc;

use config::Config;
use hashbrown::HashMap;
use metrics::role::{Learners, Mode, RoleCell, ZabState};
use metrics::traces::Traces;
use metrics::{Ages, Metrics, Percentiles, ServerStats, Summary};
use proto::leader::LeaderPacket;
use replica::{Note, Now, Phase, RoleView, Stage, View};
use zab::leader::LinkId;

use crate::clock;

/// Figures that the threads and tasks of a server record.
pub(super) struct Figures {
    pub(super) metrics: Arc<Metrics>,
    /// Counts of packets and latencies.
    pub(super) stats: Arc<ServerStats>,
    /// Current role of the server.
    pub(super) role: Arc<RoleCell>,
    /// Traced writes; `None` without a collector.
    pub(super) traces: Option<Arc<Traces>>,
}

impl Figures {
    pub(super) fn new(config: &Config, metrics: Arc<Metrics>) -> Self {
        let (ensemble, now_ms) = (config.ensemble.as_ref(), clock::monotonic_ms());
        let traces = config.traces.as_ref();
        Self {
            stats: Arc::new(ServerStats::new(metrics.clone(), now_ms)),
            role: Arc::new(RoleCell::new(ensemble, metrics.clone(), now_ms)),
            traces: traces.map(|traces| Arc::new(Traces::new(traces.every))),
            metrics,
        }
    }
}

/// Measurements of one replica.
pub(crate) struct Measures {
    metrics: Arc<Metrics>,
    role: Arc<RoleCell>,
    ages: Ages,
    /// Time at which the preparation of requests began, on a monotonic clock, ms.
    preparation_since_ms: u64,
    /// Time at which the preparation of a session's end began, on a monotonic clock, ms.
    close_session_since_ms: u64,
    /// Time at which transactions began to wait for the tree, on a monotonic clock, ms.
    tree_since_ms: u64,
    turn: TurnWork,
    /// Whether this follower has observers.
    has_observers: bool,
    /// Learners that a leader is synchronising, each with `true` if it receives a snapshot.
    catching_up: HashMap<LinkId, bool>,
}

/// Work done in one turn, by kind. The turn began at `since_ms`.
#[derive(Debug, Default)]
struct TurnWork {
    since_ms: u64,
    proposed: u64,
    committed: u64,
    /// Proposals and commits that a follower forwards to observers.
    proposals_passed: u64,
    commits_passed: u64,
}

impl TurnWork {
    fn is_empty(&self) -> bool {
        self.proposed + self.committed + self.proposals_passed + self.commits_passed == 0
    }
}

impl Measures {
    pub(super) fn new(metrics: Arc<Metrics>, role: Arc<RoleCell>) -> Self {
        Self {
            metrics,
            role,
            ages: Ages::default(),
            preparation_since_ms: 0,
            close_session_since_ms: 0,
            tree_since_ms: 0,
            turn: TurnWork::default(),
            has_observers: false,
            catching_up: HashMap::new(),
        }
    }

    /// Begins a turn. The clock is read once for all ages that are measured in the turn.
    pub(super) fn begin_turn(&mut self, now: Now) {
        self.ages.begin(now.wall_ms);
        self.turn = TurnWork {
            since_ms: now.ms.unsigned_abs(),
            ..TurnWork::default()
        };
    }

    /// Ends a turn. For each kind of work, records the turn's duration divided by the amount of the
    /// work.
    pub(super) fn end_turn(&mut self) {
        let work = std::mem::take(&mut self.turn);
        if work.is_empty() {
            return;
        }
        let took_ms = clock::monotonic_ms().saturating_sub(work.since_ms);
        let metrics = &self.metrics;
        let share = |summary: &Summary, count: u64| {
            if let Some(each_ms) = took_ms.checked_div(count) {
                summary.record_many(each_ms, count);
            }
        };
        let passed = |percentiles: &Percentiles, count: u64| {
            if let Some(each_ms) = took_ms.checked_div(count) {
                percentiles.record_many(each_ms, count);
            }
        };
        share(&metrics.proposal_process_time, work.proposed);
        share(&metrics.commit_process_time, work.committed);
        passed(&metrics.om_proposal_process_time_ms, work.proposals_passed);
        passed(&metrics.om_commit_process_time_ms, work.commits_passed);
    }

    /// Records that a learner is being synchronised, and the number of learners synchronised in the
    /// same way.
    fn note_sync(&mut self, link: LinkId, by_snapshot: bool) {
        self.catching_up.insert(link, by_snapshot);
        let in_flight = self.catching_up.values();
        let in_flight = in_flight.filter(|snapshot| **snapshot == by_snapshot);
        let metric = if by_snapshot {
            &self.metrics.inflight_snap_count
        } else {
            &self.metrics.inflight_diff_count
        };
        metric.record(in_flight.count() as u64);
    }

    fn sent_by_leader(&mut self, to: LinkId, packet: &LeaderPacket) {
        self.metrics.sent_by_leader(packet);
        match packet {
            LeaderPacket::Diff { .. } | LeaderPacket::Trunc { .. } => self.note_sync(to, false),
            LeaderPacket::UpToDate => {
                self.catching_up.remove(&to);
            }
            _ => {}
        }
    }

    fn received_by_learner(&mut self, packet: &LeaderPacket) {
        self.metrics.received_by_learner(packet);
        if self.has_observers {
            match packet {
                LeaderPacket::Proposal { .. } => self.turn.proposals_passed += 1,
                LeaderPacket::Commit { .. } => self.turn.commits_passed += 1,
                _ => {}
            }
        }
    }

    pub(super) fn note(&mut self, note: Note<'_>) {
        let metrics = &self.metrics;
        match note {
            Note::Begins(stage) => self.begin_stage(stage),
            Note::Ends(stage) => self.end_stage(stage),
            Note::Became(request, txn) => {
                metrics.outstanding_changes_queued.inc();
                metrics.note_txn(request, txn);
            }
            Note::Proposed { bytes } => {
                let bytes = u32::try_from(bytes).unwrap_or(u32::MAX);
                self.role.proposed(bytes);
                metrics.proposal_count.inc();
                self.turn.proposed += 1;
            }
            Note::Appended { zxid, stamp_ms } => self.ages.appended(zxid, stamp_ms),
            Note::Received { zxid, stamp_ms } => self.ages.received(zxid, stamp_ms),
            Note::Synced(upto) => {
                self.ages.synced(upto, 0);
            }
            Note::Acknowledged { sid, stamp_ms } => self.ages.acknowledged(sid, stamp_ms),
            Note::Committed {
                stamp_ms,
                by_leader,
            } => {
                if by_leader {
                    metrics.commit_count.inc();
                    self.turn.committed += 1;
                }
                if let Some(stamp_ms) = stamp_ms {
                    self.ages.committed(stamp_ms);
                }
            }
            Note::SentByLeader(to, packet) => self.sent_by_leader(to, packet),
            Note::LearnerGone(link) => {
                self.catching_up.remove(&link);
            }
            Note::ReceivedByLearner(packet) => self.received_by_learner(packet),
            Note::SnapshotOrdered(to) => {
                metrics.snap_count.inc();
                self.note_sync(to, true);
            }
            Note::SessionRevalidated => metrics.revalidate_count.inc(),
            Note::LeaderTurnEnds { pending_syncs } => {
                self.role.set_pending_syncs(pending_syncs);
                self.ages.of_leader(metrics);
            }
            // The replica logs the reason.
            Note::LeaderLeft(_) => {}
            Note::LearnerTurnEnds => self.ages.of_learner(metrics),
            Note::LeadingBegins => self.role.begin_leading(),
            Note::SupporterLost => metrics.quit_leading_due_to_disloyal_voter.inc(),
            Note::Elected { took_ms } => metrics.election_time.record(took_ms),
            Note::DigestMismatch { .. } => metrics.digest_mismatches_count.inc(),
            Note::SessionExpires => metrics.stale_sessions_expired.inc(),
        }
    }

    fn begin_stage(&mut self, stage: Stage) {
        let now_ms = clock::monotonic_ms();
        match stage {
            Stage::Preparation(_) => self.preparation_since_ms = now_ms,
            Stage::CloseSession => self.close_session_since_ms = now_ms,
            Stage::TreeAwaited => self.tree_since_ms = now_ms,
        }
    }

    fn end_stage(&mut self, stage: Stage) {
        let (now_ms, metrics) = (clock::monotonic_ms(), &self.metrics);
        match stage {
            Stage::Preparation(requests) => {
                let took_ms = now_ms.saturating_sub(self.preparation_since_ms);
                metrics.prepared(requests, took_ms);
            }
            Stage::CloseSession => {
                let took_ms = now_ms.saturating_sub(self.close_session_since_ms);
                metrics.close_session_prep_time.record(took_ms);
            }
            Stage::TreeAwaited => {
                let took_ms = now_ms.saturating_sub(self.tree_since_ms);
                metrics
                    .time_waiting_empty_pool_in_commit_processor_read_ms
                    .record(took_ms);
            }
        }
    }

    /// Updates the role that operators see.
    pub(super) fn show(&mut self, view: View) {
        // Entries that waited for the disk in an earlier role are not measured in the next one.
        if matches!(view.role, RoleView::Looking) {
            self.ages = Ages::default();
            self.catching_up.clear();
        }
        self.has_observers = matches!(view.role, RoleView::Following { synced_observers } if synced_observers.is_some_and(|observers| observers > 0));
        self.role.update(clock::monotonic_ms(), |shown| {
            shown.mode = mode(view.role);
            shown.is_serving = view.is_serving;
            shown.zab = match view.phase {
                Phase::Election => ZabState::Election,
                Phase::Discovery => ZabState::Discovery,
                Phase::Synchronization => ZabState::Synchronization,
                Phase::Broadcast => ZabState::Broadcast,
            };
            shown.leader = view.leader;
            shown.members = Some(view.members);
        });
    }
}

fn mode(role: RoleView) -> Mode {
    match role {
        RoleView::Looking => Mode::Looking,
        RoleView::ReadOnly => Mode::ReadOnly,
        RoleView::Following { synced_observers } => Mode::Follower { synced_observers },
        RoleView::Observing { master } => Mode::Observer { master },
        RoleView::Leading { since_ms, learners } => Mode::Leader {
            since_ms: since_ms.unsigned_abs(),
            learners: Learners {
                connected: learners.connected,
                synced_followers: learners.synced_followers,
                synced_non_voting_followers: learners.synced_non_voting_followers,
                synced_observers: learners.synced_observers,
            },
        },
    }
}
