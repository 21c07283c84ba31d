//! Synchronisation of a learner, from DIFF, TRUNC or SNAP to UPTODATE.

use std::collections::VecDeque;

use bytes::Bytes;
use proto::leader::LeaderPacket;
use proto::learner::LearnerPacket;
use proto::{Epoch, Zxid};

use super::live::{Live, append_and_deliver};
use super::{Action, Fault, LearnerKind, unexpected};
use crate::record::follows;
use crate::{CommittedLog, Record};

/// The received records, and the progress of NEWLEADER.
///
/// Committed transactions go to the log at NEWLEADER and not before. Until then, the log ends in
/// the epoch that the `currentEpoch` file names. If a snapshot is due at NEWLEADER, the
/// transactions go into the tree immediately, and with it into the snapshot.
///
/// The size of the held-back records is bounded ([`crate::Settings::held_back_bytes_max`]). The
/// behaviour at the bound depends on the event that the learner waits for:
///
/// * NEWLEADER arrives later on this connection, so reading continues, and committed records go to
///   the log early. After a crash, the log is newer than `currentEpoch`. A crash between NEWLEADER
///   and the save of the epoch has the same result. Such a server loses every election against a
///   member of the quorum that has the epoch of these transactions, and is then synchronised again.
/// * The learner's own disk (snapshot, log, epoch) does not depend on the leader, so reading stops.
///   The leader waits `initLimit` for the acknowledgement, and does not expect another packet
///   meanwhile.
/// * UPTODATE arrives later on this connection, and NEWLEADER is acknowledged. All records then
///   follow the path of the live stream, with its acknowledgements and answers to PING, because the
///   leader measures silence and missing acknowledgements from NEWLEADER on. Clients are not served
///   before UPTODATE.
#[derive(Debug)]
pub(super) struct Synchronise {
    kind: LearnerKind,
    epoch: Epoch,
    needs_snapshot: bool,
    stage: Stage,
    /// Records that are not applied yet, oldest first.
    received: VecDeque<Record>,
    /// Number of committed records in `received`.
    committed_len: usize,
    /// Total size of `received`, bytes.
    queued_record_bytes: usize,
    held_bytes_max: usize,
    /// Last record appended to the log.
    appended: Option<Zxid>,
    /// Zxid up to which the log is on disk.
    synced: Option<Zxid>,
    /// Live stream to which all records go after the bound is reached and NEWLEADER is
    /// acknowledged.
    live: Option<Live>,
    last_received: Option<Zxid>,
    /// The configuration in NEWLEADER, to be installed at UPTODATE if its version is not above
    /// `committed`.
    config: Option<Bytes>,
    /// Zxid up to which the leader has committed, at least the start of the leader's epoch.
    committed: Zxid,
    is_up_to_date: bool,
}

/// Event for which the acknowledgement of NEWLEADER waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// Arrival of NEWLEADER.
    Receiving,
    /// A snapshot of the tree.
    WritingSnapshot,
    /// A sync of the log up to this zxid.
    SyncingLog(Zxid),
    /// The saved current epoch.
    SavingEpoch,
    /// Nothing, because the acknowledgement has been sent.
    Acknowledged,
}

impl Synchronise {
    /// Creates the state when the opening packet arrives. The leader had committed everything up to
    /// `committed` by then. `last` is the end of the log before the synchronisation, if it is known
    /// exactly.
    pub(super) fn new(
        kind: LearnerKind,
        epoch: Epoch,
        needs_snapshot: bool,
        committed: Zxid,
        last: Option<Zxid>,
        held_bytes_max: usize,
    ) -> Self {
        Self {
            kind,
            epoch,
            needs_snapshot,
            stage: Stage::Receiving,
            received: VecDeque::new(),
            committed_len: 0,
            queued_record_bytes: 0,
            held_bytes_max,
            appended: None,
            synced: None,
            live: None,
            last_received: last,
            config: None,
            committed: committed.max(Zxid::new(epoch, 0)),
            is_up_to_date: false,
        }
    }

