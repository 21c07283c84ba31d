//! Shows what a server does to the checks.

use jute::{Decode, Encode, Reader};
use proto::learner::LearnerPacket;
use proto::txn::{Txn, TxnRecord};
use proto::{Epoch, SessionId, Sid, Zxid};
use replica::{Effect, Port, Service};
use testkit::SimDisk;
use tree::Tree;
use zab::Record;
use zab::learner::Fault;

use crate::checks::Checks;
use crate::invariants::durable;
use crate::plan::Plan;

/// What the checks have to know of a server beside what they are shown.
#[derive(Debug)]
pub(crate) struct Observed {
    sid: Sid,
    /// Whether it has no vote, or may have none.
    is_observer: bool,
    reconfigures: bool,
    /// Whether this server leads, or is about to.
    leads: bool,
    /// Whether the epoch of its role is established.
    is_active: bool,
    /// Of the leader that this server is, or was in sync with last.
    epoch: Epoch,
    /// Acknowledgements so far, and whether one was for the epoch of its leader.
    acknowledged: u64,
    has_acknowledged_epoch: bool,
}

impl Observed {
    pub(crate) fn new(sid: Sid, is_observer: bool, plan: &Plan) -> Self {
        let reconfigures = plan.features.reconfigures;
        Self {
            sid,
            is_observer: is_observer || reconfigures,
            reconfigures,
            leads: false,
            is_active: false,
            epoch: Epoch(0),
            acknowledged: 0,
            has_acknowledged_epoch: false,
        }
    }

    /// This server, in sync with its leader, answers a sync.
    pub(crate) fn syncs(&self, by: (SessionId, i32), last: Zxid, to: &mut Checks) {
        to.syncs(self.sid, by, self.epoch, last);
    }

    /// The replica wants this. The tree ended at `last` before it was changed last.
    pub(crate) fn effect(&mut self, effect: &Effect, tree: &Tree, last: Zxid, to: &mut Checks) {
        match effect {
            Effect::Listen {
                port: Port::Learners,
                ..
            } => self.leads = true,
            Effect::Dial { .. } => {
                self.leads = false;
                self.has_acknowledged_epoch = false;
            }
            Effect::Append(record) if self.leads => {
                to.proposes(self.sid, record);
                // A leader ends sessions of its own accord when their time is up.
                let txn = decode(record).filter(|txn| txn.header.cxid == 0);
                if let Some(txn) = txn.filter(|txn| matches!(txn.txn, Txn::CloseSession { .. })) {
                    to.expires(txn.header.session);
                }
            }
            Effect::Serve(Service::Deciding | Service::Forwarding) => {
                self.is_active = true;
                if self.leads {
                    self.epoch = tree.last_zxid().epoch();
                }
                match self.leads {
                    // Its tree begins with its epoch, and ended with its history before.
                    true => to.leads(self.sid, tree.last_zxid().epoch(), last, tree),
                    false => to.serves(self.sid, tree.last_zxid(), tree),
                }
            }
            // It acknowledges NEWLEADER.
            Effect::SendToLeader(LearnerPacket::Ack { zxid }) if zxid.counter() == 0 => {
                self.epoch = zxid.epoch();
            }
            Effect::StopServing => self.is_active = false,
            Effect::SaveMembers { .. } if !self.reconfigures => {
                let text = format!("server {}: {effect}", self.sid);
                to.fail("one member list", text);
            }
            _ => {}
        }
    }

    /// It has told its leader this, with this on disk.
    pub(crate) fn sends(
        &mut self,
        packet: &LearnerPacket,
        tree: &Tree,
        (disk, plan): (&SimDisk, &Plan),
        to: &mut Checks,
    ) {
        let LearnerPacket::Ack { zxid } = *packet else {
            return;
        };
        self.acknowledged += 1;
        if self.acknowledged.is_multiple_of(durable::EVERY) || zxid.counter() == 0 {
            // What comes after NEWLEADER may be committed and applied before it is in this log.
            let is_first =
                zxid.counter() == 0 && !std::mem::replace(&mut self.has_acknowledged_epoch, true);
            let end = match is_first {
                true => to.history.end_of_tree(tree.last_zxid()),
                false => Zxid::ZERO,
            };
            let held = durable::acknowledges(self.sid, (zxid, end), disk, plan);
            to.hold(durable::NAME, held);
        }
    }

    /// This was applied behind `last`.
    pub(crate) fn applied(&mut self, record: &TxnRecord, tree: &Tree, last: Zxid, to: &mut Checks) {
        if !self.is_active {
            // It goes over a snapshot that may hold parts of it.
            return;
        }
        let bytes = Record::new(record.header.zxid, record.to_bytes());
        match self.leads {
            true => to.commits(self.sid, &bytes, last),
            false => to.delivers(self.sid, &bytes, last),
        }
        to.applied(self.sid, record, tree);
    }

    /// It leaves its leader. `true`: it is an observer that has promised more than its leader knows.
    pub(crate) fn leaves_leader(&self, fault: &Fault, to: &mut Checks) -> bool {
        match fault {
            Fault::UnmatchedCommit { .. } | Fault::Gap { .. } | Fault::Unexpected { .. } => {
                // Healthy peers never cause it.
                let text = format!("server {} leaves its leader: {fault}", self.sid);
                to.fail("prefix agreement", text);
                false
            }
            fault => self.is_observer && matches!(fault, Fault::EpochBehind { .. }),
        }
    }
}

pub(crate) fn decode(record: &Record) -> Option<TxnRecord> {
    TxnRecord::decode(&mut Reader::new(record.txn.clone())).ok()
}

/// Whether an effect is worth a line of the trace.
pub(crate) fn is_telling(effect: &Effect) -> bool {
    use proto::leader::LeaderPacket;
    match effect {
        Effect::Send { packet, .. } => !matches!(packet, LeaderPacket::Ping { .. }),
        Effect::SendToLeader(packet) => !matches!(packet, LearnerPacket::Ping { .. }),
        Effect::Flush | Effect::Show(_) | Effect::Release { .. } => false,
        Effect::Election(_) => false,
        _ => true,
    }
}
