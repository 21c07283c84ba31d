//! A recorded script against a leader of Zoarium: it receives the learners' packets, and must send
//! the recorded packets.

use std::collections::BTreeSet;

use proto::leader::LeaderPacket;
use proto::learner::{LearnerPacket, LearnerRequest};
use proto::packet::{PacketType, QuorumPacket};
use proto::{OpCode, SessionId, Zxid};
use zoarium_zab::Record;
use zoarium_zab::leader::{LinkFault, LinkId, StepDown};
use zoarium_zab::learner::LearnerKind;

use crate::scenes::{ENDS_AT_A_REPEATED_ZXID, ENDS_AT_A_VOTER_AHEAD, Start};
use crate::script::{Line, Script, What};
use crate::stage::{End, Stage};

/// Amount of compared data.
pub(crate) struct Played {
    pub(crate) links: usize,
    pub(crate) packets: usize,
}

pub(crate) struct Play {
    script: Script,
    stage: Stage,
    /// Links on which the comparison has ended.
    given_up: BTreeSet<LinkId>,
    compared: BTreeSet<LinkId>,
    packets: usize,
}

impl Play {
    pub(crate) fn new(script: Script) -> Self {
        let mut play = Self {
            stage: Stage::new(script.elected()),
            script,
            given_up: BTreeSet::new(),
            compared: BTreeSet::new(),
            packets: 0,
        };
        play.prepare();
        play
    }

    /// Brings the leader to the beginning of the recording.
    fn prepare(&mut self) {
        const UNRECORDED: u64 = 1000;
        for sid in self.script.scene.unrecorded {
            let link = LinkId(UNRECORDED + sid.unsigned_abs());
            let kind = LearnerKind::Follower;
            self.stage.connect_unrecorded(link, *sid, kind);
        }
        if matches!(self.script.scene.start, Start::Elected { .. }) {
            return;
        }
        let mut links = BTreeSet::new();
        for (link, sid, kind) in self.script.there() {
            self.stage.connect_unrecorded(link, sid, kind);
            links.insert(link);
        }
        while self.stage.hear_unrecorded() {}
        assert!(self.stage.is_leading(), "{}", self.script.scene.file);
        if let Some(last) = self.script.last_before(&links) {
            self.propose_upto(last);
        }
        self.stage.sync_disk();
        while self.stage.hear_unrecorded() {}
        assert_eq!(self.stage.last_committed(), self.stage.last_proposed());
        for link in links {
            self.stage.begin_recording(link);
        }
    }

    pub(crate) fn play(mut self) -> Played {
        for at in 0..self.script.lines.len() {
            if self.is_over(at) {
                break;
            }
            self.play_line(at);
        }
        self.check_end();
        Played {
            links: self.compared.len(),
            packets: self.packets,
        }
    }

    fn is_over(&self, at: usize) -> bool {
        if matches!(self.stage.stepped_down, Some(StepDown::VoterAhead { .. })) {
            assert_eq!(self.script.scene.file, ENDS_AT_A_VOTER_AHEAD);
            return true;
        }
        let What::Down(LeaderPacket::Proposal { zxid, .. }) = &self.script.lines[at].what else {
            return false;
        };
        let is_named = self.script.scene.file == ENDS_AT_A_REPEATED_ZXID;
        is_named && *zxid <= self.stage.last_committed()
    }

    fn play_line(&mut self, at: usize) {
        let Line {
            link,
            what,
            is_done,
        } = &self.script.lines[at];
        let (link, what) = (*link, what.clone());
        if *is_done || self.given_up.contains(&link) {
            return;
        }
        self.script.lines[at].is_done = true;
        match what {
            What::Up(packet) => self.hand_in(at, packet),
            What::Down(packet) => self.demand(at, &packet),
            What::ClosedByLearner => self.stage.disconnect(link, End::Learner),
            What::ClosedByLeader => self.demand_end(at),
        }
    }

    fn hand_in(&mut self, at: usize, packet: QuorumPacket) {
        let link = self.script.lines[at].link;
        if !self.stage.links.contains_key(&link) {
            self.stage.connect(link);
        }
        let Ok(packet) = LearnerPacket::try_from(packet) else {
            self.stage.disconnect(link, End::Host);
            // A PING may have been sent at the same time.
            assert!(self.script.is_dropped(link), "{}", self.script.place(at));
            self.given_up.insert(link);
            return;
        };
        match &packet {
            LearnerPacket::AckEpoch { .. } => self.reach_opening(at),
            LearnerPacket::Ack { zxid } => self.propose_before_commit(*zxid),
            _ => {}
        }
        self.stage.hear(link, packet.clone());
        self.check_passed_on(link, packet);
        self.answer_syncs();
    }

