//! A learner with its disk, its sent packets, and its applied transactions.

use proto::Zxid;
use proto::leader::LeaderPacket;
use proto::learner::{LearnerInfo, LearnerPacket};
use zoarium_zab::Settings;
use zoarium_zab::learner::{Action, Fault, Learner, LearnerStart};

pub(crate) struct Stage {
    learner: Learner,
    out: Vec<Action>,
    log_end: Zxid,
    pub(crate) is_snapshot_damaged: bool,
    pub(crate) said: Vec<LearnerPacket>,
    pub(crate) delivered: Vec<Zxid>,
    pub(crate) left: Option<Fault>,
}

impl Stage {
    pub(crate) fn new(start: LearnerStart) -> Self {
        let log_end = start.last_logged;
        let mut out = Vec::new();
        let learner = Learner::new(start, Settings::new(200, 10, 5), 0, &mut out);
        let mut stage = Self {
            learner,
            out,
            log_end,
            is_snapshot_damaged: false,
            said: Vec::new(),
            delivered: Vec::new(),
            left: None,
        };
        stage.settle();
        stage
    }

    pub(crate) fn hear(&mut self, packet: LeaderPacket) {
        self.learner.handle_packet(packet, 0, &mut self.out);
        self.settle();
    }

    /// Advances the clock past the time that a learner waits.
    pub(crate) fn hear_silence(&mut self) {
        const SYNC_LIMIT_MS: i64 = 1000;
        self.learner.handle_deadline(SYNC_LIMIT_MS, &mut self.out);
        self.settle();
    }

    /// Executes all actions immediately.
    fn settle(&mut self) {
        let (learner, out) = (&mut self.learner, &mut self.out);
        while !out.is_empty() {
            for action in std::mem::take(out) {
                match action {
                    Action::Send(packet) => self.said.push(as_java(packet)),
                    Action::SaveAcceptedEpoch(_) => learner.handle_accepted_epoch_saved(out),
                    Action::SaveCurrentEpoch(_) => learner.handle_current_epoch_saved(out),
                    Action::ReceiveSnapshot { .. } if self.is_snapshot_damaged => {
                        learner.handle_snapshot_damaged(out);
                    }
                    Action::ReceiveSnapshot { .. } => {
                        self.log_end = Zxid::ZERO;
                        learner.handle_snapshot_received(0);
                    }
                    Action::Truncate { zxid } => {
                        self.log_end = self.log_end.min(zxid);
                        learner.handle_truncated(self.log_end, 0, out);
                    }
                    Action::WriteSnapshot => learner.handle_snapshot_written(out),
                    Action::Append(record) => {
                        assert!(record.zxid > self.log_end, "{record} is logged twice");
                        self.log_end = record.zxid;
                        learner.handle_synced(record.zxid, out);
                    }
                    Action::Deliver(record) => self.delivered.push(record.zxid),
                    Action::Leave(fault) => self.left = Some(fault),
                    // A change of roles ends the connection, as the recording then shows.
                    Action::AnswerPing { .. }
                    | Action::ConfigProposed(_)
                    | Action::ConfigSeen(_)
                    | Action::InstallConfig { .. }
                    | Action::ActivateConfig { .. }
                    | Action::Serve { .. }
                    | Action::SyncDone
                    | Action::Revalidated { .. }
                    | Action::ReportDigest { .. }
                    | Action::DigestJudged { .. } => {}
                }
            }
        }
    }
}

/// Replaces Zoarium's protocol version by Java's. A Java leader treats both alike.
fn as_java(packet: LearnerPacket) -> LearnerPacket {
    let java = |info: Option<LearnerInfo>| {
        info.map(|info| LearnerInfo {
            protocol_version: Some(LearnerInfo::PROTOCOL_VERSION),
            ..info
        })
    };
    match packet {
        LearnerPacket::FollowerInfo {
            accepted_epoch,
            info,
        } => LearnerPacket::FollowerInfo {
            accepted_epoch,
            info: java(info),
        },
        LearnerPacket::ObserverInfo {
            accepted_epoch,
            info,
        } => LearnerPacket::ObserverInfo {
            accepted_epoch,
            info: java(info),
        },
        packet => packet,
    }
}
