//! A leader with its disk, its clock, and the voters whose links were not recorded.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use proto::leader::LeaderPacket;
use proto::learner::{LearnerInfo, LearnerPacket, LearnerRequest, Touch};
use proto::quorum::Majority;
use proto::{Epoch, SessionId, Sid, Zxid};
use zoarium_zab::leader::{
    Action, EpochConfig, Leader, LeaderStart, LinkFault, LinkId, NextConfig, StepDown,
};
use zoarium_zab::learner::LearnerKind;
use zoarium_zab::{CommittedLog, Record, Settings};

/// State of the leader at its election.
pub(crate) struct Elected {
    pub(crate) sid: i64,
    pub(crate) voters: &'static [i64],
    pub(crate) accepted: Epoch,
    pub(crate) current: Epoch,
    pub(crate) history: Vec<Record>,
    pub(crate) config: EpochConfig,
    pub(crate) force_snapshot: bool,
}

/// Packets that the leader has sent over a recorded link, and the end of the link.
#[derive(Debug, Default)]
pub(crate) struct Link {
    pub(crate) sent: VecDeque<LeaderPacket>,
    /// The zxid of the last PING.
    pub(crate) pinged: Option<Zxid>,
    /// The side that ended the link.
    pub(crate) end: Option<End>,
}

#[derive(Debug)]
pub(crate) enum End {
    Learner,
    /// A packet did not decode.
    Host,
    Leader(LinkFault),
    /// The leader has stepped down.
    SteppedDown,
}

pub(crate) struct Stage {
    leader: Leader,
    sid: Sid,
    config: EpochConfig,
    /// All records in the log.
    log: Vec<Record>,
    now_ms: i64,
    actions: Vec<Action>,
    pub(crate) links: BTreeMap<LinkId, Link>,
    /// Packets that unrecorded learners have yet to send.
    owed: BTreeMap<LinkId, VecDeque<LearnerPacket>>,
    pub(crate) requests: VecDeque<(LinkId, LearnerRequest)>,
    pub(crate) revalidations: VecDeque<(LinkId, Touch)>,
    pub(crate) touches: Vec<(LinkId, Vec<Touch>)>,
    pub(crate) stepped_down: Option<StepDown>,
}

impl Stage {
    pub(crate) fn new(start: Elected) -> Self {
        let mut committed = CommittedLog::default();
        for record in &start.history {
            committed.push(record.clone());
        }
        let last_zxid = start
            .history
            .last()
            .map_or(Zxid::ZERO, |record| record.zxid);
        // A configuration without a version receives the epoch as its version.
        let version = start.config.version;
        let is_new = Zxid(version).epoch() > start.accepted;
        let settings = Settings {
            force_snapshot: start.force_snapshot,
            ..Settings::new(200, 10, 5)
        };
        let leader = LeaderStart {
            sid: Sid(start.sid),
            accepted_epoch: start.accepted,
            accepted_floor: Epoch(0),
            current_epoch: start.current,
            last_zxid,
            committed,
            log_whole_from: Zxid::ZERO,
            quorum: majority(start.voters.iter().map(|sid| Sid(*sid))),
            config_version: if is_new { 0 } else { version },
            next: None,
        };
        let mut actions = Vec::new();
        let mut stage = Self {
            leader: Leader::new(leader, settings, 0, &mut actions),
            sid: Sid(start.sid),
            config: start.config,
            log: start.history,
            now_ms: 0,
            actions,
            links: BTreeMap::new(),
            owed: BTreeMap::new(),
            requests: VecDeque::new(),
            revalidations: VecDeque::new(),
            touches: Vec::new(),
            stepped_down: None,
        };
        stage.settle();
        stage
    }

    /// Connects a learner whose link was recorded completely.
    pub(crate) fn connect(&mut self, link: LinkId) {
        self.leader.handle_connected(link, self.now_ms);
        self.links.insert(link, Link::default());
    }

