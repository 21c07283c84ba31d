//! Role of a leader, from its election to its end.
//!
//! ```text
//!  Discovering ------> Promising -------> CollectingEpochAcks ------> Synchronising -----> Broadcasting
//!    quorum of voters    accepted epoch      quorum of voters has       quorum of voters
//!    has introduced      saved *LEADERINFO   accepted; current epoch    has acknowledged
//!    itself                                  being saved *DIFF..NEWLEADER  *UPTODATE
//! ```
//!
//! A `*` marks packets to the learners: every learner that waits for the step receives them. A
//! learner that connects later passes through the same steps without waiting. `link::LinkState`
//! contains the step of each learner.
//!
//! The leader is a voter like the others. It counts itself for the epoch once its own disk has the
//! epoch, and for a proposal once its own log has the record. It forgets a learner's
//! acknowledgements when the connection closes, because the next synchronisation may cut that
//! learner's log. It checks that zxids are consecutive. A transaction without its own zxid, which
//! stops a whole Apache ensemble, therefore cannot be proposed.
//!
//! Differs from Apache ZooKeeper 3.9.5:
//!
//! - A second connection of a server replaces the first.
//! - An acknowledgement of a zxid that was never proposed ends the connection.
//! - Servers older than 3.4 are refused.
//! - An accepted epoch without a valid next epoch is refused.
//!
//! Source: Leader.lead, LearnerHandler.run.

mod action;
mod digests;
mod discovery;
pub(crate) mod link;
mod live;
mod liveness;
mod oracle;
mod synchronise;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use bytes::Bytes;
use proto::learner::LearnerPacket;
use proto::quorum::{Majority, QuorumVerifier};
use proto::{Epoch, Sid, Zxid};

pub use action::{Action, LinkFault, LinkId, StepDown};
pub(crate) use discovery::identify;
use link::{LearnerLink, LinkState};
pub use live::ProposeError;
pub use oracle::OracleQuestion;

use crate::broadcast::Proposals;
use crate::learner::LearnerKind;
use crate::packets::LearnerPacketText;
use crate::sync::LeaderLog;
use crate::{CommittedLog, Record, Settings};

/// State of a server at its election as leader.
#[derive(Debug)]
pub struct LeaderStart {
    /// Sid of the server (`myid`).
    pub sid: Sid,
    /// Content of the `acceptedEpoch` file.
    pub accepted_epoch: Epoch,
    /// Accepted epoch from [`StepDown::VoterAhead`] in an earlier role, or zero. The new epoch is
    /// above it.
    pub accepted_floor: Epoch,
    /// Content of the `currentEpoch` file.
    pub current_epoch: Epoch,
    /// Last transaction in the server's log, up to which every learner will be synchronised. It is
    /// on disk, like [`crate::learner::LearnerStart::last_logged`].
    pub last_zxid: Zxid,
    /// Newest transactions, up to `last_zxid`.
    pub committed: CommittedLog,
    /// Zxid from which on the log files contain every transaction. After a snapshot received in a
    /// synchronisation, the log may have a gap. If a later epoch begins after the gap, zxids do not
    /// reveal the gap, and learners synchronised from such files would miss transactions
    /// (ZOOKEEPER-2846). The zxid of the newest snapshot is always a correct value.
    pub log_whole_from: Zxid,
    /// Configuration in force.
    pub quorum: Arc<dyn QuorumVerifier>,
    /// Version of the configuration in force.
    pub config_version: i64,
    /// Newer configuration that was proposed and is not known to be committed. A quorum of it must
    /// also accept the epoch and acknowledge NEWLEADER. It comes into force with the epoch.
    pub next: Option<NextConfig>,
}

/// A configuration that is proposed and not in force yet.
#[derive(Debug, Clone)]
pub struct NextConfig {
    /// Quorum verifier of the configuration.
    pub quorum: Arc<dyn QuorumVerifier>,
    /// Text of the configuration, for NEWLEADER.
    pub text: Bytes,
    /// Whether the leader is also a voter in this configuration, with an unchanged address.
    pub leader_stays: bool,
}

