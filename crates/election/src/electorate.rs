//! Who has a vote, and what is enough of them.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use bytes::Bytes;
use proto::quorum::QuorumVerifier;
use proto::{ConfigVersion, Sid};

use crate::Ballot;

/// What matters here of a configuration: its version, and who votes in it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct MemberList {
    /// The version.
    pub version: ConfigVersion,
    /// The participants.
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

/// What the oracle of an ensemble of two says (`oraclePath`, since 3.7). The host reads the file.
///
/// Source: QuorumOracleMaj.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Oracle {
    /// Whether it is to be asked at all. True from the start; a leader looks again whenever a
    /// follower joins.
    pub is_needed: bool,
    /// Whether this server may go on alone: the file begins with `1`.
    pub grants: bool,
}

/// The configurations in which a decision needs a quorum: the committed one, and during a
/// reconfiguration the proposed one as well.
#[derive(Debug)]
pub struct Electorate {
    committed: Box<dyn QuorumVerifier>,
    proposed: Option<Box<dyn QuorumVerifier>>,
    members: MemberList,
    config: Bytes,
    voters: BTreeSet<Sid>,
}

impl Electorate {
    /// The voters of the committed configuration; `config` is its text, which goes out with every
    /// notification.
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

    /// Adds the last seen configuration, if it is newer than the committed one: quorums of both
    /// are needed from now on, and voters of both are told and heard.
    pub fn with_proposed(mut self, proposed: impl QuorumVerifier + 'static) -> Self {
        self.voters.extend(proposed.voters());
        self.proposed = Some(Box::new(proposed));
        self
    }

    /// Those who vote in one of the configurations, in order.
    pub fn voters(&self) -> &BTreeSet<Sid> {
        &self.voters
    }

    /// Whether a server votes in one of the configurations.
    pub fn is_voter(&self, sid: Sid) -> bool {
        self.voters.contains(&sid)
    }

    /// The committed configuration.
    pub fn members(&self) -> &MemberList {
        &self.members
    }

    pub(crate) fn config(&self) -> &Bytes {
        &self.config
    }

    /// Whether a server may lead as far as its weight goes.
    pub(crate) fn may_lead(&self, sid: Sid) -> bool {
        self.committed.weight(sid) > 0
    }

    /// Whether those who agree with `ballot` decide.
    pub(crate) fn is_decided(
        &self,
        ballots: &BTreeMap<Sid, Ballot>,
        ballot: &Ballot,
        oracle: Option<Oracle>,
    ) -> bool {
        let agrees = |sid: &Sid| {
            let cast = ballots.get(sid);
            cast.is_some_and(|cast| cast.agrees_with(ballot))
        };
        let by_oracle = oracle.is_some_and(|oracle| oracle.is_needed && oracle.grants);
        let is_quorum = |verifier: &dyn QuorumVerifier| {
            let voters = verifier.voters();
            (by_oracle && voters.len() <= ORACLE_VOTERS_MAX && voters.iter().any(agrees))
                || verifier.is_quorum(&|sid| voters.contains(&sid) && agrees(&sid))
        };
        is_quorum(self.committed.as_ref()) && self.proposed.as_deref().is_none_or(is_quorum)
    }

    /// Those who agree with `ballot`.
    pub(crate) fn supporters(
        &self,
        ballots: &BTreeMap<Sid, Ballot>,
        ballot: &Ballot,
    ) -> BTreeSet<Sid> {
        let agreeing = ballots.iter().filter(|(_, cast)| cast.agrees_with(ballot));
        agreeing.map(|(sid, _)| *sid).collect()
    }
}

const ORACLE_VOTERS_MAX: usize = 2;
