//! A follower that serves observers, so that the leader need not.
//!
//! ```text
//!  Connected --OBSERVERINFO--> AwaitingAckEpoch --ACKEPOCH--> Syncing --ACK epoch:0--> Broadcasting
//!             *LEADERINFO                        *DIFF, TRUNC or SNAP, NEWLEADER   *UPTODATE
//! ```
//!
//! To an observer it is a leader, with the differences that follow from being none: nothing waits
//! for a quorum, since the epoch is established; what is committed is known from the leader; and
//! requests, syncs and questions about sessions go up to it. An observer is informed of a
//! transaction when the follower hears that it is committed, and is sent everything from the moment
//! its catch-up is decided, so nothing falls between the two and no list of recent packets is
//! needed besides the committed log.
//!
//! Observers of Zoarium report digests as other learners do ([`crate::leader`]): the follower passes on to the leader
//! that one differs, asks its observers what the leader asks it, and tells them which digest a quorum with the leader
//! has. If no quorum agrees, it tells them nothing.
//!
//! Differs from Apache ZooKeeper 3.9.5: an observer that misses more than the committed log holds
//! gets a snapshot and nothing from the log files; one that has heard more of this epoch than the
//! follower is not cut back, but turned away, and comes again; a second connection of a server
//! replaces the first.
//!
//! Source: ObserverMaster, LearnerHandler.

use std::collections::BTreeMap;

use bytes::Bytes;
use proto::leader::LeaderPacket;
use proto::learner::{LearnerInfo, LearnerPacket};
use proto::mutant::{self, Mutant};
use proto::{Epoch, SessionId, Sid, Zxid};

use crate::leader::link::{Link, LinkState};
use crate::leader::{Action, LinkFault, LinkId, identify, unexpected};
use crate::learner::LearnerKind;
use crate::sync::{self, Decision, History, Opening};
use crate::{CommittedLog, Record, Settings};

/// What the follower knows at the moment.
pub struct Facts<'a> {
    /// The newest transactions that it has heard to be committed.
    pub committed: &'a CommittedLog,
    /// The version of the configuration in force.
    pub config_version: i64,
    /// The text of the configuration in force.
    pub config: &'a dyn Fn() -> Bytes,
}

/// A question of the leader that is passed on.
#[derive(Debug)]
struct DigestQuestion {
    zxid: Zxid,
    /// The digest that a quorum with the leader has, once that is known.
    agreed: Option<u64>,
    /// The digests of observers that have answered before.
    answers: BTreeMap<LinkId, u64>,
}

/// The observers of a follower.
///
/// Its actions are those of a leader, of which it uses `Send`, `SendSnapshot`, `Close`, `Request`,
/// `Touch`, `Revalidate` and `CompareDigests`.
#[derive(Debug)]
pub struct ObserverMaster {
    sid: Sid,
    settings: Settings,
    epoch: Epoch,
    /// The last transaction that is known to be committed.
    last: Zxid,
    links: BTreeMap<LinkId, Link>,
    pinged_ms: i64,
    /// Whether the leader compares digests.
    leader_compares: bool,
    /// The last question about digests.
    question: Option<DigestQuestion>,
}

impl ObserverMaster {
    /// For a follower that is up to date in `epoch`, with everything committed up to `last`. `leader_compares`: the
    /// leader compares digests.
    pub fn new(
        sid: Sid,
        (epoch, last): (Epoch, Zxid),
        leader_compares: bool,
        settings: Settings,
        now_ms: i64,
    ) -> Self {
        Self {
            leader_compares,
            question: None,
            sid,
            settings,
            epoch,
            last,
            links: BTreeMap::new(),
            pinged_ms: now_ms,
        }
    }

    /// An observer has connected.
    pub fn handle_connected(&mut self, link: LinkId, now_ms: i64) {
        let mut new = Link::new(now_ms);
        new.kind = LearnerKind::Observer;
        self.links.insert(link, new);
    }

    /// A connection is gone.
    pub fn handle_closed(&mut self, link: LinkId) {
        self.links.remove(&link);
    }