    /// Checks that the leader passes a packet for its host on unchanged.
    fn check_passed_on(&mut self, link: LinkId, packet: LearnerPacket) {
        match packet {
            LearnerPacket::Request(request) => {
                assert_eq!(self.stage.requests.back(), Some(&(link, request)));
            }
            LearnerPacket::Revalidate(session) => {
                assert_eq!(self.stage.revalidations.back(), Some(&(link, session)));
            }
            LearnerPacket::Ping { touched, .. } => {
                let expected = (!touched.is_empty()).then_some((link, touched));
                let is_dropped = self.stage.links[&link].end.is_some();
                assert!(is_dropped || self.stage.touches.pop() == expected);
            }
            _ => {}
        }
    }

    /// A leader opens with its committed zxid at that time.
    fn reach_opening(&mut self, at: usize) {
        if let Some(zxid) = self.script.opening(at)
            && self.stage.is_leading()
        {
            self.commit(zxid);
        }
    }

    fn commit(&mut self, zxid: Zxid) {
        while self.stage.last_committed() < zxid {
            if self.stage.last_proposed() < zxid {
                self.propose_next();
            } else if !self.advance(zxid) {
                break;
            }
        }
    }

    /// Executes unrecorded or later events, so that a transaction is committed.
    fn advance(&mut self, zxid: Zxid) -> bool {
        self.propose_before_commit(zxid);
        self.stage.sync_disk();
        self.stage.last_committed() >= zxid || self.stage.hear_unrecorded() || self.hear_early()
    }

    /// Handles the next packet of a learner that did not need a packet from the leader first.
    fn hear_early(&mut self) -> bool {
        let mut blocked = BTreeSet::new();
        let next = self.script.lines.iter().position(|line| {
            let is_open = !line.is_done && !blocked.contains(&line.link);
            let is_next = is_open && matches!(line.what, What::Up(_));
            if is_open && !matches!(line.what, What::Down(LeaderPacket::Ping { .. })) {
                blocked.insert(line.link);
            }
            is_next && !self.given_up.contains(&line.link)
        });
        if let Some(next) = next {
            self.play_line(next);
        }
        next.is_some()
    }

    /// Makes the proposals that the links show before this commit.
    fn propose_before_commit(&mut self, zxid: Zxid) {
        let last = self.script.last_before_commit(zxid);
        if self.stage.is_leading() {
            self.propose_upto(last);
        }
    }

    fn propose_upto(&mut self, last: Zxid) {
        while self.stage.last_proposed() < last {
            self.propose_next();
        }
    }

    /// Makes the next recorded proposal, of any client.
    fn propose_next(&mut self) {
        let zxid = self.stage.next_zxid();
        let (record, config) = self.script.transaction(zxid);
        let asked = self.stage.requests.iter();
        let at = asked
            .clone()
            .position(|(_, request)| is_of(&record, request));
        // Earlier requests were a sync, or were not proposed.
        for _ in 0..at.map_or(0, |at| at + 1) {
            if let Some((link, request)) = self.stage.requests.pop_front()
                && request.op() == Some(OpCode::Sync)
            {
                self.stage.answer_sync(link);
            }
        }
        self.stage.propose(record, config.as_deref());
        self.answer_syncs();
    }

    /// Answers syncs. A sync waits only for the requests before it.
    fn answer_syncs(&mut self) {
        while let Some((link, request)) = self.stage.requests.front()
            && request.op() == Some(OpCode::Sync)
        {
            let link = *link;
            self.stage.requests.pop_front();
            self.stage.answer_sync(link);
        }
    }

    /// Requires that this packet is the next one on the link.
    fn demand(&mut self, at: usize, packet: &LeaderPacket) {
        let id = self.script.lines[at].link;
        if let LeaderPacket::Ping { zxid } = packet {
            return self.demand_ping(at, *zxid);
        }
        loop {
            let place = self.script.place(at);
            let link = self.stage.links.get_mut(&id).expect("a link");
            if let Some(sent) = link.sent.pop_front() {
                assert_eq!(sent, *packet, "{place}");
                return self.note_compared(id);
            }
            if self.give_up_if_meant(at) {
                return;
            }
            assert!(self.provoke(id, packet), "{place}: nothing, not {packet:?}");
        }
    }

    /// Stops the comparison if Zoarium has dropped a link that Java serves.
    fn give_up_if_meant(&mut self, at: usize) -> bool {
        let link = self.script.lines[at].link;
        let Some(End::Leader(fault)) = &self.stage.links[&link].end else {
            return false;
        };
        let place = self.script.place(at);
        assert!(self.is_meant(link, fault), "{place}: {fault}");
        self.given_up.insert(link)
    }

