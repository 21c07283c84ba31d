//! What a member of an ensemble keeps from role to role.

use std::sync::Arc;

use config::Config;
use config::members::{HostPort, MemberRole};
use proto::notification::PeerState;
use proto::{Epoch, Sid, Zxid};
use storage::{DataDirs, Epochs, RealDisk, StorageError};
use zab::CommittedLog;

use super::observing::{Observing, at_port};
use super::oracle::OracleWatch;
use super::read_only;
use crate::membership::MembershipKeeper;
use crate::mesh::Mesh;
use crate::peer::{Dialer, LearnerPort, ListenSettings};

/// A server of an ensemble, whatever its role is just now.
pub(crate) struct Member {
    pub(crate) keeper: MembershipKeeper,
    pub(crate) mesh: Mesh,
    pub(crate) port: LearnerPort,
    pub(crate) dialer: Dialer,
    /// Where observers find this server while it follows (`observerMasterPort`).
    pub(super) observer_port: Option<LearnerPort>,
    /// The oracle of an ensemble of two (`oraclePath`).
    pub(super) oracle: Option<OracleWatch>,
    listen_on_all_ips: bool,
    pub(crate) disk: Arc<RealDisk>,
    pub(crate) dirs: DataDirs,
    pub(crate) epochs: Epochs,
    pub(crate) zab_settings: zab::Settings,
    /// The newest committed transactions, while no role has them.
    pub(crate) committed: CommittedLog,
    /// The last transaction of the log; on disk whenever there is no role.
    pub(crate) last_logged: Zxid,
    /// From here on the log files have no hole.
    pub(crate) log_whole_from: Zxid,
    /// False for a data directory that is empty without a reason: it has no vote until it has a
    /// snapshot of a leader's.
    pub(crate) is_trusted: bool,
    /// The epoch whose leader must send a snapshot, because a cut failed.
    pub(crate) truncation_failed_in: Option<Epoch>,
    /// What a voter had accepted for which this server has stopped leading: the next epoch is to be
    /// above it.
    pub(super) accepted_floor: Epoch,
    /// Whether a leader takes clients (`leaderServes`).
    pub(crate) serves_clients_as_leader: bool,
    /// Numbers the connections to leaders.
    pub(crate) attempt: u64,
    /// How this server observes, while it is an observer.
    pub(super) observing: Observing,
    /// How long to wait after this role before the next election, ms.
    pub(super) look_pause_ms: i64,
    /// When to look for a leader again after a pause, ms.
    pub(crate) look_at_ms: Option<i64>,
    /// After how long without a leader reads are served, ms; `None` for never.
    pub(super) read_only_after_ms: Option<i64>,
    /// When that is, while this server looks for one, ms.
    pub(super) read_only_at_ms: Option<i64>,
}

/// What a member recovered.
pub(crate) struct MemberStart {
    pub(crate) epochs: Epochs,
    pub(crate) last_logged: Zxid,
    pub(crate) log_whole_from: Zxid,
    pub(crate) is_trusted: bool,
}

impl MemberStart {
    /// What this server stands for in an election.
    pub(crate) fn candidate(&self) -> election::Candidate {
        election::Candidate {
            zxid: self.is_trusted.then_some(self.last_logged),
            peer_epoch: self.epochs.current,
        }
    }
}

/// The ways of a member to the others.
pub(crate) struct Ways {
    pub(crate) mesh: Mesh,
    pub(crate) port: LearnerPort,
    pub(crate) dialer: Dialer,
    pub(crate) observer_port: Option<LearnerPort>,
    pub(crate) oracle: Option<OracleWatch>,
}

