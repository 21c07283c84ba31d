//! Elections of Apache ZooKeeper 3.9.5 servers as recorded (`../shared/vectors/ensemble`): one
//! server of each is replaced by ours, hears what it heard when it heard it, and must come to the
//! same end by the same votes.
//!
//! A queue of one lost some of Java's votes on their way out, and two threads of Java answer one
//! connection; so what Java sent to a peer must be a subsequence of what we send, with the same
//! end. Answers of settled servers are compared byte by byte.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use bytes::Bytes;
use election::{Action, Candidate, Election, Electorate, Heard, MemberList, Role, Settings, Vote};
use proto::notification::{Notification, PeerState};
use proto::quorum::Majority;
use proto::{ConfigVersion, ElectionRound, Epoch, Sid, Zxid};
use serde_json::Value;

/// A notification on its way between two servers.
#[derive(Debug, Clone)]
struct Record {
    at_ms: i64,
    from: Sid,
    to: Sid,
    frame: Vec<u8>,
    notification: Notification,
}

fn folder() -> Option<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/vectors/ensemble");
    if root.is_dir() {
        return Some(root);
    }
    let forbidden = std::env::var("ZOARIUM_FORBID_SKIP").is_ok_and(|value| value == "1");
    assert!(!forbidden, "no recordings at {}", root.display());
    println!("skipped: no recordings at ../shared/vectors/ensemble");
    None
}

fn sid(value: &Value) -> Option<Sid> {
    let (_, number) = value.as_str()?.split_once('-')?;
    number.parse().ok().map(Sid)
}

fn bytes(hex: &str) -> Vec<u8> {
    let digit = |at: usize| u8::from_str_radix(&hex[at..at + 2], 16).expect("hex");
    (0..hex.len()).step_by(2).map(digit).collect()
}

fn records(folder: &Path, file: &str) -> Vec<Record> {
    let text = fs::read_to_string(folder.join(file).with_extension("jsonl")).expect("the records");
    let lines = text
        .lines()
        .map(|line| serde_json::from_str(line).expect("JSON"));
    let notifications = lines.filter(|line: &Value| line["type"] == "NOTIFICATION");
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

/// What a host would read in a configuration; the crate that can is out of reach here.
fn members(notification: &Notification) -> MemberList {
    let text = notification.config().expect("a configuration");
    let text = std::str::from_utf8(text).expect("text");
    let mut list = MemberList::default();
    for line in text.lines() {
        let (key, value) = line.split_once('=').expect("key=value");
        if let Some(sid) = key.strip_prefix("server.") {
            if value.contains(":participant") {
                list.voters.insert(Sid(sid.parse().expect("a sid")));
            }
        } else {
            let version = i64::from_str_radix(value, 16).expect("a version");
            list.version = ConfigVersion(version);
        }
    }
    list
}

fn electorate(notification: &Notification) -> Electorate {
    let list = members(notification);
    let text = notification.config().expect("a configuration").clone();
    Electorate::new(Majority::new(list.voters), list.version, text)
}

fn vote(notification: &Notification) -> Vote {
    Vote {
        leader: notification.leader,
        zxid: notification.zxid,
        peer_epoch: notification.peer_epoch,
    }
}

fn heard(notification: &Notification) -> Heard {
    Heard {
        members: Some(members(notification)),
        notification: notification.clone(),
    }
}

/// One of our servers in the place of a recorded one.
struct Standin {
    me: Sid,
    candidate: Candidate,
    election: Election,
    sent: Vec<(Sid, Notification)>,
    elected: Vec<(PeerState, Vote)>,
    configs_seen: BTreeSet<ConfigVersion>,
}

impl Standin {
    /// As the server was when it sent its first vote of the recording.
    fn new(me: Sid, first: &Notification) -> Self {
        let own = vote(first);
        let is_observer = own == Vote::NOBODY;
        let role = if is_observer {
            Role::Observer
        } else {
            Role::Participant
        };
        let candidate = Candidate {
            zxid: Some(if is_observer { Zxid(0) } else { own.zxid }),
            peer_epoch: if is_observer {
                Epoch(0)
            } else {
                own.peer_epoch
            },
        };
        let settings = Settings {
            reconfig_enabled: true,
            ..Settings::default()
        };
        let election = Election::new(me, role, settings, electorate(first), candidate);
        Self {
            me,
            candidate,
            election,
            sent: Vec::new(),
            elected: Vec::new(),
            configs_seen: BTreeSet::new(),
        }
    }

    fn start(&mut self, now_ms: i64) {
        let mut out = Vec::new();
        self.election.start(self.candidate, now_ms, &mut out);
        self.act(out, now_ms);
    }

    fn pass(&mut self, until_ms: i64) {
        while let Some(due_ms) = self.election.next_deadline().filter(|due| *due <= until_ms) {
            let mut out = Vec::new();
            self.election.handle_deadline(due_ms, &mut out);
            self.act(out, due_ms);
        }
    }

    fn hear(&mut self, from: Sid, notification: &Notification, now_ms: i64) {
        let mut out = Vec::new();
        let heard = heard(notification);
        self.election
            .handle_notification(from, &heard, now_ms, &mut out);
        let seen = |action: &Action| matches!(action, Action::ConfigSeen { .. });
        let has_seen = out.iter().any(seen);
        self.act(out, now_ms);
        if has_seen {
            self.install(from, notification, now_ms);
        }
    }

    /// What the host does with a newer configuration: only if it names other servers does the
    /// election begin anew.
    fn install(&mut self, from: Sid, notification: &Notification, now_ms: i64) {
        let list = members(notification);
        self.configs_seen.insert(list.version);
        let electorate = electorate(notification);
        if self.election.electorate().members().voters == list.voters {
            self.election.set_electorate(electorate, now_ms);
            self.hear(from, notification, now_ms);
        } else {
            let role = Role::Participant;
            self.election.reset(role, electorate, self.candidate);
            self.start(now_ms);
        }
    }

    fn act(&mut self, out: Vec<Action>, now_ms: i64) {
        for action in out {
            match action {
                Action::Send { to, notification } if to == self.me => {
                    self.hear(self.me, &notification, now_ms);
                }
                Action::Send { to, notification } => self.sent.push((to, notification)),
                Action::Elected { state, vote, .. } => self.elected.push((state, vote)),
                _ => {}
            }
        }
    }

    /// The votes it cast towards a peer while looking, without repeats.
    fn votes_to(&self, peer: Sid) -> Vec<(Vote, ElectionRound)> {
        let sent = self.sent.iter().filter(|(to, _)| *to == peer);
        distinct(sent.map(|(_, notification)| notification))
    }
}

fn distinct<'a>(all: impl Iterator<Item = &'a Notification>) -> Vec<(Vote, ElectionRound)> {
    let looking = all.filter(|notification| notification.state == PeerState::Looking);
    let mut votes: Vec<_> = looking
        .map(|notification| (vote(notification), notification.round))
        .collect();
    votes.dedup();
    votes
}

