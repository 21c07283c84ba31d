//! Choice of a new epoch: it is above every epoch that a quorum of voters has accepted, and a
//! quorum then accepts it.
//!
//! If a configuration is proposed and this server has logged the proposal, a quorum of that
//! configuration must accept the epoch, too. The last leader may have committed transactions with
//! that quorum alone, and a learner with more transactions is refused only until the epoch is
//! accepted. In Java, proposals need both quorums until the configuration is activated, so the
//! configuration in force is enough.
//!
//! If this server has not logged the proposal, the quorum in force shows that the proposal and
//! everything after it are not committed.
//!
//! A voter outside that quorum may have accepted a later epoch from a prospective leader that never
//! led. It cannot accept this leader and reconnects indefinitely. When it reconnects, the leader
//! steps down once, and the next epoch is above the accepted one. This interrupts a working
//! ensemble for the duration of an election. Otherwise, the voter would be missing until the leader
//! changes for another reason. If that reason is the loss of a server, the quorum may be lost. For
//! a server without a vote, the leader does not step down.

use std::collections::BTreeSet;

use proto::leader::LeaderPacket;
use proto::learner::{LearnerInfo, LearnerPacket};
use proto::{Epoch, Sid, Zxid};

use super::link::LinkState;
use super::{Action, EpochConfig, Leader, LinkFault, LinkId, Phase, StepDown, unexpected};
use crate::learner::LearnerKind;

/// Maximum epoch. An epoch is the upper half of a signed zxid, and an `int` in ACKEPOCH.
const EPOCH_MAX: Epoch = Epoch(i32::MAX as i64);

/// Maximum difference between a voter's epoch and the leader's for which the leader steps down.
/// Each epoch in between would come from a prospective leader that failed. A greater difference
/// therefore indicates a corrupt file and is ignored.
const EPOCHS_AHEAD_MAX: i64 = 1 << 20;

impl Leader {
    // Model: ReceiveFOLLOWERINFO.
    pub(super) fn handle_introduction(
        &mut self,
        link: LinkId,
        packet: LearnerPacket,
        now_ms: i64,
        out: &mut Vec<Action>,
    ) -> Result<(), LinkFault> {
        let (kind, accepted, info) = match packet {
            LearnerPacket::FollowerInfo {
                accepted_epoch,
                info,
            } => (LearnerKind::Follower, accepted_epoch, info),
            LearnerPacket::ObserverInfo {
                accepted_epoch,
                info,
            } => (LearnerKind::Observer, accepted_epoch, info),
            other => return Err(unexpected(&other)),
        };
        let reports_digests =
            info.is_some_and(|info| info.protocol_version() == LearnerInfo::REPORTS_DIGESTS);
        let sid = identify(info, self.sid, self.config_version)?;
        if accepted < Epoch(0) || accepted >= EPOCH_MAX {
            return Err(LinkFault::EpochImplausible { accepted });
        }
        self.replace_older_link(link, sid, out);
        let is_open = matches!(self.phase, Phase::Discovering { .. } | Phase::Promising);
        if let Some(from) = self.links.get_mut(&link) {
            from.sid = Some(sid);
            from.kind = kind;
            from.reports_digests = reports_digests;
            from.state = LinkState::AwaitingEpoch;
        }
        if kind == LearnerKind::Follower && self.is_voter_ahead(sid, accepted) {
            self.step_down(StepDown::VoterAhead { sid, accepted }, out);
        } else if is_open {
            self.handle_accepted_epoch(sid, accepted, now_ms, out);
        } else {
            self.propose_epoch(link, now_ms, out);
        }
        Ok(())
    }

