//! A round of an election, from the first vote to a decision.
//!
//! Java waits for the end of an election inside one function that polls a queue. Here each
//! notification and each deadline is a step. There are two concurrent waits: the pause before the
//! vote is sent again and, once a quorum agrees, the time for a better vote.
//!
//! The quorum settles immediately if a voter has stopped and all others agree.
//!
//! Differs from Java. Notifications that arrive while the quorum settles are counted like all
//! others. (Java drops those without a better vote.) The pause starts when the vote was last sent.
//! (Java's restarts with every message, so a busy peer delays the vote to the others.) A later
//! round is adopted even from a voter without a candidate.
//!
//! Source: FastLeaderElection.lookForLeader.

use std::cmp::Ordering;
use std::collections::BTreeMap;

use proto::Sid;
use proto::notification::{Notification, PeerState};

use crate::limits::{BLOCKED_CANDIDACY_MS, GUARD_WAIT_MS, RESENDS_PER_ROUND_MAX};
use crate::{Action, Ballot, Election, Role, Vote};

/// State of a server while it is looking for a leader.
#[derive(Debug)]
pub(crate) struct Looking {
    /// Initial vote of this server, without knowledge of other servers.
    own: Vote,
    is_trusted: bool,
    pub(crate) proposal: Vote,
    resend_at_ms: i64,
    interval_ms: i64,
    settling: Option<Settling>,
    /// Time since which the voters agree on a candidate that this newcomer cannot vote for, ms.
    blocked_since_ms: Option<i64>,
    /// Number of times that each server was sent the vote again because its connection had closed.
    resends: BTreeMap<Sid, usize>,
}

/// State after a quorum has agreed.
#[derive(Debug, Clone, Copy)]
struct Settling {
    until_ms: i64,
    /// Time of the guard's last query to the witnesses, ms; `None` before the first query.
    queried_at_ms: Option<i64>,
}

impl Looking {
    /// Returns whether a server whose connection closed is sent the vote immediately, before the
    /// pause ends. If so, counts the resend. A resend is permitted [`RESENDS_PER_ROUND_MAX`] times
    /// per round, so that a server that closes every connection is not dialled constantly.
    pub(crate) fn may_resend_to(&mut self, sid: Sid) -> bool {
        let resent = self.resends.entry(sid).or_default();
        let may = *resent < RESENDS_PER_ROUND_MAX;
        *resent += usize::from(may);
        may
    }

    pub(crate) fn new(own: Vote, is_trusted: bool, interval_ms: i64, now_ms: i64) -> Self {
        Self {
            own,
            is_trusted,
            proposal: own,
            resend_at_ms: now_ms.saturating_add(interval_ms),
            interval_ms,
            settling: None,
            blocked_since_ms: None,
            resends: BTreeMap::new(),
        }
    }

    pub(crate) fn deadline(&self) -> i64 {
        let deadline = self.next_resend_or_decision_ms();
        let stands_at = self.candidacy_at_ms();
        stands_at.map_or(deadline, |at_ms| at_ms.min(deadline))
    }

    fn candidacy_at_ms(&self) -> Option<i64> {
        let since_ms = self.blocked_since_ms?;
        Some(since_ms.saturating_add(BLOCKED_CANDIDACY_MS))
    }

    fn next_resend_or_decision_ms(&self) -> i64 {
        match self.settling {
            Some(Settling {
                until_ms,
                queried_at_ms: None,
            }) => until_ms,
            Some(settling) => settling.until_ms.min(self.resend_at_ms),
            None => self.resend_at_ms,
        }
    }

    /// Ends the wait for the answers of witnesses. Called when none of the witnesses remains.
    pub(crate) fn end_guard_wait(&mut self, now_ms: i64) {
        if let Some(settling) = &mut self.settling
            && settling.queried_at_ms.is_some()
        {
            settling.until_ms = now_ms;
        }
    }

    fn propose(&mut self, vote: Vote) {
        self.proposal = vote;
        self.settling = None;
        self.blocked_since_ms = None;
    }
}