    pub(super) fn handle_packet(
        &mut self,
        packet: LeaderPacket,
        log: &mut CommittedLog,
        out: &mut Vec<Action>,
    ) -> Result<(), Fault> {
        match (&mut self.live, &packet) {
            (_, LeaderPacket::UpToDate) | (None, _) => {}
            (Some(_), LeaderPacket::NewLeader { .. }) => return Err(unexpected(&packet)),
            (Some(live), _) => return live.handle_packet(packet, log, out),
        }
        self.hold_back(packet, log, out)?;
        self.append_over_bound(log, out);
        Ok(())
    }

    fn hold_back(
        &mut self,
        packet: LeaderPacket,
        log: &mut CommittedLog,
        out: &mut Vec<Action>,
    ) -> Result<(), Fault> {
        match packet {
            LeaderPacket::Proposal { zxid, txn } => self.receive(Record { zxid, txn }, out),
            LeaderPacket::Commit { zxid } => self.commit(zxid, log, out).map(|_| ()),
            LeaderPacket::CommitAndActivate {
                zxid,
                designated_leader,
            } => {
                let record = self.commit(zxid, log, out)?;
                out.push(Action::ActivateConfig {
                    record,
                    designated_leader,
                });
                Ok(())
            }
            LeaderPacket::Inform { zxid, txn } => {
                self.receive(Record { zxid, txn }, out)?;
                self.commit(zxid, log, out).map(|_| ())
            }
            LeaderPacket::InformAndActivate {
                zxid,
                designated_leader,
                txn,
            } => {
                self.receive(Record { zxid, txn }, out)?;
                let record = self.commit(zxid, log, out)?;
                out.push(Action::ActivateConfig {
                    record,
                    designated_leader,
                });
                Ok(())
            }
            LeaderPacket::NewLeader { config, .. } if self.stage == Stage::Receiving => {
                self.handle_new_leader(config, log, out);
                Ok(())
            }
            LeaderPacket::UpToDate if self.stage != Stage::Receiving => {
                self.is_up_to_date = true;
                Ok(())
            }
            LeaderPacket::UpToDate | LeaderPacket::NewLeader { .. } => Err(unexpected(&packet)),
            // Pings are not answered before UPTODATE. Other packets are ignored.
            _ => Ok(()),
        }
    }

    fn receive(&mut self, record: Record, out: &mut Vec<Action>) -> Result<(), Fault> {
        let next = record.zxid;
        if let Some(last) = self.last_received.filter(|last| !follows(*last, next)) {
            return Err(Fault::Gap { last, next });
        }
        self.last_received = Some(next);
        if record.is_reconfig() {
            out.push(Action::ConfigProposed(record.clone()));
        }
        self.queued_record_bytes += queued_record_bytes(&record);
        self.received.push_back(record);
        Ok(())
    }

    fn commit(
        &mut self,
        zxid: Zxid,
        log: &mut CommittedLog,
        out: &mut Vec<Action>,
    ) -> Result<Record, Fault> {
        let next = self.received.get(self.committed_len);
        let Some(record) = next.filter(|record| record.zxid == zxid).cloned() else {
            let next = next.map(|record| record.zxid);
            return Err(Fault::UnmatchedCommit { zxid, next });
        };
        // The leader may have committed this transaction after the start of the synchronisation.
        self.committed = self.committed.max(zxid);
        if self.needs_snapshot && self.stage == Stage::Receiving {
            self.received.pop_front();
            self.queued_record_bytes -= queued_record_bytes(&record);
            log.push(record.clone());
            out.push(Action::Deliver(record.clone()));
        } else {
            self.committed_len += 1;
        }
        Ok(record)
    }

    // Model: ReceiveNEWLEADER.
    fn handle_new_leader(
        &mut self,
        config: Option<Bytes>,
        log: &mut CommittedLog,
        out: &mut Vec<Action>,
    ) {
        if let Some(text) = config.filter(|text| text.len() > 1) {
            out.push(Action::ConfigSeen(text.clone()));
            self.config = Some(text);
        }
        if self.needs_snapshot {
            self.stage = Stage::WritingSnapshot;
            out.push(Action::WriteSnapshot);
            return;
        }
        self.append_committed(log, out);
        match self.appended {
            Some(last) if self.synced < Some(last) => self.stage = Stage::SyncingLog(last),
            _ => self.save_epoch(out),
        }
    }

