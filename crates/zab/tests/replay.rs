//! Conversations of Apache ZooKeeper 3.9.5, replayed: a learner of ours hears what a Java learner
//! heard, and must say what that said.
//!
//! The disk is done at once here, so the order of what is sent is exact. Pings and what clients
//! asked for stand wherever they stood and are left out.

#![allow(clippy::unwrap_used, reason = "a test")]

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use proto::leader::LeaderPacket;
use proto::learner::LearnerPacket;
use proto::packet::QuorumPacket;
use proto::{Epoch, Zxid};
use serde_json::Value;
use zab::learner::{Action, Learner, LearnerKind, LearnerStart};
use zab::{CommittedLog, Settings};

#[derive(Default)]
struct Conversation {
    learner: String,
    down: Vec<LeaderPacket>,
    up: Vec<LearnerPacket>,
}

fn files() -> Option<Vec<PathBuf>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/vectors/ensemble");
    let Ok(entries) = fs::read_dir(&folder) else {
        let forbidden = std::env::var("ZOARIUM_FORBID_SKIP").is_ok_and(|value| value == "1");
        assert!(!forbidden, "no recordings at ../shared/vectors/ensemble");
        println!("skipped: no recordings at ../shared/vectors/ensemble");
        return None;
    };
    let mut files: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
    // What wrong input leads to is decided apart; election connections are another crate's.
    files.retain(|path| {
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        name.ends_with(".jsonl") && !name.contains("reactions-") && !name.contains("election")
    });
    files.sort();
    Some(files)
}

/// Whose identities a client has concerns REQUEST alone, and those are left out.
fn packet(line: &Value) -> QuorumPacket {
    let text = line["hex"].as_str().unwrap();
    let bytes: Vec<u8> = (0..text.len())
        .step_by(2)
        .map(|at| u8::from_str_radix(&text[at..at + 2], 16).unwrap())
        .collect();
    let int = |at: usize| i32::from_be_bytes(*bytes[at..].first_chunk().unwrap());
    let data = usize::try_from(int(12)).ok();
    QuorumPacket {
        packet_type: int(0),
        zxid: Zxid(i64::from_be_bytes(*bytes[4..].first_chunk().unwrap())),
        data: data.map(|len| bytes[16..16 + len].to_vec().into()),
        authinfo: None,
    }
}

fn conversations(path: &Path) -> BTreeMap<u64, Conversation> {
    let text = fs::read_to_string(path).unwrap();
    let mut conversations = BTreeMap::<u64, Conversation>::new();
    for line in text.lines() {
        let line: Value = serde_json::from_str(line).unwrap();
        let is_packet = line["hex"].is_string() && line["type"] != "SNAPSHOT";
        let Some(conn) = line["conn"].as_u64().filter(|_| is_packet) else {
            continue;
        };
        let conversation = conversations.entry(conn).or_default();
        match line["dir"].as_str() {
            Some("L>F") => conversation.down.push(packet(&line).try_into().unwrap()),
            Some("F>L") => {
                conversation.learner = line["from"].as_str().unwrap().to_owned();
                conversation.up.push(packet(&line).try_into().unwrap());
            }
            _ => {}
        }
    }
    conversations
}

/// What this server was before, as it said itself; `None` if the recording begins later.
fn start(up: &[LearnerPacket]) -> Option<LearnerStart> {
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
        sid: info.sid,
        kind,
        accepted_epoch,
        current_epoch,
        last_logged,
        truncation_failed_in: None,
        config_version: info.config_version.unwrap_or(0),
        lacks_snapshot: false,
        committed: CommittedLog::default(),
    })
}

/// Carries out everything at once; returns what is sent.
fn settle(learner: &mut Learner, out: &mut Vec<Action>) -> Vec<LearnerPacket> {
    let mut sent = Vec::new();
    while !out.is_empty() {
        for action in std::mem::take(out) {
            match action {
                Action::Send(packet) => sent.push(packet),
                Action::SaveAcceptedEpoch(_) => learner.handle_accepted_epoch_saved(out),
                Action::SaveCurrentEpoch(_) => learner.handle_current_epoch_saved(out),
                Action::ReceiveSnapshot { .. } => learner.handle_snapshot_received(0),
                Action::Truncate { zxid } => learner.handle_truncated(zxid, 0, out),
                Action::WriteSnapshot => learner.handle_snapshot_written(out),
                Action::Append(record) => learner.handle_synced(record.zxid, out),
                // A change of roles ends the connection, which the recording then shows.
                Action::AnswerPing { .. }
                | Action::Deliver(_)
                | Action::ConfigProposed(_)
                | Action::ConfigSeen(_)
                | Action::InstallConfig(_)
                | Action::ActivateConfig { .. }
                | Action::Serve { .. }
                | Action::SyncDone
                | Action::Revalidated { .. }
                | Action::Leave(_) => {}
            }
        }
    }
    sent
}

fn is_protocol(packet: &LearnerPacket) -> bool {
    !matches!(
        packet,
        LearnerPacket::Ping { .. } | LearnerPacket::Request(_) | LearnerPacket::Revalidate(_)
    )
}

#[test]
fn a_learner_says_what_a_java_learner_said() {
    let mut replayed = 0;
    let mut compared = 0;
    for path in files().unwrap_or_default() {
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        for (conn, conversation) in conversations(&path) {
            if !conversation.learner.starts_with("java-") {
                continue;
            }
            let Some(start) = start(&conversation.up) else {
                continue;
            };
            let mut out = Vec::new();
            let mut learner = Learner::new(start, Settings::new(200, 10, 5), 0, &mut out);
            let mut said = settle(&mut learner, &mut out);
            for packet in conversation.down {
                learner.handle_packet(packet, 0, &mut out);
                said.extend(settle(&mut learner, &mut out));
            }
            said.retain(is_protocol);
            let mut expected = conversation.up;
            expected.retain(is_protocol);
            // The recording may have ended before the last answers.
            said.truncate(expected.len());
            assert_eq!(said, expected, "{name}, connection {conn}");
            replayed += 1;
            compared += expected.len();
        }
    }
    if replayed > 0 {
        println!("{replayed} conversations, {compared} packets");
        assert!(replayed >= 30 && compared >= 120);
    }
}