impl Election {
    // Model: ReceiveNotification.
    pub(crate) fn handle_notification_in_round(
        &mut self,
        from: Sid,
        notification: &Notification,
        now_ms: i64,
        out: &mut Vec<Action>,
    ) {
        let is_behind = notification.round < self.round;
        if notification.state == PeerState::Looking && is_behind && from != self.me {
            self.answer_with_proposal(from, now_ms, out);
        }
        let leader = notification.leader;
        let is_self_for_an_observer = leader == self.me && self.role == Role::Observer;
        if !self.electorate.is_voter(leader) || is_self_for_an_observer {
            if leader == Vote::NOBODY.leader {
                self.adopt_later_round(notification, now_ms, out);
            }
            return;
        }
        match notification.state {
            PeerState::Looking => self.count_looking_vote(from, notification, now_ms, out),
            PeerState::Following | PeerState::Leading => {
                self.count_settled(from, notification, now_ms, out);
            }
            PeerState::Observing | PeerState::Unknown(_) => {}
        }
    }

    /// Adopts the later round of a voter that must not lead according to the committed list and
    /// does not know a candidate. Votes in this server's older round would be obsolete for that
    /// voter, and a proposed list may need the voter's vote. Java keeps its round.
    fn adopt_later_round(
        &mut self,
        notification: &Notification,
        now_ms: i64,
        out: &mut Vec<Action>,
    ) {
        let Some(looking) = &mut self.looking else {
            return;
        };
        let is_looking = notification.state == PeerState::Looking;
        let counts = looking.is_trusted && notification.zxid != Vote::UNTRUSTED;
        if is_looking && counts && notification.round > self.round {
            self.round = notification.round;
            self.ballots.clear();
            let own = looking.own;
            looking.propose(own);
            self.broadcast_vote(out);
            self.check_votes_and_query_others(now_ms, out);
        }
    }

    fn count_looking_vote(
        &mut self,
        from: Sid,
        notification: &Notification,
        now_ms: i64,
        out: &mut Vec<Action>,
    ) {
        let Some(looking) = &mut self.looking else {
            return;
        };
        let vote = Vote::of(notification);
        if !looking.is_trusted || vote.zxid == Vote::UNTRUSTED {
            return;
        }
        let electorate = &self.electorate;
        let beats = |other: &Vote| electorate.may_lead(vote.leader) && vote.is_better_than(other);
        match notification.round.cmp(&self.round) {
            Ordering::Less => return,
            Ordering::Greater => {
                self.round = notification.round;
                self.ballots.clear();
                let own = looking.own;
                looking.propose(if beats(&own) { vote } else { own });
                self.broadcast_vote(out);
            }
            Ordering::Equal if beats(&looking.proposal) && beats(&looking.own) => {
                looking.propose(vote);
                self.broadcast_vote(out);
            }
            Ordering::Equal => {}
        }
        let ballot = Ballot::looking(vote, self.round);
        self.ballots.insert(from, ballot);
        self.vote_for_shorter_log_if_covered(out);
        self.track_blocked_agreement(now_ms);
        self.check_votes_and_query_others(now_ms, out);
    }

    /// Votes for a candidate with a shorter log if the servers that vote for the candidate must
    /// have everything that can be committed. Only a newcomer, which is a voter only in the
    /// proposed list, does so. Its log may be longer than the logs of all other voters, but the
    /// additional records are uncommitted. In Java, a newcomer never votes for such a candidate,
    /// and the ensemble may remain without a leader.
    // Model: VoteForShorterLog.
    fn vote_for_shorter_log_if_covered(&mut self, out: &mut Vec<Action>) {
        let Some(looking) = &mut self.looking else {
            return;
        };
        let is_behind = |vote: &Vote| !vote.is_better_than(&looking.own);
        if self.role != Role::Participant
            || !self.electorate.is_newcomer(self.me)
            || !is_behind(&looking.proposal)
        {
            return;
        }
        let electorate = &self.electorate;
        let mut covered = self.ballots.values().filter(|ballot| {
            is_behind(&ballot.vote) && electorate.is_covered(&self.ballots, ballot)
        });
        let vote = covered.next().map_or(looking.own, |ballot| ballot.vote);
        if vote != looking.proposal {
            looking.propose(vote);
            self.broadcast_vote(out);
        }
    }

