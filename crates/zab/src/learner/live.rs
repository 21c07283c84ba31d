//! The live stream: proposals and commits from the leader after UPTODATE.

use std::collections::VecDeque;

use proto::leader::LeaderPacket;
use proto::learner::LearnerPacket;
use proto::{Sid, Zxid};

use super::{Action, Fault, LearnerKind};
use crate::record::follows;
use crate::{CommittedLog, Record};

/// Proposals that are not acknowledged or not committed yet. The two conditions are independent,
/// because a quorum of other servers may commit a proposal that is not on this disk yet.
#[derive(Debug)]
pub(super) struct Live {
    kind: LearnerKind,
    last_received: Option<Zxid>,
    /// Uncommitted records, oldest first.
    pending: VecDeque<Record>,
    /// Appended records that are not known to be on disk, oldest first.
    unacknowledged: VecDeque<Zxid>,
}

impl Live {
    pub(super) fn new(kind: LearnerKind, last_received: Option<Zxid>) -> Self {
        Self {
            kind,
            last_received,
            pending: VecDeque::new(),
            unacknowledged: VecDeque::new(),
        }
    }

    /// Takes over a record from the synchronisation.
    pub(super) fn take_over(
        &mut self,
        record: Record,
        is_committed: bool,
        log: &mut CommittedLog,
        out: &mut Vec<Action>,
    ) {
        match (self.kind, is_committed) {
            (LearnerKind::Follower, false) => self.accept(record, out),
            (LearnerKind::Follower, true) => {
                self.unacknowledged.push_back(record.zxid);
                append_and_deliver(record, log, out);
            }
            (LearnerKind::Observer, true) => append_and_deliver(record, log, out),
            // The INFORM for this transaction will repeat its zxid and must not be ignored as a
            // repetition.
            (LearnerKind::Observer, false) => self.last_received = None,
        }
    }

    pub(super) fn handle_packet(
        &mut self,
        packet: LeaderPacket,
        log: &mut CommittedLog,
        out: &mut Vec<Action>,
    ) -> Result<(), Fault> {
        let is_follower = self.kind == LearnerKind::Follower;
        match packet {
            LeaderPacket::Ping { zxid } => out.push(Action::AnswerPing { zxid }),
            LeaderPacket::Proposal { zxid, txn } if is_follower => {
                let record = Record { zxid, txn };
                if self.is_next(zxid)? {
                    if record.is_reconfig() {
                        out.push(Action::ConfigProposed(record.clone()));
                    }
                    self.accept(record, out);
                }
            }
            LeaderPacket::Commit { zxid } if is_follower => {
                self.commit(zxid, log, out)?;
            }
            // Model: ReceiveCOMMITANDACTIVATE.
            LeaderPacket::CommitAndActivate {
                zxid,
                designated_leader,
            } if is_follower => {
                // The configuration comes first. If it ends this server's role, the transaction is
                // not applied in this role.
                if let Some(record) = self.pending.front().filter(|next| next.zxid == zxid) {
                    out.push(Action::ActivateConfig {
                        record: record.clone(),
                        designated_leader,
                    });
                }
                self.commit(zxid, log, out)?;
            }
            LeaderPacket::Inform { zxid, txn } if !is_follower => {
                self.learn(Record { zxid, txn }, None, log, out)?;
            }
            LeaderPacket::InformAndActivate {
                zxid,
                designated_leader,
                txn,
            } if !is_follower => {
                self.learn(Record { zxid, txn }, Some(designated_leader), log, out)?;
            }
            LeaderPacket::DigestAsked { zxid } => out.push(Action::ReportDigest { zxid }),
            LeaderPacket::DigestJudged { zxid, agreed } => {
                out.push(Action::DigestJudged { zxid, agreed });
            }
            LeaderPacket::Sync => out.push(Action::SyncDone),
            LeaderPacket::Revalidate { session, is_valid } => {
                out.push(Action::Revalidated { session, is_valid });
            }
            _ => {}
        }
        Ok(())
    }

    /// Returns whether `next` is a new transaction, and remembers it. It may repeat the last
    /// transaction, because the leader may put a transaction into the sync plan and then also send
    /// it to all learners. A repeated transaction is acknowledged only once.
    fn is_next(&mut self, next: Zxid) -> Result<bool, Fault> {
        match self.last_received {
            Some(last) if last == next => Ok(false),
            Some(last) if !follows(last, next) => Err(Fault::Gap { last, next }),
            _ => {
                self.last_received = Some(next);
                Ok(true)
            }
        }
    }

    // Model: ReceivePROPOSAL.
    fn accept(&mut self, record: Record, out: &mut Vec<Action>) {
        self.unacknowledged.push_back(record.zxid);
        out.push(Action::Append(record.clone()));
        self.pending.push_back(record);
    }

    /// Handles a committed transaction at an observer, which receives it only once.
    fn learn(
        &mut self,
        record: Record,
        designated_leader: Option<Sid>,
        log: &mut CommittedLog,
        out: &mut Vec<Action>,
    ) -> Result<(), Fault> {
        if !self.is_next(record.zxid)? {
            return Ok(());
        }
        if let Some(designated_leader) = designated_leader {
            let record = record.clone();
            out.push(Action::ActivateConfig {
                record,
                designated_leader,
            });
        }
        append_and_deliver(record, log, out);
        Ok(())
    }

    // Model: ReceiveCOMMIT.
    fn commit(
        &mut self,
        zxid: Zxid,
        log: &mut CommittedLog,
        out: &mut Vec<Action>,
    ) -> Result<(), Fault> {
        match self.pending.pop_front() {
            Some(record) if record.zxid == zxid => {
                log.push(record.clone());
                out.push(Action::Deliver(record));
                Ok(())
            }
            Some(record) => Err(Fault::UnmatchedCommit {
                zxid,
                next: Some(record.zxid),
            }),
            None => {
                tracing::warn!(%zxid, "ignoring the commit of a transaction that was not proposed to this server");
                Ok(())
            }
        }
    }

    /// Acknowledges the records up to `upto`, each in its own packet, because an Apache leader
    /// counts acknowledgements per proposal.
    pub(super) fn handle_synced(&mut self, upto: Zxid, out: &mut Vec<Action>) {
        let synced = self.unacknowledged.partition_point(|zxid| *zxid <= upto);
        let synced = self.unacknowledged.drain(..synced);
        out.extend(synced.map(|zxid| Action::Send(LearnerPacket::Ack { zxid })));
    }
}

pub(super) fn append_and_deliver(record: Record, log: &mut CommittedLog, out: &mut Vec<Action>) {
    out.push(Action::Append(record.clone()));
    log.push(record.clone());
    out.push(Action::Deliver(record));
}
