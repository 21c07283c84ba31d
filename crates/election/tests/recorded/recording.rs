//! Parser of recordings, for a server that takes part in them.

use std::fs;
use std::path::{Path, PathBuf};

use bytes::Bytes;
use proto::notification::{Notification, PeerState};
use proto::quorum::Majority;
use proto::{ConfigVersion, ElectionRound, Sid};
use serde_json::Value;
use zoarium_election::{Electorate, MemberList, ReceivedNotification, Vote};

/// A notification between two servers.
#[derive(Debug, Clone)]
pub(crate) struct Record {
    pub(crate) at_ms: i64,
    pub(crate) from: Sid,
    pub(crate) to: Sid,
    pub(crate) frame: Vec<u8>,
    pub(crate) notification: Notification,
}

/// Returns the folder of the recordings; `None` if they are not available.
pub(crate) fn folder() -> Option<PathBuf> {
    testkit::recordings::find("vectors/ensemble")
}

pub(crate) fn sid(value: &Value) -> Option<Sid> {
    let (_, number) = value.as_str()?.split_once('-')?;
    number.parse().ok().map(Sid)
}

pub(crate) fn bytes(hex: &str) -> Vec<u8> {
    let digit = |at: usize| u8::from_str_radix(&hex[at..at + 2], 16).expect("hex");
    (0..hex.len()).step_by(2).map(digit).collect()
}

/// Returns all lines of a recording.
pub(crate) fn lines(folder: &Path, file: &str) -> Vec<Value> {
    let text = fs::read_to_string(folder.join(file).with_extension("jsonl")).expect("the records");
    let lines = text.lines();
    lines
        .map(|line| serde_json::from_str(line).expect("JSON"))
        .collect()
}

/// Returns the notifications of a recording.
pub(crate) fn records(folder: &Path, file: &str) -> Vec<Record> {
    let lines = lines(folder, file);
    let notifications = lines.iter().filter(|line| line["type"] == "NOTIFICATION");
    notifications
        .map(|line| {
            let frame = bytes(line["hex"].as_str().expect("bytes"));
            let notification = Notification::decode(Bytes::copy_from_slice(&frame[4..]));
            Record {
                at_ms: line["t"].as_i64().expect("a time"),
                from: sid(&line["from"]).expect("a sender"),
                to: sid(&line["to"]).expect("a receiver"),
                notification: notification.expect("a notification"),
                frame,
            }
        })
        .collect()
}

/// Parses a configuration like a host, if it is one. This crate cannot depend on the crate with the
/// real parser.
fn parse(config: &[u8]) -> Option<MemberList> {
    let mut list = MemberList::default();
    for line in std::str::from_utf8(config).ok()?.lines() {
        let (key, value) = line.split_once('=')?;
        if let Some(sid) = key.strip_prefix("server.") {
            if value.contains(":participant") {
                list.voters.insert(Sid(sid.parse().ok()?));
            }
        } else {
            list.version = ConfigVersion(i64::from_str_radix(value, 16).ok()?);
        }
    }
    Some(list)
}

pub(crate) fn members(notification: &Notification) -> MemberList {
    let config = notification.config().expect("a configuration");
    parse(config).expect("a list of members")
}

pub(crate) fn electorate(notification: &Notification) -> Electorate {
    let list = members(notification);
    let text = notification.config().expect("a configuration").clone();
    Electorate::new(Majority::new(list.voters), list.version, text)
}

pub(crate) fn vote(notification: &Notification) -> Vote {
    Vote {
        leader: notification.leader,
        zxid: notification.zxid,
        peer_epoch: notification.peer_epoch,
    }
}

pub(crate) fn heard(notification: &Notification) -> ReceivedNotification {
    ReceivedNotification {
        members: notification.config().and_then(|config| parse(config)),
        notification: notification.clone(),
    }
}

/// Returns the votes cast during an election, without repeats.
pub(crate) fn distinct<'a>(
    all: impl Iterator<Item = &'a Notification>,
) -> Vec<(Vote, ElectionRound)> {
    let looking = all.filter(|notification| notification.state == PeerState::Looking);
    let mut votes: Vec<_> = looking
        .map(|notification| (vote(notification), notification.round))
        .collect();
    votes.dedup();
    votes
}

/// Returns whether `whole` contains all items of `part`, in this order.
pub(crate) fn is_subsequence<T: PartialEq>(part: &[T], whole: &[T]) -> bool {
    let mut rest = whole.iter();
    part.iter().all(|item| rest.any(|other| other == item))
}
