//! The leader's count of acknowledgements, which decides when a proposal is committed.
//!
//! ```text
//!   propose(4) propose(5) propose(6)           log synced up to 6     sid 2 acknowledges 5
//!        |         |          |                        |                      |
//!        v         v          v                        v                      v
//!   outstanding: 4 5 6                           4 5 6 (1 of 3)         commits 4, 5; 6 waits
//! ```
//!
//! A leader proposes in zxid order and commits in zxid order. A proposal is committed once a quorum
//! of servers has it on disk *and* every earlier proposal is committed. The leader is one of these
//! servers, without precedence. It counts itself when its own log reports the record as synced.
//!
//! A log is contiguous, and learners acknowledge in log order over one connection. An
//! acknowledgement therefore covers all earlier proposals, and only one position per server is
//! stored, for any number of outstanding proposals.
//!
//! A pending reconfiguration and all proposals after it need a quorum of the old *and* of the new
//! configuration. This applies from [`Proposals::join`] until [`Proposals::replace`], which puts
//! the new configuration in force.
//!
//! This module only counts. The [leader](crate::leader::Leader) that owns the [`Proposals`] decides
//! which learners receive a proposal or a commit, and which packets a joining learner receives
//! first.
//!
//! Source: Leader.processAck, Leader.tryToCommit.

use std::collections::{BTreeMap, BTreeSet, VecDeque, vec_deque};
use std::ops::Range;
use std::sync::Arc;

use proto::quorum::QuorumVerifier;
use proto::{Sid, Zxid};

/// An acknowledgement of a zxid that was never proposed. The counts do not change. The host decides
/// whether to drop the connection (Apache ZooKeeper ignores the packet).
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("server {sid} acknowledges {zxid}, but the last proposal is {last_proposed}")]
pub struct NeverProposed {
    /// Server that sent the acknowledgement.
    pub sid: Sid,
    /// Acknowledged zxid.
    pub zxid: Zxid,
    /// Zxid of the newest proposal.
    pub last_proposed: Zxid,
}

/// A leader's proposals, each from [`Proposals::propose`] until its commit.
///
/// ```
/// use proto::{Sid, Zxid, quorum::Majority};
/// use zoarium_zab::broadcast::Proposals;
///
/// let mut proposals = Proposals::new(Majority::new([Sid(1)]), Sid(1), Zxid::ZERO);
/// for zxid in 1..=3 {
///     proposals.propose(Zxid(zxid));
/// }
/// // One sync of the log covers all that was appended before it.
/// let committed: Vec<Zxid> = proposals.handle_synced(Zxid(2))?.collect();
/// assert_eq!(committed, [Zxid(1), Zxid(2)]);
/// assert_eq!(proposals.outstanding(), 1);
/// # Ok::<(), zoarium_zab::broadcast::NeverProposed>(())
/// ```
///
/// Invariants: zxids are committed in the order of their proposals, each once, and never before a
/// quorum has them on disk.
#[derive(Debug)]
pub struct Proposals {
    /// Eras in zxid order, oldest first. Never empty.
    eras: VecDeque<Era>,
    /// Zxid of the pending reconfiguration. Proposals after it are not committed until the new
    /// configuration is in force.
    barrier: Option<Zxid>,
    leader: Sid,
    /// Highest zxid that each voter has acknowledged.
    acked: BTreeMap<Sid, Zxid>,
    outstanding: VecDeque<Zxid>,
    last_proposed: Zxid,
    last_committed: Zxid,
    /// Connected followers while the oracle lets the leader decide alone; `None` otherwise. The
    /// leader may decide without the other voter only if that voter is not in this set.
    alone_without: Option<BTreeSet<Sid>>,
}

/// Quorums that proposals from a certain zxid on need.
#[derive(Debug)]
struct Era {
    from: Zxid,
    quorums: Vec<Arc<dyn QuorumVerifier>>,
}

impl Proposals {
    /// Creates an instance without proposals. Every proposed zxid must be greater than
    /// `last_committed`, which is the last zxid of the recovered log, or a new epoch with counter
    /// 0.
    pub fn new(quorum: impl QuorumVerifier + 'static, leader: Sid, last_committed: Zxid) -> Self {
        Self::shared(Arc::new(quorum), leader, last_committed)
    }