    /// Returns whether the epoch is fixed and this voter, which cannot accept it, connects for the
    /// second time. A single connection does not justify an interruption, because a voter that
    /// needs the step-down connects again.
    fn is_voter_ahead(&mut self, sid: Sid, accepted: Epoch) -> bool {
        let Some(epoch) = self.epoch() else {
            return false;
        };
        let ahead = accepted.0 - epoch.0;
        // A retiring leader ends its epoch anyway.
        let is_ahead = (1..=EPOCHS_AHEAD_MAX).contains(&ahead) && !self.is_retiring;
        if !is_ahead || !self.quorum.is_voter(sid) {
            self.voters_ahead.remove(&sid);
            return false;
        }
        let before = self.voters_ahead.insert(sid, accepted);
        before.is_some_and(|before| before <= accepted)
    }

    /// Drops older connections of a server that has connected again. A restarted server often
    /// reconnects before its old connection is known to be dead. If both connections remained,
    /// acknowledgements over the old connection could count for records that the restarted server
    /// lacks.
    fn replace_older_link(&mut self, link: LinkId, sid: Sid, out: &mut Vec<Action>) {
        let same = |(id, other): (&LinkId, &super::LearnerLink)| {
            (*id != link && other.sid == Some(sid)).then_some(*id)
        };
        let older: Vec<LinkId> = self.links.iter().filter_map(same).collect();
        for older in older {
            self.close(older, LinkFault::Replaced { sid }, out);
        }
    }

    /// Handles the accepted epoch of a learner. Any learner can raise the epoch while it is not
    /// fixed, but only voters can fix it.
    pub(super) fn handle_accepted_epoch(
        &mut self,
        sid: Sid,
        accepted: Epoch,
        now_ms: i64,
        out: &mut Vec<Action>,
    ) {
        let Phase::Discovering { heard } = &mut self.phase else {
            return;
        };
        self.epoch = self.epoch.max(Epoch(accepted.0.saturating_add(1)));
        heard.insert(sid);
        self.check_epoch(now_ms, out);
    }

    pub(super) fn check_epoch(&mut self, now_ms: i64, out: &mut Vec<Action>) {
        let Phase::Discovering { heard } = &self.phase else {
            return;
        };
        if heard.contains(&self.sid) && self.is_quorum(&|sid| heard.contains(&sid)) {
            tracing::debug!(sid = %self.sid, epoch = %self.epoch, "proposing an epoch");
            self.enter(Phase::Promising, now_ms);
            out.push(Action::SaveAcceptedEpoch(self.epoch));
        }
    }

    /// Handles the completed save of the accepted epoch. The epoch begins with the given
    /// configuration.
    // Model: SendLEADERINFO.
    pub fn handle_accepted_epoch_saved(
        &mut self,
        config: EpochConfig,
        now_ms: i64,
        out: &mut Vec<Action>,
    ) {
        if !matches!(self.phase, Phase::Promising) {
            return;
        }
        self.epoch_config = Some(config);
        let acked = BTreeSet::from([self.sid]);
        self.enter(Phase::CollectingEpochAcks { acked }, now_ms);
        for link in self.links_in(LinkState::AwaitingEpoch) {
            self.propose_epoch(link, now_ms, out);
        }
        self.check_epoch_acks(now_ms, out);
    }

    fn propose_epoch(&mut self, to: LinkId, now_ms: i64, out: &mut Vec<Action>) {
        self.await_learner(to, LinkState::AwaitingAckEpoch, now_ms);
        let packet = LeaderPacket::LeaderInfo {
            epoch: self.epoch,
            protocol_version: LearnerInfo::REPORTS_DIGESTS,
        };
        out.push(Action::Send { to, packet });
    }

