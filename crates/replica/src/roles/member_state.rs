//! State that a member of an ensemble keeps between roles.

use std::collections::VecDeque;

use config::members::{HostPort, MemberRole};
use config::membership::Membership;
use proto::notification::PeerState;
use proto::{ConfigVersion, Epoch, Sid, Zxid};
use zab::CommittedLog;

use super::master_choice::MasterChoice;
use crate::elections::Elections;
use crate::elections::voting_lists::ElectorateError;
use crate::interface::settings::EnsembleSettings;
use crate::members::MemberLists;

/// Contents of the epoch files.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Epochs {
    /// Newest promised epoch (`acceptedEpoch`).
    pub accepted: Epoch,
    /// Newest epoch whose log this server has (`currentEpoch`).
    pub current: Epoch,
}

/// Recovered state of an ensemble's member.
#[derive(Debug)]
pub struct MemberStart {
    /// The member lists.
    pub lists: MemberLists,
    /// The epoch files.
    pub epochs: Epochs,
    /// Last transaction in the log, which is on disk.
    pub last_logged: Zxid,
    /// Zxid after which the log files are without a gap.
    pub log_whole_from: Zxid,
    /// Whether this server may vote. False if its data was missing or corrupted at the start, until
    /// the server has a leader's snapshot.
    pub is_trusted: bool,
}

impl MemberStart {
    /// Returns this server's candidate for an election.
    pub fn candidate(&self) -> election::Candidate {
        election::Candidate {
            zxid: self.is_trusted.then_some(self.last_logged),
            peer_epoch: self.epochs.current,
        }
    }
}

/// Handling of a tree whose data differs from the data of a quorum, until a leader's snapshot
/// replaces the tree.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum WrongTree {
    /// The tree is not known to be wrong.
    None,
    /// The host must first store the tree separately.
    Found,
    /// The host is storing the tree separately.
    BeingKept,
    /// The host has stored the tree separately.
    Kept,
}

/// State of an ensemble's member that does not depend on its role.
pub(crate) struct MemberState {
    pub(crate) settings: EnsembleSettings,
    pub(crate) lists: MemberLists,
    pub(crate) elections: Elections,
    pub(crate) epochs: Epochs,
    /// Newest committed transactions, unless a role owns them.
    pub(crate) committed: CommittedLog,
    /// Last transaction in the log. Between two roles, that transaction is on disk.
    pub(crate) last_logged: Zxid,
    /// Zxid after which the log files are without a gap.
    pub(crate) log_whole_from: Zxid,
    /// Whether this server may vote. See [`MemberStart::is_trusted`].
    pub(crate) is_trusted: bool,
    /// Handling of a tree that differs from the tree of a quorum.
    pub(crate) wrong_tree: WrongTree,
    /// Epoch whose leader must send a snapshot, because a cut failed.
    pub(crate) truncation_failed_in: Option<Epoch>,
    /// Epoch that a voter has accepted from a leader that never led. The next epoch must be higher.
    /// Not persistent.
    pub(crate) accepted_floor: Epoch,
    /// Number of the current role.
    pub(crate) attempt: u64,
    /// Times of the unanswered queries to the oracle (`oraclePath`) of a two-voter ensemble, ms,
    /// oldest first.
    pub(crate) oracle_queried_ms: VecDeque<i64>,
    /// Choice of the server to learn from, while this server is an observer.
    pub(crate) masters: MasterChoice,
    /// Pause between this role and the next election, ms.
    pub(crate) election_pause_ms: i64,
    /// Time at which to look for a leader again after a pause, ms.
    pub(crate) election_at_ms: Option<i64>,
    /// Time from which reads are served while this server looks for a leader, ms.
    pub(crate) read_only_at_ms: Option<i64>,
}

impl MemberState {
    /// Creates the state. `known_list` is the version of the last member list in the server's tree.
    pub(crate) fn new(
        settings: EnsembleSettings,
        start: MemberStart,
        known_list: ConfigVersion,
        seed: u64,
    ) -> Result<Self, ElectorateError> {
        let committed = start.lists.committed().clone();
        let proposed = start.lists.last_seen().cloned();
        let election = settings.election.clone();
        let has_version = committed.version != ConfigVersion::default();
        let is_proposed = |seen: &Membership| seen.version == known_list;
        let is_known = !proposed.as_ref().is_some_and(is_proposed);
        let mut elections = Elections::new(election, committed, proposed, start.candidate())?;
        // A list without a version was provided by an operator. The version of the list in the tree
        // is then the minimum, unless that list is the last one seen, which may only be a proposal.
        if !has_version && is_known {
            elections.set_min_config_version(known_list);
        }
        Ok(Self {
            elections,
            lists: start.lists,
            epochs: start.epochs,
            committed: CommittedLog::new(settings.commit_log_count),
            last_logged: start.last_logged,
            log_whole_from: start.log_whole_from,
            is_trusted: start.is_trusted,
            wrong_tree: WrongTree::None,
            truncation_failed_in: None,
            accepted_floor: Epoch(0),
            attempt: 0,
            oracle_queried_ms: VecDeque::new(),
            masters: MasterChoice::new(settings.observer, seed),
            election_pause_ms: 0,
            election_at_ms: None,
            read_only_at_ms: None,
            settings,
        })
    }

    /// Returns this server's candidate for an election.
    pub(crate) fn candidate(&self) -> election::Candidate {
        election::Candidate {
            zxid: self.is_trusted.then_some(self.last_logged),
            peer_epoch: self.epochs.current,
        }
    }

    /// Stores the leader that a reconfiguration designated. Servers that are looking for a leader
    /// are informed of it from now on.
    pub(crate) fn appoint(&mut self, leader: Sid) {
        let state = match self.lists.role() {
            MemberRole::Participant if leader == self.lists.me() => PeerState::Leading,
            MemberRole::Participant => PeerState::Following,
            MemberRole::Observer => PeerState::Observing,
        };
        let vote = election::Vote {
            leader,
            zxid: self.last_logged,
            peer_epoch: self.epochs.current,
        };
        self.elections.appoint(state, vote);
    }

    /// Returns the addresses on which a server listens for learners; `None` if neither list
    /// contains the server.
    pub(crate) fn quorum_addresses(&self, sid: Sid) -> Option<Vec<HostPort>> {
        let lists = [Some(self.lists.committed()), self.lists.last_seen()];
        let mut members = lists
            .into_iter()
            .flatten()
            .map(|list| list.members.get(&sid));
        let member = members.find_map(|member| member)?;
        Some(member.quorum_addresses().into_iter().collect())
    }
}
