//! What the replica notes goes into the metrics, and what it shows to operators.

use std::sync::Arc;

use monitoring::role::{Learners, Mode, RoleCell, ZabState};
use replica::{Note, Now, Phase, RoleView, Stage, View};

use crate::clock;
use crate::metrics::{Ages, Metrics};

/// Measures of one replica.
pub(super) struct Measures {
    metrics: Arc<Metrics>,
    role: Arc<RoleCell>,
    ages: Ages,
    /// When the preparation of requests, and within it that of a session's end, began; monotonic ms.
    preparation_since_ms: u64,
    close_session_since_ms: u64,
}

impl Measures {
    pub(super) fn new(metrics: Arc<Metrics>, role: Arc<RoleCell>) -> Self {
        Self {
            metrics,
            role,
            ages: Ages::default(),
            preparation_since_ms: 0,
            close_session_since_ms: 0,
        }
    }

    /// A turn begins. The clock is read once for all ages that are measured in it.
    pub(super) fn begin_turn(&mut self, now: Now) {
        self.ages.begin(now.wall_ms);
    }

    pub(super) fn note(&mut self, note: Note<'_>) {
        let metrics = &self.metrics;
        match note {
            Note::Begins(stage) => self.begins(stage),
            Note::Ends(stage) => self.ends(stage),
            Note::Became(request, txn) => {
                metrics.outstanding_changes_queued.inc();
                metrics.became(request, txn);
            }
            Note::Proposed { bytes } => {
                let bytes = u32::try_from(bytes).unwrap_or(u32::MAX);
                self.role.proposed(bytes);
                metrics.proposal_count.inc();
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
                }
                if let Some(stamp_ms) = stamp_ms {
                    self.ages.committed(stamp_ms);
                }
            }
            Note::SentByLeader(packet) => metrics.sent_by_leader(packet),
            Note::ReceivedByLearner(packet) => metrics.received_by_learner(packet),
            Note::SnapshotOrdered => metrics.snap_count.inc(),
            Note::SessionRevalidated => metrics.revalidate_count.inc(),
            Note::LeaderTurnEnds { pending_syncs } => {
                self.role.set_pending_syncs(pending_syncs);
                self.ages.of_leader(metrics);
            }
            // The replica logs it.
            Note::LeaderLeft(_) => {}
            Note::LearnerTurnEnds => self.ages.of_learner(metrics),
            Note::LeadingBegins => self.role.begin_leading(),
            Note::SupporterLost => metrics.quit_leading_due_to_disloyal_voter.inc(),
            Note::Elected { took_ms } => metrics.election_time.record(took_ms),
            Note::SessionExpires => metrics.stale_sessions_expired.inc(),
        }
    }

    fn begins(&mut self, stage: Stage) {
        let now_ms = clock::monotonic_ms();
        match stage {
            Stage::Preparation(_) => self.preparation_since_ms = now_ms,
            Stage::CloseSession => self.close_session_since_ms = now_ms,
        }
    }

    fn ends(&mut self, stage: Stage) {
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
        }
    }

    /// Shows the role to operators.
    pub(super) fn show(&mut self, view: View) {
        // What waited for the disk in an earlier role is not measured in the next one.
        if matches!(view.role, RoleView::Looking) {
            self.ages = Ages::default();
        }
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
