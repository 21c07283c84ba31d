//! Broadcast: the leader sends proposals, counts acknowledgements, and commits in order.

use std::sync::Arc;

use bytes::Bytes;
use proto::leader::LeaderPacket;
use proto::learner::LearnerPacket;
use proto::{SessionId, Sid, Zxid};

use super::link::{LearnerLink, LinkState};
use super::synchronise::send_proposal;
use super::{Action, EpochConfig, Leader, LinkFault, LinkId, NextConfig, StepDown};
use crate::Record;
use crate::broadcast::NeverProposed;
use crate::learner::LearnerKind;

/// Reason why a proposal is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ProposeError {
    /// The epoch is not established, or another server is designated to lead.
    #[error("this server is not the leader")]
    NotLeading,
    /// The counter of the epoch is exhausted, and the leader has stepped down. Sessions survive
    /// into the next epoch.
    #[error("the zxids of this epoch are used up")]
    CounterExhausted,
    /// Another reconfiguration is not committed yet.
    #[error("a reconfiguration is in progress")]
    ReconfigInProgress,
}

/// Counter that is never used, because its successor would belong to another epoch.
const COUNTER_END: u32 = u32::MAX;

impl Leader {
    /// Returns the zxid that the next proposal must have.
    pub fn next_zxid(&self) -> Zxid {
        self.last_proposed().next()
    }

    /// Returns the zxid of the newest proposal, or of the epoch's start before the first proposal.
    pub fn last_proposed(&self) -> Zxid {
        self.proposals.last_proposed()
    }

    /// Orders a transaction. It is sent to the log and to the followers at the same time.
    ///
    /// # Errors
    /// If this server does not lead, or if the counter of the epoch is exhausted.
    ///
    /// # Panics
    /// If the zxid is not [`Leader::next_zxid`], because after a wrong zxid no later transaction
    /// could be committed.
    // Model: SendPROPOSAL.
    pub fn propose(
        &mut self,
        record: Record,
        now_ms: i64,
        out: &mut Vec<Action>,
    ) -> Result<(), ProposeError> {
        if !self.is_leading() {
            return Err(ProposeError::NotLeading);
        }
        let expected = self.next_zxid();
        if expected.counter() == COUNTER_END {
            self.step_down(StepDown::CounterExhausted, out);
            return Err(ProposeError::CounterExhausted);
        }
        assert!(
            record.zxid == expected,
            "proposal {} instead of {expected}",
            record.zxid
        );
        self.proposals.propose(record.zxid);
        out.push(Action::Append(record.clone()));
        for (to, link) in &mut self.links {
            if link.is_forwarding() && link.kind == LearnerKind::Follower {
                link.lag.sent(record.zxid, now_ms);
                send_proposal(*to, &record, out);
            }
        }
        self.outstanding.push_back(record);
        Ok(())
    }

    /// Orders a transaction of a standalone server. Does not request actions, because the caller
    /// itself appends the transaction to its log.
    ///
    /// # Errors
    /// If this server does not lead or is not standalone.
    ///
    /// # Panics
    /// If the zxid is not [`Leader::next_zxid`].
    pub fn propose_alone(&mut self, zxid: Zxid) -> Result<(), ProposeError> {
        if !self.is_leading() || !self.is_standalone {
            return Err(ProposeError::NotLeading);
        }
        let expected = self.next_zxid();
        assert!(zxid == expected, "proposal {zxid} instead of {expected}");
        self.proposals.propose(zxid);
        Ok(())
    }

    /// Orders a reconfiguration. It and later proposals need a quorum of the old and of the new
    /// configuration, until the new configuration is in force and decides alone.
    ///
    /// # Errors
    /// If [`Leader::propose`] would fail, or if another reconfiguration is not committed yet.
    ///
    /// # Panics
    /// If [`Leader::propose`] would panic.
    // Model: ProposeReconfig.
    pub fn propose_reconfig(
        &mut self,
        record: Record,
        next: NextConfig,
        now_ms: i64,
        out: &mut Vec<Action>,
    ) -> Result<(), ProposeError> {
        if self.reconfig.is_some() {
            return Err(ProposeError::ReconfigInProgress);
        }
        let zxid = record.zxid;
        self.propose(record, now_ms, out)?;
        self.proposals.join(zxid, Arc::clone(&next.quorum));
        self.reconfig = Some(zxid);
        self.next = Some(next);
        Ok(())
    }

    /// Handles a sync of this server's log up to and including `upto`.
    ///
    /// # Panics
    /// If `upto` is above the last proposal.
    pub fn handle_synced(&mut self, upto: Zxid, out: &mut Vec<Action>) {
        if self.is_leading()
            && let Err(never_proposed) = self.count(self.sid, upto, out)
        {
            panic!("own log: {never_proposed}");
        }
    }