    fn append_committed(&mut self, log: &mut CommittedLog, out: &mut Vec<Action>) {
        for record in self.received.drain(..self.committed_len) {
            self.queued_record_bytes -= queued_record_bytes(&record);
            self.appended = Some(record.zxid);
            append_and_deliver(record, log, out);
        }
        self.committed_len = 0;
    }

    fn append_over_bound(&mut self, log: &mut CommittedLog, out: &mut Vec<Action>) {
        if self.queued_record_bytes < self.held_bytes_max {
            return;
        }
        match self.stage {
            Stage::Receiving => self.append_committed(log, out),
            Stage::WritingSnapshot | Stage::SyncingLog(_) | Stage::SavingEpoch => {}
            Stage::Acknowledged => self.live = Some(self.begin_live(log, out)),
        }
    }

    pub(super) fn handle_snapshot_written(&mut self, out: &mut Vec<Action>) {
        if self.stage == Stage::WritingSnapshot {
            self.save_epoch(out);
        }
    }

    pub(super) fn handle_synced(&mut self, upto: Zxid, out: &mut Vec<Action>) {
        self.synced = self.synced.max(Some(upto));
        if let Some(live) = &mut self.live {
            live.handle_synced(upto, out);
        }
        if matches!(self.stage, Stage::SyncingLog(last) if upto >= last) {
            self.save_epoch(out);
        }
    }

    pub(super) fn handle_epoch_saved(&mut self, log: &mut CommittedLog, out: &mut Vec<Action>) {
        if self.stage == Stage::SavingEpoch {
            self.stage = Stage::Acknowledged;
            out.push(self.epoch_ack());
            self.append_over_bound(log, out);
        }
    }

    fn save_epoch(&mut self, out: &mut Vec<Action>) {
        self.stage = Stage::SavingEpoch;
        out.push(Action::SaveCurrentEpoch(self.epoch));
    }

    fn epoch_ack(&self) -> Action {
        let zxid = Zxid::new(self.epoch, 0);
        Action::Send(LearnerPacket::Ack { zxid })
    }

    /// Enters the live stream if NEWLEADER is acknowledged and UPTODATE has arrived.
    // Model: ReceiveUPTODATE.
    pub(super) fn finish(&mut self, log: &mut CommittedLog, out: &mut Vec<Action>) -> Option<Live> {
        if self.stage != Stage::Acknowledged || !self.is_up_to_date {
            return None;
        }
        if let Some(text) = self.config.take() {
            let upto = self.committed;
            out.push(Action::InstallConfig { text, upto });
        }
        out.push(self.epoch_ack());
        let live = self.live.take();
        let live = live.unwrap_or_else(|| self.begin_live(log, out));
        out.push(Action::Serve { epoch: self.epoch });
        Some(live)
    }

    /// Passes all held-back records to the live stream.
    fn begin_live(&mut self, log: &mut CommittedLog, out: &mut Vec<Action>) -> Live {
        let mut live = Live::new(self.kind, self.last_received);
        let committed = std::mem::take(&mut self.committed_len);
        let received = std::mem::take(&mut self.received);
        for (at, record) in received.into_iter().enumerate() {
            live.take_over(record, at < committed, log, out);
        }
        self.queued_record_bytes = 0;
        live
    }

    /// Returns whether the learner may read more packets.
    pub(super) fn is_reading(&self) -> bool {
        match self.stage {
            Stage::Receiving | Stage::Acknowledged => true,
            Stage::WritingSnapshot | Stage::SyncingLog(_) | Stage::SavingEpoch => {
                self.queued_record_bytes < self.held_bytes_max
            }
        }
    }

    pub(super) fn is_acknowledged(&self) -> bool {
        self.stage == Stage::Acknowledged
    }

    pub(super) fn is_tree_unsaved(&self) -> bool {
        self.needs_snapshot && matches!(self.stage, Stage::Receiving | Stage::WritingSnapshot)
    }
}

/// Returns the size of a held-back record, bytes. An empty transaction occupies memory, too.
fn queued_record_bytes(record: &Record) -> usize {
    size_of::<Record>() + record.txn.len()
}
