//! A recording from a learner's view: what it heard, what it said, and what it was to begin with.

use std::collections::BTreeMap;

use proto::leader::LeaderPacket;
use proto::learner::LearnerPacket;
use proto::{Epoch, Sid, Zxid};
use zab::CommittedLog;
use zab::learner::{LearnerKind, LearnerStart};

use crate::recordings::{Event, Recording};
use crate::stage::Stage;

/// What a Java learner and its leader said on one connection.
pub(crate) struct Conversation {
    learner: Sid,
    /// `None` is what does not decode.
    pub(crate) down: Vec<Option<LeaderPacket>>,
    pub(crate) up: Vec<LearnerPacket>,
    /// The learner ended it.
    pub(crate) is_left: bool,
}

/// By connection. Where nothing but the end was recorded there is none.
pub(crate) fn conversations(recording: &Recording) -> BTreeMap<u64, Conversation> {
    let mut conversations = BTreeMap::<u64, Conversation>::new();
    for line in &recording.lines {
        let Some(sid) = line.learner.strip_prefix("java-") else {
            continue;
        };
        let conversation = conversations.entry(line.conn);
        let conversation = conversation.or_insert_with(|| Conversation {
            learner: Sid(sid.parse().unwrap()),
            down: Vec::new(),
            up: Vec::new(),
            is_left: false,
        });
        match &line.event {
            Event::Down(packet) => conversation.down.push(packet.clone().try_into().ok()),
            Event::Up(packet) => conversation.up.push(packet.clone().try_into().unwrap()),
            Event::ClosedByLearner => conversation.is_left = true,
            Event::ClosedByLeader => {}
        }
    }
    conversations.retain(|_, one| !one.down.is_empty() || !one.up.is_empty());
    conversations
}

impl Conversation {
    /// A learner of ours where this begins; `None` if nothing says where that is.
    pub(crate) fn begin(&self) -> Option<Stage> {
        if let Some(start) = self.introduced() {
            return Some(Stage::new(start));
        }
        let (first, kind) = self.first_transaction()?;
        let mut stage = Stage::new(LearnerStart {
            last_logged: Zxid(first.0 - 1),
            ..start(self.learner, kind, first.epoch())
        });
        for packet in before(first) {
            stage.hear(packet);
        }
        stage.said.clear();
        Some(stage)
    }

    /// What this server was before, as it said itself; `None` if the recording begins later.
    fn introduced(&self) -> Option<LearnerStart> {
        let (kind, accepted_epoch, info) = match self.up.first()? {
            LearnerPacket::FollowerInfo {
                accepted_epoch,
                info,
            } => (LearnerKind::Follower, *accepted_epoch, (*info)?),
            LearnerPacket::ObserverInfo {
                accepted_epoch,
                info,
            } => (LearnerKind::Observer, *accepted_epoch, (*info)?),
            _ => return None,
        };
        let (last_logged, current_epoch) = match self.up.get(1) {
            Some(LearnerPacket::AckEpoch {
                last_logged,
                current_epoch,
            }) => (*last_logged, current_epoch.unwrap_or(accepted_epoch)),
            _ => (Zxid::ZERO, Epoch(0)),
        };
        Some(LearnerStart {
            current_epoch,
            last_logged,
            config_version: info.config_version.unwrap_or(0),
            ..start(info.sid, kind, accepted_epoch)
        })
    }

    /// The first transaction, and who is told of it like this.
    fn first_transaction(&self) -> Option<(Zxid, LearnerKind)> {
        self.heard().find_map(|packet| match packet {
            LeaderPacket::Proposal { zxid, .. } => Some((*zxid, LearnerKind::Follower)),
            LeaderPacket::Inform { zxid, .. } | LeaderPacket::InformAndActivate { zxid, .. } => {
                Some((*zxid, LearnerKind::Observer))
            }
            _ => None,
        })
    }

    fn heard(&self) -> impl Iterator<Item = &LeaderPacket> {
        self.down.iter().flatten()
    }

    /// What the leader said is committed, in that order.
    pub(crate) fn committed(&self) -> Vec<Zxid> {
        let zxids = self.heard().filter_map(|packet| match packet {
            LeaderPacket::Commit { zxid }
            | LeaderPacket::CommitAndActivate { zxid, .. }
            | LeaderPacket::Inform { zxid, .. }
            | LeaderPacket::InformAndActivate { zxid, .. } => Some(*zxid),
            _ => None,
        });
        zxids.collect()
    }

    /// Whether the leader told of a configuration that took effect.
    pub(crate) fn has_activation(&self) -> bool {
        self.heard().any(|packet| {
            matches!(
                packet,
                LeaderPacket::CommitAndActivate { .. } | LeaderPacket::InformAndActivate { .. }
            )
        })
    }
}

fn start(sid: Sid, kind: LearnerKind, epoch: Epoch) -> LearnerStart {
    LearnerStart {
        sid,
        kind,
        accepted_epoch: epoch,
        accepted_floor: Epoch(0),
        current_epoch: epoch,
        last_logged: Zxid::new(epoch, 0),
        truncation_failed_in: None,
        config_version: 0,
        lacks_snapshot: false,
        needs_snapshot: false,
        committed: CommittedLog::default(),
    }
}

/// What the leader sends, until it sends `first`, to a learner that has all that is before it.
fn before(first: Zxid) -> Vec<LeaderPacket> {
    let zxid = Zxid::new(first.epoch(), 0);
    vec![
        LeaderPacket::leader_info(zxid.epoch()),
        LeaderPacket::Diff { zxid },
        LeaderPacket::NewLeader { zxid, config: None },
        LeaderPacket::UpToDate,
    ]
}
