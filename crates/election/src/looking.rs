//! A round, from the first vote to a decision.
//!
//! Java waits for the end of an election inside one function that polls a queue; here each message
//! and each deadline is a step. Two waits run side by side: the pause before the vote is told
//! again, and, once a quorum agrees, the time it is given to hear of something better.
//!
//! A quorum that agrees while a voter has ended and all others agree settles at once.
//!
//! Differs from Java: messages that come while the quorum settles are counted like any other
//! (Java throws away those with no better vote), and the pause runs from the last telling (Java's
//! starts again with every message, so that a talkative peer keeps it from telling the others). The
//! round of a voter that votes for nobody yet is taken over as any other's.
//!
//! Source: FastLeaderElection.lookForLeader.

use std::cmp::Ordering;
use std::collections::BTreeMap;

use proto::Sid;
use proto::notification::{Notification, PeerState};

use crate::limits::{GUARD_WAIT_MS, HOLD_UP_MS, TOLD_ANEW_MAX};
use crate::{Action, Ballot, Election, Role, Vote};

/// What a server keeps while it looks.
#[derive(Debug)]
pub(crate) struct Looking {
    /// What it would vote for if it had heard nobody.
    own: Vote,
    is_trusted: bool,
    pub(crate) proposal: Vote,
    tell_again_at_ms: i64,
    interval_ms: i64,
    settling: Option<Settling>,
    /// Since when the voters agree on somebody for whom this newcomer cannot vote.
    held_up_since_ms: Option<i64>,
    /// Who was told anew since the connection broke, and how often.
    told_anew: BTreeMap<Sid, usize>,
}

/// A quorum agrees.
#[derive(Debug, Clone, Copy)]
struct Settling {
    until_ms: i64,
    /// When the guard asked whether another leader lives, if it did.
    asked_at_ms: Option<i64>,
}

impl Looking {
    /// Whether a server whose connection broke is to be told at once, and not only when it is time for that: not more
    /// than [`TOLD_ANEW_MAX`] times in a round, so that one that closes every connection is not dialled all the time.
    pub(crate) fn may_tell_anew(&mut self, sid: Sid) -> bool {
        let told = self.told_anew.entry(sid).or_default();
        let may = *told < TOLD_ANEW_MAX;
        *told += usize::from(may);
        may
    }

    pub(crate) fn new(own: Vote, is_trusted: bool, interval_ms: i64, now_ms: i64) -> Self {
        Self {
            own,
            is_trusted,
            proposal: own,
            tell_again_at_ms: now_ms.saturating_add(interval_ms),
            interval_ms,
            settling: None,
            held_up_since_ms: None,
            told_anew: BTreeMap::new(),
        }
    }

    pub(crate) fn deadline(&self) -> i64 {
        let deadline = self.next_telling_or_end();
        let stands_at = self.stand_at_ms();
        stands_at.map_or(deadline, |at_ms| at_ms.min(deadline))
    }

    fn stand_at_ms(&self) -> Option<i64> {
        let since_ms = self.held_up_since_ms?;
        Some(since_ms.saturating_add(HOLD_UP_MS))
    }

    fn next_telling_or_end(&self) -> i64 {
        match self.settling {
            Some(Settling {
                until_ms,
                asked_at_ms: None,
            }) => until_ms,
            Some(settling) => settling.until_ms.min(self.tell_again_at_ms),
            None => self.tell_again_at_ms,
        }
    }

    /// Nobody is left whose answer matters.
    pub(crate) fn stop_asking(&mut self, now_ms: i64) {
        if let Some(settling) = &mut self.settling
            && settling.asked_at_ms.is_some()
        {
            settling.until_ms = now_ms;
        }
    }

    fn propose(&mut self, vote: Vote) {
        self.proposal = vote;
        self.settling = None;
        self.held_up_since_ms = None;
    }
}

