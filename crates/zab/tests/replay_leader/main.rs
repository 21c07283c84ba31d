//! Conversations of Apache ZooKeeper 3.9.5, replayed: a leader of ours hears what a Java leader
//! heard, and must say what that said, link by link and in that order.
//!
//! What a leader is told by others than its learners is taken from the recording: which
//! transactions its own clients had proposed, when its own disk and the voters that were not
//! recorded had a proposal (before the first COMMIT of it), which sessions were alive, and when
//! half a tick was over.

#![allow(clippy::unwrap_used, reason = "a test")]

mod play;
#[path = "../recordings/mod.rs"]
mod recordings;
mod scenes;
mod script;
mod stage;

use std::collections::BTreeSet;

use play::Play;
use script::Script;

#[test]
fn a_leader_says_what_a_java_leader_said() {
    let recordings = recordings::all();
    let (mut links, mut packets) = (0, 0);
    for recording in &recordings {
        for scene in scenes::SCENES {
            if scene.file == recording.name {
                let played = Play::new(Script::new(*scene, recording)).play();
                links += played.links;
                packets += played.packets;
            }
        }
    }
    if !recordings.is_empty() {
        println!("{links} links, {packets} packets");
        assert!(links >= 90 && packets >= 1000);
    }
}

#[test]
fn every_java_leader_that_was_recorded_has_its_scene() {
    let recordings = recordings::all();
    let recorded: BTreeSet<(&str, i64)> = recordings
        .iter()
        .flat_map(|recording| {
            let packets = recording.lines.iter();
            let of_java = packets.filter_map(|line| script::java(&line.leader));
            of_java.map(|sid| (recording.name.as_str(), sid))
        })
        .collect();
    let scenes = scenes::SCENES
        .iter()
        .map(|scene| (scene.file, scene.leader));
    let known: BTreeSet<_> = scenes
        .chain(scenes::OBSERVER_MASTERS.iter().copied())
        .collect();
    // The leader that dies in it sends nothing.
    let recorded: BTreeSet<_> = recorded
        .into_iter()
        .filter(|leader| *leader != ("leader-loss", 3))
        .collect();
    if !recordings.is_empty() {
        assert_eq!(recorded, known);
    }
}
