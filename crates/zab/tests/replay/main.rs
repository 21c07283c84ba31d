//! Replay of recorded connections of Apache ZooKeeper 3.9.5: a learner of Zoarium receives the
//! packets that a Java learner received, and must send the packets that it sent.
//!
//! The disk is done immediately here, so the order of sent packets is exact. Pings and clients'
//! requests are left out, because their order is arbitrary. A recording may begin in the middle; an
//! empty DIFF then brings the learner there. It must react to wrong input as Java does, except for
//! the listed differences.

#![allow(clippy::unwrap_used, reason = "a test")]

mod conversation;
mod differs;
mod reactions;
#[path = "../recordings/mod.rs"]
mod recordings;
mod stage;
mod unplayed;

use std::collections::BTreeSet;

use conversation::{Conversation, conversations};
use differs::{DIFFERS, Differs, acknowledge_once, differs};
use proto::learner::LearnerPacket;
use recordings::Recording;

/// A recording and a connection in it.
type Link = (String, u64);

#[test]
fn a_learner_sends_the_packets_of_a_java_learner() {
    let recordings = recordings::all();
    let (played, compared) = play_all(&recordings);
    if !recordings.is_empty() {
        println!("{} conversations, {compared} packets", played.len());
        assert!(compared >= 500);
    }
}

#[test]
fn a_learner_reacts_to_invalid_packets_as_in_java() {
    let recordings = recordings::all();
    let played = play_reactions(&recordings);
    if !recordings.is_empty() {
        println!("{} conversations", played.len());
    }
}

#[test]
fn every_java_learner_that_was_recorded_has_its_replay() {
    let recordings = recordings::all();
    let (mut played, _) = play_all(&recordings);
    played.extend(play_reactions(&recordings));
    let unplayed = unplayed::unplayed(&recordings);
    if recordings.is_empty() {
        return;
    }
    for (file, conn, _) in DIFFERS {
        let link = ((*file).to_owned(), *conn);
        assert!(played.contains(&link), "{link:?} is not replayed");
    }
    let len = played.len() + unplayed.len();
    played.extend(unplayed);
    assert_eq!(played.len(), len, "replayed after all, or named twice");
    let recorded = recorded(&recordings);
    let odd: Vec<&Link> = recorded.symmetric_difference(&played).collect();
    assert!(
        odd.is_empty(),
        "neither replayed nor named, or not recorded: {odd:?}"
    );
}

/// Returns the links of all learners that are not marked as scripts.
fn recorded(recordings: &[Recording]) -> BTreeSet<Link> {
    let links = recordings.iter().flat_map(|recording| {
        let lines = recording.lines.iter();
        let not_of_scripts = lines.filter(|line| !line.learner.starts_with("probe-"));
        not_of_scripts.map(|line| (recording.name.clone(), line.conn))
    });
    links.collect()
}

/// Returns the replayed links, and the number of compared items.
fn play_all(recordings: &[Recording]) -> (BTreeSet<Link>, usize) {
    let (mut played, mut compared) = (BTreeSet::new(), 0);
    let recordings = recordings.iter();
    for recording in recordings.filter(|recording| recording.name != reactions::FILE) {
        for (conn, conversation) in conversations(recording) {
            let link = (recording.name.clone(), conn);
            compared += play(&link, conversation);
            played.insert(link);
        }
    }
    (played, compared)
}

fn play_reactions(recordings: &[Recording]) -> Vec<Link> {
    let mut all = recordings.iter();
    let recording = all.find(|recording| recording.name == reactions::FILE);
    assert!(recording.is_some() || recordings.is_empty());
    recording.map(reactions::play).unwrap_or_default()
}

/// Returns the number of compared items.
fn play((name, conn): &Link, conversation: Conversation) -> usize {
    let at = format!("{name}, connection {conn}");
    let mut stage = conversation.begin().expect(&at);
    let (committed, has_activation) = (conversation.committed(), conversation.has_activation());
    for packet in conversation.down {
        stage.hear(packet.expect(&at));
    }
    let mut expected = conversation.up;
    stage.said.retain(is_protocol);
    expected.retain(is_protocol);
    if let Some(differs) = differs(name, *conn) {
        assert_eq!(differs, Differs::SaysLess, "{at}");
        acknowledge_once(&mut expected);
    }
    assert_eq!(stage.said, expected, "{at}");
    assert_eq!(stage.delivered, committed, "{at}");
    // If a new configuration changes the learner's role, its host ends the learner.
    let is_left = stage.left.is_some() || (conversation.is_left && has_activation);
    assert_eq!(is_left, conversation.is_left, "{at}: {:?}", stage.left);
    let compared = expected.len() + committed.len();
    assert_ne!(compared, 0, "{at}");
    compared
}

fn is_protocol(packet: &LearnerPacket) -> bool {
    !matches!(
        packet,
        LearnerPacket::Ping { .. } | LearnerPacket::Request(_) | LearnerPacket::Revalidate(_)
    )
}
