//! Recorded connections between servers of Apache ZooKeeper 3.9.5, line by line.

#![allow(dead_code, reason = "not every test reads every field")]

use std::fs;
use std::path::Path;

use proto::Zxid;
use proto::packet::QuorumPacket;
use serde_json::Value;

/// One file: a scenario.
#[derive(Debug)]
pub(crate) struct Recording {
    pub(crate) name: String,
    pub(crate) lines: Vec<Line>,
}

/// An event on a connection between a learner and its leader.
#[derive(Debug)]
pub(crate) struct Line {
    pub(crate) conn: u64,
    pub(crate) leader: String,
    pub(crate) learner: String,
    pub(crate) event: Event,
    /// The configuration in a reconfiguration.
    pub(crate) config: Option<String>,
}

#[derive(Debug)]
pub(crate) enum Event {
    /// The leader sends.
    Down(QuorumPacket),
    /// The learner sends.
    Up(QuorumPacket),
    ClosedByLeader,
    ClosedByLearner,
}

/// Returns all recordings with their lines on quorum connections. Empty if the recordings are not
/// available.
pub(crate) fn all() -> Vec<Recording> {
    let Some(folder) = testkit::recordings::find("vectors/ensemble") else {
        return Vec::new();
    };
    let paths = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path());
    let mut recordings: Vec<Recording> = paths.filter_map(|path| read(&path)).collect();
    recordings.sort_by(|one, other| one.name.cmp(&other.name));
    recordings
}

fn read(path: &Path) -> Option<Recording> {
    let name = path.file_name()?.to_str()?.strip_suffix(".jsonl")?;
    let text = fs::read_to_string(path).unwrap();
    let lines = text.lines().map(|line| serde_json::from_str(line).unwrap());
    Some(Recording {
        name: name.to_owned(),
        lines: lines.filter_map(|line| self::line(&line)).collect(),
    })
}

fn line(line: &Value) -> Option<Line> {
    let conn = line["conn"].as_u64()?;
    let (from, to) = (line["from"].as_str()?, line["to"].as_str()?);
    let is_down = match line["dir"].as_str()? {
        "L>F" => true,
        "F>L" => false,
        // Another crate tests election connections.
        _ => return None,
    };
    let event = match (line["event"].as_str(), line["type"].as_str()) {
        (Some("close" | "reset"), _) if is_down => Event::ClosedByLeader,
        (Some("close" | "reset"), _) => Event::ClosedByLearner,
        // Not packets: a tree, and bytes that are not a packet or break off.
        (_, None | Some("SNAPSHOT" | "RAW" | "PARTIAL")) => return None,
        _ if is_down => Event::Down(packet(line)),
        _ => Event::Up(packet(line)),
    };
    let (leader, learner) = if is_down { (from, to) } else { (to, from) };
    Some(Line {
        conn,
        leader: leader.to_owned(),
        learner: learner.to_owned(),
        event,
        config: line["config"].as_str().map(str::to_owned),
    })
}

/// Decodes the packet of a line. The identities of a client do not matter for the decisions here,
/// and are left out.
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
