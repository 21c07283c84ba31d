//! A leader, from its election to the end of its role.
//!
//! ```text
//!  Discovering ------> Promising -------> CollectingEpochAcks ------> Synchronising -----> Broadcasting
//!    quorum of voters    accepted epoch      quorum of voters has       quorum of voters
//!    has introduced      saved *LEADERINFO   accepted; current epoch    has acknowledged
//!    itself                                  being saved *DIFF..NEWLEADER  *UPTODATE
//! ```
//!
//! What stands behind a `*` is sent to every learner that waits for it; who comes later passes
//! through the same steps without waiting. `link::LinkState` is where each learner is.
//!
//! The leader is one voter like the others: it counts itself once its own disk has the epoch, and
//! for a proposal once its own log has the record. A learner's acknowledgements are forgotten with its
//! connection, because the next synchronisation may cut its log. Zxids are checked to follow each
//! other, so a transaction without a number of its own, which stops a whole Apache ensemble,
//! cannot be proposed.
//!
//! Differs from Apache ZooKeeper 3.9.5: a second connection of a server replaces the first; an
//! acknowledgement of what was never proposed ends the connection; servers older than 3.4 are refused;
//! an accepted epoch from which no next one can be made is refused.
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
use link::{Link, LinkState};
pub use live::ProposeError;
pub use oracle::OracleQuestion;

use crate::broadcast::Proposals;
use crate::learner::LearnerKind;
use crate::packets::ShowLearner;
use crate::sync::History;
use crate::{CommittedLog, Record, Settings};

/// What a server is when it is elected.
#[derive(Debug)]
pub struct LeaderStart {
    /// Its `myid`.
    pub sid: Sid,
    /// The `acceptedEpoch` file.
    pub accepted_epoch: Epoch,
    /// Zero, or what [`StepDown::VoterAhead`] has told in an earlier role: the new epoch is above it.
    pub accepted_floor: Epoch,
    /// The `currentEpoch` file.
    pub current_epoch: Epoch,
    /// The last transaction of its log, which becomes history for everybody. It is on disk, as
    /// with [`crate::learner::LearnerStart::last_logged`].
    pub last_zxid: Zxid,
    /// Its newest transactions, up to that one.
    pub committed: CommittedLog,
    /// From here on the log files hold every transaction. Behind a snapshot that synchronisation
    /// has brought they may not, and where a later epoch begins no zxid would show it: learners
    /// caught up from such files would miss what is in the hole (ZOOKEEPER-2846). The zxid of the
    /// newest snapshot is always right.
    pub log_whole_from: Zxid,
    /// The configuration in force.
    pub quorum: Arc<dyn QuorumVerifier>,
    /// Its version.
    pub config_version: i64,
    /// A newer configuration that was proposed and is not known to be committed. It has to agree to
    /// everything, and comes into force with the epoch.
    pub next: Option<NextConfig>,
}

/// A configuration on its way.
#[derive(Debug, Clone)]
pub struct NextConfig {
    /// Who decides in it.
    pub quorum: Arc<dyn QuorumVerifier>,
    /// Its text, for NEWLEADER.
    pub text: Bytes,
    /// Whether the leader is a voter in it too, at the same address.
    pub leader_stays: bool,
}

/// The configuration that an epoch begins with: the last one seen, which has been given the epoch
/// with counter 0 as version if it had none.
#[derive(Debug, Clone)]
pub struct EpochConfig {
    /// Its text, for NEWLEADER.
    pub text: Bytes,
    /// Its version.
    pub version: i64,
}

/// A learner as an operator sees it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ConnectedLearner {
    /// Who it is; `None` until it has said so.
    pub sid: Option<Sid>,
    /// What it is.
    pub kind: LearnerKind,
    /// Whether it is up to date.
    pub is_synced: bool,
}

/// A leader and its learners.
///
/// Carry out actions in their order. Every record that is appended belongs to this value. After
/// [`Action::StepDown`] nothing does anything.
#[derive(Debug)]
pub struct Leader {
    sid: Sid,
    settings: Settings,
    current_epoch: Epoch,
    /// The epoch to lead; raised while it is open.
    epoch: Epoch,
    quorum: Arc<dyn QuorumVerifier>,
    next: Option<NextConfig>,
    config_version: i64,
    epoch_config: Option<EpochConfig>,
    phase: Phase,
    phase_since_ms: i64,
    links: BTreeMap<LinkId, Link>,
    history: CommittedLog,
    last: Zxid,
    proposals: Proposals,
    outstanding: VecDeque<Record>,
    /// The reconfiguration among them.
    reconfig: Option<Zxid>,
    /// Another server is to lead: nothing is committed any more.
    is_retiring: bool,
    syncs: VecDeque<(Zxid, LinkId)>,
    /// Voters that were told the epoch and cannot accept it, with what they have accepted.
    voters_ahead: BTreeMap<Sid, Epoch>,
    log_whole_from: Zxid,
    is_log_unusable: bool,
    oracle_grants: bool,
    /// Whether that is its answer of this moment: it is acted on now, and not later.
    is_oracle_fresh: bool,
    pings: u64,
    /// Whether there was no transaction at all when the role began.
    began_empty: bool,
    /// The comparison of digests that is under way.
    digests: Option<digests::Comparison>,
    /// There is no ensemble: no learner comes, and zxids go on from those of the log.
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
    /// A server that was just elected. Without other voters it has its epoch at once.
    pub fn new(start: LeaderStart, settings: Settings, now_ms: i64, out: &mut Vec<Action>) -> Self {
        let quorum = start.quorum;
        let mut history = start.committed;
        // A list that ends before the history does would have learners cut what is committed
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
        leader.hear_epoch(leader.sid, accepted, now_ms, out);
        leader
    }

