//! A follower that receives wrong hellos and notifications, case by case: connections that it
//! keeps, closes or calls back, and its answers byte by byte.
//!
//! Two deliberate differences (COMPATIBILITY.md, Ensembles):
//!
//! * Java opens every connection with its last message to that server, so the follower sends an
//!   obsolete vote. Zoarium sends a notification only as an answer. While a server looks for a
//!   leader, it sends its current vote.
//! * If a hello contains the receiver's own sid, Java leaves the connection open without reading
//!   it. Zoarium closes it.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use proto::hello::{Endpoint, Hello};
use proto::notification::{FRAME_BYTES_MAX, Notification};
use proto::{Epoch, Sid};
use serde_json::Value;
use zoarium_election::links::{ConnectionId, LinkAction, Links};

use crate::recording::{bytes, electorate, folder, lines, members, sid};
use crate::standin::Standin;

pub(crate) const REACTIONS: &str = "reactions-election";

const ME: Sid = Sid(1);
const OWN_SID: &str = "handshake with the server's own sid";

/// One wrong input and its outcome.
struct Case {
    title: String,
    lines: Vec<Value>,
    /// The script's view: open or closed, and the number of bytes received.
    outcome: String,
}

/// Splits the lines into cases. The script's notes surround each case.
fn cases(lines: &[Value]) -> Vec<Case> {
    let mut cases: Vec<Case> = Vec::new();
    for line in lines.iter().skip(1) {
        match line["note"].as_str() {
            Some(note) if note.starts_with("the ensemble: ") => {
                assert_eq!(note, "the ensemble: ok");
            }
            Some(note) => match (note.strip_prefix("java-1: "), cases.last_mut()) {
                (Some(outcome), Some(case)) => outcome.clone_into(&mut case.outcome),
                _ => cases.push(Case {
                    title: note.to_owned(),
                    lines: Vec::new(),
                    outcome: String::new(),
                }),
            },
            None => {
                let case = cases.last_mut().expect("a note before each case");
                case.lines.push(line.clone());
            }
        }
    }
    cases
}

fn hex(line: &Value) -> Vec<u8> {
    bytes(line["hex"].as_str().expect("bytes"))
}

/// Returns input that the recorder could not distinguish from noise, as the script wrote it:
/// connection, hello, message.
fn unrecorded(title: &str, lines: &[Value]) -> Option<(u64, Vec<u8>, Option<Vec<u8>>)> {
    let of_ninth = |kind: &str| {
        let mut all = lines.iter().filter(|line| line["from"] == "probe-9");
        hex(all.find(|line| line["type"] == kind).expect("sent by 9"))
    };
    let hello = |sid: i64| {
        let mut hello = of_ninth("HANDSHAKE");
        hello[..8].copy_from_slice(&(-65_536i64).to_be_bytes());
        hello[8..16].copy_from_slice(&sid.to_be_bytes());
        hello
    };
    match title {
        "handshake with address length -1" => {
            let length = (-1i32).to_be_bytes();
            Some((23, [&hello(9)[..16], &length].concat(), None))
        }
        OWN_SID => Some((27, hello(ME.0), None)),
        "legacy handshake: sid 9 alone, then LOOKING" => {
            let hello = 9i64.to_be_bytes().to_vec();
            Some((30, hello, Some(of_ninth("NOTIFICATION"))))
        }
        "sid 9223372036854775807 (nameless observer)" => {
            Some((34, hello(i64::MAX), Some(of_ninth("NOTIFICATION"))))
        }
        _ => None,
    }
}

/// The follower: its election, its connections, and a minimal host.
struct Follower {
    standin: Standin,
    links: Links,
    now_ms: i64,
    kept: BTreeMap<ConnectionId, Sid>,
    closed: BTreeSet<ConnectionId>,
    /// Dialled servers and addresses.
    dials: Vec<(Sid, Vec<Endpoint>)>,
    wrote: Vec<(ConnectionId, Vec<u8>)>,
}

impl Follower {
    /// Creates a follower of 3 together with 2. The fourth voter, 5, was never reached.
    fn new(elected: &Notification, established: &Notification) -> Self {
        let voters = members(elected).voters;
        let links = Links::new(ME, voters);
        let mut follower = Self {
            standin: Standin::new(ME, elected),
            links,
            now_ms: 0,
            kept: BTreeMap::new(),
            closed: BTreeSet::new(),
            dials: Vec::new(),
            wrote: Vec::new(),
        };
        follower.standin.elect([Sid(2), Sid(3)], elected);
        let election = &mut follower.standin.election;
        election.set_electorate(electorate(established), 0);
        election.handle_epoch_active(established.peer_epoch);
        follower.flush();
        for (sid, _) in std::mem::take(&mut follower.dials) {
            follower.links.handle_dial_failed(sid, 0);
        }
        follower
    }

