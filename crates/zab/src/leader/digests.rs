//! Comparison of the digests of all members that are up to date.
//!
//! A learner has reported a digest that differs from the digest in a transaction. Two members
//! therefore differ, but it is unknown which one is right. The leader requests from all learners
//! the digest at its last committed transaction. It sends the query after the commit of that
//! transaction, so each learner answers with its tree at the same transaction. It then counts the
//! answers:
//!
//! ```text
//!   a quorum with the leader has one digest      each learner is informed of it
//!   a quorum without the leader has one digest   the leader is wrong, and is informed
//!   neither                                      each learner with another digest is informed
//! ```
//!
//! A learner that received a snapshot from this leader does not count for the leader, because its
//! tree is a copy of the leader's tree, right or wrong.
//!
//! A follower with `observerMasterPort` also queries its observers ([`crate::observer_master`]).
//!
//! Only Zoarium supports these packets. If any learner lacks this support, the leader compares
//! nothing.

use std::collections::BTreeMap;

use proto::leader::LeaderPacket;
use proto::{Sid, Zxid};

use super::link::LinkState;
use super::{Action, Leader, LinkId};

/// A comparison of digests in progress.
#[derive(Debug)]
pub(super) struct Comparison {
    zxid: Zxid,
    /// Digest of the leader's tree.
    own: u64,
    /// Queried learners, each with the digest that it has reported.
    queried: BTreeMap<LinkId, Option<u64>>,
    /// Time at which the leader decides from the answers that have arrived, ms.
    until_ms: i64,
    /// Whether the answers have been counted. Even then, the next comparison waits until
    /// `until_ms`.
    is_judged: bool,
}

impl Comparison {
    /// Removes a learner that has disconnected.
    pub(super) fn forget(&mut self, link: LinkId) {
        self.queried.remove(&link);
    }

    fn is_answered(&self) -> bool {
        self.queried.values().all(Option::is_some)
    }
}

impl Leader {
    /// Requests a comparison ([`Action::CompareDigests`]) because a learner's digest differs, if a
    /// comparison may begin now.
    pub(super) fn handle_digest_differs(&mut self, zxid: Zxid, digest: u64, out: &mut Vec<Action>) {
        let is_wanted = |action: &Action| matches!(action, Action::CompareDigests { .. });
        if self.may_compare() && !out.iter().any(is_wanted) {
            out.push(Action::CompareDigests { zxid, digest });
        }
    }

    /// Returns whether a comparison may begin: this server leads, all learners support the packets,
    /// no comparison is in progress, and the pause after the last one is over.
    fn may_compare(&self) -> bool {
        let mut links = self.links.values();
        let all_know = links.all(|link| link.reports_digests || link.state == LinkState::Connected);
        self.is_leading() && self.digests.is_none() && all_know
    }

    /// Begins a comparison with `own`, the digest of this server's tree. Call it for
    /// [`Action::CompareDigests`].
    pub fn compare_digests(&mut self, own: u64, now_ms: i64, out: &mut Vec<Action>) {
        if !self.may_compare() {
            return;
        }
        let zxid = self.last;
        let links = self.links.iter();
        let queried = links.filter(|(_, link)| link.state == LinkState::Broadcasting);
        let queried: BTreeMap<_, _> = queried.map(|(id, _)| (*id, None)).collect();
        for to in queried.keys() {
            let packet = LeaderPacket::DigestAsked { zxid };
            out.push(Action::Send { to: *to, packet });
        }
        self.digests = Some(Comparison {
            zxid,
            own,
            queried,
            until_ms: now_ms.saturating_add(self.settings.sync_ms()),
            is_judged: false,
        });
    }

    /// Handles a learner's answer.
    pub(super) fn handle_digest(
        &mut self,
        link: LinkId,
        zxid: Zxid,
        digest: u64,
        out: &mut Vec<Action>,
    ) {
        if let Some(comparison) = &mut self.digests
            && comparison.zxid == zxid
            && let Some(answer) = comparison.queried.get_mut(&link)
        {
            *answer = Some(digest);
            if comparison.is_answered() {
                self.judge(out);
            }
        }
    }

    /// Decides from the current answers if the time is over or no answer is missing. When the time
    /// is over, the next comparison may begin.
    pub(super) fn end_comparison_if_due(&mut self, now_ms: i64, out: &mut Vec<Action>) {
        let is_answered = self.digests.as_ref().is_some_and(Comparison::is_answered);
        let is_due = |comparison: &Comparison| comparison.until_ms <= now_ms;
        if self.digests.as_ref().is_some_and(is_due) {
            self.judge(out);
            self.digests = None;
        } else if is_answered {
            // The learners that have not answered have disconnected.
            self.judge(out);
        }
    }

    fn judge(&mut self, out: &mut Vec<Action>) {
        let Some(comparison) = self.digests.as_mut().filter(|open| !open.is_judged) else {
            return;
        };
        comparison.is_judged = true;
        let (zxid, own) = (comparison.zxid, comparison.own);
        let answers = comparison.queried.iter();
        let answers = answers.filter_map(|(link, digest)| Some((*link, (*digest)?)));
        let answers: Vec<(LinkId, u64)> = answers.collect();
        let links = &self.links;
        let of = |may_be_copy: bool| {
            let of_link = move |(link, digest): &(LinkId, u64)| {
                let link = links
                    .get(link)
                    .filter(|link| may_be_copy || !link.has_copy)?;
                Some((link.sid?, *digest))
            };
            let answers: BTreeMap<Sid, u64> = answers.iter().filter_map(of_link).collect();
            answers
        };
        let mut witnesses = of(false);
        witnesses.insert(self.sid, own);
        let has_own = |sid| witnesses.get(&sid) == Some(&own);
        let is_right = self.is_quorum(&has_own);
        let others = of(true);
        let has_quorum = |digest| self.is_quorum(&|sid| others.get(&sid) == Some(&digest));
        let theirs = answers.iter().map(|(_, digest)| *digest);
        let mut theirs = theirs.filter(|digest| !is_right && *digest != own);
        let theirs = theirs.find(|digest| has_quorum(*digest));
        if let Some(theirs) = theirs {
            let before = Zxid(zxid.0.saturating_sub(1));
            let record = self
                .history
                .after(before)
                .find(|record| record.zxid == zxid);
            let record = record.cloned();
            return out.push(Action::OwnDigestDiffers {
                zxid,
                record,
                own,
                theirs,
            });
        }
        let agreed = is_right.then_some(own);
        // If the leader is right, every learner that has answered receives the leader's digest,
        // because a follower forwards the digest to its observers.
        for (to, _) in answers
            .into_iter()
            .filter(|(_, digest)| is_right || *digest != own)
        {
            let packet = LeaderPacket::DigestJudged { zxid, agreed };
            out.push(Action::Send { to, packet });
        }
    }
}

#[cfg(test)]
#[path = "digests_tests.rs"]
mod tests;
