//! Which proposals are committed.
//!
//! ```text
//!   propose(4) propose(5) propose(6)           log synced up to 6     sid 2 acknowledges 5
//!        |         |          |                        |                      |
//!        v         v          v                        v                      v
//!   outstanding: 4 5 6                           4 5 6 (1 of 3)         commits 4, 5; 6 waits
//! ```
//!
//! A leader proposes in zxid order and commits in zxid order: a proposal is committed once a
//! quorum of servers has it on disk *and* every earlier one is committed. The leader is one of
//! these servers, no better than the others; it counts itself when its own log says so.
//!
//! A log has no holes, and learners acknowledge in log order over one connection. An
//! acknowledgement therefore stands for everything before it, and a position per server is all
//! there is to remember, however many proposals are outstanding.
//!
//! While a reconfiguration is pending, proposals from it on need a quorum of the old *and* of the
//! new configuration; [`Proposals::join`] says from where. What is proposed before the new
//! configuration is in force keeps needing both.
//!
//! Who is sent a proposal and a commit, and what a joining learner is sent first, belongs to the
//! [leader](crate::leader::Leader) that holds this value, not to the accounting.
//!
//! Source: Leader.processAck, Leader.tryToCommit.

use std::collections::{BTreeMap, BTreeSet, VecDeque, vec_deque};
use std::ops::Range;
use std::sync::Arc;

use proto::mutant::{self, Mutant};
use proto::quorum::QuorumVerifier;
use proto::{Sid, Zxid};

/// An acknowledgement that cannot be. The counts are as before; it is up to the host whether it
/// drops the connection (Apache ZooKeeper ignores it).
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("server {sid} acknowledges {zxid}, the last proposal is {last_proposed}")]
pub struct NeverProposed {
    /// Who acknowledged.
    pub sid: Sid,
    /// What it acknowledged.
    pub zxid: Zxid,
    /// The last proposal there is.
    pub last_proposed: Zxid,
}

/// A leader's proposals from the moment they are made until they are committed.
///
/// ```
/// use proto::{Sid, Zxid, quorum::Majority};
/// use zab::broadcast::Proposals;
///
/// let mut proposals = Proposals::new(Majority::new([Sid(1)]), Sid(1), Zxid::ZERO);
/// for zxid in 1..=3 {
///     proposals.propose(Zxid(zxid));
/// }
/// // One sync of the log covers all that was appended before it.
/// let committed: Vec<Zxid> = proposals.handle_synced(Zxid(2))?.collect();
/// assert_eq!(committed, [Zxid(1), Zxid(2)]);
/// assert_eq!(proposals.outstanding(), 1);
/// # Ok::<(), zab::broadcast::NeverProposed>(())
/// ```
///
/// Invariants: zxids leave in the order they came in, each once; none leaves before a quorum has
/// it on disk.
#[derive(Debug)]
pub struct Proposals {
    /// Oldest first, never empty: the quorums that proposals from a zxid on need.
    eras: VecDeque<Era>,
    /// No commit goes past this one in one step: what a reconfiguration means comes first.
    barrier: Option<Zxid>,
    leader: Sid,
    /// The newest acknowledgement of each voter that has sent one.
    acked: BTreeMap<Sid, Zxid>,
    outstanding: VecDeque<Zxid>,
    last_proposed: Zxid,
    last_committed: Zxid,
    /// If an oracle lets the leader decide alone: those it must not decide without.
    alone_without: Option<BTreeSet<Sid>>,
}

/// What proposals need from some zxid on.
#[derive(Debug)]
struct Era {
    from: Zxid,
    quorums: Vec<Arc<dyn QuorumVerifier>>,
}

impl Proposals {
    /// Nothing proposed yet. `last_committed` is what every later zxid must be greater than: the
    /// last zxid of the recovered history, or a new epoch with counter 0.
    pub fn new(quorum: impl QuorumVerifier + 'static, leader: Sid, last_committed: Zxid) -> Self {
        Self::shared(Arc::new(quorum), leader, last_committed)
    }

    /// The same with a quorum that others look at, too.
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

    /// Notes a proposal. It must be handed to the log and the learners by the caller; nothing is
    /// counted for it yet.
    ///
    /// # Panics
    /// If the zxid is not greater than that of the proposal before: the order of all changes
    /// would be lost.
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