/// Configuration with which an epoch begins. It is the last configuration that the leader has seen.
/// If it did not have a version, its version is the epoch with counter 0.
#[derive(Debug, Clone)]
pub struct EpochConfig {
    /// Text of the configuration, for NEWLEADER.
    pub text: Bytes,
    /// Version of the configuration.
    pub version: i64,
}

/// A learner as shown to operators.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ConnectedLearner {
    /// Sid of the learner; `None` before its introduction.
    pub sid: Option<Sid>,
    /// Whether the learner is a follower or an observer.
    pub kind: LearnerKind,
    /// Whether the learner is up to date.
    pub is_synced: bool,
}

/// State machine of a leader and its learners.
///
/// Execute its actions in order. Every record that the host appends must come from this instance.
/// After [`Action::StepDown`], all calls are ignored.
#[derive(Debug)]
pub struct Leader {
    sid: Sid,
    settings: Settings,
    current_epoch: Epoch,
    /// Epoch to lead. It may increase until it is fixed.
    epoch: Epoch,
    quorum: Arc<dyn QuorumVerifier>,
    next: Option<NextConfig>,
    config_version: i64,
    epoch_config: Option<EpochConfig>,
    phase: Phase,
    phase_since_ms: i64,
    links: BTreeMap<LinkId, LearnerLink>,
    history: CommittedLog,
    last: Zxid,
    proposals: Proposals,
    outstanding: VecDeque<Record>,
    /// Reconfiguration among the outstanding records.
    reconfig: Option<Zxid>,
    /// Whether another server is designated to lead. This server then commits nothing more.
    is_retiring: bool,
    syncs: VecDeque<(Zxid, LinkId)>,
    /// Voters that received the epoch and cannot accept it, each with the epoch that it has
    /// accepted.
    voters_ahead: BTreeMap<Sid, Epoch>,
    log_whole_from: Zxid,
    is_log_unusable: bool,
    oracle_grants: bool,
    /// Whether the oracle's answer arrived with the current input. Only a fresh answer permits a
    /// decision.
    is_oracle_fresh: bool,
    pings: u64,
    /// Whether the log was empty when the role began.
    began_empty: bool,
    /// Comparison of digests in progress.
    digests: Option<digests::Comparison>,
    /// Whether the server is standalone: without learners, and with zxids that continue the log.
    is_standalone: bool,
}

#[derive(Debug)]
enum Phase {
    Discovering { heard: BTreeSet<Sid> },
    Promising,
    CollectingEpochAcks { acked: BTreeSet<Sid> },
    Synchronising { acked: BTreeSet<Sid> },
    Broadcasting,
    Down,
}

impl Leader {
    /// Creates the leader after its election. If it is the only voter, its epoch is fixed
    /// immediately.
    pub fn new(start: LeaderStart, settings: Settings, now_ms: i64, out: &mut Vec<Action>) -> Self {
        let quorum = start.quorum;
        let mut history = start.committed;
        // With a list that ends before the log does, learners would cut committed transactions
        // (ZOOKEEPER-3526).
        if history.max() != Some(start.last_zxid) {
            history.clear();
        }
        let mut leader = Self {
            sid: start.sid,
            settings,
            current_epoch: start.current_epoch,
            epoch: start.accepted_epoch,
            proposals: Proposals::shared(quorum.clone(), start.sid, start.last_zxid),
            quorum,
            next: start.next,
            config_version: start.config_version,
            epoch_config: None,
            phase: Phase::Discovering {
                heard: BTreeSet::new(),
            },
            phase_since_ms: now_ms,
            links: BTreeMap::new(),
            history,
            last: start.last_zxid,
            outstanding: VecDeque::new(),
            reconfig: None,
            is_retiring: false,
            syncs: VecDeque::new(),
            voters_ahead: BTreeMap::new(),
            log_whole_from: start.log_whole_from,
            is_log_unusable: false,
            oracle_grants: false,
            is_oracle_fresh: false,
            pings: 0,
            began_empty: start.last_zxid == Zxid::ZERO,
            digests: None,
            is_standalone: false,
        };
        let accepted = start.accepted_epoch.max(start.accepted_floor);
        leader.handle_accepted_epoch(leader.sid, accepted, now_ms, out);
        leader
    }

