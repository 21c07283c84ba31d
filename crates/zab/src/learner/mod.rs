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
//! A `*` marks packets to the leader. Acknowledgements wait for the disk. A promise (ACKEPOCH)
//! waits for the accepted epoch. The acknowledgement of NEWLEADER waits for the whole committed log
//! and then for the current epoch. The acknowledgement of a proposal waits for its record. Only the
//! host's reports of durable data trigger acknowledgements. The order bugs of ZOOKEEPER-2846, 3023,
//! 3911, 4394, 4643, 4646, 4685 and 4785 are therefore impossible. Uncommitted proposals that
//! precede NEWLEADER are kept and acknowledged one by one after it, never before.
//!
//! Differs from Apache ZooKeeper 3.9.5. Each difference is safer, and healthy peers exchange
//! unchanged packets:
//!
//! - An observer has the committed log on disk before it accepts the epoch, like a follower.
//! - The total size of the records held back until UPTODATE is bounded. Records over the bound are
//!   logged and acknowledged earlier.
//! - A gap inside an epoch ends the role, in the live stream as well.
//! - UPTODATE is not accepted before NEWLEADER.
//! - A commit that does not match a proposal ends synchronisation.
//!
//! Source: Learner.registerWithLeader, syncWithLeader, Follower.processPacket,
//! Observer.processPacket.

mod action;
mod live;
mod synchronise;

use proto::leader::LeaderPacket;
use proto::learner::{LearnerInfo, LearnerPacket, LearnerRequest, Touch};
use proto::{Epoch, Sid, Zxid};

pub use action::{Action, Fault};
use live::Live;
use synchronise::Synchronise;

use crate::packets::LeaderPacketText;
use crate::{CommittedLog, Settings};

/// Kind of learner.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LearnerKind {
    /// Acknowledges proposals. Its acknowledgements count if the configuration makes it a voter.
    Follower,
    /// Receives committed transactions only.
    Observer,
}

/// State of a server when it begins to follow.
#[derive(Debug)]
pub struct LearnerStart {
    /// Sid of the server (`myid`).
    pub sid: Sid,
    /// Whether the server is a follower or an observer.
    pub kind: LearnerKind,
    /// Content of the `acceptedEpoch` file.
    pub accepted_epoch: Epoch,
    /// Accepted epoch from [`StepDown::VoterAhead`](crate::leader::StepDown::VoterAhead) in an
    /// earlier role, or zero. The learner reports it in case the leader can still choose its epoch.
    /// It does not bind this server.
    pub accepted_floor: Epoch,
    /// Content of the `currentEpoch` file.
    pub current_epoch: Epoch,
    /// Last transaction in the server's log. It is on disk. A server that recovers a log must sync
    /// it first, because an earlier process may have died between write and sync.
    pub last_logged: Zxid,
    /// Epoch in which [`Fault::CannotTruncate`] ended the previous role. The learner requests a
    /// snapshot from a leader of that epoch by sending zxid 0 instead of `last_logged`. A Java
    /// learner exits, and exits again after each restart.
    pub truncation_failed_in: Option<Epoch>,
    /// Version of the committed configuration.
    pub config_version: i64,
    /// Whether no snapshot was ever written or loaded, and `snapshot.trust.empty` permits this. The
    /// learner then writes a snapshot even after a DIFF (ZOOKEEPER-3056).
    pub lacks_snapshot: bool,
    /// Whether the server's tree differs from the tree of a quorum that includes the leader. The
    /// learner then accepts only a snapshot.
    pub needs_snapshot: bool,
    /// Newest committed transactions.
    pub committed: CommittedLog,
}

/// A follower or an observer of one leader, over one connection.
///
/// ```
/// use proto::leader::LeaderPacket;
/// use proto::{Epoch, Sid, Zxid};
/// use zoarium_zab::learner::{Action, Learner, LearnerKind, LearnerStart};
/// use zoarium_zab::{CommittedLog, Settings};
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
/// Execute its actions in order. Every appended record must come from this value, so do not pass it
/// reports about appends of an earlier role. After [`Action::Leave`], all calls are without effect.
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
    /// Epoch of the leader; 0 before LEADERINFO.
    epoch: Epoch,
    /// Whether the leader compares digests with its learners.
    leader_compares: bool,
    phase: Phase,
    last_received_ms: i64,
    /// Whether packets had to wait on the connection since `last_received_ms`. In that case, the
    /// leader may not have been silent.
    has_paused: bool,
}

#[derive(Debug)]
enum Phase {
    /// FOLLOWERINFO has been sent.
    Greeting,
    /// The accepted epoch is being saved.
    Promising,
    /// ACKEPOCH has been sent.
    Greeted,
    /// The tree is being replaced by the snapshot on the connection, or from a shorter log.
    Restoring(Restore),
    Syncing(Synchronise),
    Live(Live),
    Left {
        /// Value of `is_tree_unsaved` when the role ended.
        is_tree_unsaved: bool,
    },
}

#[derive(Debug, Clone, Copy)]
enum Restore {
    Snapshot(Zxid),
    Truncate(Zxid),
}

