//! What a member of an ensemble keeps from role to role.

use std::collections::VecDeque;

use config::members::{HostPort, MemberRole};
use config::membership::Membership;
use proto::notification::PeerState;
use proto::{ConfigVersion, Epoch, Sid, Zxid};
use zab::CommittedLog;

use crate::elections::Elections;
use crate::electorate::ElectorateError;
use crate::members::MemberLists;
use crate::observer::MasterChoice;
use crate::settings::EnsembleSettings;

/// The epochs of the epoch files.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Epochs {
    /// The newest that this server has promised itself to (`acceptedEpoch`).
    pub accepted: Epoch,
    /// The newest whose history it has taken on (`currentEpoch`).
    pub current: Epoch,
}

/// What a member recovered.
#[derive(Debug)]
pub struct MemberStart {
    /// The member lists.
    pub lists: MemberLists,
    /// The epoch files.
    pub epochs: Epochs,
    /// The last transaction of the log, which is on disk.
    pub last_logged: Zxid,
    /// From here on the log files have no hole.
    pub log_whole_from: Zxid,
    /// False for a data directory that is empty without a reason: it has no vote until it has a
    /// snapshot of a leader's.
    pub is_trusted: bool,
}

impl MemberStart {
    /// What this server stands for in an election.
    pub fn candidate(&self) -> election::Candidate {
        election::Candidate {
            zxid: self.is_trusted.then_some(self.last_logged),
            peer_epoch: self.epochs.current,
        }
    }
}

/// A tree that holds other data than a quorum, until a leader's snapshot has taken its place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum WrongTree {
    /// There is none.
    None,
    /// It is to be kept in a separate place before anything else happens.
    Found,
    /// The host is writing it there.
    BeingKept,
    /// It is there.
    Kept,
}

/// A server of an ensemble, whatever its role is just now.
pub(crate) struct MemberState {
    pub(crate) settings: EnsembleSettings,
    pub(crate) lists: MemberLists,
    pub(crate) elections: Elections,
    pub(crate) epochs: Epochs,
    /// The newest committed transactions, while no role has them.
    pub(crate) committed: CommittedLog,
    /// The last transaction of the log; on disk whenever there is no role.
    pub(crate) last_logged: Zxid,
    /// From here on the log files have no hole.
    pub(crate) log_whole_from: Zxid,
    /// See [`MemberStart::is_trusted`].
    pub(crate) is_trusted: bool,
    /// Whether its tree holds other data than a quorum.
    pub(crate) wrong_tree: WrongTree,
    /// The epoch whose leader must send a snapshot, because a cut failed.
    pub(crate) truncation_failed_in: Option<Epoch>,
    /// The next epoch is made above this one, which a voter has accepted of a leader that never came
    /// about; known while the server runs.
    pub(crate) accepted_floor: Epoch,
    /// Numbers the roles.
    pub(crate) attempt: u64,
    /// When the oracle of two was asked what it has not answered yet, ms, oldest first.
    pub(crate) oracle_asked_ms: VecDeque<i64>,
    /// How this server finds whom to learn from, while it is an observer.
    pub(crate) masters: MasterChoice,
    /// How long to wait after this role before the next election, ms.
    pub(crate) look_pause_ms: i64,
    /// When to look for a leader again after a pause, ms.
    pub(crate) look_at_ms: Option<i64>,
    /// When reads are served, while this server looks for a leader, ms.
    pub(crate) read_only_at_ms: Option<i64>,
}

impl MemberState {
    /// `known_list` is the version of the last member list of its history.
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
        // An operator has given this server a list, and did not say which it is. Otherwise that is the
        // floor: what the history knows beyond it may be proposed only.
        if !has_version && is_known {
            elections.take_no_list_before(known_list);
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
            oracle_asked_ms: VecDeque::new(),
            masters: MasterChoice::new(settings.observer, seed),
            look_pause_ms: 0,
            look_at_ms: None,
            read_only_at_ms: None,
            settings,
        })
    }

    /// What this server stands for in an election.
    pub(crate) fn candidate(&self) -> election::Candidate {
        election::Candidate {
            zxid: self.is_trusted.then_some(self.last_logged),
            peer_epoch: self.epochs.current,
        }
    }

    /// A reconfiguration has named the leader: servers that look are told so from now on.
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

    /// Where a server waits for learners; `None` for one that no list names.
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
