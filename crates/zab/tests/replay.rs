//! Conversations of Apache ZooKeeper 3.9.5, replayed: a learner of ours hears what a Java learner
//! heard, and must say what that said.
//!
//! The disk is done at once here, so the order of what is sent is exact. Pings and what clients
//! asked for stand wherever they stood and are left out. A recording may begin in the middle; the
//! learner is brought there by an empty DIFF. To wrong input it must react as Java does, but where
//! it is named.

#![allow(clippy::unwrap_used, reason = "a test")]

mod recordings;

use std::collections::BTreeMap;

use proto::leader::LeaderPacket;
use proto::learner::LearnerPacket;
use proto::{Epoch, Sid, Zxid};
use recordings::{Event, Recording};
use zab::learner::{Action, Fault, Learner, LearnerKind, LearnerStart};
use zab::{CommittedLog, Settings};

#[derive(Default)]
struct Conversation {
    learner: String,
    /// `None` is what does not decode.
    down: Vec<Option<LeaderPacket>>,
    up: Vec<LearnerPacket>,
    /// The learner ended it.
    is_left: bool,
}

fn conversations(recording: &Recording) -> BTreeMap<u64, Conversation> {
    let mut conversations = BTreeMap::<u64, Conversation>::new();
    for line in &recording.lines {
        let conversation = conversations.entry(line.conn).or_default();
        match &line.event {
            Event::Down(packet) => {
                conversation.down.push(packet.clone().try_into().ok());
            }
            Event::Up(packet) => {
                conversation.learner.clone_from(&line.learner);
                conversation.up.push(packet.clone().try_into().unwrap());
            }
            Event::ClosedByLearner => conversation.is_left = true,
            Event::ClosedByLeader => {}
        }
    }
    conversations
}