    /// An observer has sent this. What comes over a connection that was dropped is ignored.
    pub fn handle_packet(
        &mut self,
        link: LinkId,
        packet: LearnerPacket,
        facts: &Facts<'_>,
        now_ms: i64,
        out: &mut Vec<Action>,
    ) {
        let Some(from) = self.links.get_mut(&link) else {
            return;
        };
        from.heard_ms = now_ms;
        let result = match from.state {
            LinkState::Connected => self.introduce(link, &packet, facts, out),
            LinkState::AwaitingAckEpoch => self.synchronise(link, &packet, facts, out),
            LinkState::SendingSnapshot | LinkState::Syncing => {
                self.activate(link, &packet, now_ms, out)
            }
            LinkState::Broadcasting => self.relay(link, packet, out),
            // States of a leader's learners that wait for a quorum, or for the log files.
            LinkState::AwaitingEpoch
            | LinkState::AwaitingEpochAcks { .. }
            | LinkState::ReadingLog { .. }
            | LinkState::AwaitingActivation => Err(unexpected(&packet)),
        };
        if let Err(fault) = result {
            self.close(link, fault, out);
        }
    }

    /// The snapshot has left this server, so that the observer can be expected to answer.
    pub fn handle_snapshot_sent(&mut self, link: LinkId, now_ms: i64) {
        if let Some(link) = self.links.get_mut(&link)
            && link.state == LinkState::SendingSnapshot
        {
            link.heard_ms = now_ms;
            link.state = LinkState::Syncing;
        }
    }

    /// The leader says that this is committed; `designated_leader` if it is a reconfiguration. To
    /// be told in order, and once or twice. One observer may be told the same error by `otherwise`.
    pub fn handle_committed(
        &mut self,
        record: &Record,
        designated_leader: Option<Sid>,
        otherwise: Option<&(LinkId, Record)>,
        out: &mut Vec<Action>,
    ) {
        if record.zxid <= self.last {
            return;
        }
        self.last = record.zxid;
        for (to, link) in &self.links {
            if link.is_forwarding() {
                let own = otherwise.filter(|(of, _)| of == to);
                let Record { zxid, txn } = own.map_or(record, |(_, own)| own).clone();
                let packet = match designated_leader {
                    None => LeaderPacket::Inform { zxid, txn },
                    Some(designated_leader) => LeaderPacket::InformAndActivate {
                        zxid,
                        designated_leader,
                        txn,
                    },
                };
                out.push(Action::Send { to: *to, packet });
            }
        }
    }

    /// The leader has answered the `sync` that came from this observer.
    pub fn handle_sync_done(&mut self, to: LinkId, out: &mut Vec<Action>) {
        if self.links.contains_key(&to) {
            let packet = LeaderPacket::Sync;
            out.push(Action::Send { to, packet });
        }
    }

    /// The leader has answered this observer's question about a session.
    pub fn handle_revalidated(
        &mut self,
        to: LinkId,
        session: SessionId,
        is_valid: bool,
        out: &mut Vec<Action>,
    ) {
        if self.links.contains_key(&to) {
            let packet = LeaderPacket::Revalidate { session, is_valid };
            out.push(Action::Send { to, packet });
        }
    }

    /// The host cannot do what this observer wants.
    pub fn drop_observer(&mut self, link: LinkId, fault: LinkFault, out: &mut Vec<Action>) {
        if self.links.contains_key(&link) {
            self.close(link, fault, out);
        }
    }

    /// When to call [`ObserverMaster::handle_deadline`]; `None` without observers.
    pub fn deadline_ms(&self) -> Option<i64> {
        let links = self.links.values();
        let silences = links.filter_map(|link| self.link_deadline_ms(link));
        let ping = (!self.links.is_empty()).then(|| self.ping_due_ms());
        silences.chain(ping).min()
    }

    /// The time of [`ObserverMaster::deadline_ms`] has come, or any other.
    pub fn handle_deadline(&mut self, now_ms: i64, out: &mut Vec<Action>) {
        let silent = self.links.iter().filter_map(|(id, link)| {
            let deadline = self.link_deadline_ms(link)?;
            (now_ms >= deadline).then_some((*id, now_ms.saturating_sub(link.heard_ms)))
        });
        for (link, silent_ms) in silent.collect::<Vec<_>>() {
            self.close(link, LinkFault::Silence { silent_ms }, out);
        }
        if now_ms < self.ping_due_ms() {
            return;
        }
        self.pinged_ms = now_ms;
        for (to, link) in &self.links {
            if link.is_forwarding() && link.state != LinkState::SendingSnapshot {
                let packet = LeaderPacket::Ping { zxid: self.last };
                out.push(Action::Send { to: *to, packet });
            }
        }
    }

