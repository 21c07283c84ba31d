//! Synchronisation: learners receive the leader's log, and the epoch is established.

use std::sync::Arc;

use proto::leader::LeaderPacket;
use proto::learner::LearnerPacket;
use proto::{Sid, Zxid};

use super::link::{LinkState, Slot};
use super::{Action, Leader, LinkFault, LinkId, Phase, unexpected};
use crate::Record;
use crate::broadcast::Proposals;
use crate::learner::LearnerKind;
use crate::record::follows;
use crate::sync::{self, SyncOpening, SyncPlan};

impl Leader {
    /// Begins the synchronisation of a learner. The learner and a quorum have accepted the epoch.
    pub(super) fn synchronise(
        &mut self,
        link: LinkId,
        peer: Zxid,
        now_ms: i64,
        out: &mut Vec<Action>,
    ) {
        // The synchronisation may cut records that the learner acknowledged over an earlier
        // connection.
        if let Some(sid) = self.links.get(&link).and_then(|link| link.sid) {
            self.proposals.forget(sid);
        }
        let is_log_whole = peer >= self.log_whole_from && !self.is_log_unusable;
        let use_disk = self.settings.use_disk_log && is_log_whole;
        match sync::decide(peer, self.history(), self.settings.force_snapshot, use_disk) {
            SyncPlan::ReadLog => {
                if self.take_slot(link, Slot::Diff, out) {
                    let state = LinkState::ReadingLog {
                        reached: peer,
                        is_opened: false,
                    };
                    self.set_state(link, state);
                    self.read_log(link, peer, out);
                }
            }
            SyncPlan::Send { opening, after } => {
                if self.open(link, opening, out) {
                    self.finish_sync(link, opening, after, now_ms, out);
                }
            }
        }
    }

    fn read_log(&self, to: LinkId, from: Zxid, out: &mut Vec<Action>) {
        let upto = self.history().min();
        out.push(Action::ReadLog { to, from, upto });
    }

    /// Handles some records from the log files. The first record must be the last record up to
    /// `from` of [`Action::ReadLog`].
    pub fn handle_log_records(
        &mut self,
        link: LinkId,
        records: &[Record],
        now_ms: i64,
        out: &mut Vec<Action>,
    ) {
        let Some(LinkState::ReadingLog { reached, is_opened }) = self.state(link) else {
            return;
        };
        let (opening, mut reached) = if is_opened {
            (None, reached)
        } else {
            match sync::decide_by_disk(reached, records, self.history()) {
                Some((opening, after)) => (Some(opening), after),
                None => return self.handle_log_unusable(link, now_ms, out),
            }
        };
        let min = self.history().min();
        let mut missed = Vec::new();
        for record in records {
            if reached >= min {
                break;
            }
            if record.zxid <= reached {
                continue;
            }
            // After `min`, the files may contain uncommitted records. If the records skip `min`,
            // the files have a gap.
            if record.zxid > min || !follows(reached, record.zxid) {
                return self.handle_log_unusable(link, now_ms, out);
            }
            reached = record.zxid;
            missed.push(record);
        }
        // The records in memory are sent next. They are not read from the files, which may not
        // contain them yet. If no records are in memory, `min` is the end of the log and must come
        // from the files.
        let is_connected = reached >= min || self.history.min() == Some(reached.next());
        if !is_connected && missed.is_empty() {
            return self.handle_log_unusable(link, now_ms, out);
        }
        if let Some(opening) = opening
            && !self.open(link, opening, out)
        {
            return;
        }
        for record in missed {
            send_committed(link, record, out);
        }
        if is_connected {
            self.finish_sync(link, SyncOpening::Diff(reached), reached, now_ms, out);
        } else {
            let state = LinkState::ReadingLog {
                reached,
                is_opened: true,
            };
            self.set_state(link, state);
            self.read_log(link, reached, out);
        }
    }