/// What this server was before, as it said itself; `None` if the recording begins later.
fn introduced(up: &[LearnerPacket]) -> Option<LearnerStart> {
    let (kind, accepted_epoch, info) = match up.first()? {
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
    let (last_logged, current_epoch) = match up.get(1) {
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

fn start(sid: Sid, kind: LearnerKind, epoch: Epoch) -> LearnerStart {
    LearnerStart {
        sid,
        kind,
        accepted_epoch: epoch,
        current_epoch: epoch,
        last_logged: Zxid::new(epoch, 0),
        truncation_failed_in: None,
        config_version: 0,
        lacks_snapshot: false,
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

/// The first transaction of a conversation, and who is told of it like this.
fn first_transaction(down: &[LeaderPacket]) -> Option<(Zxid, LearnerKind)> {
    down.iter().find_map(|packet| match packet {
        LeaderPacket::Proposal { zxid, .. } => Some((*zxid, LearnerKind::Follower)),
        LeaderPacket::Inform { zxid, .. } | LeaderPacket::InformAndActivate { zxid, .. } => {
            Some((*zxid, LearnerKind::Observer))
        }
        _ => None,
    })
}

/// A learner with what it has sent and applied.
struct Replay {
    learner: Learner,
    out: Vec<Action>,
    /// Where its log ends, if that is before where it is told to cut.
    log_end: Option<Zxid>,
    is_snapshot_damaged: bool,
    said: Vec<LearnerPacket>,
    delivered: Vec<Zxid>,
    left: Option<Fault>,
}

impl Replay {
    fn new(start: LearnerStart) -> Self {
        let mut out = Vec::new();
        let learner = Learner::new(start, Settings::new(200, 10, 5), 0, &mut out);
        let mut replay = Self {
            learner,
            out,
            log_end: None,
            is_snapshot_damaged: false,
            said: Vec::new(),
            delivered: Vec::new(),
            left: None,
        };
        replay.settle();
        replay
    }

    fn hear(&mut self, packet: LeaderPacket) {
        self.learner.handle_packet(packet, 0, &mut self.out);
        self.settle();
    }

    /// Carries out everything at once.
    fn settle(&mut self) {
        let (learner, out) = (&mut self.learner, &mut self.out);
        while !out.is_empty() {
            for action in std::mem::take(out) {
                match action {
                    Action::Send(packet) => self.said.push(packet),
                    Action::SaveAcceptedEpoch(_) => learner.handle_accepted_epoch_saved(out),
                    Action::SaveCurrentEpoch(_) => learner.handle_current_epoch_saved(out),
                    Action::ReceiveSnapshot { .. } if self.is_snapshot_damaged => {
                        learner.handle_snapshot_damaged(out);
                    }
                    Action::ReceiveSnapshot { .. } => learner.handle_snapshot_received(0),
                    Action::Truncate { zxid } => {
                        let end = self.log_end.map_or(zxid, |end| zxid.min(end));
                        learner.handle_truncated(end, 0, out);
                    }
                    Action::WriteSnapshot => learner.handle_snapshot_written(out),
                    Action::Append(record) => learner.handle_synced(record.zxid, out),
                    Action::Deliver(record) => self.delivered.push(record.zxid),
                    Action::Leave(fault) => self.left = Some(fault),
                    // A change of roles ends the connection, which the recording then shows.
                    Action::AnswerPing { .. }
                    | Action::ConfigProposed(_)
                    | Action::ConfigSeen(_)
                    | Action::InstallConfig(_)
                    | Action::ActivateConfig { .. }
                    | Action::Serve { .. }
                    | Action::SyncDone
                    | Action::Revalidated { .. } => {}
                }
            }
        }
    }
}

fn is_protocol(packet: &LearnerPacket) -> bool {
    !matches!(
        packet,
        LearnerPacket::Ping { .. } | LearnerPacket::Request(_) | LearnerPacket::Revalidate(_)
    )
}

fn committed(down: &[LeaderPacket]) -> Vec<Zxid> {
    let zxids = down.iter().filter_map(|packet| match packet {
        LeaderPacket::Commit { zxid }
        | LeaderPacket::CommitAndActivate { zxid, .. }
        | LeaderPacket::Inform { zxid, .. }
        | LeaderPacket::InformAndActivate { zxid, .. } => Some(*zxid),
        _ => None,
    });
    zxids.collect()
}

#[test]
fn a_learner_says_what_a_java_learner_said() {
    let mut replayed = 0;
    let mut compared = 0;
    let recordings = recordings::all();
    let recordings = recordings.iter();
    for recording in recordings.filter(|recording| !recording.name.contains("reactions-")) {
        for (conn, conversation) in conversations(recording) {
            let Conversation {
                learner,
                down,
                up: mut expected,
                ..
            } = conversation;
            let down: Vec<LeaderPacket> = down.into_iter().map(Option::unwrap).collect();
            let Some(sid) = learner.strip_prefix("java-") else {
                continue;
            };
            let mut replay = if let Some(start) = introduced(&expected) {
                Replay::new(start)
            } else if let Some((first, kind)) = first_transaction(&down) {
                let sid = Sid(sid.parse().unwrap());
                let mut start = start(sid, kind, first.epoch());
                start.last_logged = Zxid(first.0 - 1);
                let mut replay = Replay::new(start);
                for packet in before(first) {
                    replay.hear(packet);
                }
                replay.said.clear();
                replay
            } else {
                continue;
            };
            let committed = committed(&down);
            for packet in down {
                replay.hear(packet);
            }
            replay.said.retain(is_protocol);
            expected.retain(is_protocol);
            // The recording may have ended before the last answers.
            replay.said.truncate(expected.len());
            let name = &recording.name;
            assert_eq!(replay.said, expected, "{name}, connection {conn}");
            assert_eq!(replay.delivered, committed, "{name}, connection {conn}");
            replayed += 1;
            compared += expected.len() + committed.len();
        }
    }
    if replayed > 0 {
        println!("{replayed} conversations, {compared} packets");
        assert!(replayed >= 60 && compared >= 500);
    }
}

/// How a reaction of ours to wrong input differs from Java's, by connection of `reactions-follower`.
/// What is meant stands in docs/COMPATIBILITY.md.
#[derive(Clone, Copy, PartialEq)]
enum Differs {
    /// Leaves where Java goes on.
    Leaves,
    /// Acknowledges a proposal that comes twice once.
    SaysLess,
    /// Bytes that are no packet and transactions that do not decode are for the host.
    InHost,
}

const DIFFERS: &[(u64, Differs)] = &[
    (8, Differs::InHost),
    (9, Differs::InHost),
    (34, Differs::InHost),
    (35, Differs::InHost),
    // A commit that matches no proposal, and UPTODATE without NEWLEADER, in synchronisation.
    (21, Differs::Leaves),
    (25, Differs::Leaves),
    // A hole inside an epoch.
    (31, Differs::Leaves),
    (32, Differs::SaysLess),
];

/// The leader falls silent.
const SILENCE: u64 = 40;

#[test]
fn to_wrong_input_a_learner_reacts_as_a_java_learner_did() {
    let recordings = recordings::all();
    let recording = recordings
        .iter()
        .find(|recording| recording.name == "reactions-follower");
    let Some(recording) = recording else {
        assert_eq!(recordings.len(), 0, "reactions-follower is not there");
        return;
    };
    let mut replayed = 0;
    for (conn, conversation) in conversations(recording) {
        let Some(start) = introduced(&conversation.up) else {
            continue;
        };
        let log_end = Some(start.last_logged);
        let mut replay = Replay::new(start);
        (replay.log_end, replay.is_snapshot_damaged) = (log_end, true);
        let mut is_left = false;
        for packet in conversation.down {
            match packet {
                Some(packet) => replay.hear(packet),
                // The host drops the connection.
                None => is_left = true,
            }
        }
        if conn == SILENCE {
            const SYNC_LIMIT_MS: i64 = 1000;
            let out = &mut replay.out;
            replay.learner.handle_deadline(SYNC_LIMIT_MS, out);
            replay.settle();
        }
        is_left |= replay.left.is_some();
        replay.said.retain(is_protocol);
        let mut expected = conversation.up;
        expected.retain(is_protocol);
        let differs = DIFFERS.iter().find(|(at, _)| *at == conn);
        let left = &replay.left;
        match differs.map(|(_, differs)| *differs) {
            None => assert_eq!(is_left, conversation.is_left, "{conn}: {left:?}"),
            Some(Differs::Leaves) => assert!(is_left && !conversation.is_left, "{conn}"),
            Some(Differs::InHost) => assert!(!is_left && conversation.is_left, "{conn}"),
            Some(Differs::SaysLess) => {
                assert!(!is_left, "{conn}: {left:?}");
                expected.dedup_by(|next, last| next == last && is_transaction(next));
            }
        }
        if matches!(differs, Some((_, Differs::Leaves | Differs::InHost))) {
            let len = replay.said.len().min(expected.len());
            replay.said.truncate(len);
            expected.truncate(len);
        }
        assert_eq!(replay.said, expected, "connection {conn}");
        replayed += 1;
    }
    assert_eq!(replayed, 28);
}

fn is_transaction(packet: &LearnerPacket) -> bool {
    matches!(packet, LearnerPacket::Ack { zxid } if zxid.counter() != 0)
}