    /// Creates the leader of a standalone server. It leads from now on without establishing an
    /// epoch, and its zxids follow `last_zxid`. It waits only for its own log. Source:
    /// ZooKeeperServer (whose zxids continue past the end of the counter).
    pub fn standalone(sid: Sid, last_zxid: Zxid) -> Self {
        let quorum: Arc<dyn QuorumVerifier> = Arc::new(Majority::new([sid]));
        Self {
            sid,
            // Not used, because no deadline applies.
            settings: Settings::new(1, 1, 1),
            current_epoch: last_zxid.epoch(),
            epoch: last_zxid.epoch(),
            proposals: Proposals::shared(quorum.clone(), sid, last_zxid),
            quorum,
            next: None,
            config_version: 0,
            epoch_config: None,
            phase: Phase::Broadcasting,
            phase_since_ms: 0,
            links: BTreeMap::new(),
            // Not used, because no learner is synchronised from it.
            history: CommittedLog::new(1),
            last: last_zxid,
            outstanding: VecDeque::new(),
            reconfig: None,
            is_retiring: false,
            syncs: VecDeque::new(),
            log_whole_from: last_zxid,
            is_log_unusable: false,
            oracle_grants: false,
            is_oracle_fresh: false,
            pings: 0,
            began_empty: false,
            digests: None,
            voters_ahead: Default::default(),
            is_standalone: true,
        }
    }

    /// Handles a learner's new connection.
    pub fn handle_connected(&mut self, link: LinkId, now_ms: i64) {
        if !matches!(self.phase, Phase::Down) {
            self.links.insert(link, LearnerLink::new(now_ms));
        }
    }

    /// Handles the end of a connection.
    pub fn handle_closed(&mut self, link: LinkId) {
        self.remove(link);
    }

    /// Handles a packet from a learner. Packets from a dropped connection are ignored.
    pub fn handle_packet(
        &mut self,
        link: LinkId,
        packet: LearnerPacket,
        now_ms: i64,
        out: &mut Vec<Action>,
    ) {
        let Some(from) = self.links.get_mut(&link) else {
            return;
        };
        from.last_received_ms = now_ms;
        let result = match from.state {
            LinkState::Connected => self.handle_introduction(link, packet, now_ms, out),
            LinkState::AwaitingAckEpoch => self.handle_ack_epoch(link, packet, now_ms, out),
            LinkState::SendingSnapshot | LinkState::Syncing => {
                self.handle_new_leader_ack(link, packet, now_ms, out)
            }
            LinkState::Broadcasting => self.handle_live(link, packet, out),
            LinkState::AwaitingEpoch
            | LinkState::AwaitingEpochAcks { .. }
            | LinkState::ReadingLog { .. }
            | LinkState::AwaitingActivation => Err(unexpected(&packet)),
        };
        if let Err(fault) = result {
            self.close(link, fault, out);
        }
    }

    /// Ends the role at the host's request.
    pub fn handle_leave_request(&mut self, out: &mut Vec<Action>) {
        self.step_down(StepDown::LeaveRequested, out);
    }

    /// Ends the role because a quorum of voters has different data.
    pub fn handle_data_differs(&mut self, out: &mut Vec<Action>) {
        self.step_down(StepDown::DataDiffers, out);
    }

    /// Returns whether the epoch is established and this server may still commit in it.
    pub fn is_leading(&self) -> bool {
        matches!(self.phase, Phase::Broadcasting) && !self.is_retiring
    }

