//! A learner: follower or observer, from its first packet to the end of its role.
//!
//! ```text
//!        connected            LEADERINFO, newer epoch            saved
//!  Start ---------> Greeting -----------------------> Promising -------> Greeted
//!        *FOLLOWERINFO |             same epoch                 *ACKEPOCH   |
//!                      +----------------------------------------------------+
//!                                                                           |
//!             +---------------- SNAP, TRUNC: Restoring <--------------------+
//!             |                                                             |
//!             v  done                                                 DIFF  |
//!          Syncing <--------------------------------------------------------+
//!             | NEWLEADER
//!             v                          UPTODATE
//!      snapshot -> log -> epoch saved  ------------> Live
//!                        *ACK epoch:0                *ACK epoch:0, then *ACK zxid as synced
//! ```
//!
//! What stands behind a `*` is sent, and each waits for the disk: a promise (ACKEPOCH) for the
//! accepted epoch, the acknowledgement of NEWLEADER for the whole committed history and then for the
//! current epoch, that of a proposal for its record. The host reports what is durable, and there is
//! no other way to any of these packets, so the order bugs of ZOOKEEPER-2846, 3023, 3911, 4394,
//! 4643, 4646, 4685 and 4785 cannot be written down. Proposals that are not committed are kept over
//! NEWLEADER and acknowledged one by one after it; they are never acknowledged before it.
//!
//! Differs from Apache ZooKeeper 3.9.5, each time to the safe side and with the same packets between
//! healthy peers: an observer has the committed history on disk before it takes on the epoch, like
//! a follower; what is held back until UPTODATE is bounded, and what goes beyond that is logged and
//! acknowledged before; a hole inside an epoch ends the role in the live stream too; UPTODATE needs
//! a NEWLEADER before it; a commit that matches nothing ends synchronisation.
//!
//! Source: Learner.registerWithLeader, syncWithLeader,
//! Follower.processPacket, Observer.processPacket.

mod action;
mod live;
mod synchronise;

use proto::leader::LeaderPacket;
use proto::learner::{LearnerInfo, LearnerPacket, LearnerRequest, Touch};
use proto::{Epoch, Sid, Zxid};

pub use action::{Action, Fault};
use live::Live;
use synchronise::Synchronise;

use crate::packets::ShowLeader;
use crate::{CommittedLog, Settings};
use proto::mutant::{self, Mutant};

/// Which kind of learner.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LearnerKind {
    /// Acknowledges proposals, and counts if the configuration says so.
    Follower,
    /// Hears of what is committed.
    Observer,
}

/// What a server is when it begins to follow.
#[derive(Debug)]
pub struct LearnerStart {
    /// Its `myid`.
    pub sid: Sid,
    /// Its role.
    pub kind: LearnerKind,
    /// The `acceptedEpoch` file.
    pub accepted_epoch: Epoch,
    /// Zero, or what [`StepDown::VoterAhead`](crate::leader::StepDown::VoterAhead) has told in an
    /// earlier role: the leader is told of it, in case that it still can choose its epoch. It binds
    /// this server to nothing.
    pub accepted_floor: Epoch,
    /// The `currentEpoch` file.
    pub current_epoch: Epoch,
    /// The last transaction of its history. It is on disk: whoever recovers a log must sync what
    /// it found there, because an earlier process may have died between write and sync.
    pub last_logged: Zxid,
    /// The epoch in which [`Fault::CannotTruncate`] ended the role before. A leader of that epoch is
    /// asked for a snapshot, by naming zxid 0 instead of `last_logged`. A Java learner exits, and
    /// exits again each time it is started.
    pub truncation_failed_in: Option<Epoch>,
    /// Version of the configuration it has committed.
    pub config_version: i64,
    /// No snapshot was ever written or loaded, and `snapshot.trust.empty` says that this is no
    /// fault: one is written even after a DIFF (ZOOKEEPER-3056).
    pub lacks_snapshot: bool,
    /// Its tree holds other data than a quorum with the leader: nothing but a snapshot is taken.
    pub needs_snapshot: bool,
    /// Its newest committed transactions.
    pub committed: CommittedLog,
}