    /// Handles log files that do not reach back far enough, cannot be read, or contain too many
    /// records. Sends a snapshot instead, or drops a learner that has already received records.
    pub fn handle_log_unusable(&mut self, link: LinkId, now_ms: i64, out: &mut Vec<Action>) {
        match self.state(link) {
            Some(LinkState::ReadingLog {
                is_opened: false, ..
            }) => {
                self.release_slot(link);
                if self.open(link, SyncOpening::Snap, out) {
                    self.finish_sync(link, SyncOpening::Snap, Zxid::ZERO, now_ms, out);
                }
            }
            Some(LinkState::ReadingLog { .. }) => {
                // The learner has only some of the records. Later synchronisations must not use the
                // files.
                self.is_log_unusable = true;
                self.close(link, LinkFault::LogUnusable, out);
            }
            _ => {}
        }
    }

    /// Sends the opening packet. Returns `false` if the learner is refused.
    fn open(&mut self, to: LinkId, opening: SyncOpening, out: &mut Vec<Action>) -> bool {
        let slot = match opening {
            SyncOpening::Snap => Slot::Snap,
            SyncOpening::Diff(_) | SyncOpening::Trunc(_) => Slot::Diff,
        };
        if !self.take_slot(to, slot, out) {
            return false;
        }
        let packet = match opening {
            SyncOpening::Diff(zxid) => LeaderPacket::Diff { zxid },
            SyncOpening::Trunc(zxid) => LeaderPacket::Trunc { zxid },
            SyncOpening::Snap => {
                let zxid = self.last;
                // The empty tree does not count as a copy, because all members of a new ensemble
                // have it.
                let is_empty = self.began_empty && zxid.counter() == 0;
                if let Some(link) = self.links.get_mut(&to) {
                    link.has_copy = !is_empty;
                }
                out.push(Action::SendSnapshot { to, zxid });
                return true;
            }
        };
        out.push(Action::Send { to, packet });
        true
    }

    /// Sends the rest of the sync plan: all committed records after `after` unless a snapshot is
    /// sent, all proposals if the learner is a follower, and NEWLEADER. From now on, the learner
    /// receives every transaction, so it misses none.
    // Model: SyncFollower.
    fn finish_sync(
        &mut self,
        to: LinkId,
        opening: SyncOpening,
        after: Zxid,
        now_ms: i64,
        out: &mut Vec<Action>,
    ) {
        let state = match opening {
            SyncOpening::Snap => LinkState::SendingSnapshot,
            SyncOpening::Diff(_) | SyncOpening::Trunc(_) => {
                for record in self.history.after(after) {
                    send_committed(to, record, out);
                }
                LinkState::Syncing
            }
        };
        let Some(link) = self.links.get_mut(&to) else {
            return;
        };
        link.state = state;
        link.last_received_ms = now_ms;
        let packet = LeaderPacket::NewLeader {
            zxid: Zxid::new(self.epoch, 0),
            config: self.epoch_config.as_ref().map(|config| config.text.clone()),
        };
        let mut new_leader = Some(Action::Send { to, packet });
        // A learner treats the configuration in NEWLEADER as committed and as the last one seen.
        // NEWLEADER must therefore contain the configuration in force, and must be sent before the
        // proposal of a new configuration.
        if self.reconfig.is_some() {
            out.extend(new_leader.take());
        }
        if link.kind == LearnerKind::Follower {
            for record in &self.outstanding {
                link.lag.sent(record.zxid, now_ms);
                send_proposal(to, record, out);
            }
        }
        out.extend(new_leader);
    }

    /// Handles the end of a snapshot transfer. From now on, the learner must answer.
    pub fn handle_snapshot_sent(&mut self, link: LinkId, now_ms: i64) {
        if let Some(link) = self.links.get_mut(&link)
            && link.state == LinkState::SendingSnapshot
        {
            link.last_received_ms = now_ms;
            link.state = LinkState::Syncing;
        }
    }

    // Model: ReceiveNEWLEADERACK.
    pub(super) fn handle_new_leader_ack(
        &mut self,
        link: LinkId,
        packet: LearnerPacket,
        now_ms: i64,
        out: &mut Vec<Action>,
    ) -> Result<(), LinkFault> {
        let expected = Zxid::new(self.epoch, 0);
        if !matches!(packet, LearnerPacket::Ack { zxid } if zxid == expected) {
            return Err(unexpected(&packet));
        }
        self.release_slot(link);
        let Some(from) = self.links.get_mut(&link) else {
            return Ok(());
        };
        from.lag.restart(now_ms);
        let sid = from.sid;
        if let Phase::Synchronising { acked } = &mut self.phase {
            from.state = LinkState::AwaitingActivation;
            acked.extend(sid);
            self.check_new_leader_acks(now_ms, out);
        } else {
            self.up_to_date(link, now_ms, out);
        }
        Ok(())
    }