fn is_subsequence<T: PartialEq>(part: &[T], whole: &[T]) -> bool {
    let mut rest = whole.iter();
    part.iter().all(|item| rest.any(|other| other == item))
}

/// A server that looks: in which recording, which one, and what becomes of it.
const LOOKERS: &[(&str, i64, PeerState, i64)] = &[
    ("election-3-fresh", 1, PeerState::Following, 3),
    ("election-3-fresh", 2, PeerState::Following, 3),
    ("election-3-fresh", 3, PeerState::Leading, 3),
    ("election-by-epoch", 1, PeerState::Leading, 1),
    ("election-by-epoch", 2, PeerState::Following, 1),
    ("election-by-epoch", 3, PeerState::Following, 1),
    ("election-by-sid", 1, PeerState::Following, 3),
    ("election-by-sid", 2, PeerState::Following, 3),
    ("election-by-sid", 3, PeerState::Leading, 3),
    ("election-by-zxid", 1, PeerState::Following, 2),
    ("election-by-zxid", 2, PeerState::Leading, 2),
    ("election-by-zxid", 3, PeerState::Following, 2),
    ("election-ahead-joins", 3, PeerState::Following, 2),
    ("election-join-running", 3, PeerState::Following, 2),
    ("election-rejoin", 1, PeerState::Following, 3),
    ("election-join-unlisted", 5, PeerState::Following, 3),
    ("fake-leader-election", 1, PeerState::Following, 5),
    ("fake-leader-election", 4, PeerState::Observing, 5),
    ("election-observer", 4, PeerState::Observing, 3),
    ("leader-loss-election", 1, PeerState::Following, 2),
    ("leader-loss-election", 2, PeerState::Leading, 2),
    // Led astray by what the voters publish: 3 is the leader that was killed.
    ("leader-loss-election", 4, PeerState::Observing, 3),
];