/// A follower or an observer of one leader, over one connection.
///
/// ```
/// use proto::leader::LeaderPacket;
/// use proto::{Epoch, Sid, Zxid};
/// use zab::learner::{Action, Learner, LearnerKind, LearnerStart};
/// use zab::{CommittedLog, Settings};
///
/// let start = LearnerStart {
///     sid: Sid(1),
///     kind: LearnerKind::Follower,
///     accepted_epoch: Epoch(0),
///     accepted_floor: Epoch(0),
///     current_epoch: Epoch(0),
///     last_logged: Zxid::ZERO,
///     truncation_failed_in: None,
///     config_version: 0,
///     lacks_snapshot: false,
///     needs_snapshot: false,
///     committed: CommittedLog::default(),
/// };
/// let mut out = Vec::new();
/// let mut learner = Learner::new(start, Settings::new(2000, 10, 5), 0, &mut out);
/// learner.handle_packet(LeaderPacket::leader_info(Epoch(1)), 10, &mut out);
/// // Nothing is answered until the promise is on disk.
/// assert_eq!(out.last(), Some(&Action::SaveAcceptedEpoch(Epoch(1))));
/// learner.handle_accepted_epoch_saved(&mut out);
/// assert_eq!(out.last().map(Action::to_string).as_deref(), Some("send ACKEPOCH 0x0 epoch=0x0"));
/// ```
///
/// Carry out actions in their order. Every record that is appended belongs to this value: reports of
/// an earlier role's appends must not reach it. After [`Action::Leave`] nothing does anything.
#[derive(Debug)]
pub struct Learner {
    sid: Sid,
    kind: LearnerKind,
    settings: Settings,
    accepted_epoch: Epoch,
    current_epoch: Epoch,
    last_logged: Zxid,
    truncation_failed_in: Option<Epoch>,
    lacks_snapshot: bool,
    needs_snapshot: bool,
    committed: CommittedLog,
    /// The leader's, once it has told.
    epoch: Epoch,
    /// Whether the leader compares digests with its learners.
    leader_compares: bool,
    phase: Phase,
    heard_ms: i64,
    /// Packets had to wait on the connection since then, so `heard_ms` says nothing of the leader.
    has_paused: bool,
}

#[derive(Debug)]
enum Phase {
    /// FOLLOWERINFO is sent.
    Greeting,
    /// The accepted epoch is being saved.
    Promising,
    /// ACKEPOCH is sent.
    Greeted,
    /// The tree is being replaced: by the snapshot on the connection, or from a shorter log.
    Restoring(Restore),
    Syncing(Synchronise),
    Live(Live),
    Left {
        /// Whether it was so when the role ended.
        is_tree_unsaved: bool,
    },
}

#[derive(Debug, Clone, Copy)]
enum Restore {
    Snapshot(Zxid),
    Truncate(Zxid),
}

impl Learner {
    /// A learner whose connection is up. It introduces itself.
    pub fn new(
        start: LearnerStart,
        settings: Settings,
        now_ms: i64,
        out: &mut Vec<Action>,
    ) -> Self {
        let info = Some(LearnerInfo {
            protocol_version: Some(LearnerInfo::REPORTS_DIGESTS),
            ..LearnerInfo::new(start.sid, start.config_version)
        });
        let accepted_epoch = start.accepted_epoch.max(start.accepted_floor);
        out.push(Action::Send(match start.kind {
            LearnerKind::Follower => LearnerPacket::FollowerInfo {
                accepted_epoch,
                info,
            },
            LearnerKind::Observer => LearnerPacket::ObserverInfo {
                accepted_epoch,
                info,
            },
        }));
        Self {
            sid: start.sid,
            kind: start.kind,
            settings,
            accepted_epoch: start.accepted_epoch,
            current_epoch: start.current_epoch,
            last_logged: start.last_logged,
            truncation_failed_in: start.truncation_failed_in,
            lacks_snapshot: start.lacks_snapshot,
            needs_snapshot: start.needs_snapshot,
            committed: start.committed,
            epoch: Epoch(0),
            leader_compares: false,
            phase: Phase::Greeting,
            heard_ms: now_ms,
            has_paused: false,
        }
    }

