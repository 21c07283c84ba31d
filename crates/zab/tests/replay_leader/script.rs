//! A recording from the leader's view: received packets, sent packets, and the initial state.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use proto::leader::LeaderPacket;
use proto::learner::LearnerPacket;
use proto::packet::QuorumPacket;
use proto::{Epoch, Zxid};
use zoarium_zab::Record;
use zoarium_zab::leader::{EpochConfig, LinkId};
use zoarium_zab::learner::LearnerKind;

use crate::recordings::{self, Event, Recording};
use crate::scenes::{DROPPED, Dropped, Scene, Start};
use crate::stage::Elected;

/// Returns the sid in the name of a real server.
pub(crate) fn java(name: &str) -> Option<i64> {
    name.strip_prefix("java-")?.parse().ok()
}

pub(crate) struct Line {
    pub(crate) link: LinkId,
    pub(crate) what: What,
    pub(crate) is_done: bool,
}

#[derive(Clone)]
pub(crate) enum What {
    /// The leader sends.
    Down(LeaderPacket),
    /// A learner sends; it may not decode.
    Up(QuorumPacket),
    ClosedByLeader,
    ClosedByLearner,
}

/// Transactions, each with its configuration.
type Transactions = BTreeMap<Zxid, (Record, Option<String>)>;

pub(crate) struct Script {
    pub(crate) scene: Scene,
    pub(crate) lines: Vec<Line>,
    learners: BTreeMap<LinkId, i64>,
    transactions: Transactions,
    config: EpochConfig,
}

impl Script {
    pub(crate) fn new(scene: Scene, recording: &Recording) -> Self {
        let config = EpochConfig {
            text: Bytes::new(),
            version: 0,
        };
        let mut script = Self {
            scene,
            lines: Vec::new(),
            learners: BTreeMap::new(),
            transactions: Transactions::new(),
            config,
        };
        let lines = recording.lines.iter();
        for line in lines.filter(|line| java(&line.leader) == Some(scene.leader)) {
            script.add(line);
        }
        if let Ok(text) = std::str::from_utf8(&script.config.text)
            && let Some((_, version)) = text.split_once("version=")
        {
            script.config.version = i64::from_str_radix(version, 16).unwrap();
        }
        let is_later = |(zxid, (_, config)): (&Zxid, &(Record, Option<String>))| {
            config.is_some() && zxid.0 == script.config.version
        };
        if script.transactions.iter().any(is_later) {
            // The recording contains this configuration's reconfiguration. The previous
            // configuration is unknown.
            script.config = EpochConfig {
                text: "before".into(),
                version: 0,
            };
        }
        script
    }

    fn add(&mut self, line: &recordings::Line) {
        let link = LinkId(line.conn);
        let sid = line.learner.split_once('-').map(|(_, sid)| sid);
        if let Some(sid) = sid.and_then(|sid| sid.parse().ok()) {
            self.learners.insert(link, sid);
        }
        let what = match &line.event {
            Event::Down(packet) => What::Down(packet.clone().try_into().unwrap()),
            Event::Up(packet) => What::Up(packet.clone()),
            Event::ClosedByLeader => What::ClosedByLeader,
            Event::ClosedByLearner => What::ClosedByLearner,
        };
        match &what {
            What::Down(LeaderPacket::NewLeader { config, .. }) if self.config.text.is_empty() => {
                self.config.text = config.clone().unwrap_or_default();
            }
            What::Down(packet) => {
                if let Some(record) = transaction(packet) {
                    let known = self.transactions.entry(record.zxid);
                    known.or_insert((record, line.config.clone()));
                }
            }
            // Without a recorded NEWLEADER: the leader's version is at least that of each learner.
            What::Up(packet) => {
                let version = introduction(packet).unwrap_or(0);
                self.config.version = self.config.version.max(version);
            }
            What::ClosedByLeader | What::ClosedByLearner => {}
        }
        let is_done = false;
        self.lines.push(Line {
            link,
            what,
            is_done,
        });
    }

    /// Returns the leader's state at its election.
    pub(crate) fn elected(&self) -> Elected {
        let (accepted, current, last) = match self.scene.start {
            Start::Elected {
                accepted,
                current,
                last,
            } => (accepted, current, last),
            Start::Leading { epoch, before } => (epoch - 1, epoch - 1, before),
        };
        let (epoch, last) = last;
        let zxids = (1..=last).map(|counter| Zxid::new(Epoch(epoch), counter));
        Elected {
            sid: self.scene.leader,
            voters: self.scene.voters,
            accepted: Epoch(accepted),
            current: Epoch(current),
            history: zxids.map(|zxid| self.transaction(zxid).0).collect(),
            config: self.config.clone(),
            force_snapshot: self.scene.force_snapshot,
        }
    }