    /// A server that stands alone, the leader of one: it leads from now on, without an epoch of its
    /// own, and its zxids follow `last_zxid`. Its own log is the only acknowledgement that it waits
    /// for. Source: ZooKeeperServer (its zxids are counted up over the counter's end).
    pub fn standalone(sid: Sid, last_zxid: Zxid) -> Self {
        let quorum: Arc<dyn QuorumVerifier> = Arc::new(Majority::new([sid]));
        Self {
            sid,
            // No time is waited for.
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
            // Nobody is brought up to date from it.
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

    /// A learner has connected.
    pub fn handle_connected(&mut self, link: LinkId, now_ms: i64) {
        if !matches!(self.phase, Phase::Down) {
            self.links.insert(link, Link::new(now_ms));
        }
    }

    /// A connection is gone.
    pub fn handle_closed(&mut self, link: LinkId) {
        self.remove(link);
    }

    /// A learner has sent this. What comes over a connection that was dropped is ignored.
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
        from.heard_ms = now_ms;
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

    /// The host ends the role.
    pub fn handle_told_to_leave(&mut self, out: &mut Vec<Action>) {
        self.step_down(StepDown::Told, out);
    }

    /// A quorum of voters holds other data than this server: leading is over.
    pub fn handle_data_differs(&mut self, out: &mut Vec<Action>) {
        self.step_down(StepDown::DataDiffers, out);
    }

    /// Whether the epoch is established and this server may still decide in it.
    pub fn is_leading(&self) -> bool {
        matches!(self.phase, Phase::Broadcasting) && !self.is_retiring
    }

    /// Whether a reconfiguration is proposed and not committed yet.
    pub fn is_reconfiguring(&self) -> bool {
        self.reconfig.is_some()
    }

    /// Who is connected.
    pub fn learners(&self) -> impl Iterator<Item = ConnectedLearner> {
        self.links.values().map(|link| ConnectedLearner {
            sid: link.sid,
            kind: link.kind,
            is_synced: link.state == LinkState::Broadcasting,
        })
    }

    /// Participants that are up to date, this server left out: those whose logs a new
    /// configuration can count on (Leader.getForwardingFollowers).
    pub fn synced_followers(&self) -> BTreeSet<Sid> {
        let synced = self.links.values().filter(|link| {
            link.state == LinkState::Broadcasting && link.kind == LearnerKind::Follower
        });
        synced.filter_map(|link| link.sid).collect()
    }

    /// The epoch, once it is fixed.
    pub fn epoch(&self) -> Option<Epoch> {
        let is_open = matches!(self.phase, Phase::Discovering { .. });
        (!is_open).then_some(self.epoch)
    }

    /// The newest committed transactions, for the role that comes next.
    pub fn into_committed(self) -> CommittedLog {
        self.history
    }

    fn history(&self) -> History<'_> {
        History {
            last: self.last,
            log: &self.history,
        }
    }

    /// Whether the servers for which `has` is true decide in every configuration that has a say.
    fn is_quorum(&self, has: &dyn Fn(Sid) -> bool) -> bool {
        let next = self.next.as_ref().map(|next| &next.quorum);
        self.decides(&*self.quorum, has) && next.is_none_or(|next| self.decides(&**next, has))
    }

    fn close(&mut self, link: LinkId, fault: LinkFault, out: &mut Vec<Action>) {
        let sid = self.links.get(&link).and_then(|link| link.sid);
        let sid = sid.map(|sid| sid.0);
        // The host knows the address, and says it louder.
        tracing::debug!(sid, link = link.0, err = %fault, "drops a learner");
        self.remove(link);
        out.push(Action::Close { link, fault });
    }

    fn remove(&mut self, link: LinkId) {
        if let Some(Link { sid: Some(sid), .. }) = self.links.remove(&link) {
            self.proposals.forget(sid);
        }
        self.syncs.retain(|(_, to)| *to != link);
        if let Some(comparison) = &mut self.digests {
            comparison.forget(link);
        }
    }

    fn step_down(&mut self, reason: StepDown, out: &mut Vec<Action>) {
        if !matches!(self.phase, Phase::Down) {
            tracing::info!(sid = %self.sid, epoch = %self.epoch, %reason, "steps down");
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

    /// The learner is to answer from now on, so its silence is counted from now.
    fn await_learner(&mut self, link: LinkId, state: LinkState, now_ms: i64) {
        if let Some(link) = self.links.get_mut(&link) {
            link.state = state;
            link.heard_ms = now_ms;
        }
    }

    fn set_state(&mut self, link: LinkId, state: LinkState) {
        if let Some(link) = self.links.get_mut(&link) {
            link.state = state;
        }
    }
}

/// A packet in the wrong place.
pub(crate) fn unexpected(packet: &LearnerPacket) -> LinkFault {
    let packet = ShowLearner(packet).to_string();
    LinkFault::Unexpected { packet }
}
