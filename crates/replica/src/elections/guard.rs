//! Log lines of the membership guard, which keeps this server from electing a second leader.

use std::collections::BTreeSet;
use std::fmt;

use election::MemberList;
use proto::Sid;

/// Refusal to elect a candidate while another server leads.
#[derive(Debug)]
pub(crate) struct Refusal<'a> {
    /// Server that would lead according to this server's member list.
    pub(crate) candidate: Sid,
    /// The current leader.
    pub(crate) leader: Sid,
    /// Server that reported the current leader.
    pub(crate) witness: Sid,
    pub(crate) theirs: &'a MemberList,
    pub(crate) ours: &'a MemberList,
}

impl Refusal<'_> {
    pub(crate) fn log(&self) {
        log_limiter::limited!(warn, candidate = %self.candidate,
            leader = %self.leader,
            witness = %self.witness,
            ours = %self.ours,
            theirs = %self.theirs,
            "{self}"
        );
    }
}

impl fmt::Display for Refusal<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            candidate,
            leader,
            ours,
            theirs,
            ..
        } = self;
        let only_ours = named(ours.voters.difference(&theirs.voters).collect());
        let only_theirs = named(theirs.voters.difference(&ours.voters).collect());
        write!(
            f,
            "refusing to elect server {candidate}: server {leader} is the leader and has a \
             different member list (servers only in this server's list: {only_ours}; servers \
             only in the leader's list: {only_theirs}). Copy the leader's server.N lines to this \
             server and restart it. Then change the lists one server at a time, the leader last; \
             zoarium.membershipGuard=false disables this check"
        )
    }
}

fn named(sids: BTreeSet<&Sid>) -> String {
    if sids.is_empty() {
        return "none".to_owned();
    }
    let sids: Vec<String> = sids.into_iter().map(Sid::to_string).collect();
    sids.join(", ")
}

#[cfg(test)]
mod tests {
    use proto::ConfigVersion;

    use super::*;

    fn list(sids: impl IntoIterator<Item = i64>) -> MemberList {
        MemberList {
            version: ConfigVersion(0),
            voters: sids.into_iter().map(Sid).collect(),
        }
    }

    #[test]
    fn a_refusal_names_the_difference_and_a_hint() {
        let (theirs, ours) = (list([1, 2, 3]), list([1, 2, 4, 5]));
        let refusal = Refusal {
            candidate: Sid(5),
            leader: Sid(3),
            witness: Sid(3),
            theirs: &theirs,
            ours: &ours,
        };
        let text = refusal.to_string();
        for part in [
            "refusing to elect server 5: server 3 is the leader",
            "servers only in this server's list: 4, 5; servers only in the leader's list: 3",
            "the leader last",
        ] {
            assert!(text.contains(part), "{text}");
        }
        let ours = list([1, 2, 3, 4]);
        let refusal = Refusal {
            ours: &ours,
            ..refusal
        };
        assert!(
            refusal
                .to_string()
                .contains("only in the leader's list: none")
        );
    }
}
