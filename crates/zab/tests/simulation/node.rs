//! The host of one server: carries out what its core asks for, when the disk gets to it.

use std::sync::Arc;

use proto::quorum::Majority;
use proto::{Epoch, Sid, Zxid};
use zab::leader::{EpochConfig, Leader, LeaderStart};
use zab::learner::{Learner, LearnerKind, LearnerStart};
use zab::{CommittedLog, Record, Settings};

use crate::disk::Disk;
use crate::rng::Rng;

pub(crate) enum Role {
    Down,
    Looking,
    Leading(Box<Leader>),
    Learning(Box<Learner>),
}

/// What the disk has been asked to do, in any order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Job {
    SaveAccepted(Epoch),
    SaveCurrent(Epoch),
    Truncate(Zxid),
    WriteSnapshot,
    Sync,
}

pub(crate) struct Node {
    pub(crate) sid: Sid,
    pub(crate) is_observer: bool,
    pub(crate) disk: Disk,
    pub(crate) tree: Vec<Record>,
    pub(crate) role: Role,
    pub(crate) jobs: Vec<Job>,
    pub(crate) truncation_failed_in: Option<Epoch>,
    pub(crate) accepted_floor: Epoch,
}

pub(crate) const SETTINGS: Settings = Settings {
    tick_ms: 100,
    init_limit: 10,
    sync_limit: 5,
    epoch_wait_max_ms: None,
    force_snapshot: false,
    use_disk_log: true,
    snap_syncs_max: 10,
    diff_syncs_max: 100,
    held_back_bytes_max: 16 << 20,
};

impl Node {
    pub(crate) fn new(sid: Sid, is_observer: bool) -> Self {
        Self {
            sid,
            is_observer,
            disk: Disk::default(),
            tree: Vec::new(),
            role: Role::Looking,
            jobs: Vec::new(),
            truncation_failed_in: None,
            accepted_floor: Epoch(0),
        }
    }

    pub(crate) fn last(&self) -> Zxid {
        self.tree.last().map_or(Zxid::ZERO, |record| record.zxid)
    }

    pub(crate) fn is_looking(&self) -> bool {
        matches!(self.role, Role::Looking)
    }

    /// What an election compares.
    pub(crate) fn vote(&self) -> (Epoch, Zxid, Sid) {
        (self.disk.current_epoch, self.last(), self.sid)
    }

    /// Ends the role: what was appended is history now, so that the next one sees it.
    pub(crate) fn look(&mut self) {
        for job in std::mem::take(&mut self.jobs) {
            self.finish(job, &mut Vec::new(), &mut Vec::new(), 0);
        }
        self.role = Role::Looking;
        self.disk.sync();
        self.tree = self.disk.load();
    }

    pub(crate) fn crash(&mut self, rng: &mut Rng) {
        self.jobs.clear();
        self.truncation_failed_in = None;
        self.accepted_floor = Epoch(0);
        self.role = Role::Down;
        self.disk.crash(rng);
    }

    pub(crate) fn restart(&mut self) {
        // What recovery finds it syncs: it may be there only because the power did not go out.
        self.look();
    }

    fn committed_log(&self, rng: &mut Rng) -> CommittedLog {
        let mut log = CommittedLog::new(1 + rng.below(8));
        let skipped = if rng.percent(20) { self.tree.len() } else { 0 };
        self.tree[skipped..]
            .iter()
            .for_each(|record| log.push(record.clone()));
        log
    }

    pub(crate) fn lead(
        &mut self,
        voters: &[Sid],
        rng: &mut Rng,
        now_ms: i64,
    ) -> Vec<zab::leader::Action> {
        let start = LeaderStart {
            sid: self.sid,
            accepted_epoch: self.disk.accepted_epoch,
            accepted_floor: self.accepted_floor,
            current_epoch: self.disk.current_epoch,
            last_zxid: self.last(),
            committed: self.committed_log(rng),
            log_whole_from: self
                .disk
                .snapshot
                .last()
                .map_or(Zxid::ZERO, |last| last.zxid),
            quorum: Arc::new(Majority::new(voters.iter().copied())),
            config_version: 0,
            next: None,
        };
        let mut out = Vec::new();
        let leader = Leader::new(start, SETTINGS, now_ms, &mut out);
        self.role = Role::Leading(Box::new(leader));
        out
    }

    pub(crate) fn follow(&mut self, rng: &mut Rng, now_ms: i64) -> Vec<zab::learner::Action> {
        let start = LearnerStart {
            sid: self.sid,
            kind: if self.is_observer {
                LearnerKind::Observer
            } else {
                LearnerKind::Follower
            },
            accepted_epoch: self.disk.accepted_epoch,
            accepted_floor: self.accepted_floor,
            current_epoch: self.disk.current_epoch,
            last_logged: self.last(),
            truncation_failed_in: self.truncation_failed_in,
            config_version: 0,
            lacks_snapshot: false,
            committed: self.committed_log(rng),
        };
        let mut out = Vec::new();
        // From a single transaction to more than there are.
        let settings = Settings {
            held_back_bytes_max: 1 << rng.below(14),
            ..SETTINGS
        };
        let learner = Learner::new(start, settings, now_ms, &mut out);
        self.role = Role::Learning(Box::new(learner));
        out
    }

    /// The disk has done a job, and the core hears of it.
    pub(crate) fn finish(
        &mut self,
        job: Job,
        leading: &mut Vec<zab::leader::Action>,
        learning: &mut Vec<zab::learner::Action>,
        now_ms: i64,
    ) {
        match job {
            Job::SaveAccepted(epoch) => self.disk.accepted_epoch = epoch,
            Job::SaveCurrent(epoch) => self.disk.current_epoch = epoch,
            Job::Truncate(zxid) => {
                self.disk.truncate(zxid);
                self.tree = self.disk.load();
            }
            Job::WriteSnapshot => {
                self.disk.snapshot.clone_from(&self.tree);
                self.disk.log.clear();
                self.disk.sync();
            }
            Job::Sync => self.disk.sync(),
        }
        self.report(job, leading, learning, now_ms);
    }

    pub(crate) fn report(
        &mut self,
        job: Job,
        leading: &mut Vec<zab::leader::Action>,
        learning: &mut Vec<zab::learner::Action>,
        now_ms: i64,
    ) {
        let last_logged = self.disk.log.last().map(|record| record.zxid);
        let end = self.last();
        match (&mut self.role, job) {
            (Role::Leading(leader), Job::SaveAccepted(_)) => {
                let config = EpochConfig {
                    text: "server.1=".into(),
                    version: 0,
                };
                leader.handle_accepted_epoch_saved(config, now_ms, leading);
            }
            (Role::Leading(leader), Job::SaveCurrent(_)) => {
                leader.handle_current_epoch_saved(now_ms, leading);
            }
            (Role::Leading(leader), Job::Sync) => {
                if let Some(upto) = last_logged {
                    leader.handle_synced(upto, leading);
                }
            }
            (Role::Learning(learner), Job::SaveAccepted(_)) => {
                learner.handle_accepted_epoch_saved(learning);
            }
            (Role::Learning(learner), Job::SaveCurrent(_)) => {
                learner.handle_current_epoch_saved(learning);
            }
            (Role::Learning(learner), Job::Truncate(_)) => {
                learner.handle_truncated(end, now_ms, learning);
            }
            (Role::Learning(learner), Job::WriteSnapshot) => {
                learner.handle_snapshot_written(learning);
            }
            (Role::Learning(learner), Job::Sync) => {
                if let Some(upto) = last_logged {
                    learner.handle_synced(upto, learning);
                }
            }
            _ => {}
        }
    }
}