    /// Compares the votes like [`Election::check_votes`]. Once a quorum agrees, the guard queries
    /// the other servers, because one of them may have become a leader according to a different
    /// list since it received this vote.
    fn check_votes_and_query_others(&mut self, now_ms: i64, out: &mut Vec<Action>) {
        let has_agreed = self.check_votes(now_ms);
        let Some(proposal) = self.proposal().filter(|_| has_agreed) else {
            return;
        };
        if self.settings.membership_guard {
            let question = Ballot::looking(proposal, self.round);
            let agrees = |sid: &Sid| {
                let cast = self.ballots.get(sid);
                cast.is_some_and(|cast| cast.agrees_with(&question))
            };
            let others = self.electorate.voters().iter();
            let others = others.filter(|sid| **sid != self.me && !agrees(sid));
            out.extend(others.map(|sid| self.send(*sid, question)));
        }
    }

    /// Checks whether a quorum agrees with this server's vote, and begins or ends the settling
    /// time. Returns `true` if a quorum agrees now but did not at the last check.
    pub(crate) fn check_votes(&mut self, now_ms: i64) -> bool {
        let Some(looking) = &mut self.looking else {
            return false;
        };
        let ballot = Ballot::looking(looking.proposal, self.round);
        if !self
            .electorate
            .is_decided(&self.ballots, &ballot, self.oracle)
        {
            looking.settling = None;
            return false;
        }
        let has_agreed = looking.settling.is_none();
        let settle_ms = if self.has_lost_voter_and_agrees(&ballot) {
            0
        } else {
            self.settings.settle_ms
        };
        if let Some(looking) = &mut self.looking {
            let settling = looking.settling.get_or_insert(Settling {
                until_ms: now_ms.saturating_add(settle_ms),
                queried_at_ms: None,
            });
            if settle_ms == 0 && settling.queried_at_ms.is_none() {
                settling.until_ms = settling.until_ms.min(now_ms);
            }
        }
        has_agreed
    }

    /// Returns whether a voter has stopped and all others agree, as after a leader has died. A
    /// better vote cannot arrive then, and clients wait for the new leader.
    fn has_lost_voter_and_agrees(&self, ballot: &Ballot) -> bool {
        let agrees = |sid: &Sid| {
            let cast = self.ballots.get(sid);
            cast.is_some_and(|cast| cast.agrees_with(ballot))
        };
        let voters = || self.electorate.voters().iter();
        voters().any(|sid| self.is_gone(*sid))
            && voters().all(|sid| agrees(sid) || self.is_gone(*sid))
    }

    /// Counts the ballot of a server with a role, in this round or in another.
    fn count_settled(
        &mut self,
        from: Sid,
        notification: &Notification,
        now_ms: i64,
        out: &mut Vec<Action>,
    ) {
        let ballot = Ballot::of(notification);
        let leader = ballot.vote.leader;
        if ballot.round == self.round {
            self.ballots.insert(
                from,
                Ballot {
                    version: 0,
                    ..ballot
                },
            );
        }
        if leader == self.me && self.is_guarded() {
            // A server without the guard already follows this server. The witnesses must be queried
            // nevertheless, because this server would be a second leader.
            return self.check_votes_and_query_others(now_ms, out);
        }
        if ballot.round == self.round && self.is_confirmed_by_leader(&self.ballots, &ballot) {
            return self.decide(ballot, out);
        }
        self.settled.insert(from, ballot);
        if self.is_confirmed_by_leader(&self.settled, &ballot) {
            self.round = ballot.round;
            self.decide(ballot, out);
        } else if self.is_refused_by_oracle()
            && ballot.state == PeerState::Leading
            && leader == from
        {
            self.decide(ballot, out);
        }
    }

    /// Returns whether the oracle forbids this server of a two-voter ensemble to continue alone.
    /// This server then follows the other one without a quorum if the other one leads.
    fn is_refused_by_oracle(&self) -> bool {
        let oracle = self.oracle;
        oracle.is_some_and(|oracle| oracle.is_needed && !oracle.grants)
    }

    fn is_guarded(&self) -> bool {
        self.settings.membership_guard && !self.other_leaders.is_empty()
    }

    /// Returns whether a quorum names the leader in `ballot` and that leader itself agrees.
    /// Followers may name a leader that has stopped (ZOOKEEPER-1514).
    fn is_confirmed_by_leader(&self, ballots: &BTreeMap<Sid, Ballot>, ballot: &Ballot) -> bool {
        let leader = ballot.vote.leader;
        let is_confirmed = if leader == self.me {
            ballot.round == self.round
        } else {
            let said = ballots.get(&leader);
            said.is_some_and(|said| said.state == PeerState::Leading)
        };
        let electorate = &self.electorate;
        is_confirmed && electorate.is_settled(self.me, ballots, ballot, self.oracle)
    }