    /// The leader asks for the digest of the tree at `zxid`: so are the observers that can answer.
    pub fn ask_digests(&mut self, zxid: Zxid, out: &mut Vec<Action>) {
        self.question = Some(DigestQuestion {
            zxid,
            agreed: None,
            answers: BTreeMap::new(),
        });
        for (to, link) in &self.links {
            if link.reports_digests && link.state == LinkState::Broadcasting {
                let packet = LeaderPacket::DigestAsked { zxid };
                out.push(Action::Send { to: *to, packet });
            }
        }
    }

    /// A quorum with the leader has this digest at `zxid`, and so has this follower.
    pub fn handle_digest_judged(&mut self, zxid: Zxid, agreed: u64, out: &mut Vec<Action>) {
        let question = self.question.as_mut().filter(|asked| asked.zxid == zxid);
        let Some(question) = question else {
            return;
        };
        question.agreed = Some(agreed);
        for (link, digest) in std::mem::take(&mut question.answers) {
            self.handle_digest(link, zxid, digest, out);
        }
    }

    /// An observer has answered: it is told at once, or when the digest of a quorum is known.
    fn handle_digest(&mut self, link: LinkId, zxid: Zxid, digest: u64, out: &mut Vec<Action>) {
        let question = self.question.as_mut().filter(|asked| asked.zxid == zxid);
        let Some(question) = question.filter(|_| self.links.contains_key(&link)) else {
            return;
        };
        match question.agreed {
            None => {
                question.answers.insert(link, digest);
            }
            Some(agreed) if agreed == digest => {}
            agreed @ Some(_) => {
                let packet = LeaderPacket::DigestJudged { zxid, agreed };
                out.push(Action::Send { to: link, packet });
            }
        }
    }

    /// How many observers are up to date.
    pub fn synced_observers(&self) -> usize {
        let links = self.links.values();
        links
            .filter(|link| link.state == LinkState::Broadcasting)
            .count()
    }

    fn introduce(
        &mut self,
        link: LinkId,
        packet: &LearnerPacket,
        facts: &Facts<'_>,
        out: &mut Vec<Action>,
    ) -> Result<(), LinkFault> {
        let LearnerPacket::ObserverInfo { info, .. } = packet else {
            return Err(unexpected(packet));
        };
        let reports_digests =
            info.is_some_and(|info| info.protocol_version() == LearnerInfo::REPORTS_DIGESTS);
        let sid = identify(*info, self.sid, facts.config_version)?;
        let same =
            |(id, other): (&LinkId, &Link)| (*id != link && other.sid == Some(sid)).then_some(*id);
        for older in self.links.iter().filter_map(same).collect::<Vec<_>>() {
            self.close(older, LinkFault::Replaced { sid }, out);
        }
        if let Some(from) = self.links.get_mut(&link) {
            from.sid = Some(sid);
            from.reports_digests = reports_digests && self.leader_compares;
            from.state = LinkState::AwaitingAckEpoch;
        }
        let packet = match self.leader_compares {
            true => LeaderPacket::LeaderInfo {
                epoch: self.epoch,
                protocol_version: LearnerInfo::REPORTS_DIGESTS,
            },
            false => LeaderPacket::leader_info(self.epoch),
        };
        out.push(Action::Send { to: link, packet });
        Ok(())
    }

