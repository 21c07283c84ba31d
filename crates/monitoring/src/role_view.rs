//! What this server is in its ensemble, for those who ask: four-letter words, `mntr`, admin server.
//!
//! Whoever drives the role writes it, the implementation of [`crate::view::View`] reads it, and
//! nothing is decided by it. What changes with the role or with a learner stands in a [`RoleView`]; what changes with
//! every proposal stands beside it and costs no lock.
//!
//! Source: QuorumPeer, Leader, QuorumZooKeeperServer, ObserverZooKeeperServer.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use config::Ensemble;
use config::members::{MemberAddress, MemberRole};
use config::membership::Membership;
use parking_lot::{Mutex, RwLock};
use proto::Sid;

use crate::metrics::{BufferStats, Leading, Member, Metrics, Mode, Summary, SyncMode, ZabState};
use crate::view::MemberConfiguration;

/// The role, and how far it has come.
#[derive(Debug, Clone)]
pub struct RoleView {
    /// What the server does.
    pub role: RoleNow,
    /// Clients are served: a leader in broadcast (unless `leaderServes=no`), a learner that is up
    /// to date, a standalone or read-only server. Words that need a server are refused before.
    pub is_serving: bool,
    /// The phase of the protocol; `Election` outside of an ensemble.
    pub zab: ZabState,
    /// How the learner was brought up to date; `None` until its leader has said, and at a leader.
    pub sync: Option<SyncMode>,
    /// Whom this server follows or observes, or itself if it leads.
    pub leader: Option<Sid>,
    /// The member list in force; `None` outside of an ensemble.
    pub members: Option<Arc<Membership>>,
}

/// What a server does, with the figures that only this role has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RoleNow {
    /// There is no ensemble.
    Standalone,
    /// No leader is known.
    Looking,
    /// No leader is known, and clients that can do with reads are served.
    ReadOnly,
    /// A voter, or a participant that does not vote yet.
    Following {
        /// Observers served; `None` unless this server has an `observerMasterPort`.
        synced_observers: Option<u64>,
    },
    /// Learns without a vote.
    Observing {
        /// The server it is connected to: the leader, or a follower that serves observers.
        master: Sid,
    },
    /// Proposes.
    Leading {
        /// When its epoch began to take writes, on the monotonic clock, ms.
        since_ms: u64,
        /// Who is connected.
        learners: Learners,
    },
}

impl RoleNow {
    fn is_looking(self) -> bool {
        matches!(self, Self::Looking | Self::ReadOnly)
    }
}

/// The learners of a leader.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Learners {
    /// All connections of learners, synchronised or not.
    pub connected: u64,
    /// Participants that get proposals, with and without a vote.
    pub synced_followers: u64,
    /// Those of them that have no vote.
    pub synced_non_voting_followers: u64,
    /// Observers that get commits.
    pub synced_observers: u64,
}

/// The [`RoleView`] of now, and what a leader counts.
#[derive(Debug)]
pub struct RoleCell {
    view: RwLock<Arc<RoleView>>,
    proposal_sizes: BufferStats,
    pending_syncs: AtomicU64,
    metrics: Arc<Metrics>,
    times: Mutex<Times>,
}

/// When something began that is measured, monotonic ms; `None` while it is not under way.
#[derive(Debug, Default)]
struct Times {
    /// Nobody is served.
    unavailable: Option<u64>,
    /// A leader was found, and brings this server up to date.
    learning: Option<u64>,
}

/// Proposals are counted by one thread.
const PROPOSING_THREADS: usize = 1;

impl RoleCell {
    /// Of a server that starts at `now_ms` of the monotonic clock: serving if it stands alone,
    /// looking if it is a member.
    pub fn new(ensemble: Option<&Ensemble>, metrics: Arc<Metrics>, now_ms: u64) -> Self {
        let mut times = Times::default();
        if ensemble.is_some() {
            metrics.looking_count.inc();
            times.unavailable = Some(now_ms);
        }
        let view = RoleView {
            role: match ensemble {
                Some(_) => RoleNow::Looking,
                None => RoleNow::Standalone,
            },
            is_serving: ensemble.is_none(),
            zab: ZabState::Election,
            sync: None,
            leader: None,
            members: ensemble.map(|ensemble| Arc::new(ensemble.membership.clone())),
        };
        Self {
            view: RwLock::new(Arc::new(view)),
            proposal_sizes: BufferStats::new(PROPOSING_THREADS),
            pending_syncs: AtomicU64::new(0),
            metrics,
            times: Mutex::new(times),
        }
    }

    /// The role as it is.
    pub fn get(&self) -> Arc<RoleView> {
        self.view.read().clone()
    }

    /// Changes the role or something about it, at `now_ms` of the monotonic clock. For changes of
    /// role and of learners, not of every proposal: readers get a copy.
    pub fn update(&self, now_ms: u64, change: impl FnOnce(&mut RoleView)) {
        let mut current = self.view.write();
        let view = Arc::make_mut(&mut current);
        let (was_looking, was_live) = (view.role.is_looking(), view.zab == ZabState::Broadcast);
        change(view);
        let (role, is_live) = (view.role, view.zab == ZabState::Broadcast);
        drop(current);
        self.measure(role, was_looking, (was_live, is_live), now_ms);
    }

