//! Servers, the connections between them, and everything that goes wrong.

use std::collections::VecDeque;

use bytes::Bytes;
use proto::leader::LeaderPacket;
use proto::learner::LearnerPacket;
use proto::{Sid, Zxid};
use zab::Record;
use zab::leader::{Action as Lead, LinkId, StepDown};
use zab::learner::{Action as Learn, Fault};

use crate::node::{Job, Node, Role};
use crate::promises::Promises;
use crate::rng::Rng;

/// Duties that are not done. All false: nothing but crashes, cuts and delays.
#[derive(Debug, Clone, Default)]
pub(crate) struct Faults {
    pub(crate) lies_about_sync: bool,
    pub(crate) loses_accepted_epoch: bool,
    pub(crate) skips_truncate: bool,
    pub(crate) keeps_log_behind_snapshot: bool,
}

enum Down {
    Packet(LeaderPacket),
    Snapshot(Zxid, Vec<Record>),
}

struct Link {
    id: LinkId,
    leader: usize,
    learner: usize,
    down: VecDeque<Down>,
    up: VecDeque<LearnerPacket>,
}

pub(crate) struct Cluster {
    rng: Rng,
    faults: Faults,
    nodes: Vec<Node>,
    voters: Vec<Sid>,
    links: Vec<Link>,
    promises: Promises,
    now_ms: i64,
    next_id: u64,
    is_healing: bool,
    /// An observer has promised more than the leader's epoch. It has no vote, so it stays outside
    /// until the leader changes, and healing changes the leader.
    is_observer_ahead: bool,
}

type Step = Result<(), String>;

impl Cluster {
    pub(crate) fn new(seed: u64, faults: Faults) -> Self {
        let mut rng = Rng(seed);
        let voters = if rng.percent(50) { 3 } else { 5 };
        let observers = rng.below(2);
        let nodes = (1..=voters + observers)
            .map(|at| Node::new(Sid(i64::try_from(at).unwrap()), at > voters))
            .collect::<Vec<_>>();
        let voters = nodes[..voters].iter().map(|node| node.sid).collect();
        Self {
            rng,
            faults,
            nodes,
            voters,
            links: Vec::new(),
            promises: Promises::default(),
            now_ms: 0,
            next_id: 0,
            is_healing: false,
            is_observer_ahead: false,
        }
    }

    /// Anything may happen.
    pub(crate) fn storm(&mut self, steps: usize) -> Step {
        // From quiet seas, where much is committed, to such where hardly anything is.
        let roughness = 1 + self.rng.below(8);
        for _ in 0..steps {
            match self.rng.below(1000) {
                draw @ 0..=7 if draw < roughness => self.crash(),
                8..=29 => self.restart(),
                draw @ 30..=37 if draw < 30 + roughness => self.cut(),
                40..=59 => self.elect()?,
                60..=199 => self.join()?,
                200..=299 => self.propose()?,
                300..=549 => self.disk()?,
                550..=559 => self.pass_time(self.nodes.len())?,
                _ => self.deliver()?,
            }
        }
        Ok(())
    }

    /// Nothing breaks any more: there must be a leader, with everybody behind it and equal.
    pub(crate) fn heal(&mut self, steps: usize) -> Result<usize, String> {
        self.is_healing = true;
        let wanted = self.promises.committed.len() + 5;
        for _ in 0..steps {
            if std::mem::take(&mut self.is_observer_ahead) {
                self.stop_leaders()?;
            }
            match self.rng.below(100) {
                0..=4 => self.restart(),
                5..=9 => self.elect()?,
                10..=24 => self.join()?,
                25..=34 if self.promises.committed.len() < wanted => self.propose()?,
                35..=59 => self.disk()?,
                60..=61 => self.pass_time(1)?,
                _ => self.deliver()?,
            }
            let committed = &self.promises.committed;
            let is_done = committed.len() >= wanted
                && self.nodes.iter().all(|node| match &node.role {
                    Role::Leading(leader) => leader.is_leading(),
                    Role::Learning(learner) => learner.is_live(),
                    Role::Down | Role::Looking => false,
                })
                && self.nodes.iter().all(|node| node.tree == *committed);
            if is_done {
                return Ok(committed.len());
            }
        }
        let lens: Vec<usize> = self.nodes.iter().map(|node| node.tree.len()).collect();
        let committed = self.promises.committed.len();
        Err(format!(
            "does not heal: {committed} committed, trees {lens:?}"
        ))
    }