    /// A packet came. Not to be called while [`Learner::is_reading`] says no.
    pub fn handle_packet(&mut self, packet: LeaderPacket, now_ms: i64, out: &mut Vec<Action>) {
        self.heard_ms = now_ms;
        self.has_paused = false;
        let result = match &mut self.phase {
            Phase::Greeting => self.handle_leader_info(&packet, out),
            Phase::Greeted => self.handle_opening(&packet, out),
            Phase::Promising | Phase::Restoring(_) => Err(unexpected(&packet)),
            Phase::Syncing(sync) => sync
                .handle_packet(packet, &mut self.committed, out)
                .map(|()| self.go_live(out)),
            Phase::Live(live) => live.handle_packet(packet, &mut self.committed, out),
            Phase::Left { .. } => Ok(()),
        };
        if let Err(fault) = result {
            self.leave(fault, out);
        }
        self.has_paused = matches!(&self.phase, Phase::Syncing(sync) if !sync.is_reading());
    }

    /// Bytes of the snapshot came, so the leader is alive.
    pub fn handle_progress(&mut self, now_ms: i64) {
        self.heard_ms = now_ms;
    }

    /// The accepted epoch is on disk.
    pub fn handle_accepted_epoch_saved(&mut self, out: &mut Vec<Action>) {
        if matches!(self.phase, Phase::Promising) {
            self.accepted_epoch = self.epoch;
            self.acknowledge_epoch(Some(self.current_epoch), out);
        }
    }

    /// The current epoch is on disk.
    pub fn handle_current_epoch_saved(&mut self, out: &mut Vec<Action>) {
        if let Phase::Syncing(sync) = &mut self.phase {
            sync.handle_epoch_saved(&mut self.committed, out);
            self.current_epoch = self.epoch;
            self.go_live(out);
        }
    }

    /// The snapshot from the connection is in the tree, its signature was right.
    pub fn handle_snapshot_received(&mut self, now_ms: i64) {
        self.heard_ms = now_ms;
        if let Phase::Restoring(Restore::Snapshot(zxid)) = self.phase {
            if !mutant::is(Mutant::CommittedLogKeptOverSnapshot) {
                self.committed.clear();
            }
            // It may have run ahead, so what follows need not follow its zxid.
            self.start_syncing("SNAP", true, zxid, None);
        }
    }

    /// The snapshot from the connection cannot be used. The tree is empty or worse: it must be
    /// loaded again from disk before it is used (ZOOKEEPER-2872).
    pub fn handle_snapshot_damaged(&mut self, out: &mut Vec<Action>) {
        if matches!(self.phase, Phase::Restoring(Restore::Snapshot(_))) {
            self.leave(Fault::SnapshotDamaged, out);
        }
    }

    /// The log was cut and the tree loaded; both end at `end`.
    pub fn handle_truncated(&mut self, end: Zxid, now_ms: i64, out: &mut Vec<Action>) {
        self.heard_ms = now_ms;
        if let Phase::Restoring(Restore::Truncate(wanted)) = self.phase {
            if end == wanted {
                self.committed.truncate_after(end);
                self.start_syncing("TRUNC", true, end, Some(end));
            } else {
                // Where the log ends, what stands in memory ends.
                self.committed.truncate_after(end);
                let epoch = self.epoch;
                self.leave(Fault::CannotTruncate { epoch, wanted, end }, out);
            }
        }
    }

    /// The snapshot that was asked for is on disk.
    pub fn handle_snapshot_written(&mut self, out: &mut Vec<Action>) {
        if let Phase::Syncing(sync) = &mut self.phase {
            sync.handle_snapshot_written(out);
        }
    }

    /// Every appended record up to and including `upto` is on disk.
    pub fn handle_synced(&mut self, upto: Zxid, out: &mut Vec<Action>) {
        match &mut self.phase {
            Phase::Syncing(sync) => sync.handle_synced(upto, out),
            Phase::Live(live) => live.handle_synced(upto, out),
            _ => {}
        }
    }

    /// The time of [`Learner::deadline_ms`] has come, or any other.
    pub fn handle_deadline(&mut self, now_ms: i64, out: &mut Vec<Action>) {
        if self
            .deadline_ms()
            .is_some_and(|deadline| now_ms >= deadline)
        {
            if std::mem::take(&mut self.has_paused) {
                self.heard_ms = now_ms;
                return;
            }
            let silent_ms = now_ms.saturating_sub(self.heard_ms);
            self.leave(Fault::Silence { silent_ms }, out);
        }
    }

