//! Replays of the bytes that Java leaders sent.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

use jute::{Decode, Reader};
use proto::leader::LeaderPacket;
use proto::txn::{TxnDigest, TxnRecord};
use proto::{Zxid, packet::QuorumPacket};
use replica::{Input, LeaderEvent, LearnerEvent, State as _};
use serde_json::Value;
use tree::{Tree, Watches};
use zab::leader::LinkFault;

use super::support::{Content, TestMember, of_leader, raw_leader, raw_learner};
use crate::peer::PeerEvent;

/// One side of a connection that contains a snapshot.
struct Recording {
    name: String,
    /// Complete messages from the leader.
    messages: Vec<(String, Vec<u8>)>,
}

fn recordings() -> Vec<Recording> {
    let Some(folder) = testkit::recordings::find("vectors/ensemble") else {
        return Vec::new();
    };
    let entries = fs::read_dir(folder).unwrap();
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    let recordings: Vec<_> = paths.iter().flat_map(|path| recordings_in(path)).collect();
    assert!(recordings.len() >= 10, "{}", recordings.len());
    recordings
}

fn recordings_in(path: &Path) -> Vec<Recording> {
    let name = path.file_name().unwrap().to_string_lossy().into_owned();
    if !name.ends_with(".jsonl") {
        return Vec::new();
    }
    let text = fs::read_to_string(path).unwrap();
    let lines: Vec<Value> = text
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let with_snapshot = lines.iter().filter(|line| line["type"] == "SNAPSHOT");
    with_snapshot
        .map(|snapshot| {
            let conn = &snapshot["conn"];
            let of_leader = |line: &&Value| {
                line["conn"] == *conn && line["dir"] == "L>F" && line["hex"] != Value::Null
            };
            let messages = lines.iter().filter(of_leader);
            Recording {
                name: format!("{name}, connection {conn}"),
                messages: messages.map(message).collect(),
            }
        })
        .collect()
}

fn message(line: &Value) -> (String, Vec<u8>) {
    let hex = line["hex"].as_str().unwrap();
    let byte = |at| u8::from_str_radix(&hex[at..at + 2], 16).unwrap();
    let bytes = (0..hex.len()).step_by(2).map(byte).collect();
    (line["type"].as_str().unwrap().to_owned(), bytes)
}

fn decode(bytes: &[u8]) -> LeaderPacket {
    let mut input = Reader::new(bytes.to_vec());
    QuorumPacket::decode(&mut input)
        .unwrap()
        .try_into()
        .unwrap()
}

fn position(recording: &Recording) -> usize {
    let is_snapshot = |(kind, _): &(String, Vec<u8>)| kind == "SNAPSHOT";
    recording.messages.iter().position(is_snapshot).unwrap()
}

/// Sends a recording unchanged. Returns the tree and the packets after it.
fn replay(site: &TestMember, recording: &Recording) -> Result<(Tree, Vec<LeaderPacket>), String> {
    let (listener, leader) = raw_leader();
    let connection = site.dial(1, &[leader]);
    let (mut stream, _) = listener.accept().unwrap();
    site.leader_connected();
    let all: Vec<u8> = recording
        .messages
        .iter()
        .flat_map(|(_, bytes)| bytes.clone())
        .collect();
    stream.write_all(&all).unwrap();
    let at = position(recording);
    let before = site.leader_packets(at);
    assert!(matches!(before.last(), Some(LeaderPacket::Snap { .. })));
    connection.receive_snapshot();
    let PeerEvent { input, reason, .. } = site.at_learner();
    let tree = match of_leader(input).1 {
        LeaderEvent::SnapshotReceived(tree) => *tree,
        LeaderEvent::SnapshotDamaged => return Err(reason.unwrap().to_string()),
        other => panic!("{}: {other:?}", recording.name),
    };
    let behind = site.leader_packets(recording.messages.len() - at - 1);
    // Dropped first, so that the end of the stream causes no event.
    drop(connection);
    Ok((tree, behind))
}

#[test]
fn a_java_leader_s_snapshot_loads_and_its_transactions_follow() {
    let site = TestMember::new();
    let mut compared = 0;
    for recording in recordings() {
        let name = &recording.name;
        if name.starts_with("reactions-follower") {
            // This recording deliberately lacks znodes and has a wrong end.
            let error = replay(&site, &recording).map(|_| ()).unwrap_err();
            assert!(error.contains("the root znode is missing"), "{error}");
            continue;
        }
        let (mut tree, behind) = replay(&site, &recording).unwrap();
        let at = position(&recording);
        let LeaderPacket::Snap { zxid } = decode(&recording.messages[at - 1].1) else {
            panic!("{name}");
        };
        assert_eq!(tree.last_zxid(), zxid, "{name}");
        let recorded: Vec<_> = recording.messages[at + 1..]
            .iter()
            .map(|(_, bytes)| decode(bytes))
            .collect();
        assert_eq!(behind, recorded, "{name}");
        let (_, body) = &recording.messages[at];
        assert_eq!(Content::of_tree(&tree), Content::of_body(body), "{name}");
        if !name.starts_with("fake-leader") {
            compared += apply(&mut tree, zxid, behind, name);
        }
    }
    println!("{compared} digests compared");
}

/// Applies the packets. The digests that the leader logged prove that the tree equals the leader's
/// tree. Returns the number of compared digests.
fn apply(tree: &mut Tree, from: Zxid, packets: Vec<LeaderPacket>, name: &str) -> usize {
    let mut compared = 0;
    let (mut watches, mut events) = (Watches::default(), Vec::new());
    for packet in packets {
        let (LeaderPacket::Proposal { zxid, txn } | LeaderPacket::Inform { zxid, txn }) = packet
        else {
            continue;
        };
        if zxid <= from {
            continue;
        }
        let record = TxnRecord::decode(&mut Reader::new(txn)).unwrap();
        tree.apply(&record, &mut watches, &mut events);
        if let Some(digest) = record
            .digest
            .filter(|digest| digest.version == TxnDigest::VERSION)
        {
            assert_eq!(digest.digest, tree.digest().cast_signed(), "{name} {zxid}");
            compared += 1;
        }
    }
    compared
}

#[test]
fn a_java_leader_s_tree_is_sent_on_with_the_same_content() {
    let site = TestMember::new();
    let (port, address) = site.open_port();
    for recording in recordings() {
        if recording.name.starts_with("reactions-follower") {
            continue;
        }
        let (tree, _) = replay(&site, &recording).unwrap();
        let zxid = tree.last_zxid();
        site.state.replace_tree(tree);
        let mut learner = raw_learner(address);
        let link = site.learner_connected();
        port.send_snapshot(link, zxid);
        let sent = site.at_leader().input;
        assert!(matches!(
            sent,
            Input::Learner(_, LearnerEvent::SnapshotSent { .. })
        ));
        port.close(link, &LinkFault::Throttled);
        let mut sent = Vec::new();
        // Closing may discard bytes that the socket still holds. All data is small enough to have
        // arrived.
        std::io::Read::read_to_end(&mut learner, &mut sent).unwrap();
        let at = position(&recording);
        let (snap, body) = (&recording.messages[at - 1].1, &recording.messages[at].1);
        let name = &recording.name;
        assert_eq!(&sent[..snap.len()], &snap[..], "{name}");
        assert_eq!(sent.len(), snap.len() + body.len(), "{name}");
        assert_eq!(sent[sent.len() - 15..], body[body.len() - 15..], "{name}");
        let content = Content::of_body(&sent[snap.len()..]);
        assert_eq!(content, Content::of_body(body), "{name}");
    }
}