    pub(super) fn handle_live(
        &mut self,
        link: LinkId,
        packet: LearnerPacket,
        out: &mut Vec<Action>,
    ) -> Result<(), LinkFault> {
        match packet {
            LearnerPacket::Ack { zxid } => self.handle_ack(link, zxid, out)?,
            LearnerPacket::Ping { touched, .. } => {
                if !touched.is_empty() {
                    let (from, sessions) = (link, touched);
                    out.push(Action::Touch { from, sessions });
                }
            }
            LearnerPacket::Revalidate(session) => {
                let from = link;
                out.push(Action::Revalidate { from, session });
            }
            LearnerPacket::Request(request) => {
                let from = link;
                out.push(Action::Request { from, request });
            }
            LearnerPacket::DigestDiffers { zxid, digest } => {
                self.handle_digest_differs(zxid, digest, out);
            }
            LearnerPacket::Digest { zxid, digest } => self.handle_digest(link, zxid, digest, out),
            LearnerPacket::FollowerInfo { .. }
            | LearnerPacket::ObserverInfo { .. }
            | LearnerPacket::AckEpoch { .. }
            | LearnerPacket::Other { .. } => {}
        }
        Ok(())
    }

    // Model: ReceiveACK.
    fn handle_ack(
        &mut self,
        link: LinkId,
        zxid: Zxid,
        out: &mut Vec<Action>,
    ) -> Result<(), LinkFault> {
        let Some(LearnerLink {
            sid: Some(sid),
            lag,
            ..
        }) = self.links.get_mut(&link)
        else {
            return Ok(());
        };
        let sid = *sid;
        lag.acknowledged(zxid);
        // Counter 0 belongs to the second acknowledgement of the epoch, after UPTODATE.
        if zxid.counter() != 0 && !self.is_retiring {
            self.count(sid, zxid, out)?;
        }
        Ok(())
    }

    pub(super) fn count(
        &mut self,
        sid: Sid,
        zxid: Zxid,
        out: &mut Vec<Action>,
    ) -> Result<(), NeverProposed> {
        self.update_quorum_of_proposals();
        if self.is_standalone {
            // A standalone server reports only its last commit. One call commits everything that is
            // synced, because `propose_alone` does not set a barrier.
            if let Some(last) = self.proposals.handle_ack(sid, zxid)?.next_back() {
                self.last = last;
                out.push(Action::Deliver(Record::new(last, Bytes::new())));
            }
            return Ok(());
        }
        loop {
            let committed: Vec<Zxid> = self.proposals.handle_ack(sid, zxid)?.collect();
            for zxid in &committed {
                self.commit(*zxid, out);
            }
            // A call does not commit anything after a reconfiguration. The next call may do so if
            // this server still leads.
            if committed.is_empty() || self.is_retiring {
                return Ok(());
            }
        }
    }

    fn commit(&mut self, zxid: Zxid, out: &mut Vec<Action>) {
        let Some(record) = self.outstanding.pop_front() else {
            return;
        };
        debug_assert_eq!(record.zxid, zxid, "commits are in the order of proposals");
        let reconfig = self.reconfig.take_if(|reconfig| *reconfig == zxid);
        let next = reconfig.and_then(|_| self.next.take());
        let designated_leader = next.as_ref().map(|next| self.designate(zxid, next));
        let mut activation = None;
        if let (Some(next), Some(designated_leader)) = (next, designated_leader) {
            self.quorum = next.quorum;
            self.config_version = zxid.0;
            self.epoch_config = Some(EpochConfig {
                text: next.text,
                version: zxid.0,
            });
            self.proposals.replace();
            self.is_retiring = designated_leader != self.sid;
            activation = Some(Action::ActivateConfig {
                record: record.clone(),
                designated_leader,
            });
        }
        if !self.is_retiring {
            out.extend(activation.take());
        }
        for (to, link) in &self.links {
            if link.is_forwarding() {
                let packet = commit_packet(link.kind, &record, designated_leader);
                out.push(Action::Send { to: *to, packet });
            }
        }
        self.last = zxid;
        self.history.push(record.clone());
        out.push(Action::Deliver(record));
        while let Some((_, to)) = self.syncs.front().filter(|(at, _)| *at <= zxid).copied() {
            self.syncs.pop_front();
            let packet = LeaderPacket::Sync;
            out.push(Action::Send { to, packet });
        }
        // This action ends the role of this server, so it must come last. A learner that has not
        // received the new leader's sid would need an election.
        out.extend(activation);
    }