    /// Passes the election's notifications to the connections.
    fn flush(&mut self) {
        for (to, notification) in std::mem::take(&mut self.standin.sent) {
            let mut out = Vec::new();
            self.links.send(to, notification, self.now_ms, &mut out);
            self.act(out);
        }
    }

    fn act(&mut self, out: Vec<LinkAction>) {
        for action in out {
            match action {
                LinkAction::Dial { sid, at } => self.dials.push((sid, at)),
                LinkAction::Keep { connection, sid } => {
                    self.kept.insert(connection, sid);
                    let mut out = Vec::new();
                    self.standin.election.handle_peer_up(sid, &mut out);
                    self.standin.act(out, self.now_ms);
                }
                LinkAction::Close { connection, .. } => self.close(connection),
                LinkAction::Down { sid } => {
                    let mut out = Vec::new();
                    let election = &mut self.standin.election;
                    election.handle_peer_down(sid, self.now_ms, &mut out);
                    self.standin.act(out, self.now_ms);
                }
                LinkAction::Write {
                    connection,
                    notification,
                } => {
                    let mut frame = Vec::new();
                    notification.encode_frame(&mut frame);
                    self.wrote.push((connection, frame));
                }
            }
        }
    }

    fn close(&mut self, connection: ConnectionId) {
        self.kept.remove(&connection);
        self.closed.insert(connection);
    }

    fn take_hello(&mut self, connection: ConnectionId, bytes: &[u8]) {
        match Hello::decode(bytes) {
            Ok(None) => {}
            Err(_) => self.close(connection),
            Ok(Some((hello, len))) => {
                assert_eq!(len, bytes.len());
                let mut out = Vec::new();
                self.links.handle_hello(connection, &hello, &mut out);
                self.act(out);
                self.flush();
            }
        }
    }

    fn take_message(&mut self, connection: ConnectionId, bytes: &[u8]) {
        let Some(&from) = self.kept.get(&connection) else {
            return;
        };
        let len = bytes.first_chunk().map(|len| i32::from_be_bytes(*len));
        let len = len.and_then(|len| usize::try_from(len).ok());
        if !len.is_some_and(|len| (1..=FRAME_BYTES_MAX).contains(&len)) {
            self.close(connection);
            self.hang_up(connection);
        } else if let Ok(notification) = Notification::decode(Bytes::copy_from_slice(&bytes[4..])) {
            self.standin.hear(from, &notification, self.now_ms);
            self.flush();
        }
    }

    fn hang_up(&mut self, connection: ConnectionId) {
        self.kept.remove(&connection);
        let mut out = Vec::new();
        self.links.handle_closed(connection, &mut out);
        self.act(out);
    }

    fn is_called_back(&mut self, connection: ConnectionId, hello: &[u8]) {
        let (sid, at) = self.dials.pop().expect("ours dials as well");
        let (hello, _) = Hello::decode(hello).expect("a hello").expect("all of it");
        assert_eq!(at, hello.dial_back().cloned().collect::<Vec<_>>());
        let mut out = Vec::new();
        self.links
            .handle_dialled(sid, connection, self.now_ms, &mut out);
        self.act(out);
        self.flush();
    }

    /// Returns the script's view of a connection after a step.
    fn seen(&self, connection: ConnectionId, frames: &[Vec<u8>]) -> String {
        let bytes: usize = frames.iter().map(Vec::len).sum();
        if self.closed.contains(&connection) {
            format!("closed after {bytes} bytes")
        } else {
            format!("open, {bytes} bytes")
        }
    }
}

/// One case played against Zoarium: the outcome in the script's format, and the sent notifications.
/// `last` contains the last notification to each server, which Java repeats; `repeats` counts the
/// repeats.
struct Played<'a> {
    follower: &'a mut Follower,
    last: &'a mut BTreeMap<Sid, Vec<u8>>,
    repeats: &'a mut usize,
    outcome: String,
    sent: Vec<Vec<u8>>,
}

