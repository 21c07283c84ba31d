//! Reactions to a leader that breaks the protocol, case by case.

use crate::conversation::{Conversation, conversations};
use crate::differs::{Differs, acknowledge_once, differs};
use crate::recordings::Recording;
use crate::{Link, is_protocol};

pub(crate) const FILE: &str = "reactions-follower";

/// The connection on which the leader becomes silent.
const SILENCE: u64 = 40;

/// Returns the replayed links.
pub(crate) fn play(recording: &Recording) -> Vec<Link> {
    let mut played = Vec::new();
    for (conn, conversation) in conversations(recording) {
        play_one(conn, conversation);
        played.push((recording.name.clone(), conn));
    }
    played
}

fn play_one(conn: u64, conversation: Conversation) {
    let mut stage = conversation.begin().unwrap();
    stage.is_snapshot_damaged = true;
    let mut is_left = false;
    for packet in conversation.down {
        match packet {
            Some(packet) => stage.hear(packet),
            // The host drops the connection.
            None => is_left = true,
        }
    }
    if conn == SILENCE {
        stage.hear_silence();
    }
    is_left |= stage.left.is_some();
    stage.said.retain(is_protocol);
    let mut expected = conversation.up;
    expected.retain(is_protocol);
    let differs = differs(FILE, conn);
    let left = &stage.left;
    match differs {
        None => assert_eq!(is_left, conversation.is_left, "{conn}: {left:?}"),
        Some(Differs::Leaves) => assert!(is_left && !conversation.is_left, "{conn}"),
        Some(Differs::InHost) => assert!(!is_left && conversation.is_left, "{conn}"),
        Some(Differs::SaysLess) => {
            assert!(!is_left, "{conn}: {left:?}");
            acknowledge_once(&mut expected);
        }
    }
    if matches!(differs, Some(Differs::Leaves | Differs::InHost)) {
        let len = stage.said.len().min(expected.len());
        stage.said.truncate(len);
        expected.truncate(len);
    }
    assert_eq!(stage.said, expected, "connection {conn}");
}