    /// Returns whether a reconfiguration is proposed and not committed yet.
    pub fn is_reconfiguring(&self) -> bool {
        self.reconfig.is_some()
    }

    /// Returns the connected learners.
    pub fn learners(&self) -> impl Iterator<Item = ConnectedLearner> {
        self.links.values().map(|link| ConnectedLearner {
            sid: link.sid,
            kind: link.kind,
            is_synced: link.state == LinkState::Broadcasting,
        })
    }

    /// Returns the up-to-date followers, without this server. A new configuration can rely on their
    /// logs (Leader.getForwardingFollowers).
    pub fn synced_followers(&self) -> BTreeSet<Sid> {
        let synced = self.links.values().filter(|link| {
            link.state == LinkState::Broadcasting && link.kind == LearnerKind::Follower
        });
        synced.filter_map(|link| link.sid).collect()
    }

    /// Returns the epoch if it is fixed.
    pub fn epoch(&self) -> Option<Epoch> {
        let is_open = matches!(self.phase, Phase::Discovering { .. });
        (!is_open).then_some(self.epoch)
    }

    /// Returns the newest committed transactions, for the next role.
    pub fn into_committed(self) -> CommittedLog {
        self.history
    }

    fn history(&self) -> LeaderLog<'_> {
        LeaderLog {
            last: self.last,
            log: &self.history,
        }
    }

    /// Returns whether the servers for which `has` is true form a quorum in every configuration
    /// that must agree.
    fn is_quorum(&self, has: &dyn Fn(Sid) -> bool) -> bool {
        let next = self.next.as_ref().map(|next| &next.quorum);
        self.decides(&*self.quorum, has) && next.is_none_or(|next| self.decides(&**next, has))
    }

    fn close(&mut self, link: LinkId, fault: LinkFault, out: &mut Vec<Action>) {
        let sid = self.links.get(&link).and_then(|link| link.sid);
        let sid = sid.map(|sid| sid.0);
        // The host logs this fault with the address, at a higher level.
        tracing::debug!(sid, link = link.0, err = %fault, "disconnecting a learner");
        self.remove(link);
        out.push(Action::Close { link, fault });
    }

    // Model: DropLearner.
    fn remove(&mut self, link: LinkId) {
        if let Some(LearnerLink { sid: Some(sid), .. }) = self.links.remove(&link) {
            self.proposals.forget(sid);
        }
        self.syncs.retain(|(_, to)| *to != link);
        if let Some(comparison) = &mut self.digests {
            comparison.forget(link);
        }
    }

    fn step_down(&mut self, reason: StepDown, out: &mut Vec<Action>) {
        if !matches!(self.phase, Phase::Down) {
            tracing::debug!(sid = %self.sid, epoch = %self.epoch, %reason, "stepping down");
            self.phase = Phase::Down;
            self.links.clear();
            self.outstanding.clear();
            self.syncs.clear();
            self.digests = None;
            out.push(Action::StepDown(reason));
        }
    }

    fn enter(&mut self, phase: Phase, now_ms: i64) {
        self.phase = phase;
        self.phase_since_ms = now_ms;
    }

    fn links_in(&self, state: LinkState) -> Vec<LinkId> {
        let there = self.links.iter().filter(|(_, link)| link.state == state);
        there.map(|(id, _)| *id).collect()
    }

    /// Sets the state of a learner that must answer next. Its silence is measured from now on.
    fn await_learner(&mut self, link: LinkId, state: LinkState, now_ms: i64) {
        if let Some(link) = self.links.get_mut(&link) {
            link.state = state;
            link.last_received_ms = now_ms;
        }
    }

    fn set_state(&mut self, link: LinkId, state: LinkState) {
        if let Some(link) = self.links.get_mut(&link) {
            link.state = state;
        }
    }
}

/// Returns the fault for a packet that is not valid in the current state.
pub(crate) fn unexpected(packet: &LearnerPacket) -> LinkFault {
    let packet = LearnerPacketText(packet).to_string();
    LinkFault::Unexpected { packet }
}
