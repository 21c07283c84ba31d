//! A recorded connection from the learner's view: received packets, sent packets, and the initial
//! state.

use std::collections::BTreeMap;

use proto::leader::LeaderPacket;
use proto::learner::LearnerPacket;
use proto::{Epoch, Sid, Zxid};
use zoarium_zab::CommittedLog;
use zoarium_zab::learner::{LearnerKind, LearnerStart};

use crate::recordings::{Event, Recording};
use crate::stage::Stage;

/// Packets of a Java learner and its leader on one connection.
pub(crate) struct Conversation {
    learner: Sid,
    /// Packets from the leader; `None` if a packet does not decode.
    pub(crate) down: Vec<Option<LeaderPacket>>,
    pub(crate) up: Vec<LearnerPacket>,
    /// Whether the learner ended the connection.
    pub(crate) is_left: bool,
}

/// Groups the packets by connection. A connection without packets is left out.
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
    /// Creates a learner of Zoarium in the initial state of this connection; `None` if that state
    /// is unknown.
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

    /// Returns the initial state of this server from its own introduction; `None` if the recording
    /// begins later.
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

    /// Returns the first transaction, and the kind of learner that receives it in this form.
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

    /// Returns the committed zxids, in the leader's order.
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

    /// Returns whether the leader activated a configuration.
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

/// Packets from the leader before `first`, to a learner that has everything before it.
fn before(first: Zxid) -> Vec<LeaderPacket> {
    let zxid = Zxid::new(first.epoch(), 0);
    vec![
        LeaderPacket::leader_info(zxid.epoch()),
        LeaderPacket::Diff { zxid },
        LeaderPacket::NewLeader { zxid, config: None },
        LeaderPacket::UpToDate,
    ]
}