    fn synchronise(
        &mut self,
        to: LinkId,
        packet: &LearnerPacket,
        facts: &Facts<'_>,
        out: &mut Vec<Action>,
    ) -> Result<(), LinkFault> {
        let LearnerPacket::AckEpoch {
            last_logged,
            current_epoch,
        } = packet
        else {
            return Err(unexpected(packet));
        };
        // What an observer has of this epoch is committed; this follower has not heard of it yet.
        // Cut back, the observer's clients would see the past, and the snapshot that it began with
        // may hold parts of what it is to forget.
        let is_ahead = last_logged.epoch() == self.epoch && *last_logged > self.last;
        if is_ahead && !mutant::is(Mutant::ObserverCutBack) {
            return Err(LinkFault::HistoryAhead {
                current_epoch: current_epoch.unwrap_or(self.epoch),
                last_logged: *last_logged,
            });
        }
        let history = History {
            last: self.last,
            log: facts.committed,
        };
        let decision = sync::decide(*last_logged, history, self.settings.force_snapshot, false);
        let (opening, after) = match decision {
            Decision::Send { opening, after } => (opening, after),
            Decision::ReadLog => (Opening::Snap, Zxid::ZERO),
        };
        let (state, max) = match opening {
            Opening::Snap => (LinkState::SendingSnapshot, self.settings.snap_syncs_max),
            Opening::Diff(_) | Opening::Trunc(_) => {
                (LinkState::Syncing, self.settings.diff_syncs_max)
            }
        };
        let taken = self.links.values().filter(|link| link.state == state);
        if taken.count() >= max {
            return Err(LinkFault::Throttled);
        }
        if let Some(link) = self.links.get_mut(&to) {
            link.state = state;
        }
        let mut send = |packet| out.push(Action::Send { to, packet });
        match opening {
            Opening::Diff(zxid) => send(LeaderPacket::Diff { zxid }),
            Opening::Trunc(zxid) => send(LeaderPacket::Trunc { zxid }),
            Opening::Snap => out.push(Action::SendSnapshot {
                to,
                zxid: self.last,
            }),
        }
        let mut send = |packet| out.push(Action::Send { to, packet });
        if opening != Opening::Snap {
            for Record { zxid, txn } in facts.committed.after(after).cloned() {
                send(LeaderPacket::Proposal { zxid, txn });
                send(LeaderPacket::Commit { zxid });
            }
        }
        send(LeaderPacket::NewLeader {
            zxid: Zxid::new(self.epoch, 0),
            config: Some((facts.config)()),
        });
        Ok(())
    }

    fn activate(
        &mut self,
        link: LinkId,
        packet: &LearnerPacket,
        now_ms: i64,
        out: &mut Vec<Action>,
    ) -> Result<(), LinkFault> {
        let expected = Zxid::new(self.epoch, 0);
        if !matches!(packet, LearnerPacket::Ack { zxid } if *zxid == expected) {
            return Err(unexpected(packet));
        }
        if let Some(from) = self.links.get_mut(&link) {
            from.state = LinkState::Broadcasting;
            from.heard_ms = now_ms;
        }
        let packet = LeaderPacket::UpToDate;
        out.push(Action::Send { to: link, packet });
        Ok(())
    }

    fn close(&mut self, link: LinkId, fault: LinkFault, out: &mut Vec<Action>) {
        let closed = self.links.remove(&link);
        let sid = closed.and_then(|link| link.sid).map(|sid| sid.0);
        tracing::debug!(sid, link = link.0, err = %fault, "drops an observer");
        out.push(Action::Close { link, fault });
    }

    fn link_deadline_ms(&self, link: &Link) -> Option<i64> {
        let limit = link.silence_ms(self.settings.init_ms(), self.settings.sync_ms());
        limit.map(|limit| link.heard_ms.saturating_add(limit))
    }

    fn ping_due_ms(&self) -> i64 {
        let half_tick_ms = (self.settings.tick_ms / 2).max(1);
        self.pinged_ms.saturating_add(half_tick_ms)
    }

    /// What an observer that is up to date has sent.
    fn relay(
        &mut self,
        from: LinkId,
        packet: LearnerPacket,
        out: &mut Vec<Action>,
    ) -> Result<(), LinkFault> {
        match packet {
            // The second acknowledgement of the epoch, after UPTODATE. Observers owe no others.
            LearnerPacket::Ack { zxid } if zxid.counter() == 0 => {}
            LearnerPacket::Ack { .. } => return Err(unexpected(&packet)),
            LearnerPacket::Ping { touched, .. } => {
                if !touched.is_empty() {
                    let sessions = touched;
                    out.push(Action::Touch { from, sessions });
                }
            }
            LearnerPacket::Revalidate(session) => out.push(Action::Revalidate { from, session }),
            LearnerPacket::Request(request) => out.push(Action::Request { from, request }),
            LearnerPacket::DigestDiffers { zxid, digest }
                if self.leader_compares && !mutant::is(Mutant::ObserversDigestsIgnored) =>
            {
                out.push(Action::CompareDigests { zxid, digest });
            }
            LearnerPacket::DigestDiffers { .. } => {}
            LearnerPacket::Digest { zxid, digest } => self.handle_digest(from, zxid, digest, out),
            LearnerPacket::FollowerInfo { .. }
            | LearnerPacket::ObserverInfo { .. }
            | LearnerPacket::AckEpoch { .. }
            | LearnerPacket::Other { .. } => {}
        }
        Ok(())
    }
}