    /// Returns the leader after a reconfiguration. It is this server if it remains a voter at the
    /// same addresses. Otherwise, it is the voter in the new configuration with the longest log
    /// and, among equals, the smallest sid (Leader.getDesignatedLeader).
    fn designate(&self, reconfig: Zxid, next: &NextConfig) -> Sid {
        if next.leader_stays {
            return self.sid;
        }
        let voters = next.quorum.voters().iter().copied();
        let acked = voters.filter(|sid| *sid != self.sid).filter_map(|sid| {
            let acked = self.proposals.acked(sid)?;
            (acked >= reconfig).then_some((acked, std::cmp::Reverse(sid)))
        });
        acked.max().map_or(self.sid, |(_, sid)| sid.0)
    }

    /// Answers a learner's `sync`. The caller has checked the session. The answer follows the
    /// commit of everything proposed so far.
    pub fn sync(&mut self, to: LinkId, out: &mut Vec<Action>) {
        if !self.links.contains_key(&to) {
            return;
        }
        if self.outstanding.is_empty() {
            let packet = LeaderPacket::Sync;
            out.push(Action::Send { to, packet });
        } else {
            self.syncs.push_back((self.proposals.last_proposed(), to));
        }
    }

    /// Answers a learner's query about a session.
    pub fn revalidated(
        &mut self,
        to: LinkId,
        session: SessionId,
        is_valid: bool,
        out: &mut Vec<Action>,
    ) {
        if self.links.contains_key(&to) {
            let packet = LeaderPacket::Revalidate { session, is_valid };
            out.push(Action::Send { to, packet });
        }
    }

    /// Returns the number of proposals that learners' syncs wait for. Source:
    /// Leader.getNumPendingSyncs.
    pub fn pending_syncs(&self) -> usize {
        // The zxids never decrease, so equal zxids are adjacent.
        let mut waits_for = self.syncs.iter().map(|(zxid, _)| *zxid);
        let first = waits_for.next();
        let steps = waits_for.scan(first, |before, zxid| {
            Some(before.replace(zxid) != Some(zxid))
        });
        usize::from(first.is_some()) + steps.filter(|is_new| *is_new).count()
    }

    /// Returns the outstanding proposal that a learner acknowledges with `zxid`, and the learner's
    /// sid; `None` if the proposal is not outstanding or the learner is not connected.
    pub fn outstanding_of(&self, link: LinkId, zxid: Zxid) -> Option<(Sid, &Record)> {
        let sid = self.links.get(&link)?.sid?;
        Some((sid, self.outstanding_record(zxid)?))
    }

    /// Returns the proposal with this zxid if it is not committed yet.
    pub fn outstanding_record(&self, zxid: Zxid) -> Option<&Record> {
        let first = self.outstanding.front()?.zxid;
        let at = usize::try_from(zxid.0.checked_sub(first.0)?).ok()?;
        let record = self.outstanding.get(at)?;
        (record.zxid == zxid).then_some(record)
    }

    /// Returns the zxid up to which every up-to-date follower has all proposals on disk. Followers
    /// that have owed an acknowledgement for more than `owed_ms_max` are left out, because they may
    /// hang.
    pub fn min_follower_synced_zxid(&self, now_ms: i64, owed_ms_max: i64) -> Zxid {
        let followers = self.links.values().filter(|link| {
            let is_follower = link.kind == LearnerKind::Follower;
            is_follower && link.state == LinkState::Broadcasting
        });
        let behind = followers.filter_map(|link| {
            let (_, owed_ms) = link.lag.oldest_owed_ack(now_ms)?;
            let acked = link.sid.and_then(|sid| self.proposals.acked(sid));
            (owed_ms <= owed_ms_max).then_some(acked.unwrap_or(Zxid::ZERO))
        });
        behind.min().unwrap_or_else(|| self.last_proposed())
    }

    /// Returns the number of proposals that are not committed yet.
    pub fn outstanding(&self) -> usize {
        self.outstanding.len()
    }

    /// Returns the newest committed zxid.
    pub fn last_committed(&self) -> Zxid {
        self.last
    }
}

fn commit_packet(kind: LearnerKind, record: &Record, designated: Option<Sid>) -> LeaderPacket {
    let Record { zxid, txn } = record.clone();
    match (kind, designated) {
        (LearnerKind::Follower, None) => LeaderPacket::Commit { zxid },
        (LearnerKind::Observer, None) => LeaderPacket::Inform { zxid, txn },
        (LearnerKind::Follower, Some(designated_leader)) => LeaderPacket::CommitAndActivate {
            zxid,
            designated_leader,
        },
        (LearnerKind::Observer, Some(designated_leader)) => LeaderPacket::InformAndActivate {
            zxid,
            designated_leader,
            txn,
        },
    }
}

#[cfg(test)]
mod tests;