    /// Handles the completed save of the current epoch. The leader now counts itself as a server
    /// that has acknowledged NEWLEADER.
    pub fn handle_current_epoch_saved(&mut self, now_ms: i64, out: &mut Vec<Action>) {
        if let Phase::Synchronising { acked } = &mut self.phase {
            acked.insert(self.sid);
            self.check_new_leader_acks(now_ms, out);
        }
    }

    // Model: EstablishEpoch.
    pub(super) fn check_new_leader_acks(&mut self, now_ms: i64, out: &mut Vec<Action>) {
        let Phase::Synchronising { acked } = &self.phase else {
            return;
        };
        // The leader's own disk counts like any other, but the leader cannot lead before its epoch
        // is on that disk.
        let is_quorum = self.is_quorum(&|sid| acked.contains(&sid));
        if !acked.contains(&self.sid) || !is_quorum {
            return;
        }
        let candidates = acked.iter().copied().collect::<Vec<Sid>>();
        let start = Zxid::new(self.epoch, 0);
        let designated_leader = self.next.take().map(|next| {
            self.quorum = Arc::clone(&next.quorum);
            let voters = next.quorum.voters();
            let other = candidates
                .into_iter()
                .find(|sid| *sid != self.sid && voters.contains(sid));
            if next.leader_stays {
                self.sid
            } else {
                other.unwrap_or(self.sid)
            }
        });
        self.is_retiring = designated_leader.is_some_and(|sid| sid != self.sid);
        if let Some(config) = &self.epoch_config {
            self.config_version = config.version;
        }
        self.last = start;
        self.proposals = Proposals::shared(Arc::clone(&self.quorum), self.sid, start);
        self.enter(Phase::Broadcasting, now_ms);
        let epoch = self.epoch;
        tracing::debug!(sid = %self.sid, %epoch, "leads");
        out.push(Action::Lead {
            epoch,
            designated_leader,
        });
        for link in self.links_in(LinkState::AwaitingActivation) {
            self.up_to_date(link, now_ms, out);
        }
    }

    fn up_to_date(&mut self, to: LinkId, now_ms: i64, out: &mut Vec<Action>) {
        self.await_learner(to, LinkState::Broadcasting, now_ms);
        let packet = LeaderPacket::UpToDate;
        out.push(Action::Send { to, packet });
    }

    fn state(&self, link: LinkId) -> Option<LinkState> {
        self.links.get(&link).map(|link| link.state)
    }

    /// Reserves a slot. Returns `false` if the learner is refused. Followers are never refused, but
    /// they occupy a slot (ZOOKEEPER-1928).
    fn take_slot(&mut self, link: LinkId, slot: Slot, out: &mut Vec<Action>) -> bool {
        let taken = self.links.values().filter(|link| link.slot == Some(slot));
        let max = match slot {
            Slot::Snap => self.settings.snap_syncs_max,
            Slot::Diff => self.settings.diff_syncs_max,
        };
        let is_full = taken.count() >= max;
        let Some(taker) = self.links.get_mut(&link) else {
            return false;
        };
        if taker.slot == Some(slot) {
            return true;
        }
        if is_full && taker.kind == LearnerKind::Observer {
            self.close(link, LinkFault::Throttled, out);
            return false;
        }
        taker.slot = Some(slot);
        true
    }

    fn release_slot(&mut self, link: LinkId) {
        if let Some(link) = self.links.get_mut(&link) {
            link.slot = None;
        }
    }
}

pub(super) fn send_proposal(to: LinkId, record: &Record, out: &mut Vec<Action>) {
    let Record { zxid, txn } = record.clone();
    let packet = LeaderPacket::Proposal { zxid, txn };
    out.push(Action::Send { to, packet });
}

fn send_committed(to: LinkId, record: &Record, out: &mut Vec<Action>) {
    send_proposal(to, record, out);
    let packet = LeaderPacket::Commit { zxid: record.zxid };
    out.push(Action::Send { to, packet });
}