    // Model: ReceiveACKEPOCH.
    pub(super) fn handle_ack_epoch(
        &mut self,
        link: LinkId,
        packet: LearnerPacket,
        now_ms: i64,
        out: &mut Vec<Action>,
    ) -> Result<(), LinkFault> {
        let LearnerPacket::AckEpoch {
            last_logged,
            current_epoch,
        } = packet
        else {
            return Err(unexpected(&packet));
        };
        let sid = self.links.get(&link).and_then(|link| link.sid);
        if !matches!(self.phase, Phase::CollectingEpochAcks { .. }) {
            self.synchronise(link, last_logged, now_ms, out);
            return Ok(());
        }
        if let (Some(current_epoch), Some(sid)) = (current_epoch, sid) {
            let is_ahead = (current_epoch, last_logged) > (self.current_epoch, self.last);
            if is_ahead && !self.has_all_committed_in(current_epoch) {
                return Err(LinkFault::HistoryAhead {
                    current_epoch,
                    last_logged,
                });
            }
            if let Phase::CollectingEpochAcks { acked } = &mut self.phase
                && last_logged != Zxid(-1)
            {
                acked.insert(sid);
            }
        }
        self.set_state(link, LinkState::AwaitingEpochAcks { last_logged });
        self.check_epoch_acks(now_ms, out);
        Ok(())
    }

    /// Returns whether this server's log contains everything committed in `epoch`, although a
    /// learner has logged more of that epoch. This server may then lead the learner, and the
    /// learner's log is cut.
    ///
    /// Without this rule, the following case would block every election. A reconfiguration removes
    /// a voter, that voter alone has logged later proposals, and the configuration in force needs
    /// its vote.
    ///
    /// This server and the learner had the same last leader, and this server's log contains the
    /// proposed configuration. The learner's additional records therefore follow that
    /// configuration, so their commit needed a quorum of that configuration. A server that has
    /// acknowledged the new epoch, with a log that is not longer than this server's log, lacks
    /// these records and no longer accepts them.
    fn has_all_committed_in(&self, epoch: Epoch) -> bool {
        let (Some(next), Phase::CollectingEpochAcks { acked }) = (&self.next, &self.phase) else {
            return false;
        };
        let may_have_more = |sid| next.quorum.is_voter(sid) && !acked.contains(&sid);
        epoch == self.current_epoch
            && self.has_logged_config()
            && !next.quorum.is_quorum(&may_have_more)
    }

    /// Returns whether this server's log reaches the configuration with which the epoch begins.
    fn has_logged_config(&self) -> bool {
        let config = self.epoch_config.as_ref();
        config.is_some_and(|config| config.version <= self.last.0)
    }

    pub(super) fn check_epoch_acks(&mut self, now_ms: i64, out: &mut Vec<Action>) {
        let Phase::CollectingEpochAcks { acked } = &self.phase else {
            return;
        };
        let has_accepted = |sid: Sid| acked.contains(&sid);
        let is_accepted = if self.has_logged_config() {
            self.is_quorum(&has_accepted)
        } else {
            self.decides(&*self.quorum, &has_accepted)
        };
        if !is_accepted {
            return;
        }
        let acked = BTreeSet::new();
        self.enter(Phase::Synchronising { acked }, now_ms);
        out.push(Action::SaveCurrentEpoch(self.epoch));
        let waiting = self.links.iter().filter_map(|(id, link)| match link.state {
            LinkState::AwaitingEpochAcks { last_logged } => Some((*id, last_logged)),
            _ => None,
        });
        for (link, last_logged) in waiting.collect::<Vec<_>>() {
            self.synchronise(link, last_logged, now_ms, out);
        }
    }
}

/// Returns the learner's sid if server `own` may lead the learner. `config_version` is the version
/// of the leader's configuration.
pub(crate) fn identify(
    info: Option<LearnerInfo>,
    own: Sid,
    config_version: i64,
) -> Result<Sid, LinkFault> {
    let Some(info) = info else {
        // Only versions up to 3.3 send an introduction without this data.
        return Err(LinkFault::ProtocolVersion { version: 1 });
    };
    let version = info.protocol_version();
    if version < LearnerInfo::PROTOCOL_VERSION {
        return Err(LinkFault::ProtocolVersion { version });
    }
    if info.sid == own {
        return Err(LinkFault::OwnSid { sid: info.sid });
    }
    let (theirs, ours) = (info.config_version.unwrap_or(0), config_version);
    if theirs > ours {
        return Err(LinkFault::ConfigAhead { theirs, ours });
    }
    Ok(info.sid)
}