    /// Creates an instance like [`Proposals::new`], with a shared quorum verifier.
    pub fn shared(quorum: Arc<dyn QuorumVerifier>, leader: Sid, last_committed: Zxid) -> Self {
        Self {
            eras: VecDeque::from([Era {
                from: last_committed,
                quorums: vec![quorum],
            }]),
            barrier: None,
            leader,
            acked: BTreeMap::new(),
            outstanding: VecDeque::new(),
            last_proposed: last_committed,
            last_committed,
            alone_without: None,
        }
    }

    /// Records a proposal. The caller must send it to the log and to the learners. No server is
    /// counted for it yet.
    ///
    /// # Panics
    /// If the zxid is not greater than the zxid of the previous proposal, because the order of all
    /// changes would be lost.
    pub fn propose(&mut self, zxid: Zxid) {
        assert!(
            zxid > self.last_proposed,
            "proposal {zxid} after {}",
            self.last_proposed
        );
        self.last_proposed = zxid;
        self.outstanding.push_back(zxid);
        self.drop_past_eras();
    }

    /// Records that the leader's own log is on disk up to and including `zxid`. Yields the newly
    /// committed zxids.
    ///
    /// # Errors
    /// If `zxid` is above the last proposal.
    pub fn handle_synced(
        &mut self,
        zxid: Zxid,
    ) -> Result<vec_deque::Drain<'_, Zxid>, NeverProposed> {
        self.handle_ack(self.leader, zxid)
    }

    /// Records that a server's log is on disk up to and including `zxid`. Yields the newly
    /// committed zxids in order. The caller sends COMMIT and applies the transactions in this
    /// order.
    ///
    /// Acknowledgements from servers without a vote change nothing. Neither does an acknowledgement
    /// of a committed zxid, for example of NEWLEADER (counter 0).
    ///
    /// # Errors
    /// If `zxid` is above the last proposal.
    pub fn handle_ack(
        &mut self,
        sid: Sid,
        zxid: Zxid,
    ) -> Result<vec_deque::Drain<'_, Zxid>, NeverProposed> {
        if zxid > self.last_proposed {
            return Err(NeverProposed {
                sid,
                zxid,
                last_proposed: self.last_proposed,
            });
        }
        if self.is_voter(sid) {
            let acked = self.acked.entry(sid).or_insert(zxid);
            *acked = zxid.max(*acked);
        }
        let committed = self.durable();
        if let Some(last) = committed
            .checked_sub(1)
            .and_then(|at| self.outstanding.get(at))
        {
            self.last_committed = *last;
        }
        Ok(self.outstanding.drain(..committed))
    }

    /// Requires a quorum of `next` as well for all proposals from `from` on. `from` is the zxid of
    /// the reconfiguration that contains `next`. Commits stop after `from` until
    /// [`Proposals::replace`].
    pub fn join(&mut self, from: Zxid, next: Arc<dyn QuorumVerifier>) {
        let mut quorums = self
            .eras
            .back()
            .map_or(Vec::new(), |era| era.quorums.clone());
        quorums.push(next);
        self.barrier = Some(from);
        self.eras.push_back(Era { from, quorums });
    }

    /// Puts the last joined configuration in force. From now on, its quorums alone decide, even
    /// about the proposals since [`Proposals::join`].
    ///
    /// A removed voter no longer acknowledges. Without this rule, those proposals and all later
    /// proposals could wait indefinitely. The rule is safe because a quorum of the old
    /// configuration has the reconfiguration on disk. Every later leader therefore knows the new
    /// configuration, and needs a quorum of it that accepts the epoch.
    pub fn replace(&mut self) {
        let newest = self.eras.back().and_then(|era| era.quorums.last()).cloned();
        if let (Some(quorum), Some(barrier)) = (newest, self.barrier.take()) {
            let quorums = vec![quorum];
            let from = barrier.next();
            self.eras = VecDeque::from([Era { from, quorums }]);
        }
    }

    /// Discards a server's acknowledgements. Call it when the server disconnects or starts a new
    /// synchronisation. The server may have to cut its log, so its earlier acknowledgements prove
    /// nothing about its current disk.
    pub fn forget(&mut self, sid: Sid) {
        self.acked.remove(&sid);
    }

    /// Sets whether the oracle lets the leader of two voters decide without the other voter.
    /// `present` lists the connected followers. If the other voter is one of them, a quorum is
    /// still needed. `None` means that the oracle does not permit anything.
    pub fn set_alone_without(&mut self, present: Option<BTreeSet<Sid>>) {
        self.alone_without = present;
    }

    /// Returns the number of outstanding proposals that are on the disks of a quorum, counted from
    /// the oldest and up to the barrier.
    ///
    /// An acknowledgement covers all earlier proposals, so within an era the durable proposals come
    /// first. A binary search finds their end.
    fn durable(&self) -> usize {
        let end = match self.barrier {
            Some(barrier) => self.outstanding.partition_point(|zxid| *zxid <= barrier),
            None => self.outstanding.len(),
        };
        let mut durable = 0;
        for (at, era) in self.eras.iter().enumerate() {
            let era_end = match self.eras.get(at + 1) {
                Some(next) => self.outstanding.partition_point(|zxid| *zxid < next.from),
                None => end,
            };
            let era_end = era_end.min(end);
            durable = self.durable_in(era, durable..era_end.max(durable));
            if durable < era_end {
                break;
            }
        }
        durable
    }

    /// Returns the index after the last durable proposal among `proposals`, which belong to one
    /// era.
    fn durable_in(&self, era: &Era, proposals: Range<usize>) -> usize {
        let Range { mut start, mut end } = proposals;
        // Test the last proposal first, because usually all proposals are durable.
        let mut middle = end.saturating_sub(1);
        while start < end {
            let zxid = self.outstanding.get(middle);
            if zxid.is_some_and(|zxid| self.is_durable(era, *zxid)) {
                start = middle + 1;
            } else {
                end = middle;
            }
            middle = start + (end - start) / 2;
        }
        start
    }

    fn is_durable(&self, era: &Era, zxid: Zxid) -> bool {
        let has = |sid| self.acked.get(&sid).is_some_and(|acked| *acked >= zxid);
        let decides = |quorum: &dyn QuorumVerifier| {
            let present = self.alone_without.as_ref().filter(|_| has(self.leader));
            quorum.is_quorum(&has)
                || present.is_some_and(|present| decides_alone(quorum, self.leader, present))
        };
        era.quorums.iter().all(|quorum| decides(&**quorum))
    }

    /// Returns whether a server is a voter in a configuration whose quorum an outstanding or future
    /// proposal needs.
    fn is_voter(&self, sid: Sid) -> bool {
        let mut quorums = self.eras.iter().flat_map(|era| &era.quorums);
        quorums.any(|quorum| quorum.is_voter(sid))
    }

    /// Removes the eras in which every proposal is committed.
    fn drop_past_eras(&mut self) {
        while let Some(second) = self.eras.get(1) {
            if second.from > self.last_committed.next() {
                break;
            }
            self.eras.pop_front();
        }
    }

    /// Returns the number of proposals that are not committed yet.
    pub fn outstanding(&self) -> usize {
        self.outstanding.len()
    }

    /// Returns the newest proposal, or the initial zxid if there is none yet.
    pub fn last_proposed(&self) -> Zxid {
        self.last_proposed
    }

    /// Returns the newest committed proposal, or the initial zxid if there is none yet.
    pub fn last_committed(&self) -> Zxid {
        self.last_committed
    }

    /// Returns the zxid up to which a server has acknowledged its log; `None` without an
    /// acknowledgement.
    pub fn acked(&self, sid: Sid) -> Option<Zxid> {
        self.acked.get(&sid).copied()
    }
}

/// Returns whether `leader` may decide alone in this configuration if an oracle grants it: the
/// configuration has two voters, and the other voter is not in `present`.
pub(crate) fn decides_alone(
    quorum: &dyn QuorumVerifier,
    leader: Sid,
    present: &BTreeSet<Sid>,
) -> bool {
    const VOTERS: usize = 2;
    let voters = quorum.voters();
    let is_other_here = || {
        voters
            .iter()
            .any(|sid| *sid != leader && present.contains(sid))
    };
    voters.len() == VOTERS && voters.contains(&leader) && !is_other_here()
}

#[cfg(test)]
mod tests;