    /// Connects a learner whose link is not recorded yet. It introduces itself as soon as the
    /// script permits.
    pub(crate) fn connect_unrecorded(&mut self, link: LinkId, sid: i64, kind: LearnerKind) {
        self.leader.handle_connected(link, self.now_ms);
        let info = Some(LearnerInfo::new(Sid(sid), 0));
        let accepted_epoch = Epoch(0);
        let introduction = match kind {
            LearnerKind::Follower => LearnerPacket::FollowerInfo {
                accepted_epoch,
                info,
            },
            LearnerKind::Observer => LearnerPacket::ObserverInfo {
                accepted_epoch,
                info,
            },
        };
        self.owed.insert(link, VecDeque::from([introduction]));
    }

    /// Begins the recorded part of an existing link.
    pub(crate) fn begin_recording(&mut self, link: LinkId) {
        assert!(self.owed.remove(&link).is_some_and(|owed| owed.is_empty()));
        self.links.insert(link, Link::default());
    }

    pub(crate) fn disconnect(&mut self, link: LinkId, end: End) {
        self.leader.handle_closed(link);
        if let Some(link) = self.links.get_mut(&link) {
            link.end.get_or_insert(end);
        }
    }

    pub(crate) fn hear(&mut self, link: LinkId, packet: LearnerPacket) {
        let (now_ms, out) = (self.now_ms, &mut self.actions);
        self.leader.handle_packet(link, packet, now_ms, out);
        self.settle();
    }

    /// Sends one owed packet from each unrecorded learner. Returns `false` if there is none.
    pub(crate) fn hear_unrecorded(&mut self) -> bool {
        let owed = self.owed.iter_mut();
        let due: Vec<_> = owed
            .filter_map(|(link, owed)| Some((*link, owed.pop_front()?)))
            .collect();
        let is_any = !due.is_empty();
        for (link, packet) in due {
            self.hear(link, packet);
        }
        is_any
    }

    /// Reports that the leader's own disk has all proposals.
    pub(crate) fn sync_disk(&mut self) {
        let last = self.last_proposed();
        self.leader.handle_synced(last, &mut self.actions);
        self.settle();
    }

    pub(crate) fn propose(&mut self, record: Record, config: Option<&str>) {
        let (now_ms, out) = (self.now_ms, &mut self.actions);
        let proposed = match config.filter(|_| record.is_reconfig()) {
            Some(text) => {
                let voters = voters(text);
                let next = NextConfig {
                    leader_stays: voters.contains(&self.sid),
                    quorum: majority(voters),
                    text: text.to_owned().into(),
                };
                self.leader.propose_reconfig(record, next, now_ms, out)
            }
            None => self.leader.propose(record, now_ms, out),
        };
        proposed.unwrap();
        self.settle();
    }

    pub(crate) fn answer_sync(&mut self, link: LinkId) {
        self.leader.sync(link, &mut self.actions);
        self.settle();
    }

    pub(crate) fn answer_revalidation(&mut self, link: LinkId, session: SessionId, is_valid: bool) {
        let out = &mut self.actions;
        self.leader.revalidated(link, session, is_valid, out);
        self.settle();
    }

    /// Advances the clock by half a tick. Unrecorded learners stay alive.
    pub(crate) fn half_tick(&mut self) {
        const HALF_TICK_MS: i64 = 100;
        self.now_ms += HALF_TICK_MS;
        let out = &mut self.actions;
        self.leader.handle_deadline(self.now_ms, out);
        self.settle();
        while self.hear_unrecorded() {}
    }

    pub(crate) fn is_leading(&self) -> bool {
        self.leader.is_leading()
    }

    pub(crate) fn next_zxid(&self) -> Zxid {
        self.leader.next_zxid()
    }

    pub(crate) fn last_proposed(&self) -> Zxid {
        Zxid(self.leader.next_zxid().0 - 1)
    }

    pub(crate) fn last_committed(&self) -> Zxid {
        self.leader.last_committed()
    }