impl Learner {
    /// Creates a learner whose connection is open. The learner introduces itself.
    // Model: SendFOLLOWERINFO.
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
            last_received_ms: now_ms,
            has_paused: false,
        }
    }

    /// Handles a packet. Do not call it while [`Learner::is_reading`] is false.
    pub fn handle_packet(&mut self, packet: LeaderPacket, now_ms: i64, out: &mut Vec<Action>) {
        self.last_received_ms = now_ms;
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

    /// Handles the arrival of snapshot bytes, which shows that the leader is running.
    pub fn handle_progress(&mut self, now_ms: i64) {
        self.last_received_ms = now_ms;
    }

    /// Handles the completed save of the accepted epoch.
    pub fn handle_accepted_epoch_saved(&mut self, out: &mut Vec<Action>) {
        if matches!(self.phase, Phase::Promising) {
            self.accepted_epoch = self.epoch;
            self.acknowledge_epoch(Some(self.current_epoch), out);
        }
    }

    /// Handles the completed save of the current epoch.
    pub fn handle_current_epoch_saved(&mut self, out: &mut Vec<Action>) {
        if let Phase::Syncing(sync) = &mut self.phase {
            sync.handle_epoch_saved(&mut self.committed, out);
            self.current_epoch = self.epoch;
            self.go_live(out);
        }
    }

    /// Handles the end of the snapshot on the connection. The snapshot is in the tree, and its
    /// signature is correct.
    pub fn handle_snapshot_received(&mut self, now_ms: i64) {
        self.last_received_ms = now_ms;
        if let Phase::Restoring(Restore::Snapshot(zxid)) = self.phase {
            self.committed.clear();
            // The snapshot may contain later transactions, so a gap after its zxid is possible.
            self.start_syncing("SNAP", true, zxid, None);
        }
    }

    /// Handles a snapshot that cannot be used. The tree is then empty or incomplete and must be
    /// loaded again from disk before its next use (ZOOKEEPER-2872).
    pub fn handle_snapshot_damaged(&mut self, out: &mut Vec<Action>) {
        if matches!(self.phase, Phase::Restoring(Restore::Snapshot(_))) {
            self.leave(Fault::SnapshotDamaged, out);
        }
    }

    /// Handles the completed cut of the log and the reloaded tree. Both end at `end`.
    pub fn handle_truncated(&mut self, end: Zxid, now_ms: i64, out: &mut Vec<Action>) {
        self.last_received_ms = now_ms;
        if let Phase::Restoring(Restore::Truncate(wanted)) = self.phase {
            if end == wanted {
                self.committed.truncate_after(end);
                self.start_syncing("TRUNC", true, end, Some(end));
            } else {
                // The records in memory must end where the log ends.
                self.committed.truncate_after(end);
                let epoch = self.epoch;
                self.leave(Fault::CannotTruncate { epoch, wanted, end }, out);
            }
        }
    }

    /// Handles the completed write of the requested snapshot.
    pub fn handle_snapshot_written(&mut self, out: &mut Vec<Action>) {
        if let Phase::Syncing(sync) = &mut self.phase {
            sync.handle_snapshot_written(out);
        }
    }

    /// Handles a sync of every appended record up to and including `upto`.
    pub fn handle_synced(&mut self, upto: Zxid, out: &mut Vec<Action>) {
        match &mut self.phase {
            Phase::Syncing(sync) => sync.handle_synced(upto, out),
            Phase::Live(live) => live.handle_synced(upto, out),
            _ => {}
        }
    }

    /// Handles the time of [`Learner::deadline_ms`]. A call at any other time is harmless.
    pub fn handle_deadline(&mut self, now_ms: i64, out: &mut Vec<Action>) {
        if self
            .deadline_ms()
            .is_some_and(|deadline| now_ms >= deadline)
        {
            if std::mem::take(&mut self.has_paused) {
                self.last_received_ms = now_ms;
                return;
            }
            let silent_ms = now_ms.saturating_sub(self.last_received_ms);
            self.leave(Fault::Silence { silent_ms }, out);
        }
    }

    /// Ends the role at the host's request.
    pub fn handle_leave_request(&mut self, out: &mut Vec<Action>) {
        self.leave(Fault::LeaveRequested, out);
    }

    /// Forwards a client's request. Returns `false` if the leader cannot be reached now.
    ///
    /// The host must first decode the body, because a Java leader that receives an undecodable body
    /// never commits anything again.
    pub fn forward(&mut self, request: LearnerRequest, out: &mut Vec<Action>) -> bool {
        self.send_live(LearnerPacket::Request(request), out)
    }

    /// Queries the leader about a session that moved to this server. Returns `false` if the leader
    /// cannot be reached now.
    pub fn revalidate(&mut self, session: Touch, out: &mut Vec<Action>) -> bool {
        self.send_live(LearnerPacket::Revalidate(session), out)
    }

    /// Reports to the leader that the digest of this server's tree differs from the digest in a
    /// committed transaction. Returns `false` if this is not possible now, or if this leader does
    /// not compare digests.
    pub fn report_difference(&mut self, zxid: Zxid, digest: u64, out: &mut Vec<Action>) -> bool {
        self.leader_compares && self.send_live(LearnerPacket::DigestDiffers { zxid, digest }, out)
    }

    /// Returns whether the leader compares digests with its learners.
    pub fn leader_compares(&self) -> bool {
        self.leader_compares
    }

    /// Returns whether the host may pass packets. While the tree is being replaced, they must stay
    /// on the connection, because the first bytes may belong to a snapshot. They must also stay
    /// there while the records held back for the disk are [too
    /// large](Settings::held_back_bytes_max). Every report from the disk may change the result.
    pub fn is_reading(&self) -> bool {
        match &self.phase {
            Phase::Restoring(_) | Phase::Left { .. } => false,
            Phase::Syncing(sync) => sync.is_reading(),
            Phase::Greeting | Phase::Promising | Phase::Greeted | Phase::Live(_) => true,
        }
    }

    /// Returns whether this server may serve clients.
    pub fn is_live(&self) -> bool {
        matches!(self.phase, Phase::Live(_))
    }

    /// Returns whether the tree would be unreliable if the role ended now. This is the case while a
    /// snapshot is only partly read, or is read but not on disk yet. The tree must then be loaded
    /// again from disk.
    pub fn is_tree_unsaved(&self) -> bool {
        match &self.phase {
            Phase::Restoring(_) => true,
            Phase::Syncing(sync) => sync.is_tree_unsaved(),
            Phase::Left { is_tree_unsaved } => *is_tree_unsaved,
            _ => false,
        }
    }

    /// Returns the time at which to call [`Learner::handle_deadline`] if no packet arrives, ms;
    /// `None` while the host works and does not read, and after the end of the role.
    pub fn deadline_ms(&self) -> Option<i64> {
        let limit = match &self.phase {
            Phase::Left { .. } | Phase::Restoring(Restore::Truncate(_)) => return None,
            Phase::Syncing(sync) if !sync.is_reading() => return None,
            Phase::Syncing(sync) if sync.is_acknowledged() => self.settings.sync_ms(),
            Phase::Live(_) => self.settings.sync_ms(),
            _ => self.settings.init_ms(),
        };
        Some(self.last_received_ms.saturating_add(limit))
    }

    /// Returns the newest committed transactions.
    pub fn committed(&self) -> &CommittedLog {
        &self.committed
    }

    /// Returns the newest committed transactions, for the next role.
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
            // The promise is old, so the zxid in ACKEPOCH determines only the synchronisation.
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

    // Model: SendACKEPOCH.
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
            // Model: RefuseSync.
            LeaderPacket::Diff { .. } | LeaderPacket::Trunc { .. } if self.needs_snapshot() => {
                return Err(unexpected(packet));
            }
            // Model: ReceiveDIFF.
            LeaderPacket::Diff { .. } => {
                let last = self.last_logged;
                self.start_syncing("DIFF", self.lacks_snapshot, last, Some(last));
            }
            // Model: ReceiveSNAP.
            LeaderPacket::Snap { zxid } => {
                self.phase = Phase::Restoring(Restore::Snapshot(zxid));
                out.push(Action::ReceiveSnapshot { zxid });
            }
            // The peer is a follower that serves observers and has fewer transactions than this
            // observer (Apache ZooKeeper's follower sends TRUNC then). All transactions of this
            // epoch that an observer has are committed, and its snapshot may contain parts of the
            // transactions to be cut.
            LeaderPacket::Trunc { zxid }
                if self.kind == LearnerKind::Observer
                    && self.last_logged.epoch() == self.epoch
                    && zxid < self.last_logged =>
            {
                return Err(Fault::LeaderBehind {
                    wanted: zxid,
                    last: self.last_logged,
                });
            }
            // Model: ReceiveTRUNC.
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
        tracing::debug!(sid = %self.sid, %zxid, %epoch, by, needs_snapshot, "synchronising");
        let held_max = self.settings.held_back_bytes_max;
        let sync = Synchronise::new(kind, epoch, needs_snapshot, zxid, last, held_max);
        self.phase = Phase::Syncing(sync);
    }

    /// Enters the live stream after NEWLEADER is acknowledged and UPTODATE has arrived.
    fn go_live(&mut self, out: &mut Vec<Action>) {
        let Phase::Syncing(sync) = &mut self.phase else {
            return;
        };
        if let Some(live) = sync.finish(&mut self.committed, out) {
            tracing::debug!(sid = %self.sid, epoch = %self.epoch, "this learner is up to date");
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
            tracing::debug!(sid = %self.sid, epoch = %self.epoch, err = %fault, "disconnecting from the leader");
            self.phase = Phase::Left {
                is_tree_unsaved: self.is_tree_unsaved(),
            };
            out.push(Action::Leave(fault));
        }
    }
}

/// Returns the fault for a packet that is not valid in the current state.
fn unexpected(packet: &LeaderPacket) -> Fault {
    let packet = LeaderPacketText(packet).to_string();
    Fault::Unexpected { packet }
}