    fn stop_leaders(&mut self) -> Step {
        for at in 0..self.nodes.len() {
            if let Role::Leading(leader) = &mut self.nodes[at].role {
                let mut out = Vec::new();
                leader.handle_told_to_leave(&mut out);
                self.lead(at, out)?;
            }
        }
        Ok(())
    }

    fn any_node(&mut self) -> usize {
        self.rng.below(self.nodes.len())
    }

    fn crash(&mut self) {
        let at = self.any_node();
        self.nodes[at].crash(&mut self.rng);
        self.cut_all(at);
    }

    fn restart(&mut self) {
        let at = self.any_node();
        if matches!(self.nodes[at].role, Role::Down) {
            self.nodes[at].restart();
        }
    }

    fn cut(&mut self) {
        if !self.links.is_empty() {
            let at = self.rng.below(self.links.len());
            self.close(self.links[at].id);
        }
    }

    fn cut_all(&mut self, node: usize) {
        let touching = |link: &&Link| link.leader == node || link.learner == node;
        let ids: Vec<LinkId> = self
            .links
            .iter()
            .filter(touching)
            .map(|link| link.id)
            .collect();
        ids.into_iter().for_each(|id| self.close(id));
    }

    /// Both ends learn of it; what was under way is lost.
    fn close(&mut self, id: LinkId) {
        let Some(at) = self.links.iter().position(|link| link.id == id) else {
            return;
        };
        let link = self.links.swap_remove(at);
        if let Role::Leading(leader) = &mut self.nodes[link.leader].role {
            leader.handle_closed(id);
        }
        if matches!(self.nodes[link.learner].role, Role::Learning(_)) {
            self.nodes[link.learner].look();
        }
    }

    /// Often the one who should lead, but Zab must be safe with any.
    fn elect(&mut self) -> Step {
        let looking = self.nodes.iter().enumerate();
        let looking = looking.filter(|(_, node)| node.is_looking() && !node.is_observer);
        let looking: Vec<usize> = looking.map(|(at, _)| at).collect();
        if looking.is_empty() || (looking.len() * 2 <= self.voters.len() && self.rng.percent(80)) {
            return Ok(());
        }
        if self.is_healing && looking.len() * 2 <= self.voters.len() {
            return Ok(());
        }
        let best = looking
            .iter()
            .copied()
            .max_by_key(|at| self.nodes[*at].vote());
        let any = looking[self.rng.below(looking.len())];
        let elected = match best {
            Some(best) if self.is_healing || self.rng.percent(70) => best,
            _ => any,
        };
        let out = self.nodes[elected].lead(&self.voters, &mut self.rng, self.now_ms);
        self.lead(elected, out)
    }

    fn join(&mut self) -> Step {
        let learner = self.any_node();
        let leaders = self.nodes.iter().enumerate();
        let leaders = leaders.filter(|(_, node)| matches!(node.role, Role::Leading(_)));
        let leaders: Vec<usize> = leaders.map(|(at, _)| at).collect();
        if leaders.is_empty() || !self.nodes[learner].is_looking() {
            return Ok(());
        }
        let mut leader = leaders[self.rng.below(leaders.len())];
        if self.is_healing {
            // As an election would: who serves, else who has most.
            let rank = |at: &usize| {
                let node = &self.nodes[*at];
                let serves = matches!(&node.role, Role::Leading(core) if core.is_leading());
                (serves, node.vote())
            };
            leader = leaders.iter().copied().max_by_key(rank).unwrap_or(leader);
        }
        self.next_id += 1;
        let id = LinkId(self.next_id);
        let (down, up) = (VecDeque::new(), VecDeque::new());
        self.links.push(Link {
            id,
            leader,
            learner,
            down,
            up,
        });
        if let Role::Leading(core) = &mut self.nodes[leader].role {
            core.handle_connected(id, self.now_ms);
        }
        let out = self.nodes[learner].follow(&mut self.rng, self.now_ms);
        self.learn(learner, out)
    }

    fn propose(&mut self) -> Step {
        let at = self.any_node();
        let Role::Leading(leader) = &mut self.nodes[at].role else {
            return Ok(());
        };
        // Long queues teach nothing, and keep an ensemble from ever being quiet.
        if !leader.is_leading() || leader.outstanding() > 8 {
            return Ok(());
        }
        let payload = Bytes::from(self.rng.next().to_be_bytes().to_vec());
        let record = Record::new(leader.next_zxid(), payload);
        let mut out = Vec::new();
        leader
            .propose(record, self.now_ms, &mut out)
            .map_err(|error| error.to_string())?;
        self.lead(at, out)
    }

