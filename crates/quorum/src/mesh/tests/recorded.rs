//! Tests against recorded bytes of Apache ZooKeeper 3.9.5 servers (`vectors/ensemble`). In place of
//! one of these servers, this implementation sends the same bytes.
//!
//! Free ports with the same number of digits replace the recorded ports.

use std::collections::BTreeSet;
use std::fs;

use serde_json::Value;
use tokio::net::TcpListener;

use super::*;
use config::members::MemberRole;
use proto::ConfigVersion;
use proto::notification::PeerState::{Following, Leading};

/// Recorded messages between servers, in order.
struct Recording {
    records: Vec<Value>,
    /// Recorded ports and their replacements.
    ports: BTreeMap<String, String>,
}

impl Recording {
    fn read(file: &str) -> Option<Self> {
        let root = testkit::recordings::find("vectors/ensemble")?;
        let text = fs::read_to_string(root.join(file)).unwrap();
        let records: Vec<Value> = text
            .lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect();
        let mut ports = BTreeSet::new();
        for record in &records {
            for part in record["config"]
                .as_str()
                .unwrap_or("")
                .split([':', ';', '\n'])
            {
                if part.len() == 5 && part.parse::<u16>().is_ok() {
                    ports.insert(part.to_owned());
                }
            }
        }
        let ports = ports
            .into_iter()
            .map(|port| (port, free_port().to_string()));
        Some(Self {
            ports: ports.collect(),
            records,
        })
    }

    fn with_our_ports(&self, bytes: &[u8]) -> Vec<u8> {
        let mut bytes = bytes.to_vec();
        for at in 0..bytes.len().saturating_sub(4) {
            let part = String::from_utf8_lossy(&bytes[at..at + 5]).into_owned();
            let is_port = at > 0 && bytes[at - 1] == b':';
            if let Some(ours) = self.ports.get(&part).filter(|_| is_port) {
                bytes[at..at + 5].copy_from_slice(ours.as_bytes());
            }
        }
        bytes
    }

    fn port(&self, recorded: u16) -> u16 {
        self.ports[&recorded.to_string()].parse().unwrap()
    }

    fn sent(&self, kind: &str, from: &str, to: &str) -> Vec<Vec<u8>> {
        let is_meant = |record: &&Value| {
            record["type"] == kind && record["from"] == from && record["to"] == to
        };
        let records = self.records.iter().filter(is_meant);
        records
            .map(|record| {
                let hex = record["hex"].as_str().unwrap();
                let digits = |at: usize| u8::from_str_radix(&hex[at..at + 2], 16).unwrap();
                let bytes: Vec<u8> = (0..hex.len()).step_by(2).map(digits).collect();
                self.with_our_ports(&bytes)
            })
            .collect()
    }

    /// Returns the list in a recorded message.
    fn list(&self, frame: &[u8]) -> Membership {
        let notification = Notification::decode(frame[4..].to_vec().into()).unwrap();
        let text = notification.config().unwrap().to_vec();
        Membership::parse(&String::from_utf8(text).unwrap(), false).unwrap()
    }
}

#[tokio::test]
async fn three_fresh_servers() {
    let Some(recording) = Recording::read("election-3-fresh.jsonl") else {
        return;
    };
    let knocks = recording.sent("HANDSHAKE", "java-1", "java-3");
    let frames = recording.sent("NOTIFICATION", "java-1", "java-3");
    let third = TcpListener::bind((Ipv4Addr::LOCALHOST, recording.port(24203)));
    let third = third.await.unwrap();
    let mut peer = Peer::start(1, &recording.list(&frames[0]), zxid(0));
    // This is the first connection of this server.
    let (mut stream, _) = timeout(PATIENCE, third.accept()).await.unwrap().unwrap();
    let mut knock = Vec::new();
    timeout(PATIENCE, stream.read_to_end(&mut knock))
        .await
        .unwrap()
        .unwrap();
    assert_eq!(knock, knocks[0]);
    // The other server calls back, and the first vote arrives.
    let mut script = Script::connect(recording.port(24201)).await;
    script
        .write(&recording.sent("HANDSHAKE", "java-3", "java-1")[0])
        .await;
    assert_eq!(script.frame().await, frames[0]);
    // The other server's vote is better. This server adopts it, as in the last message of the
    // recording.
    for frame in recording.sent("NOTIFICATION", "java-3", "java-1") {
        script.write(&frame).await;
    }
    let last = frames.last().unwrap();
    while script.frame().await != *last {}
    assert_eq!(peer.elected().await, (Following, 3));
}

/// These are the answers of an ensemble with a leader, after its epoch has assigned a version to
/// the list.
#[tokio::test]
async fn answers_of_leader_and_followers() {
    let Some(recording) = Recording::read("election-probe-joins.jsonl") else {
        return;
    };
    let list = recording.list(&recording.sent("NOTIFICATION", "java-3", "probe-5")[1]);
    let before = Membership {
        version: ConfigVersion(0),
        ..list.clone()
    };
    let mut peers = Vec::new();
    for sid in 1..=3 {
        peers.push(Peer::start(sid, &before, zxid(0)));
    }
    for (peer, state) in peers.iter_mut().zip([Following, Following, Leading]) {
        assert_eq!(peer.elected().await, (state, 3));
        peer.voter
            .configure(list.clone(), None, MemberRole::Participant);
        peer.voter.epoch_active(Epoch(1));
    }
    for (sid, port) in [(1, 29201), (2, 29202), (3, 29203)] {
        let java = format!("java-{sid}");
        let mut probe = Script::connect(recording.port(port)).await;
        probe
            .write(&recording.sent("HANDSHAKE", "probe-5", &java)[0])
            .await;
        let answers = recording.sent("NOTIFICATION", &java, "probe-5");
        // The server now sends its vote, which it could not send to the probe during the election.
        assert_eq!(probe.frame().await, answers[0], "{java}");
        probe
            .write(&recording.sent("NOTIFICATION", "probe-5", &java)[0])
            .await;
        assert_eq!(probe.frame().await, answers[1], "{java}");
    }
}

/// This hello of version 2 comes from a server with two addresses.
#[tokio::test]
async fn several_addresses() {
    let Some(recording) = Recording::read("election-multi-address.jsonl") else {
        return;
    };
    let hellos = recording.sent("HANDSHAKE", "java-3", "java-1");
    let frames = recording.sent("NOTIFICATION", "java-3", "java-1");
    let text = Notification::decode(frames[0][4..].to_vec().into()).unwrap();
    let text = String::from_utf8(text.config().unwrap().to_vec()).unwrap();
    let list = Membership::parse(&text, true).unwrap();
    let settings = VoterSettings {
        multi_address: true,
        ..settings(3)
    };
    let place = list.members[&Sid(1)].addresses[0].election_port;
    let first = TcpListener::bind((Ipv4Addr::LOCALHOST, place))
        .await
        .unwrap();
    let _peer = Peer::with(settings, &list, zxid(0));
    let (stream, _) = timeout(PATIENCE, first.accept()).await.unwrap().unwrap();
    let mut script = Script { stream };
    let mut hello = vec![0; hellos[0].len()];
    script.stream.read_exact(&mut hello).await.unwrap();
    assert_eq!(hello, hellos[0]);
    assert_eq!(script.frame().await, frames[0]);
}