    /// The host ends the role.
    pub fn handle_told_to_leave(&mut self, out: &mut Vec<Action>) {
        self.leave(Fault::Told, out);
    }

    /// Passes a client's request on. `false`: not now, there is no leader to take it.
    ///
    /// The body must have been decoded before: a Java leader that is sent one which it cannot
    /// decode never commits anything again.
    pub fn forward(&mut self, request: LearnerRequest, out: &mut Vec<Action>) -> bool {
        self.send_live(LearnerPacket::Request(request), out)
    }

    /// Asks whether a session that came to this server is alive. `false`: not now.
    pub fn revalidate(&mut self, session: Touch, out: &mut Vec<Action>) -> bool {
        self.send_live(LearnerPacket::Revalidate(session), out)
    }

    /// Reports to the leader that the digest of this server's tree is not the one of a committed
    /// transaction. `false`: not now, or this leader does not compare digests.
    pub fn report_difference(&mut self, zxid: Zxid, digest: u64, out: &mut Vec<Action>) -> bool {
        self.leader_compares && self.send_live(LearnerPacket::DigestDiffers { zxid, digest }, out)
    }

    /// Whether the leader compares digests with its learners.
    pub fn leader_compares(&self) -> bool {
        self.leader_compares
    }

    /// Whether packets may be handed in. While the tree is being replaced they must stay on the
    /// connection: the first bytes there may be no packets at all. So must they while so much is held
    /// back for the disk that it would be [too much](Settings::held_back_bytes_max). Every
    /// report of the disk may change the answer.
    pub fn is_reading(&self) -> bool {
        match &self.phase {
            Phase::Restoring(_) | Phase::Left { .. } => false,
            Phase::Syncing(sync) => sync.is_reading(),
            Phase::Greeting | Phase::Promising | Phase::Greeted | Phase::Live(_) => true,
        }
    }

    /// Whether clients are served.
    pub fn is_live(&self) -> bool {
        matches!(self.phase, Phase::Live(_))
    }

    /// Whether the tree is not to be trusted if the role ended now: a snapshot is half read, or
    /// read and not yet on disk. It must be loaded again from disk then.
    pub fn is_tree_unsaved(&self) -> bool {
        match &self.phase {
            Phase::Restoring(_) => true,
            Phase::Syncing(sync) => sync.is_tree_unsaved(),
            Phase::Left { is_tree_unsaved } => *is_tree_unsaved,
            _ => false,
        }
    }

    /// When to call [`Learner::handle_deadline`] if nothing comes; `None` while the host is at
    /// work and does not read.
    pub fn deadline_ms(&self) -> Option<i64> {
        let limit = match &self.phase {
            Phase::Left { .. } | Phase::Restoring(Restore::Truncate(_)) => return None,
            Phase::Syncing(sync) if !sync.is_reading() => return None,
            Phase::Syncing(sync) if sync.is_acknowledged() => self.settings.sync_ms(),
            Phase::Live(_) => self.settings.sync_ms(),
            _ => self.settings.init_ms(),
        };
        Some(self.heard_ms.saturating_add(limit))
    }

    /// The newest committed transactions.
    pub fn committed(&self) -> &CommittedLog {
        &self.committed
    }

    /// The newest committed transactions, for the role that comes next.
    pub fn into_committed(self) -> CommittedLog {
        self.committed
    }

    fn handle_leader_info(
        &mut self,
        packet: &LeaderPacket,
        out: &mut Vec<Action>,
    ) -> Result<(), Fault> {
        let LeaderPacket::LeaderInfo {
            epoch,
            protocol_version,
        } = packet
        else {
            return Err(unexpected(packet));
        };
        self.leader_compares = *protocol_version == LearnerInfo::REPORTS_DIGESTS;
        let (proposed, accepted) = (*epoch, self.accepted_epoch);
        if proposed < accepted {
            return Err(Fault::EpochBehind { proposed, accepted });
        }
        self.epoch = proposed;
        if proposed > accepted {
            self.phase = Phase::Promising;
            out.push(Action::SaveAcceptedEpoch(proposed));
        } else {
            // The promise is old, so this zxid decides nothing but how to be brought up to date.
            if self.truncation_failed_in == Some(self.epoch) {
                self.last_logged = Zxid::ZERO;
            }
            self.acknowledge_epoch(None, out);
        }
        Ok(())
    }