    /// Source: QuorumPeer.run, setZabState, Follower.followLeader, Observer.observeLeader.
    fn measure(&self, role: RoleNow, was_looking: bool, live: (bool, bool), now_ms: u64) {
        let metrics = &self.metrics;
        let mut times = self.times.lock();
        if role.is_looking() && !was_looking {
            metrics.looking_count.inc();
            times.unavailable.get_or_insert(now_ms);
        }
        let is_learner = matches!(role, RoleNow::Following { .. } | RoleNow::Observing { .. });
        match live {
            (_, false) if is_learner => {
                times.learning.get_or_insert(now_ms);
            }
            (_, false) => times.learning = None,
            (false, true) => {
                let since_ms = |began: Option<u64>| began.map(|began| now_ms.saturating_sub(began));
                let unavailable_ms = since_ms(times.unavailable.take());
                let sync_ms = since_ms(times.learning.take());
                let record = |metric: &Summary, ms: Option<u64>| {
                    if let Some(ms) = ms {
                        metric.record(ms);
                    }
                };
                record(&metrics.unavailable_time, unavailable_ms);
                match role {
                    RoleNow::Leading { .. } => {
                        record(&metrics.leader_unavailable_time, unavailable_ms);
                    }
                    RoleNow::Following { .. } => record(&metrics.follower_sync_time, sync_ms),
                    RoleNow::Observing { .. } => record(&metrics.observer_sync_time, sync_ms),
                    RoleNow::Standalone | RoleNow::Looking | RoleNow::ReadOnly => {}
                }
            }
            (true, true) => {}
        }
    }

    /// A new leader begins: it has proposed nothing.
    pub fn begin_leading(&self) {
        self.reset_proposal_sizes();
        self.pending_syncs.store(0, Ordering::Relaxed);
    }

    /// The leader proposes a record of so many bytes: header, transaction and digest.
    pub fn proposed(&self, bytes: u32) {
        self.proposal_sizes.record(bytes);
    }

    /// `sync` requests wait at the leader for the commits of so many transactions.
    pub fn set_pending_syncs(&self, waiting: usize) {
        self.pending_syncs.store(waiting as u64, Ordering::Relaxed);
    }

    /// What `srst` does at a leader.
    pub fn reset_proposal_sizes(&self) {
        self.proposal_sizes.reset();
    }

    /// The role in the words of the metrics; `None` while clients are not served.
    pub fn mode(&self, now_ms: u64) -> Option<Mode> {
        let view = self.get();
        if !view.is_serving {
            return None;
        }
        let member = view.member();
        match view.role {
            RoleNow::Looking => None,
            RoleNow::Standalone => Some(Mode::Standalone),
            RoleNow::ReadOnly => Some(Mode::ReadOnly),
            RoleNow::Following { synced_observers } => Some(Mode::Follower {
                member,
                synced_observers,
            }),
            RoleNow::Observing { master } => Some(Mode::Observer { member, master }),
            RoleNow::Leading { since_ms, learners } => Some(Mode::Leader {
                member,
                leading: Leading {
                    learners: learners.connected,
                    synced_followers: learners.synced_followers,
                    synced_non_voting_followers: learners.synced_non_voting_followers,
                    synced_observers: learners.synced_observers,
                    pending_syncs: self.pending_syncs.load(Ordering::Relaxed),
                    uptime_ms: now_ms.saturating_sub(since_ms),
                    proposal_sizes: self.proposal_sizes.get(),
                },
            }),
        }
    }
}

impl RoleView {
    fn member(&self) -> Member {
        let voters = self
            .members
            .as_ref()
            .map(|list| list.participants().count());
        Member {
            quorum_size: voters.unwrap_or_default() as u64,
            zab: self.zab,
            sync: self.sync,
        }
    }

    /// Whether this server expires sessions. A learner, and a read-only server as well, knows them
    /// only. Source: LearnerSessionTracker.
    pub fn expires_sessions(&self) -> bool {
        matches!(self.role, RoleNow::Standalone | RoleNow::Leading { .. })
    }

    /// What `conf` shows of a member.
    pub fn configuration(&self, ensemble: &Ensemble) -> MemberConfiguration {
        let members = self.members.as_deref().unwrap_or(&ensemble.membership);
        // A member that was removed runs on at the addresses it had.
        let mine = members.members.get(&ensemble.my_id);
        let mine = mine.or_else(|| ensemble.membership.members.get(&ensemble.my_id));
        let ports = |port: fn(&MemberAddress) -> u16| {
            let addresses = mine.iter().flat_map(|member| &member.addresses);
            let mut ports: Vec<u16> = addresses.map(port).collect();
            ports.sort_unstable();
            ports.dedup();
            ports
        };
        let ticks = |ticks: u32| i32::try_from(ticks).unwrap_or(i32::MAX);
        let role = mine.map_or(ensemble.role, |member| member.role);
        MemberConfiguration {
            init_limit: ticks(ensemble.init_limit_ticks),
            sync_limit: ticks(ensemble.sync_limit_ticks),
            election_alg: ELECTION_ALG,
            election_ports: ports(|address| address.election_port),
            quorum_ports: ports(|address| address.quorum_port),
            observer: role == MemberRole::Observer,
            membership: members.node_data(),
        }
    }
}

/// The only election algorithm that is left.
const ELECTION_ALG: i32 = 3;

#[cfg(test)]
#[path = "role_view_tests.rs"]
mod tests;