    /// Returns a transaction and its configuration. An unrecorded transaction is empty.
    pub(crate) fn transaction(&self, zxid: Zxid) -> (Record, Option<String>) {
        let known = self.transactions.get(&zxid).cloned();
        known.unwrap_or((Record::new(zxid, Bytes::new()), None))
    }

    pub(crate) fn lines_of(&self, link: LinkId) -> impl Iterator<Item = &Line> {
        self.lines.iter().filter(move |line| line.link == link)
    }

    /// Learners that were connected before the recording began, and whose introduction is not
    /// recorded.
    pub(crate) fn there(&self) -> Vec<(LinkId, i64, LearnerKind)> {
        let there = self.learners.iter().filter(|(link, _)| {
            let first = self.lines_of(**link).next().map(|line| &line.what);
            !matches!(first, Some(What::Up(packet)) if introduction(packet).is_some())
        });
        there
            .map(|(link, sid)| (*link, *sid, self.kind(*link, *sid)))
            .collect()
    }

    /// Returns the kind of a learner. A server without a vote is an observer, unless it receives
    /// proposals.
    fn kind(&self, link: LinkId, sid: i64) -> LearnerKind {
        let is_proposal =
            |line: &Line| matches!(line.what, What::Down(LeaderPacket::Proposal { .. }));
        if self.scene.voters.contains(&sid) || self.lines_of(link).any(is_proposal) {
            LearnerKind::Follower
        } else {
            LearnerKind::Observer
        }
    }

    /// Returns the last transaction before the first one on these links. A PING may name one that
    /// observers have not received yet.
    pub(crate) fn last_before(&self, links: &BTreeSet<LinkId>) -> Option<Zxid> {
        let lines = self.lines.iter();
        let down = lines.filter_map(|line| match &line.what {
            What::Down(packet) if links.contains(&line.link) => Some(packet),
            _ => None,
        });
        let first = down.clone().find_map(transaction);
        let pinged = down.clone().find_map(|packet| match packet {
            LeaderPacket::Ping { zxid } => Some(*zxid),
            _ => None,
        });
        first.map(|record| Zxid(record.zxid.0 - 1)).or(pinged)
    }

    /// Returns the zxid of the opening packet after the leader has read this line.
    pub(crate) fn opening(&self, at: usize) -> Option<Zxid> {
        let link = self.lines[at].link;
        let mut behind = self.lines[at..].iter().filter(|line| line.link == link);
        behind.find_map(|line| match &line.what {
            What::Down(
                LeaderPacket::Snap { zxid }
                | LeaderPacket::Diff { zxid }
                | LeaderPacket::Trunc { zxid },
            ) => Some(*zxid),
            _ => None,
        })
    }

    /// Returns the last proposal that a link shows before this commit, among the lines not yet
    /// played.
    pub(crate) fn last_before_commit(&self, zxid: Zxid) -> Zxid {
        let mut last = Zxid::ZERO;
        for link in self.learners.keys() {
            let mut newest = Zxid::ZERO;
            for line in self.lines_of(*link).filter(|line| !line.is_done) {
                match &line.what {
                    What::Down(LeaderPacket::Proposal { zxid, .. }) => newest = *zxid,
                    What::Down(
                        LeaderPacket::Commit { zxid: at }
                        | LeaderPacket::CommitAndActivate { zxid: at, .. },
                    ) if *at == zxid => {
                        last = last.max(newest);
                        break;
                    }
                    _ => {}
                }
            }
        }
        last
    }

    /// Returns whether Java's leader dropped the link.
    pub(crate) fn is_dropped(&self, link: LinkId) -> bool {
        let mut lines = self.lines_of(link);
        lines.any(|line| matches!(line.what, What::ClosedByLeader))
    }

    /// Returns the links that Zoarium drops deliberately.
    pub(crate) fn meant(&self) -> impl Iterator<Item = &'static Dropped> {
        let file = self.scene.file;
        DROPPED.iter().filter(move |dropped| dropped.file == file)
    }

    pub(crate) fn place(&self, at: usize) -> String {
        let link = self.lines[at].link;
        let before = self.lines[..at].iter().filter(|line| line.link == link);
        format!("{}, {link}, line {}", self.scene.file, before.count() + 1)
    }
}

fn transaction(packet: &LeaderPacket) -> Option<Record> {
    match packet {
        LeaderPacket::Proposal { zxid, txn }
        | LeaderPacket::Inform { zxid, txn }
        | LeaderPacket::InformAndActivate { zxid, txn, .. } => {
            Some(Record::new(*zxid, txn.clone()))
        }
        _ => None,
    }
}

/// Returns the learner's configuration version from an introduction.
fn introduction(packet: &QuorumPacket) -> Option<i64> {
    match LearnerPacket::try_from(packet.clone()) {
        Ok(LearnerPacket::FollowerInfo { info, .. } | LearnerPacket::ObserverInfo { info, .. }) => {
            Some(info.and_then(|info| info.config_version).unwrap_or(0))
        }
        _ => None,
    }
}