    /// Executes all actions immediately, except for syncs of the log, which the script controls.
    fn settle(&mut self) {
        while !self.actions.is_empty() {
            for action in std::mem::take(&mut self.actions) {
                self.carry_out(action);
            }
        }
    }

    fn carry_out(&mut self, action: Action) {
        let now_ms = self.now_ms;
        match action {
            Action::Send { to, packet } => self.note_sent(to, packet),
            Action::SendSnapshot { to, zxid } => {
                self.note_sent(to, LeaderPacket::Snap { zxid });
                self.leader.handle_snapshot_sent(to, now_ms);
            }
            Action::ReadLog { to, from, .. } => {
                let out = &mut self.actions;
                let behind = self.log.partition_point(|record| record.zxid <= from);
                match behind.checked_sub(1).and_then(|at| self.log.get(at..)) {
                    Some(records) => self.leader.handle_log_records(to, records, now_ms, out),
                    None => self.leader.handle_log_unusable(to, now_ms, out),
                }
            }
            Action::Close { link, fault } => {
                if let Some(link) = self.links.get_mut(&link) {
                    link.end = Some(End::Leader(fault));
                } else {
                    panic!("drops what was not recorded: {fault}");
                }
            }
            Action::SaveAcceptedEpoch(_) => {
                let (config, out) = (self.config.clone(), &mut self.actions);
                self.leader.handle_accepted_epoch_saved(config, now_ms, out);
            }
            Action::SaveCurrentEpoch(_) => {
                let out = &mut self.actions;
                self.leader.handle_current_epoch_saved(now_ms, out);
            }
            Action::Append(record) => self.log.push(record),
            Action::Request { from, request } => self.requests.push_back((from, request)),
            Action::Revalidate { from, session } => self.revalidations.push_back((from, session)),
            Action::Touch { from, sessions } => self.touches.push((from, sessions)),
            Action::StepDown(reason) => {
                self.stepped_down = Some(reason);
                for link in self.links.values_mut() {
                    link.end.get_or_insert(End::SteppedDown);
                }
            }
            Action::Deliver(_)
            | Action::Lead { .. }
            | Action::ActivateConfig { .. }
            | Action::CompareDigests { .. }
            | Action::OwnDigestDiffers { .. } => {}
        }
    }

    fn note_sent(&mut self, to: LinkId, packet: LeaderPacket) {
        if let Some(link) = self.links.get_mut(&to) {
            match packet {
                LeaderPacket::Ping { zxid } => link.pinged = Some(zxid),
                // Zoarium's protocol version, which a Java learner ignores.
                LeaderPacket::LeaderInfo { epoch, .. } => {
                    link.sent.push_back(LeaderPacket::leader_info(epoch));
                }
                packet => link.sent.push_back(packet),
            }
            return;
        }
        let last = self.log.last().map_or(Zxid::ZERO, |record| record.zxid);
        let answer = match packet {
            LeaderPacket::LeaderInfo { .. } => LearnerPacket::AckEpoch {
                last_logged: last,
                current_epoch: Some(Epoch(0)),
            },
            LeaderPacket::NewLeader { zxid, .. } | LeaderPacket::Proposal { zxid, .. } => {
                LearnerPacket::Ack { zxid }
            }
            LeaderPacket::Ping { zxid } => LearnerPacket::Ping {
                zxid,
                touched: Vec::new(),
            },
            _ => return,
        };
        if let Some(owed) = self.owed.get_mut(&to) {
            owed.push_back(answer);
        }
    }
}

/// Returns the voters in a configuration's text.
fn voters(text: &str) -> BTreeSet<Sid> {
    let lines = text.lines().filter(|line| line.contains(":participant"));
    let sids = lines.map(|line| {
        let (name, _) = line.split_once('=').unwrap();
        Sid(name.strip_prefix("server.").unwrap().parse().unwrap())
    });
    sids.collect()
}

fn majority(voters: impl IntoIterator<Item = Sid>) -> Arc<Majority> {
    Arc::new(Majority::new(voters))
}