impl Played<'_> {
    fn hello(&mut self, connection: ConnectionId, bytes: &[u8]) {
        self.follower.take_hello(connection, bytes);
        let mut frames = self.take_written(connection);
        if let Some(sid) = self.follower.kept.get(&connection) {
            match self.last.get(sid) {
                Some(again) if frames.is_empty() => {
                    frames.push(again.clone());
                    *self.repeats += 1;
                }
                _ => {}
            }
        }
        self.outcome = self.follower.seen(connection, &frames);
        self.note(connection, frames);
    }

    fn message(&mut self, connection: ConnectionId, bytes: &[u8]) {
        self.follower.take_message(connection, bytes);
        let frames = self.take_written(connection);
        let seen = self.follower.seen(connection, &frames);
        self.outcome = format!(
            "after the handshake {}, after the message {seen}",
            self.outcome
        );
        self.note(connection, frames);
    }

    fn take_written(&mut self, connection: ConnectionId) -> Vec<Vec<u8>> {
        let written = std::mem::take(&mut self.follower.wrote);
        assert!(written.iter().all(|(over, _)| *over == connection));
        written.into_iter().map(|(_, frame)| frame).collect()
    }

    fn note(&mut self, connection: ConnectionId, frames: Vec<Vec<u8>>) {
        if let (Some(sid), Some(frame)) = (self.follower.kept.get(&connection), frames.last()) {
            self.last.insert(*sid, frame.clone());
        }
        self.sent.extend(frames);
    }

    fn line(&mut self, line: &Value, hello: &mut Vec<u8>) {
        let connection = ConnectionId(line["conn"].as_u64().expect("a connection"));
        self.follower.now_ms = line["t"].as_i64().expect("a time");
        let is_ours = sid(&line["from"]) == Some(ME);
        match (line["type"].as_str(), is_ours) {
            (Some("HANDSHAKE" | "PARTIAL"), false) => {
                *hello = hex(line);
                self.hello(connection, hello);
            }
            (Some(_), false) => self.message(connection, &hex(line)),
            (Some("HANDSHAKE"), true) => {
                self.follower.is_called_back(connection, hello);
                self.outcome += "; called back";
            }
            // The case compares these answers at its end.
            (Some(_), true) => {}
            (None, true) => assert!(self.follower.closed.contains(&connection), "{line}"),
            (None, false) => self.follower.hang_up(connection),
        }
    }
}

#[test]
fn invalid_messages_get_javas_reactions() {
    let Some(folder) = folder() else { return };
    let lines = lines(&folder, REACTIONS);
    let said = |state: &str| {
        let own = lines.iter().filter(|line| sid(&line["from"]) == Some(ME));
        let mut own = own.filter(|line| line["state"] == state);
        let frame = hex(own.next().expect("said so"));
        Notification::decode(Bytes::copy_from_slice(&frame[4..])).expect("a notification")
    };
    let established = said("FOLLOWING");
    assert_eq!(established.peer_epoch, Epoch(1));
    let mut follower = Follower::new(&said("LOOKING"), &established);
    let (mut last, mut repeats) = (BTreeMap::new(), 0);
    let cases = cases(&lines);
    assert_eq!(cases.len(), 28);
    for case in &cases {
        let mut hello = Vec::new();
        let mut played = Played {
            follower: &mut follower,
            last: &mut last,
            repeats: &mut repeats,
            outcome: String::new(),
            sent: Vec::new(),
        };
        let title = &case.title;
        let unrecorded = unrecorded(title, &lines);
        if let Some((number, first, message)) = &unrecorded {
            let connection = ConnectionId(*number);
            hello.clone_from(first);
            played.hello(connection, first);
            if let Some(message) = message {
                played.message(connection, message);
            }
        }
        for line in &case.lines {
            played.line(line, &mut hello);
        }
        let java = if title == OWN_SID {
            assert_eq!(case.outcome, "open, 0 bytes");
            "closed after 0 bytes"
        } else {
            case.outcome.as_str()
        };
        assert_eq!(played.outcome, java, "{title}");
        let recorded = case.lines.iter().filter(|line| {
            let is_message = line["type"] == "NOTIFICATION";
            is_message && sid(&line["from"]) == Some(ME)
        });
        let recorded: Vec<_> = recorded.map(hex).collect();
        if unrecorded.is_none() {
            assert_eq!(played.sent, recorded, "{title}");
        }
        assert!(
            follower.dials.is_empty(),
            "{title}: ours dials, Java did not"
        );
    }
    assert_eq!(repeats, 15, "Java's repeats, which ours leaves out");
}