    fn disk(&mut self) -> Step {
        let at = self.any_node();
        let node = &mut self.nodes[at];
        if node.jobs.is_empty() {
            return Ok(());
        }
        let job = node.jobs.swap_remove(self.rng.below(node.jobs.len()));
        let (mut leading, mut learning) = (Vec::new(), Vec::new());
        let is_skipped = match job {
            Job::SaveAccepted(_) => self.faults.loses_accepted_epoch,
            Job::Truncate(zxid) if self.faults.skips_truncate => {
                // It reports what was asked for.
                if let Role::Learning(learner) = &mut node.role {
                    learner.handle_truncated(zxid, self.now_ms, &mut learning);
                }
                true
            }
            Job::Sync => self.faults.lies_about_sync,
            Job::WriteSnapshot if self.faults.keeps_log_behind_snapshot => {
                node.disk.snapshot.clone_from(&node.tree);
                true
            }
            _ => false,
        };
        if is_skipped {
            node.report(job, &mut leading, &mut learning, self.now_ms);
        } else {
            node.finish(job, &mut leading, &mut learning, self.now_ms);
        }
        self.lead(at, leading)?;
        self.learn(at, learning)
    }

    fn pass_time(&mut self, tenths: usize) -> Step {
        self.now_ms += i64::try_from(10 * tenths).unwrap();
        for at in 0..self.nodes.len() {
            let (mut leading, mut learning) = (Vec::new(), Vec::new());
            match &mut self.nodes[at].role {
                Role::Leading(leader) => leader.handle_deadline(self.now_ms, &mut leading),
                Role::Learning(learner) => learner.handle_deadline(self.now_ms, &mut learning),
                Role::Down | Role::Looking => {}
            }
            self.lead(at, leading)?;
            self.learn(at, learning)?;
        }
        Ok(())
    }

    fn deliver(&mut self) -> Step {
        if self.links.is_empty() {
            return Ok(());
        }
        let at = self.rng.below(self.links.len());
        let (id, leader, learner) = {
            let link = &self.links[at];
            (link.id, link.leader, link.learner)
        };
        if self.rng.percent(50) {
            let Some(packet) = self.links[at].up.pop_front() else {
                return Ok(());
            };
            let mut out = Vec::new();
            if let Role::Leading(core) = &mut self.nodes[leader].role {
                core.handle_packet(id, packet, self.now_ms, &mut out);
            }
            return self.lead(leader, out);
        }
        let node = &mut self.nodes[learner];
        let Role::Learning(core) = &mut node.role else {
            return Ok(());
        };
        if !core.is_reading() {
            return Ok(());
        }
        let mut out = Vec::new();
        match self.links[at].down.pop_front() {
            None => {}
            Some(Down::Packet(packet)) => core.handle_packet(packet, self.now_ms, &mut out),
            Some(Down::Snapshot(zxid, tree)) => {
                core.handle_packet(LeaderPacket::Snap { zxid }, self.now_ms, &mut out);
                if out == [Learn::ReceiveSnapshot { zxid }] {
                    out.clear();
                    core.handle_snapshot_received(self.now_ms);
                    node.tree = tree;
                }
            }
        }
        self.learn(learner, out)
    }

    /// Carries out what a leader asks for.
    fn lead(&mut self, at: usize, actions: Vec<Lead>) -> Step {
        let mut more = Vec::new();
        for action in actions {
            let node = &mut self.nodes[at];
            match action {
                Lead::Send { to, packet } => self.send_down(to, Down::Packet(packet)),
                Lead::SendSnapshot { to, zxid } => {
                    let tree = node.tree.clone();
                    if let Role::Leading(leader) = &mut node.role {
                        leader.handle_snapshot_sent(to, self.now_ms);
                    }
                    self.send_down(to, Down::Snapshot(zxid, tree));
                }
                Lead::ReadLog { to, from, .. } => {
                    let log = &node.disk.log;
                    let first = log.iter().rposition(|record| record.zxid <= from);
                    let is_whole = first.is_some() && !self.rng.percent(5);
                    let Role::Leading(leader) = &mut node.role else {
                        continue;
                    };
                    if let Some(first) = first.filter(|_| is_whole) {
                        let end = (first + 2 + self.rng.below(3)).min(log.len());
                        let records = &log[first..end];
                        leader.handle_log_records(to, records, self.now_ms, &mut more);
                    } else {
                        leader.handle_log_unusable(to, self.now_ms, &mut more);
                    }
                }
                Lead::Close { link, .. } => self.close(link),
                Lead::SaveAcceptedEpoch(epoch) => node.jobs.push(Job::SaveAccepted(epoch)),
                Lead::SaveCurrentEpoch(epoch) => node.jobs.push(Job::SaveCurrent(epoch)),
                Lead::Append(record) => {
                    node.disk.log.push(record);
                    node.jobs.push(Job::Sync);
                }
                Lead::Deliver(record) => {
                    node.tree.push(record);
                    self.promises.commits(node.sid, &node.tree)?;
                }
                Lead::Lead { epoch, .. } => self.promises.leads(node.sid, epoch, &node.tree)?,
                Lead::StepDown(reason) => {
                    if let StepDown::VoterAhead { accepted, .. } = reason {
                        node.accepted_floor = node.accepted_floor.max(accepted);
                    }
                    node.look();
                    self.cut_all(at);
                }
                Lead::ActivateConfig { .. }
                | Lead::Request { .. }
                | Lead::Touch { .. }
                | Lead::Revalidate { .. } => return Err(format!("unexpected: {action}")),
            }
        }
        if more.is_empty() {
            Ok(())
        } else {
            self.lead(at, more)
        }
    }

