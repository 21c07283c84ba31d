//! A follower that serves observers, to relieve the leader.
//!
//! ```text
//!  Connected --OBSERVERINFO--> AwaitingAckEpoch --ACKEPOCH--> Syncing --ACK epoch:0--> Broadcasting
//!             *LEADERINFO                        *DIFF, TRUNC or SNAP, NEWLEADER   *UPTODATE
//! ```
//!
//! An observer sees the follower as a leader, with a few differences. The epoch is established, so
//! nothing waits for a quorum. The follower informs its observers of a transaction when the
//! leader's commit arrives. It forwards requests, syncs and session queries to the leader. An
//! observer receives every transaction from the moment at which its opening packet is decided, so
//! it misses none. The committed log is therefore enough, without a list of recent packets.
//!
//! Zoarium observers report digests like other learners ([`crate::leader`]). The follower forwards
//! reports of differences to the leader, and the leader's queries to its observers. If a quorum
//! that includes the leader agrees on a digest, the follower sends it to the observers whose digest
//! differs.
//!
//! Differs from Apache ZooKeeper 3.9.5:
//!
//! - An observer that misses more than the committed log contains receives a snapshot, without
//!   records from the log files.
//! - An observer with more transactions of this epoch than the follower is refused instead of cut.
//!   It connects again.
//! - A second connection of a server replaces the first.
//!
//! Source: ObserverMaster, LearnerHandler.

use std::collections::BTreeMap;

use bytes::Bytes;
use proto::leader::LeaderPacket;
use proto::learner::{LearnerInfo, LearnerPacket};
use proto::{Epoch, SessionId, Sid, Zxid};

use crate::leader::link::{LearnerLink, LinkState};
use crate::leader::{Action, LinkFault, LinkId, identify, unexpected};
use crate::learner::LearnerKind;
use crate::sync::{self, LeaderLog, SyncOpening, SyncPlan};
use crate::{CommittedLog, Record, Settings};

/// State of the follower that its observers depend on.
pub struct FollowerFacts<'a> {
    /// Newest committed transactions that the follower has received.
    pub committed: &'a CommittedLog,
    /// Version of the configuration in force.
    pub config_version: i64,
    /// Text of the configuration in force.
    pub config: &'a dyn Fn() -> Bytes,
}

/// A query from the leader for digests, forwarded to the observers.
#[derive(Debug)]
struct DigestQuestion {
    zxid: Zxid,
    /// Digest of a quorum that includes the leader, once it is known.
    agreed: Option<u64>,
    /// Digests of observers that answered before `agreed` was known.
    answers: BTreeMap<LinkId, u64>,
}

/// Observers of a follower.
///
/// Requests only these of the leader's actions: `Send`, `SendSnapshot`, `Close`, `Request`,
/// `Touch`, `Revalidate` and `CompareDigests`.
#[derive(Debug)]
pub struct ObserverMaster {
    sid: Sid,
    settings: Settings,
    epoch: Epoch,
    /// Last transaction that is known to be committed.
    last: Zxid,
    links: BTreeMap<LinkId, LearnerLink>,
    pinged_ms: i64,
    /// Whether the leader compares digests.
    leader_compares: bool,
    /// Last query for digests.
    question: Option<DigestQuestion>,
}