    /// The leader's own log is on disk up to and including `zxid`. Yields what that commits.
    ///
    /// # Errors
    /// If nothing was proposed under such a zxid.
    pub fn handle_synced(
        &mut self,
        zxid: Zxid,
    ) -> Result<vec_deque::Drain<'_, Zxid>, NeverProposed> {
        self.handle_ack(self.leader, zxid)
    }

    /// A server's log is on disk up to and including `zxid`. Yields what that commits, in order;
    /// the caller sends COMMIT and applies in this order.
    ///
    /// Servers without a vote, and acknowledgements of what is committed already (such as that of
    /// NEWLEADER, whose counter is 0), change nothing.
    ///
    /// # Errors
    /// If nothing was proposed under such a zxid.
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

    /// From the proposal `from` on, which is the one that brings it, this configuration has to agree
    /// as well. Commits stop behind `from` until [`Proposals::replace`].
    pub fn join(&mut self, from: Zxid, next: Arc<dyn QuorumVerifier>) {
        let mut quorums = self
            .eras
            .back()
            .map_or(Vec::new(), |era| era.quorums.clone());
        if !mutant::is(Mutant::ReconfigByOldQuorum) {
            quorums.push(next);
        }
        self.barrier = Some(from);
        self.eras.push_back(Era { from, quorums });
    }

    /// The configuration that joined last is in force, and alone: also for what was proposed since it
    /// joined.
    ///
    /// Who has left the voters acknowledges nothing more, so those proposals could wait for ever, and
    /// all behind them. They lose nothing by it: a quorum of the configuration before has the one that
    /// ended it, so whoever is elected from now on knows this one, and needs a quorum of it.
    pub fn replace(&mut self) {
        let newest = self.eras.back().and_then(|era| era.quorums.last()).cloned();
        if let (Some(quorum), Some(barrier)) = (newest, self.barrier.take()) {
            let quorums = vec![quorum];
            let from = barrier.next();
            self.eras = VecDeque::from([Era { from, quorums }]);
        }
    }

    /// A server is gone, or begins anew and may have to cut its log: what it acknowledged before
    /// proves nothing about the disk it comes back with.
    pub fn forget(&mut self, sid: Sid) {
        self.acked.remove(&sid);
    }

    /// Whether an oracle lets the leader of two decide alone, and who is there, so that it must not
    /// decide without them. `None`: nobody decides alone.
    pub fn set_alone_without(&mut self, present: Option<BTreeSet<Sid>>) {
        self.alone_without = present;
    }

    /// How many of the oldest proposals are on the disks of a quorum, up to the barrier.
    ///
    /// An acknowledgement stands for everything before it, so within an era what is durable comes
    /// first: its end is searched for, and not each proposal looked at.
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

    /// Where the durable ones among these proposals of an era end.
    fn durable_in(&self, era: &Era, proposals: Range<usize>) -> usize {
        let Range { mut start, mut end } = proposals;
        // Mostly the disks have all that there is.
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
                || (mutant::is(Mutant::ReplyBeforeCommit) && has(self.leader))
                || present.is_some_and(|present| decides_alone(quorum, self.leader, present))
        };
        era.quorums.iter().all(|quorum| decides(&**quorum))
    }

    /// Whether a server has a say in anything that is outstanding or may come.
    fn is_voter(&self, sid: Sid) -> bool {
        let mut quorums = self.eras.iter().flat_map(|era| &era.quorums);
        quorums.any(|quorum| quorum.is_voter(sid))
    }

    /// An era is over once everything of it is committed.
    fn drop_past_eras(&mut self) {
        while let Some(second) = self.eras.get(1) {
            if second.from > self.last_committed.next() {
                break;
            }
            self.eras.pop_front();
        }
    }

    /// Proposals that are not committed yet.
    pub fn outstanding(&self) -> usize {
        self.outstanding.len()
    }

    /// The newest proposal, or where the history began.
    pub fn last_proposed(&self) -> Zxid {
        self.last_proposed
    }

    /// The newest proposal that is committed, or where the history began.
    pub fn last_committed(&self) -> Zxid {
        self.last_committed
    }

    /// Up to where a server's log is known to be on disk; `None` if it has not said.
    pub fn acked(&self, sid: Sid) -> Option<Zxid> {
        self.acked.get(&sid).copied()
    }
}

/// Whether `leader` may decide alone in this configuration if an oracle grants it: there are two
/// voters, and the other is not `present`.
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
