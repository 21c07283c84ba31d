//! Replay of recorded connections of Apache ZooKeeper 3.9.5: a leader of Zoarium receives the
//! packets that a Java leader received, and must send the packets that it sent, in order per link.
//!
//! The recording also provides the leader's input from other sources: proposals of its own clients,
//! acknowledgements of its own disk and of unrecorded voters (before the first COMMIT of the
//! proposal), live sessions, and half ticks.

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
fn a_leader_sends_the_packets_of_a_java_leader() {
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
    // The leader that dies in it does not send anything.
    let recorded: BTreeSet<_> = recorded
        .into_iter()
        .filter(|leader| *leader != ("leader-loss", 3))
        .collect();
    if !recordings.is_empty() {
        assert_eq!(recorded, known);
    }
}