    /// Executes events that the leader needs before it sends this packet. Returns `false` if there
    /// are none.
    fn provoke(&mut self, link: LinkId, packet: &LeaderPacket) -> bool {
        match packet {
            LeaderPacket::Proposal { zxid, .. } if self.stage.last_proposed() < *zxid => {
                self.propose_next();
                true
            }
            LeaderPacket::Commit { zxid }
            | LeaderPacket::CommitAndActivate { zxid, .. }
            | LeaderPacket::Inform { zxid, .. }
            | LeaderPacket::InformAndActivate { zxid, .. } => {
                if self.stage.last_proposed() < *zxid {
                    self.propose_next();
                    return true;
                }
                self.stage.last_committed() < *zxid && self.advance(*zxid)
            }
            LeaderPacket::Revalidate { session, is_valid } => {
                self.answer_revalidation(link, *session, *is_valid)
            }
            LeaderPacket::Sync => {
                let last = self.stage.last_proposed();
                self.stage.last_committed() < last && self.advance(last)
            }
            _ => self.stage.hear_unrecorded() || self.hear_early(),
        }
    }

    fn answer_revalidation(&mut self, link: LinkId, session: SessionId, is_valid: bool) -> bool {
        let asked = self.stage.revalidations.iter();
        let at = asked
            .clone()
            .position(|(from, touch)| *from == link && touch.session == session);
        if let Some(at) = at {
            self.stage.revalidations.remove(at);
            self.stage.answer_revalidation(link, session, is_valid);
        }
        at.is_some()
    }

    /// Requires a PING. Idle PINGs were left out of the recordings, so only the newest is compared.
    fn demand_ping(&mut self, at: usize, zxid: Zxid) {
        let link = self.script.lines[at].link;
        if self.stage.is_leading() {
            self.propose_upto(zxid);
        }
        let is_pinged = |stage: &Stage| stage.links[&link].pinged == Some(zxid);
        if !is_pinged(&self.stage) {
            self.half_tick();
        }
        if !self.give_up_if_meant(at) {
            assert!(is_pinged(&self.stage), "{}", self.script.place(at));
            self.note_compared(link);
        }
    }

    fn half_tick(&mut self) {
        for link in self.stage.links.values_mut() {
            link.pinged = None;
        }
        self.stage.half_tick();
    }

    /// Requires that the leader has dropped the link, or drops it soon.
    fn demand_end(&mut self, at: usize) {
        const HALF_TICKS: usize = 13;
        let link = self.script.lines[at].link;
        let place = self.script.place(at);
        for _ in 0..HALF_TICKS {
            match self.stage.links.get(&link).map(|link| &link.end) {
                None | Some(Some(_)) => return,
                Some(None) => self.half_tick(),
            }
            self.answer_pings();
        }
        panic!("{place}: not dropped");
    }

    /// Lets learners that have answered PINGs continue to answer.
    fn answer_pings(&mut self) {
        const PING: i32 = PacketType::Ping as i32;
        let is_ping =
            |line: &&Line| matches!(&line.what, What::Up(packet) if packet.packet_type == PING);
        let answering = self
            .script
            .lines
            .iter()
            .filter(|line| line.is_done)
            .filter(is_ping);
        let answering: BTreeSet<LinkId> = answering.map(|line| line.link).collect();
        for link in answering {
            let zxid = self.stage.last_proposed();
            let touched = Vec::new();
            self.stage.hear(link, LearnerPacket::Ping { zxid, touched });
        }
    }

    fn check_end(&self) {
        let file = self.script.scene.file;
        if file == ENDS_AT_A_VOTER_AHEAD {
            let stepped_down = self.stage.stepped_down;
            let is_so = matches!(stepped_down, Some(StepDown::VoterAhead { .. }));
            assert!(is_so, "{file}: {stepped_down:?}");
        }
        for (id, link) in &self.stage.links {
            let is_compared = !self.given_up.contains(id);
            if is_compared {
                assert_eq!(link.sent, [], "{file}, {id}: more than was recorded");
            }
            if let Some(End::Leader(fault)) = &link.end {
                let is_known = self.script.is_dropped(*id) || self.is_meant(*id, fault);
                assert!(is_known, "{file}, {id}: {fault}");
            }
        }
        for dropped in self.script.meant() {
            let link = LinkId(dropped.conn);
            let end = &self.stage.links[&link].end;
            let is_so = matches!(end, Some(End::Leader(fault)) if (dropped.is_reason)(fault));
            assert!(is_so, "{file}, {link}: {end:?}");
        }
    }

    fn is_meant(&self, link: LinkId, fault: &LinkFault) -> bool {
        let mut meant = self.script.meant();
        meant.any(|dropped| LinkId(dropped.conn) == link && (dropped.is_reason)(fault))
    }

    fn note_compared(&mut self, link: LinkId) {
        self.compared.insert(link);
        self.packets += 1;
    }
}

/// Returns whether the header of a transaction names a request.
fn is_of(record: &Record, request: &LearnerRequest) -> bool {
    let header = record.txn.first_chunk::<12>();
    let is_write = request.op() != Some(OpCode::Sync);
    let named = [
        &request.session.0.to_be_bytes()[..],
        &request.cxid.to_be_bytes(),
    ]
    .concat();
    is_write && header.is_some_and(|header| header[..] == named[..])
}
