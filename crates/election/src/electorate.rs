//! Voters, and quorums of voters.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use bytes::Bytes;
use proto::quorum::QuorumVerifier;
use proto::{ConfigVersion, Sid};

use crate::Ballot;

/// Part of a configuration that an election needs: its version and its voters.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct MemberList {
    /// Version of the configuration.
    pub version: ConfigVersion,
    /// Participants in the configuration.
    pub voters: BTreeSet<Sid>,
}

impl fmt::Display for MemberList {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, sid) in self.voters.iter().enumerate() {
            let comma = if index == 0 { "" } else { "," };
            write!(f, "{comma}{sid}")?;
        }
        write!(f, " version {}", self.version)
    }
}

/// Answer from the oracle of a two-voter ensemble (`oraclePath`, since ZooKeeper 3.7). The host
/// reads the oracle's file.
///
/// Source: QuorumOracleMaj.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Oracle {
    /// Whether the oracle is needed. Initially true; a leader updates it when the other voter has
    /// joined or left.
    pub is_needed: bool,
    /// Whether this server may continue alone, which is the case if the oracle's file begins with
    /// `1`.
    pub grants: bool,
}

/// Configurations in which a decision needs a quorum: the committed configuration and, during a
/// reconfiguration, also the proposed configuration.
#[derive(Debug)]
pub struct Electorate {
    committed: Box<dyn QuorumVerifier>,
    proposed: Option<Box<dyn QuorumVerifier>>,
    members: MemberList,
    config: Bytes,
    voters: BTreeSet<Sid>,
}

impl Electorate {
    /// Creates the electorate of a committed configuration. `config` is its text, which every
    /// notification contains.
    pub fn new(
        committed: impl QuorumVerifier + 'static,
        version: ConfigVersion,
        config: Bytes,
    ) -> Self {
        let voters = committed.voters().clone();
        Self {
            committed: Box::new(committed),
            proposed: None,
            members: MemberList {
                version,
                voters: voters.clone(),
            },
            config,
            voters,
        }
    }

    /// Adds the last seen configuration, which must be newer than the committed one. From then on,
    /// a decision needs a quorum of each configuration, and the voters of both take part.
    #[must_use]
    pub fn with_proposed(mut self, proposed: impl QuorumVerifier + 'static) -> Self {
        self.voters.extend(proposed.voters());
        self.proposed = Some(Box::new(proposed));
        self
    }

    /// Returns the voters in at least one of the configurations, in order.
    pub fn voters(&self) -> &BTreeSet<Sid> {
        &self.voters
    }

    /// Returns whether a server votes in at least one of the configurations.
    pub fn is_voter(&self, sid: Sid) -> bool {
        self.voters.contains(&sid)
    }

    /// Returns the committed configuration.
    pub fn members(&self) -> &MemberList {
        &self.members
    }

    pub(crate) fn config(&self) -> &Bytes {
        &self.config
    }

    /// Returns whether a server may lead: its weight in the committed configuration is above zero,
    /// or it is a newcomer.
    pub(crate) fn may_lead(&self, sid: Sid) -> bool {
        self.committed.weight(sid) > 0 || self.is_newcomer(sid)
    }

    /// Returns whether a server has a vote with a weight above zero in the proposed configuration,
    /// but no vote in the committed configuration.
    pub(crate) fn is_newcomer(&self, sid: Sid) -> bool {
        let proposed = self.proposed.as_ref();
        !self.committed.is_voter(sid)
            && proposed.is_some_and(|proposed| proposed.is_voter(sid) && proposed.weight(sid) > 0)
    }

    /// Returns whether the ballots that agree with `ballot` decide the election.
    pub(crate) fn is_decided(
        &self,
        ballots: &BTreeMap<Sid, Ballot>,
        ballot: &Ballot,
        oracle: Option<Oracle>,
    ) -> bool {
        let is_enough = |verifier: &dyn QuorumVerifier| agree(verifier, ballots, ballot, oracle);
        is_enough(self.committed.as_ref()) && self.proposed.as_deref().is_none_or(is_enough)
    }

    /// Returns whether the candidate of `ballot` has everything that can be committed. This is the
    /// case if the committed voters that agree with `ballot` are a quorum of the committed
    /// configuration, and the proposed one cannot have a quorum without them. Votes of newcomers do
    /// not prove anything about their logs.
    pub(crate) fn is_covered(&self, ballots: &BTreeMap<Sid, Ballot>, ballot: &Ballot) -> bool {
        let agrees = |sid: &Sid| {
            let cast = ballots.get(sid);
            self.committed.is_voter(*sid) && cast.is_some_and(|cast| cast.agrees_with(ballot))
        };
        let proposed = self.proposed.as_deref();
        self.committed.is_quorum(&|sid| agrees(&sid))
            && proposed.is_some_and(|proposed| {
                !proposed.is_quorum(&|sid| proposed.is_voter(sid) && !agrees(&sid))
            })
    }

    /// Returns whether the ballots that agree with `ballot` are a quorum of the committed
    /// configuration, but not of the proposed one.
    pub(crate) fn is_blocked(
        &self,
        ballots: &BTreeMap<Sid, Ballot>,
        ballot: &Ballot,
        oracle: Option<Oracle>,
    ) -> bool {
        let is_enough = |verifier: &dyn QuorumVerifier| agree(verifier, ballots, ballot, oracle);
        let proposed = self.proposed.as_deref();
        is_enough(self.committed.as_ref()) && !proposed.is_none_or(is_enough)
    }

    /// Returns whether enough servers already follow a leader for server `me` to follow it, too. If
    /// `me` is not a voter in the committed configuration, only a quorum of that configuration is
    /// needed, because a proposed configuration may have been abandoned. The leader then does not
    /// know the proposed configuration, and the wait for its quorum would never end.
    pub(crate) fn is_settled(
        &self,
        me: Sid,
        ballots: &BTreeMap<Sid, Ballot>,
        ballot: &Ballot,
        oracle: Option<Oracle>,
    ) -> bool {
        if self.members.voters.contains(&me) {
            self.is_decided(ballots, ballot, oracle)
        } else {
            agree(self.committed.as_ref(), ballots, ballot, oracle)
        }
    }

    /// Returns the servers whose ballots agree with `ballot`.
    pub(crate) fn supporters(
        &self,
        ballots: &BTreeMap<Sid, Ballot>,
        ballot: &Ballot,
    ) -> BTreeSet<Sid> {
        let agreeing = ballots.iter().filter(|(_, cast)| cast.agrees_with(ballot));
        agreeing.map(|(sid, _)| *sid).collect()
    }
}

/// Returns whether a quorum of a configuration agrees with `ballot`. In a configuration with at
/// most two voters, one of them is enough if the oracle grants it.
fn agree(
    verifier: &dyn QuorumVerifier,
    ballots: &BTreeMap<Sid, Ballot>,
    ballot: &Ballot,
    oracle: Option<Oracle>,
) -> bool {
    let agrees = |sid: &Sid| {
        let cast = ballots.get(sid);
        cast.is_some_and(|cast| cast.agrees_with(ballot))
    };
    let voters = verifier.voters();
    let by_oracle = oracle.is_some_and(|oracle| oracle.is_needed && oracle.grants);
    (by_oracle && voters.len() <= ORACLE_VOTERS_MAX && voters.iter().any(agrees))
        || verifier.is_quorum(&|sid| voters.contains(&sid) && agrees(&sid))
}

const ORACLE_VOTERS_MAX: usize = 2;