impl ObserverMaster {
    /// Creates the observers' state for a follower that is up to date in `epoch`, with everything
    /// committed up to `last`. `leader_compares` states whether the leader compares digests.
    pub fn new(
        sid: Sid,
        epoch: Epoch,
        last: Zxid,
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

    /// Handles an observer's new connection.
    pub fn handle_connected(&mut self, link: LinkId, now_ms: i64) {
        let mut new = LearnerLink::new(now_ms);
        new.kind = LearnerKind::Observer;
        self.links.insert(link, new);
    }

    /// Handles the end of a connection.
    pub fn handle_closed(&mut self, link: LinkId) {
        self.links.remove(&link);
    }

    /// Handles a packet from an observer. Packets from a dropped connection are ignored.
    pub fn handle_packet(
        &mut self,
        link: LinkId,
        packet: LearnerPacket,
        facts: &FollowerFacts<'_>,
        now_ms: i64,
        out: &mut Vec<Action>,
    ) {
        let Some(from) = self.links.get_mut(&link) else {
            return;
        };
        from.last_received_ms = now_ms;
        let result = match from.state {
            LinkState::Connected => self.introduce(link, &packet, facts, out),
            LinkState::AwaitingAckEpoch => self.synchronise(link, &packet, facts, out),
            LinkState::SendingSnapshot | LinkState::Syncing => {
                self.activate(link, &packet, now_ms, out)
            }
            LinkState::Broadcasting => self.relay(link, packet, out),
            // Only learners of a leader have these states, in which they wait for a quorum or for
            // the log files.
            LinkState::AwaitingEpoch
            | LinkState::AwaitingEpochAcks { .. }
            | LinkState::ReadingLog { .. }
            | LinkState::AwaitingActivation => Err(unexpected(&packet)),
        };
        if let Err(fault) = result {
            self.close(link, fault, out);
        }
    }

    /// Handles the end of a snapshot transfer. From now on, the observer must answer.
    pub fn handle_snapshot_sent(&mut self, link: LinkId, now_ms: i64) {
        if let Some(link) = self.links.get_mut(&link)
            && link.state == LinkState::SendingSnapshot
        {
            link.last_received_ms = now_ms;
            link.state = LinkState::Syncing;
        }
    }

    /// Handles a commit from the leader. `designated_leader` is set for a reconfiguration. Call it
    /// in zxid order. A second call for the same transaction is ignored. `otherwise` contains the
    /// record that one observer receives instead of `record`.
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

    /// Handles the leader's answer to a `sync` from this observer.
    pub fn handle_sync_done(&mut self, to: LinkId, out: &mut Vec<Action>) {
        if self.links.contains_key(&to) {
            let packet = LeaderPacket::Sync;
            out.push(Action::Send { to, packet });
        }
    }

    /// Handles the leader's answer to this observer's query about a session.
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

    /// Drops an observer whose request the host cannot execute.
    pub fn drop_observer(&mut self, link: LinkId, fault: LinkFault, out: &mut Vec<Action>) {
        if self.links.contains_key(&link) {
            self.close(link, fault, out);
        }
    }

    /// Returns the time at which to call [`ObserverMaster::handle_deadline`], ms; `None` without
    /// observers.
    pub fn deadline_ms(&self) -> Option<i64> {
        let links = self.links.values();
        let silences = links.filter_map(|link| self.link_deadline_ms(link));
        let ping = (!self.links.is_empty()).then(|| self.ping_due_ms());
        silences.chain(ping).min()
    }

    /// Handles the time of [`ObserverMaster::deadline_ms`]. A call at any other time is harmless.
    pub fn handle_deadline(&mut self, now_ms: i64, out: &mut Vec<Action>) {
        let silent = self.links.iter().filter_map(|(id, link)| {
            let deadline = self.link_deadline_ms(link)?;
            (now_ms >= deadline).then_some((*id, now_ms.saturating_sub(link.last_received_ms)))
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

    /// Forwards the leader's query for the digest of the tree at `zxid` to the observers that
    /// support such queries.
    pub fn query_digests(&mut self, zxid: Zxid, out: &mut Vec<Action>) {
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

    /// Handles the digest at `zxid` that this follower and a quorum with the leader have.
    pub fn handle_digest_judged(&mut self, zxid: Zxid, agreed: u64, out: &mut Vec<Action>) {
        let question = self
            .question
            .as_mut()
            .filter(|queried| queried.zxid == zxid);
        let Some(question) = question else {
            return;
        };
        question.agreed = Some(agreed);
        for (link, digest) in std::mem::take(&mut question.answers) {
            self.handle_digest(link, zxid, digest, out);
        }
    }

    /// Handles an observer's answer. If its digest differs from the quorum's, the observer is
    /// informed now, or once the quorum's digest is known.
    fn handle_digest(&mut self, link: LinkId, zxid: Zxid, digest: u64, out: &mut Vec<Action>) {
        let question = self
            .question
            .as_mut()
            .filter(|queried| queried.zxid == zxid);
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

    /// Returns the number of observers that are up to date.
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
        facts: &FollowerFacts<'_>,
        out: &mut Vec<Action>,
    ) -> Result<(), LinkFault> {
        let LearnerPacket::ObserverInfo { info, .. } = packet else {
            return Err(unexpected(packet));
        };
        let reports_digests =
            info.is_some_and(|info| info.protocol_version() == LearnerInfo::REPORTS_DIGESTS);
        let sid = identify(*info, self.sid, facts.config_version)?;
        let same = |(id, other): (&LinkId, &LearnerLink)| {
            (*id != link && other.sid == Some(sid)).then_some(*id)
        };
        for older in self.links.iter().filter_map(same).collect::<Vec<_>>() {
            self.close(older, LinkFault::Replaced { sid }, out);
        }
        if let Some(from) = self.links.get_mut(&link) {
            from.sid = Some(sid);
            from.reports_digests = reports_digests && self.leader_compares;
            from.state = LinkState::AwaitingAckEpoch;
        }
        let packet = if self.leader_compares {
            LeaderPacket::LeaderInfo {
                epoch: self.epoch,
                protocol_version: LearnerInfo::REPORTS_DIGESTS,
            }
        } else {
            LeaderPacket::leader_info(self.epoch)
        };
        out.push(Action::Send { to: link, packet });
        Ok(())
    }

    fn synchronise(
        &mut self,
        to: LinkId,
        packet: &LearnerPacket,
        facts: &FollowerFacts<'_>,
        out: &mut Vec<Action>,
    ) -> Result<(), LinkFault> {
        let LearnerPacket::AckEpoch {
            last_logged,
            current_epoch,
        } = packet
        else {
            return Err(unexpected(packet));
        };
        // All transactions of this epoch that an observer has are committed, but this follower has
        // not received those commits yet. After a cut, the observer's clients would see an older
        // state. The snapshot with which the observer began may also contain parts of the
        // transactions to be cut.
        let is_ahead = last_logged.epoch() == self.epoch && *last_logged > self.last;
        if is_ahead {
            return Err(LinkFault::HistoryAhead {
                current_epoch: current_epoch.unwrap_or(self.epoch),
                last_logged: *last_logged,
            });
        }
        let history = LeaderLog {
            last: self.last,
            log: facts.committed,
        };
        let decision = sync::decide(*last_logged, history, self.settings.force_snapshot, false);
        let (opening, after) = match decision {
            SyncPlan::Send { opening, after } => (opening, after),
            SyncPlan::ReadLog => (SyncOpening::Snap, Zxid::ZERO),
        };
        let (state, max) = match opening {
            SyncOpening::Snap => (LinkState::SendingSnapshot, self.settings.snap_syncs_max),
            SyncOpening::Diff(_) | SyncOpening::Trunc(_) => {
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
            SyncOpening::Diff(zxid) => send(LeaderPacket::Diff { zxid }),
            SyncOpening::Trunc(zxid) => send(LeaderPacket::Trunc { zxid }),
            SyncOpening::Snap => out.push(Action::SendSnapshot {
                to,
                zxid: self.last,
            }),
        }
        let mut send = |packet| out.push(Action::Send { to, packet });
        if opening != SyncOpening::Snap {
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
            from.last_received_ms = now_ms;
        }
        let packet = LeaderPacket::UpToDate;
        out.push(Action::Send { to: link, packet });
        Ok(())
    }

    fn close(&mut self, link: LinkId, fault: LinkFault, out: &mut Vec<Action>) {
        let closed = self.links.remove(&link);
        let sid = closed.and_then(|link| link.sid).map(|sid| sid.0);
        tracing::debug!(sid, link = link.0, err = %fault, "disconnecting an observer");
        out.push(Action::Close { link, fault });
    }

    fn link_deadline_ms(&self, link: &LearnerLink) -> Option<i64> {
        let limit = link.silence_ms(self.settings.init_ms(), self.settings.sync_ms());
        limit.map(|limit| link.last_received_ms.saturating_add(limit))
    }

    fn ping_due_ms(&self) -> i64 {
        let half_tick_ms = (self.settings.tick_ms / 2).max(1);
        self.pinged_ms.saturating_add(half_tick_ms)
    }

    /// Forwards a packet from an up-to-date observer.
    fn relay(
        &mut self,
        from: LinkId,
        packet: LearnerPacket,
        out: &mut Vec<Action>,
    ) -> Result<(), LinkFault> {
        match packet {
            // This is the second acknowledgement of the epoch, after UPTODATE. Other
            // acknowledgements from observers are refused.
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
            LearnerPacket::DigestDiffers { zxid, digest } if self.leader_compares => {
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