#[test]
fn lookers_vote_as_java_did_and_come_to_the_same_end() {
    let Some(folder) = folder() else { return };
    for &(file, number, state, leader) in LOOKERS {
        let me = Sid(number);
        let records = records(&folder, file);
        let begins = |record: &&Record| {
            let leader = record.notification.leader;
            let is_own = leader == me || leader == Vote::NOBODY.leader;
            record.from == me
                && record.notification.state == PeerState::Looking
                && record.notification.round > ElectionRound(0)
                && is_own
        };
        let first = records.iter().find(begins).expect("its first vote");
        let mut standin = Standin::new(me, &first.notification);
        while standin.election.round().0 + 1 < first.notification.round.0 {
            // Rounds before the recording.
            standin.start(0);
        }
        standin.sent.clear();
        let start_ms = first.at_ms;
        let heard: Vec<&Record> = records.iter().filter(|record| record.to == me).collect();
        let mut is_started = false;
        for record in heard {
            if !is_started && (record.at_ms >= start_ms || standin.election.round().0 > 0) {
                standin.start(start_ms.min(record.at_ms));
                is_started = true;
            }
            standin.pass(record.at_ms);
            standin.hear(record.from, &record.notification, record.at_ms);
        }
        if !is_started {
            standin.start(start_ms);
        }
        standin.pass(records.last().map_or(0, |record| record.at_ms) + 1000);
        let what = format!("{file}: server {number}");
        let end = standin
            .elected
            .first()
            .map(|(state, vote)| (*state, vote.leader));
        assert_eq!(end, Some((state, Sid(leader))), "{what}");
        for peer in records
            .iter()
            .map(|record| record.to)
            .collect::<BTreeSet<_>>()
        {
            let java = records
                .iter()
                .filter(|record| record.from == me && record.to == peer);
            // What it says to those without a vote is what it published, not how it votes.
            let is_voter = standin.election.electorate().is_voter(peer);
            let java = distinct(java.map(|record| &record.notification));
            let ours = standin.votes_to(peer);
            if is_voter && state != PeerState::Observing {
                assert!(
                    is_subsequence(&java, &ours),
                    "{what} to {peer}: {java:?} {ours:?}"
                );
                assert_eq!(java.last(), ours.last(), "{what} to {peer}");
            }
        }
    }
}

#[test]
fn a_server_outside_the_list_takes_the_list_of_the_ensemble() {
    let Some(folder) = folder() else { return };
    let records = records(&folder, "election-join-unlisted");
    let me = Sid(5);
    let first = records
        .iter()
        .find(|record| record.from == me)
        .expect("its vote");
    let mut standin = Standin::new(me, &first.notification);
    standin.start(first.at_ms);
    for record in records.iter().filter(|record| record.to == me) {
        standin.hear(record.from, &record.notification, record.at_ms);
    }
    assert_eq!(standin.configs_seen, [ConfigVersion(0x1_0000_0000)].into());
    // Itself by its own list; nobody, as it has no vote, by that of the ensemble.
    let java = records
        .iter()
        .filter(|record| record.from == me && record.to == Sid(1));
    let java = distinct(java.map(|record| &record.notification));
    assert_eq!(standin.votes_to(Sid(1)), java);
    assert_eq!((java.len(), java[1].0.leader), (2, Vote::NOBODY.leader));
}

/// A server that has a role, and who asks it.
const SETTLED: &[(&str, i64)] = &[
    ("election-probe-joins", 1),
    ("election-probe-joins", 2),
    ("election-probe-joins", 3),
    ("election-probe-joins-v2", 1),
    ("election-probe-joins-v2", 3),
    ("election-probe-observer", 1),
    ("election-probe-observer", 2),
    ("election-probe-observer", 3),
    ("election-rejoin", 2),
    ("election-rejoin", 3),
    ("election-join-running", 1),
    ("election-join-running", 2),
    ("election-ahead-joins", 1),
    ("election-ahead-joins", 2),
    ("election-join-unlisted", 1),
    ("election-join-unlisted", 2),
    ("election-join-unlisted", 3),
    ("reconfig-add-election", 1),
    ("reconfig-add-election", 3),
];

#[test]
fn settled_servers_answer_in_javas_bytes() {
    let Some(folder) = folder() else { return };
    for &(file, number) in SETTLED {
        let me = Sid(number);
        let records = records(&folder, file);
        let is_answer =
            |record: &&Record| record.from == me && record.notification.state != PeerState::Looking;
        let answer = records.iter().find(is_answer).expect("an answer");
        let agreed = vote(&answer.notification);
        let mut standin = Standin::new(me, &answer.notification);
        // It came to its role by this vote; the epoch was set when the leader was established.
        let elected = Notification {
            state: PeerState::Looking,
            ..answer.notification.clone()
        };
        standin.start(0);
        for peer in members(&elected).voters {
            if peer != me {
                standin.hear(peer, &elected, 0);
            }
        }
        standin.pass(200);
        assert_eq!(
            standin.elected.len(),
            1,
            "{file}: server {number} has a role"
        );
        standin.election.handle_epoch_active(agreed.peer_epoch);
        standin.sent.clear();
        let asks =
            |record: &&Record| record.to == me && record.notification.state == PeerState::Looking;
        let mut now_ms = 10_000;
        for question in records.iter().filter(asks) {
            now_ms += 1000;
            standin.hear(question.from, &question.notification, now_ms);
            let (to, ours) = standin.sent.pop().expect("an answer to each question");
            let mut frame = Vec::new();
            ours.encode_frame(&mut frame);
            assert_eq!(to, question.from);
            assert_eq!(frame, answer.frame, "{file}: server {number}");
        }
        assert!(now_ms > 10_000, "{file}: nobody asks server {number}");
    }
}