    fn needs_snapshot(&self) -> bool {
        self.needs_snapshot || self.truncation_failed_in == Some(self.epoch)
    }

    fn acknowledge_epoch(&mut self, current_epoch: Option<Epoch>, out: &mut Vec<Action>) {
        self.phase = Phase::Greeted;
        out.push(Action::Send(LearnerPacket::AckEpoch {
            last_logged: self.last_logged,
            current_epoch,
        }));
    }

    fn handle_opening(
        &mut self,
        packet: &LeaderPacket,
        out: &mut Vec<Action>,
    ) -> Result<(), Fault> {
        match *packet {
            LeaderPacket::Diff { .. } | LeaderPacket::Trunc { .. } if self.needs_snapshot() => {
                return Err(unexpected(packet));
            }
            LeaderPacket::Diff { .. } => {
                let last = self.last_logged;
                self.start_syncing("DIFF", self.lacks_snapshot, last, Some(last));
            }
            LeaderPacket::Snap { zxid } => {
                self.phase = Phase::Restoring(Restore::Snapshot(zxid));
                out.push(Action::ReceiveSnapshot { zxid });
            }
            // A follower that serves observers and has heard less than this one (Apache ZooKeeper's
            // sends this): what an observer has of the epoch is committed, and its snapshot may
            // hold parts of what it is to forget.
            LeaderPacket::Trunc { zxid }
                if self.kind == LearnerKind::Observer
                    && self.last_logged.epoch() == self.epoch
                    && zxid < self.last_logged
                    && !mutant::is(Mutant::ObserverCutBack) =>
            {
                return Err(Fault::LeaderBehind {
                    wanted: zxid,
                    last: self.last_logged,
                });
            }
            LeaderPacket::Trunc { zxid } => {
                self.phase = Phase::Restoring(Restore::Truncate(zxid));
                out.push(Action::Truncate { zxid });
            }
            _ => return Err(unexpected(packet)),
        }
        Ok(())
    }

    fn start_syncing(
        &mut self,
        by: &'static str,
        needs_snapshot: bool,
        zxid: Zxid,
        last: Option<Zxid>,
    ) {
        let (kind, epoch) = (self.kind, self.epoch);
        tracing::info!(sid = %self.sid, %zxid, %epoch, by, needs_snapshot, "synchronising");
        let held_max = self.settings.held_back_bytes_max;
        let sync = Synchronise::new(kind, epoch, needs_snapshot, zxid, last, held_max);
        self.phase = Phase::Syncing(sync);
    }

    /// Once NEWLEADER is acknowledged and UPTODATE is here.
    fn go_live(&mut self, out: &mut Vec<Action>) {
        let Phase::Syncing(sync) = &mut self.phase else {
            return;
        };
        if let Some(live) = sync.finish(&mut self.committed, out) {
            tracing::info!(sid = %self.sid, epoch = %self.epoch, "up to date");
            self.phase = Phase::Live(live);
        }
    }

    fn send_live(&mut self, packet: LearnerPacket, out: &mut Vec<Action>) -> bool {
        let is_live = self.is_live();
        if is_live {
            out.push(Action::Send(packet));
        }
        is_live
    }

    fn leave(&mut self, fault: Fault, out: &mut Vec<Action>) {
        if !matches!(self.phase, Phase::Left { .. }) {
            tracing::info!(sid = %self.sid, epoch = %self.epoch, err = %fault, "leaves its leader");
            self.phase = Phase::Left {
                is_tree_unsaved: self.is_tree_unsaved(),
            };
            out.push(Action::Leave(fault));
        }
    }
}

/// A packet in the wrong place.
fn unexpected(packet: &LeaderPacket) -> Fault {
    let packet = ShowLeader(packet).to_string();
    Fault::Unexpected { packet }
}