impl Election {
    pub(crate) fn hear_in_round(
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
                self.catch_up(notification, now_ms, out);
            }
            return;
        }
        match notification.state {
            PeerState::Looking => self.count_looker(from, notification, now_ms, out),
            PeerState::Following | PeerState::Leading => {
                self.count_settled(from, notification, now_ms, out);
            }
            PeerState::Observing | PeerState::Unknown(_) => {}
        }
    }

    /// A voter that must not lead by the committed list has heard of nobody to vote for, and its round
    /// is later. If this server stayed behind, its own votes would be too old for that voter, and a
    /// proposed list can need it. Java stays behind.
    fn catch_up(&mut self, notification: &Notification, now_ms: i64, out: &mut Vec<Action>) {
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
            self.tell_all(out);
            self.weigh_and_ask(now_ms, out);
        }
    }

    fn count_looker(
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
                self.tell_all(out);
            }
            Ordering::Equal if beats(&looking.proposal) && beats(&looking.own) => {
                looking.propose(vote);
                self.tell_all(out);
            }
            Ordering::Equal => {}
        }
        let ballot = Ballot::looking(vote, self.round);
        self.ballots.insert(from, ballot);
        self.vote_behind_if_covered(out);
        self.watch_hold_up(now_ms);
        self.weigh_and_ask(now_ms, out);
    }

    /// A newcomer, which has a vote by the proposed list alone, may have logged more than any voter: what
    /// nobody has committed. It votes for somebody behind itself if those who agree would have to know of
    /// all that can be committed. In Java it never does, and such an ensemble may have no leader.
    fn vote_behind_if_covered(&mut self, out: &mut Vec<Action>) {
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
            self.tell_all(out);
        }
    }

    /// As [`Election::weigh`]. Once a quorum agrees, the guard asks the others: one of them may
    /// have become a leader by another list since it was told of this vote.
    fn weigh_and_ask(&mut self, now_ms: i64, out: &mut Vec<Action>) {
        let has_agreed = self.weigh(now_ms);
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

    /// Looks whether the votes of this round still agree, or do so now; true if they did not
    /// before.
    pub(crate) fn weigh(&mut self, now_ms: i64) -> bool {
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
        let settle_ms = match self.is_left_by_a_voter(&ballot) {
            true => 0,
            false => self.settings.settle_ms,
        };
        if let Some(looking) = &mut self.looking {
            let settling = looking.settling.get_or_insert(Settling {
                until_ms: now_ms.saturating_add(settle_ms),
                asked_at_ms: None,
            });
            if settle_ms == 0 && settling.asked_at_ms.is_none() {
                settling.until_ms = settling.until_ms.min(now_ms);
            }
        }
        has_agreed
    }

    /// Whether a voter has ended and all others agree, as it is when a leader dies: no better vote
    /// is under way then, and clients wait for the new leader.
    fn is_left_by_a_voter(&self, ballot: &Ballot) -> bool {
        let agrees = |sid: &Sid| {
            let cast = self.ballots.get(sid);
            cast.is_some_and(|cast| cast.agrees_with(ballot))
        };
        let voters = || self.electorate.voters().iter();
        voters().any(|sid| self.is_gone(*sid))
            && voters().all(|sid| agrees(sid) || self.is_gone(*sid))
    }

    /// Somebody has a role: in this round, or in one this server knows nothing of.
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
            // Servers without the guard follow already; that makes one more leader no better.
            return self.weigh_and_ask(now_ms, out);
        }
        if ballot.round == self.round && self.joins(&self.ballots, &ballot) {
            return self.decide(ballot, out);
        }
        self.settled.insert(from, ballot);
        if self.joins(&self.settled, &ballot) {
            self.round = ballot.round;
            self.decide(ballot, out);
        } else if self.oracle_says_follow() && ballot.state == PeerState::Leading && leader == from
        {
            self.decide(ballot, out);
        }
    }

    /// Of two servers, the one that the oracle denies follows the other without a quorum.
    fn oracle_says_follow(&self) -> bool {
        let oracle = self.oracle;
        oracle.is_some_and(|oracle| oracle.is_needed && !oracle.grants)
    }

    fn is_guarded(&self) -> bool {
        self.settings.membership_guard && !self.other_leaders.is_empty()
    }

    /// Whether a quorum names this leader, and the leader itself agrees: followers may name one
    /// that is gone (ZOOKEEPER-1514).
    fn joins(&self, ballots: &BTreeMap<Sid, Ballot>, ballot: &Ballot) -> bool {
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
        if let Some(asked_at_ms) = settling.asked_at_ms {
            self.other_leaders.drop_silent(asked_at_ms);
        }
        if !self.is_guarded() {
            return self.decide(Ballot::looking(proposal, self.round), out);
        }
        if settling.asked_at_ms.is_some()
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
                asked_at_ms: Some(now_ms),
            });
        }
    }

    pub(crate) fn tell_again_if_due(&mut self, now_ms: i64, out: &mut Vec<Action>) {
        let Some(looking) = &mut self.looking else {
            return;
        };
        let settles = looking
            .settling
            .is_some_and(|settling| settling.asked_at_ms.is_none());
        if settles || looking.tell_again_at_ms > now_ms {
            return;
        }
        let longest_ms = self.settings.notification_interval_max_ms.max(1);
        looking.interval_ms = looking.interval_ms.saturating_mul(2).min(longest_ms);
        looking.tell_again_at_ms = now_ms.saturating_add(looking.interval_ms);
        self.tell_all(out);
    }

    /// A newcomer votes for nobody before it hears of a candidate, as in Java. If the voters agree on one
    /// for whom it cannot vote, and wait for its vote, nobody can be elected but the newcomer. In Java it
    /// never stands, and such an ensemble has no leader. Nor must it stand where it is not needed: a server of Java votes for a
    /// newcomer, but does not find it (QuorumPeer.getView has the committed list alone).
    fn watch_hold_up(&mut self, now_ms: i64) {
        let is_held_up = self.role == Role::Participant
            && self.electorate.is_newcomer(self.me)
            && self.proposal().is_some_and(Vote::is_for_nobody)
            && self.ballots.values().any(|ballot| {
                let electorate = &self.electorate;
                electorate.is_held_up(&self.ballots, ballot, self.oracle)
            });
        if let Some(looking) = &mut self.looking {
            let since_ms = looking.held_up_since_ms.unwrap_or(now_ms);
            looking.held_up_since_ms = is_held_up.then_some(since_ms);
        }
    }

    pub(crate) fn stand_if_due(&mut self, now_ms: i64, out: &mut Vec<Action>) {
        self.watch_hold_up(now_ms);
        let me = self.me;
        if let Some(looking) = &mut self.looking
            && looking.stand_at_ms().is_some_and(|at_ms| at_ms <= now_ms)
        {
            let own = looking.own;
            looking.propose(Vote { leader: me, ..own });
            self.tell_all(out);
            self.weigh_and_ask(now_ms, out);
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