    fn send_down(&mut self, to: LinkId, item: Down) {
        if let Some(link) = self.links.iter_mut().find(|link| link.id == to) {
            link.down.push_back(item);
        }
    }

    /// Carries out what a learner asks for.
    fn learn(&mut self, at: usize, actions: Vec<Learn>) -> Step {
        for action in actions {
            let node = &mut self.nodes[at];
            let is_live = matches!(&node.role, Role::Learning(learner) if learner.is_live());
            match action {
                Learn::Send(packet) => {
                    self.check_promise(at, &packet)?;
                    self.send_up(at, packet);
                }
                Learn::AnswerPing { zxid } => {
                    let touched = Vec::new();
                    self.send_up(at, LearnerPacket::Ping { zxid, touched });
                }
                Learn::SaveAcceptedEpoch(epoch) => node.jobs.push(Job::SaveAccepted(epoch)),
                Learn::SaveCurrentEpoch(epoch) => node.jobs.push(Job::SaveCurrent(epoch)),
                Learn::Truncate { zxid } => node.jobs.push(Job::Truncate(zxid)),
                Learn::WriteSnapshot => node.jobs.push(Job::WriteSnapshot),
                Learn::Append(record) => {
                    node.disk.log.push(record);
                    node.jobs.push(Job::Sync);
                }
                Learn::Deliver(record) => {
                    if record.zxid > node.last() {
                        node.tree.push(record);
                    }
                    if is_live {
                        self.promises.serves(node.sid, &node.tree)?;
                    }
                }
                Learn::Serve { .. } => self.promises.serves(node.sid, &node.tree)?,
                Learn::ConfigSeen(_) | Learn::InstallConfig(_) => {}
                Learn::Leave(fault) => {
                    if let Fault::CannotTruncate { epoch, .. } = fault {
                        node.truncation_failed_in = Some(epoch);
                    } else if let Fault::EpochBehind { .. } = fault {
                        self.is_observer_ahead |= node.is_observer;
                    } else if fault.exit_code().is_some() {
                        return Err(format!("server {} must exit: {fault}", node.sid));
                    }
                    node.look();
                    self.cut_all(at);
                }
                Learn::ReceiveSnapshot { .. }
                | Learn::ConfigProposed(_)
                | Learn::ActivateConfig { .. }
                | Learn::SyncDone
                | Learn::Revalidated { .. } => return Err(format!("unexpected: {action}")),
            }
        }
        Ok(())
    }

    fn check_promise(&self, at: usize, packet: &LearnerPacket) -> Step {
        let node = &self.nodes[at];
        match packet {
            // A disk that lies is to be caught by what it breaks, not by looking at it.
            LearnerPacket::Ack { zxid } if !self.faults.lies_about_sync => {
                // What is delivered after NEWLEADER may be ahead of the log: a quorum has it.
                let is_live = matches!(&node.role, Role::Learning(core) if core.is_live());
                let tree = if is_live { &[] } else { &node.tree[..] };
                Promises::acknowledges(node.sid, *zxid, tree, &node.disk)
            }
            _ => Ok(()),
        }
    }

    fn send_up(&mut self, learner: usize, packet: LearnerPacket) {
        if let Some(link) = self.links.iter_mut().find(|link| link.learner == learner) {
            link.up.push_back(packet);
        }
    }
}