    pub(crate) fn conclude_if_due(&mut self, now_ms: i64, out: &mut Vec<Action>) {
        let settling = self.looking.as_ref().and_then(|looking| looking.settling);
        let Some(settling) = settling.filter(|settling| settling.until_ms <= now_ms) else {
            return;
        };
        let Some(proposal) = self.proposal() else {
            return;
        };
        if let Some(queried_at_ms) = settling.queried_at_ms {
            self.other_leaders.drop_silent(queried_at_ms);
        }
        if !self.is_guarded() {
            return self.decide(Ballot::looking(proposal, self.round), out);
        }
        if settling.queried_at_ms.is_some()
            && let Some((witness, other)) = self.other_leaders.next_report()
        {
            out.push(Action::Refused {
                candidate: proposal.leader,
                leader: other.leader,
                witness,
                theirs: other.theirs,
                ours: self.electorate.members().clone(),
            });
        }
        let question = Ballot::looking(proposal, self.round);
        let witnesses = self.other_leaders.witnesses();
        out.extend(witnesses.map(|witness| self.send(witness, question)));
        if let Some(looking) = &mut self.looking {
            looking.settling = Some(Settling {
                until_ms: now_ms.saturating_add(GUARD_WAIT_MS),
                queried_at_ms: Some(now_ms),
            });
        }
    }

    pub(crate) fn resend_if_due(&mut self, now_ms: i64, out: &mut Vec<Action>) {
        let Some(looking) = &mut self.looking else {
            return;
        };
        let settles = looking
            .settling
            .is_some_and(|settling| settling.queried_at_ms.is_none());
        if settles || looking.resend_at_ms > now_ms {
            return;
        }
        let longest_ms = self.settings.notification_interval_max_ms.max(1);
        looking.interval_ms = looking.interval_ms.saturating_mul(2).min(longest_ms);
        looking.resend_at_ms = now_ms.saturating_add(looking.interval_ms);
        self.broadcast_vote(out);
    }

    /// Tracks whether the election waits for this newcomer. As in Java, a newcomer does not vote
    /// before it knows a candidate. If the voters need its vote but agree on a candidate that it
    /// cannot vote for, only the newcomer itself can be elected. In Java it never becomes a
    /// candidate, and such an ensemble remains without a leader. However, it must not become a
    /// candidate unnecessarily, because a Java server that votes for a newcomer does not find the
    /// newcomer's address (QuorumPeer.getView contains only the committed list).
    fn track_blocked_agreement(&mut self, now_ms: i64) {
        let is_blocked = self.role == Role::Participant
            && self.electorate.is_newcomer(self.me)
            && self.proposal().is_some_and(Vote::is_for_nobody)
            && self.ballots.values().any(|ballot| {
                let electorate = &self.electorate;
                electorate.is_blocked(&self.ballots, ballot, self.oracle)
            });
        if let Some(looking) = &mut self.looking {
            let since_ms = looking.blocked_since_ms.unwrap_or(now_ms);
            looking.blocked_since_ms = is_blocked.then_some(since_ms);
        }
    }

    // Model: BecomeCandidate.
    pub(crate) fn become_candidate_if_due(&mut self, now_ms: i64, out: &mut Vec<Action>) {
        self.track_blocked_agreement(now_ms);
        let me = self.me;
        if let Some(looking) = &mut self.looking
            && looking
                .candidacy_at_ms()
                .is_some_and(|at_ms| at_ms <= now_ms)
        {
            let own = looking.own;
            looking.propose(Vote { leader: me, ..own });
            self.broadcast_vote(out);
            self.check_votes_and_query_others(now_ms, out);
        }
    }

    fn decide(&mut self, ballot: Ballot, out: &mut Vec<Action>) {
        let vote = ballot.vote;
        let state = match self.role {
            Role::Observer => PeerState::Observing,
            Role::Participant if vote.leader == self.me => PeerState::Leading,
            Role::Participant => PeerState::Following,
        };
        self.supporters = self.electorate.supporters(&self.ballots, &ballot);
        self.state = state;
        self.looking = None;
        let round = ballot.round;
        self.published = Ballot {
            state,
            version: 0,
            ..ballot
        };
        out.push(Action::Elected { state, vote, round });
    }
}