impl Member {
    pub(crate) fn new(
        config: &Config,
        keeper: MembershipKeeper,
        ways: Ways,
        (disk, dirs): (Arc<RealDisk>, DataDirs),
        start: MemberStart,
    ) -> Option<Self> {
        let ensemble = config.ensemble.as_ref()?;
        let commit_log_count = config.storage.commit_log_count as usize;
        Some(Self {
            keeper,
            mesh: ways.mesh,
            port: ways.port,
            dialer: ways.dialer,
            observer_port: ways.observer_port,
            oracle: ways.oracle,
            listen_on_all_ips: ensemble.listen_on_all_ips,
            disk,
            dirs,
            epochs: start.epochs,
            zab_settings: zab_settings(config, ensemble),
            committed: CommittedLog::new(commit_log_count),
            last_logged: start.last_logged,
            log_whole_from: start.log_whole_from,
            is_trusted: start.is_trusted,
            truncation_failed_in: None,
            accepted_floor: Epoch(0),
            serves_clients_as_leader: ensemble.leader.serves_clients,
            attempt: 0,
            observing: Observing::new(ensemble),
            look_pause_ms: 0,
            look_at_ms: None,
            read_only_after_ms: read_only::grace_ms(config),
            read_only_at_ms: None,
        })
    }

    /// Makes the accepted epoch durable.
    pub(super) fn save_accepted_epoch(&mut self, epoch: Epoch) -> Result<(), StorageError> {
        Epochs::store_accepted(&*self.disk, &self.dirs, epoch)?;
        self.epochs.accepted = epoch;
        Ok(())
    }

    /// Makes the current epoch durable.
    pub(super) fn save_current_epoch(&mut self, epoch: Epoch) -> Result<(), StorageError> {
        Epochs::store_current(&*self.disk, &self.dirs, epoch)?;
        self.epochs.current = epoch;
        Ok(())
    }

    /// Begins to look for a leader.
    pub(super) fn look(&self) {
        self.mesh.look(self.candidate());
    }

    /// A reconfiguration has named the leader: servers that look are told so from now on.
    pub(super) fn take_appointment(&self, leader: Sid) {
        let state = match self.keeper.role() {
            MemberRole::Participant if leader == self.keeper.me() => PeerState::Leading,
            MemberRole::Participant => PeerState::Following,
            MemberRole::Observer => PeerState::Observing,
        };
        let vote = election::Vote {
            leader,
            zxid: self.last_logged,
            peer_epoch: self.epochs.current,
        };
        self.mesh.appoint(state, vote);
    }

    /// Where a server waits for learners; `None` for one that no list names.
    pub(super) fn quorum_addresses(&self, sid: Sid) -> Option<Vec<HostPort>> {
        let lists = [Some(self.keeper.committed()), self.keeper.last_seen()];
        let mut members = lists
            .into_iter()
            .flatten()
            .map(|list| list.members.get(&sid));
        let member = members.find_map(|member| member)?;
        Some(member.quorum_addresses().into_iter().collect())
    }

    /// Learners are waited for where the list in force says from the next term on.
    pub(super) fn move_port(&self) {
        if let Some(addresses) = self.quorum_addresses(self.keeper.me()) {
            let on_all_ips = self.listen_on_all_ips;
            if let (Some(port), Some(number)) = (&self.observer_port, self.observing.port()) {
                port.listen_on(ListenSettings {
                    addresses: at_port(&addresses, number),
                    on_all_ips,
                });
            }
            self.port.listen_on(ListenSettings {
                addresses,
                on_all_ips,
            });
        }
    }

    /// What this server stands for in an election.
    pub(super) fn candidate(&self) -> election::Candidate {
        election::Candidate {
            zxid: self.is_trusted.then_some(self.last_logged),
            peer_epoch: self.epochs.current,
        }
    }
}

fn zab_settings(config: &Config, ensemble: &config::Ensemble) -> zab::Settings {
    let leader = &ensemble.leader;
    let ticks = |ticks: u32| i64::from(ticks);
    zab::Settings {
        epoch_wait_max_ms: leader.max_time_to_wait_for_epoch_ms.map(i64::from),
        force_snapshot: leader.force_snapshot_sync,
        use_disk_log: config.storage.snapshot_size_factor.is_some(),
        snap_syncs_max: leader.max_concurrent_snap_syncs as usize,
        diff_syncs_max: leader.max_concurrent_diff_syncs as usize,
        ..zab::Settings::new(
            i64::from(config.tick_time_ms),
            ticks(ensemble.init_limit_ticks),
            ticks(ensemble.sync_limit_ticks),
        )
    }
}
